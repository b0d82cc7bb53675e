"""What people and tools say, between the blocks of the protocol and those of the thread.

A file that the editor names is named to the model, and not read here: the model reads it with its tools, under the
rules that hold for them. What the editor sends along, as an open buffer, is a part of the message.
"""

import base64
import binascii
import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import assert_never
from urllib.parse import unquote, urlsplit

from acp.schema import (
    AudioContentBlock,
    BlobResourceContents,
    EmbeddedResourceContentBlock,
    ImageContentBlock,
    ResourceContentBlock,
    TextContentBlock,
    TextResourceContents,
)
from loopkernel.data.blocks import MediaBlock, TextBlock, UserBlock

from loopkernel_adapters.image_types import BEGINNING, image_type
from loopkernel_adapters.tools.reading import MOST_IMAGE_BYTES

ContentBlock = (
    TextContentBlock | ImageContentBlock | AudioContentBlock | ResourceContentBlock | EmbeddedResourceContentBlock
)

UNNAMED_TYPE = "application/octet-stream"
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:\S+")


class NotTaken(ValueError):
    """A block that cannot be a part of a message. The message says why, and what to do."""


def said(blocks: Sequence[ContentBlock], folder: Path) -> tuple[UserBlock, ...]:
    """The message that the editor sends, whose session works in that folder. Raises NotTaken."""
    if not blocks:
        raise NotTaken("the prompt holds nothing; say something")
    return tuple(_said(block, folder) for block in blocks)


def _said(block: ContentBlock, folder: Path) -> UserBlock:
    match block:
        case TextContentBlock():
            return TextBlock(block.text)
        case ImageContentBlock():
            return _image(block.data)
        case AudioContentBlock():
            raise NotTaken("sound cannot be sent to this agent; write what is said in it")
        case ResourceContentBlock():
            return TextBlock(f"[{block.name}]({named(block.uri, folder)})")
        case EmbeddedResourceContentBlock(resource=TextResourceContents() as resource):
            return TextBlock(f"{named(resource.uri, folder)}:\n{resource.text}")
        case EmbeddedResourceContentBlock(resource=BlobResourceContents() as resource):
            if (resource.mime_type or "").startswith("image/"):
                return _image(resource.blob)
            return MediaBlock(resource.mime_type or UNNAMED_TYPE, _encoded(resource.blob))
        case EmbeddedResourceContentBlock():
            raise NotTaken("a file was sent whose content is neither text nor data; send its text")
        case _:
            assert_never(block)


def named(uri: str, folder: Path) -> str:
    """How the model may name it to its tools: a file of the folder by its path there, all else by its address."""
    address = urlsplit(uri)
    if address.scheme != "file" or address.netloc not in ("", "localhost"):
        return uri
    path = PurePosixPath(unquote(address.path))
    if ".." in path.parts or not path.is_relative_to(folder):
        return uri
    return str(path.relative_to(folder))


def _image(data: str) -> MediaBlock:
    """An image, by its bytes, whatever it is said to be. Raises NotTaken."""
    data = _encoded(data)
    media_type = image_type(base64.b64decode(data)[:BEGINNING])
    if media_type is None:
        raise NotTaken("an image is neither PNG, JPEG, GIF nor WebP, which is what models take; send one of these")
    if len(data) * 3 // 4 > MOST_IMAGE_BYTES:
        raise NotTaken(f"an image is larger than {MOST_IMAGE_BYTES} bytes; send a smaller one")
    return MediaBlock(media_type, data)


def _encoded(data: str) -> str:
    """Base64 that is one. Raises NotTaken."""
    try:
        base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise NotTaken(f"what was sent as a file is not base64: {error}; send it again") from error
    return data


def shown(block: UserBlock) -> ContentBlock:
    """The block as an editor shows it."""
    match block:
        case TextBlock():
            return TextContentBlock(type="text", text=block.text)
        case MediaBlock() if _ADDRESS.fullmatch(block.data):
            return ResourceContentBlock(
                type="resource_link", name=block.media_type, mime_type=block.media_type, uri=block.data
            )
        case MediaBlock() if block.media_type.startswith("image/"):
            return ImageContentBlock(type="image", mime_type=block.media_type, data=block.data)
        case MediaBlock():
            resource = BlobResourceContents(uri="data:", mime_type=block.media_type, blob=block.data)
            return EmbeddedResourceContentBlock(type="resource", resource=resource)
        case _:
            assert_never(block)

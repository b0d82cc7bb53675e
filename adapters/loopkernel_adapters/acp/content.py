"""What people and tools say, between the blocks of the protocol and those of the thread.

A file that the editor names is named to the model, and not read here: the model reads it with its tools, under the
rules that hold for them. What the editor sends along, as an open buffer, is a part of the message.
"""

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

from loopkernel_adapters.tools.sent_media import NotTaken, sent_file, sent_image

ContentBlock = (
    TextContentBlock | ImageContentBlock | AudioContentBlock | ResourceContentBlock | EmbeddedResourceContentBlock
)

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:\S+")


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
            return sent_image(block.data)
        case AudioContentBlock():
            raise NotTaken("sound cannot be sent to this agent; write what is said in it")
        case ResourceContentBlock():
            return TextBlock(f"[{block.name}]({named(block.uri, folder)})")
        case EmbeddedResourceContentBlock(resource=TextResourceContents() as resource):
            return TextBlock(f"{named(resource.uri, folder)}:\n{resource.text}")
        case EmbeddedResourceContentBlock(resource=BlobResourceContents() as resource):
            return sent_file(resource.mime_type, resource.blob)
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

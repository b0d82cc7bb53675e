"""Pictures and files that a client sends along, as blocks of a message: judged by their bytes, not by their names."""

import base64
import binascii

from loopkernel.data.blocks import MediaBlock

from loopkernel_adapters.image_types import image_type
from loopkernel_adapters.tools.reading import MOST_IMAGE_BYTES

UNNAMED_TYPE = "application/octet-stream"


class NotTaken(ValueError):
    """Something cannot be a part of a message. The message says why, and what to do."""


def sent_image(data: str) -> MediaBlock:
    """An image in base64, by its bytes, whatever it is said to be. Raises NotTaken."""
    content = _decoded(data)
    media_type = image_type(content)
    if media_type is None:
        raise NotTaken("an image is neither PNG, JPEG, GIF nor WebP, which is what models take; send one of these")
    if len(content) > MOST_IMAGE_BYTES:
        raise NotTaken(f"an image is larger than {MOST_IMAGE_BYTES} bytes; send a smaller one")
    return MediaBlock(media_type, data)


def sent_file(media_type: str | None, data: str) -> MediaBlock:
    """A file in base64, whose type is named. Raises NotTaken."""
    if (media_type or "").startswith("image/"):
        return sent_image(data)
    _decoded(data)
    return MediaBlock(media_type or UNNAMED_TYPE, data)


def _decoded(data: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise NotTaken(f"what was sent as a file is not base64: {error}; send it again") from error

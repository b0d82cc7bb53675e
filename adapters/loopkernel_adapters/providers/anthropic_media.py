"""Images and documents as blocks of the Messages API; what it cannot take is told in words."""

import base64
import binascii
import re
from collections.abc import Mapping

from loopkernel.data.blocks import MediaBlock
from loopkernel.data.json_text import JsonValue

from loopkernel_adapters.image_types import BEGINNING, image_type

JsonObject = dict[str, JsonValue]

_IMAGES: Mapping[str, str] = {
    "image/jpeg": "image/jpeg",
    "image/jpg": "image/jpeg",
    "image/png": "image/png",
    "image/gif": "image/gif",
    "image/webp": "image/webp",
}
_PDF = "application/pdf"
_DATA_URL = re.compile(r"data:([^;,]*)(?:;[^,;]*)*;base64,", re.IGNORECASE)
_URL = re.compile(r"https?://\S+", re.IGNORECASE)


def media(block: MediaBlock) -> JsonObject:
    """The block: an image or a document by its data or its address, plain text as it is, words for all else."""
    media_type, data = _unwrapped(block)
    image = _IMAGES.get(media_type)
    if image is not None or media_type == _PDF:
        kind = "document" if image is None else "image"
        if _URL.fullmatch(data):
            return {"type": kind, "source": {"type": "url", "url": data}}
        if _is_base64(data):
            # An image under a wrong name is refused, and with it every later request of the session.
            seen = None if image is None else image_type(base64.b64decode(data[: 2 * BEGINNING]))
            source: JsonObject = {"type": "base64", "media_type": seen or image or _PDF, "data": data}
            return {"type": kind, "source": source}
    if media_type.startswith("text/") and (text := _plain_text(data)):
        return {"type": "text", "text": text}
    return {"type": "text", "text": f"({block.media_type or 'a file'}, which this model cannot be shown)"}


def _unwrapped(block: MediaBlock) -> tuple[str, str]:
    """The media type without its parameters, and the data without the frame of a data URL."""
    data = block.data.strip()
    found = _DATA_URL.match(data)
    media_type = block.media_type
    if found is not None:
        media_type, data = found[1] or media_type, data[found.end() :]
    return media_type.partition(";")[0].strip().lower(), data


def _is_base64(data: str) -> bool:
    try:
        return bool(base64.b64decode(data, validate=True))
    except (binascii.Error, ValueError):
        return False


def _plain_text(data: str) -> str:
    """The text that base64 data holds; none where it holds something else, or nothing visible."""
    try:
        text = base64.b64decode(data, validate=True).decode()
    except (binascii.Error, ValueError):
        return ""
    return text if text.strip() else ""

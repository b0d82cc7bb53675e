"""How media are shown to models: images and PDF files, as an address or as data; texts as text, all else in words."""

import base64
import binascii
import re

from attrs import frozen
from loopkernel.data.blocks import MediaBlock
from loopkernel.data.json_text import safe_text

from loopkernel_adapters.image_types import BEGINNING, image_type

_IMAGE_TYPES = {
    "image/jpg": "image/jpeg",
    **{known: known for known in ("image/png", "image/jpeg", "image/gif", "image/webp")},
}
_PDF_TYPE = "application/pdf"
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_ADDRESS = re.compile(r"https?://[!-~]+", re.IGNORECASE)
_DATA_ADDRESS = re.compile(r"data:([!-+\--~]*);base64,", re.IGNORECASE)  # with its type, which has no comma


@frozen
class ShownImage:
    """An image: `url` is its address, or holds its data."""

    url: str


@frozen
class ShownFile:
    """A PDF file: `url` is its address, or holds its data."""

    url: str

    @property
    def is_data(self) -> bool:
        """Whether the file itself is in the URL."""
        return self.url.startswith("data:")


@frozen
class ShownText:
    """A text, or what is said in place of what cannot be shown; never blank."""

    text: str


Shown = ShownImage | ShownFile | ShownText


def shown(block: MediaBlock) -> Shown:
    """How the model is shown the media. What it cannot be shown is named."""
    media_type, data = block.media_type, block.data.strip()
    if held := _DATA_ADDRESS.match(data):
        media_type, data = held[1] or media_type, data[held.end() :]  # an address with data in it says what that is
    media_type = media_type.partition(";")[0].strip().lower()
    if media_type.startswith("text/"):
        return _text(block, data)
    image = _IMAGE_TYPES.get(media_type)
    url = _url(image or media_type, data)
    if url is not None and image is not None:
        return ShownImage(url)
    if url is not None and media_type == _PDF_TYPE:
        return ShownFile(url)
    return _placeholder(block)


def _url(media_type: str, data: str) -> str | None:
    if _ADDRESS.fullmatch(data):
        return data
    if len(data) % 4 == 0 and _BASE64.fullmatch(data):
        # An image under a wrong name is refused, and with it every later request of the session.
        seen = image_type(base64.b64decode(data[: 2 * BEGINNING])) if media_type in _IMAGE_TYPES else None
        return f"data:{seen or media_type};base64,{data}"
    return None


def _text(block: MediaBlock, data: str) -> ShownText:
    try:
        text = base64.b64decode(data, validate=True).decode()
    except (binascii.Error, ValueError):
        return _placeholder(block)
    return ShownText(safe_text(text)) if text.strip() else _placeholder(block)


def _placeholder(block: MediaBlock) -> ShownText:
    return ShownText(f"({block.media_type.strip() or 'a file'}, which this model cannot be shown)")

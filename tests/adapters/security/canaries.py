"""A secret to look for, and every way in which a text may hold it: written apart from the code that hides it."""

import base64
import binascii
import codecs
import json
import re
from collections.abc import Callable
from urllib.parse import quote, unquote_plus

CANARY = "correct/horse+battery=staple?"
ENCODINGS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "json": lambda text: json.dumps(text)[1:-1],
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64 for addresses": lambda text: base64.urlsafe_b64encode(text.encode()).decode(),
    "base64 behind one byte": lambda text: base64.b64encode(f"x{text}yz".encode()).decode(),
    "base64 behind two bytes": lambda text: base64.b64encode(f"me:{text}:".encode()[1:]).decode(),
    "percent signs": lambda text: quote(text, safe=""),
    "percent signs in a path": quote,
    "percent signs in small letters": lambda text: re.sub("%..", lambda found: found[0].lower(), quote(text, safe="")),
    "hexadecimal": lambda text: text.encode().hex(),
    "hexadecimal in capitals": lambda text: text.encode().hex().upper(),
}


def holds_canary(text: str, canary: str = CANARY) -> bool:
    """Whether anyone who decodes parts of the text would find the canary."""
    decoded = {text, unquote_plus(text), text.replace("\\/", "/")}
    for run in re.findall(r"[A-Za-z0-9+/_-]{8,}", text):
        for begin in range(4):
            piece = run[begin:].replace("-", "+").replace("_", "/")
            decoded.add(base64.b64decode(piece[: len(piece) // 4 * 4]).decode("latin-1"))
            decoded.add(base64.b64decode(piece[: len(piece) // 4 * 4] + _rest(piece)).decode("latin-1"))
    for run in re.findall(r"[0-9a-fA-F]{8,}", text):
        for begin in range(2):
            even = run[begin:][: len(run[begin:]) // 2 * 2]
            decoded.add(codecs.decode(binascii.unhexlify(even), "latin-1"))
    return any(canary in found for found in decoded)


def _rest(piece: str) -> str:
    """What stands behind the last four digits, filled up, where it can be decoded at all."""
    rest = piece[len(piece) // 4 * 4 :]
    return "" if len(rest) < 2 else rest.ljust(4, "A")

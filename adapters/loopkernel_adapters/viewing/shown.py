"""Texts of others as a page may show them: what hides or turns the writing round is seen as its number, and all is cut.

The page puts texts in as text alone; this is for the eye of whoever reads them.
"""

import re

# Controls but for the line break and the tab, what turns the writing round, and what is not seen at all. Joiners stay,
# which emoji and many scripts are written with.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


def visible(text: str, most: int) -> str:
    """At most so many characters of the text, none of which is unseen; what is left out is counted."""
    left_out = len(text) - most
    shown = _UNSEEN.sub(_number, text.replace("\r\n", "\n")[:most] if left_out > 0 else text.replace("\r\n", "\n"))
    return f"{shown}\n[{left_out} more characters]" if left_out > 0 else shown


def one_line(text: str, most: int) -> str:
    """The same in one line, whose end is left out with three dots."""
    shown = " ".join(_UNSEEN.sub(_number, text[:most]).split())
    return f"{shown}..." if len(text) > most else shown


def editable(text: str) -> str:
    """A JSON text with an escape of its own for each character that nobody sees; it says the same."""
    return "\n".join(_UNSEEN.sub(_escape, line) for line in text.split("\n"))


def _escape(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def _number(found: re.Match[str]) -> str:
    return f"\u27e8U+{ord(found[0]):04X}\u27e9"

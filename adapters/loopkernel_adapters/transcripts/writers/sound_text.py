"""The bytes of a recording as text that everyone can read: what strict programs and providers refuse is put right.

A file that was cut or joined by bytes holds pieces of characters; a text that was cut within a pair of surrogates holds
half of it. Many programs read either, and then send requests that are refused, or stop at the next reading.
"""

import re

from loopkernel_adapters.transcripts.entries import FindingKind, Place
from loopkernel_adapters.transcripts.source import MARK
from loopkernel_adapters.transcripts.writers.writer import Fault

MARKED = "a mark of the order of bytes before it"
# Of the escapes in a JSON text: pairs of surrogates, halves of them, and all others.
_ESCAPES = re.compile(rb"\\u[dD][89abAB]..\\u[dD][c-fC-F]..|(\\u[dD][89a-fA-F]..)|\\.", re.DOTALL)
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")


def sound_text(content: bytes, number: int) -> tuple[bytes, list[Fault]]:
    """The text of a record, put right, and what was wrong with it. `number` is that of the record, from 1."""
    wrong: list[str] = []
    if number == 1 and content.startswith(MARK):
        content = content.removeprefix(MARK)
        wrong.append(MARKED)
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        content = content.decode("utf-8", "replace").encode("utf-8")
        wrong.append("bytes that are no UTF-8")
    if _HALF.search(content):
        whole = _ESCAPES.sub(lambda found: b"\\ufffd" if found[1] else found[0], content)
        if whole != content:
            content = whole
            wrong.append("halves of characters")
    if not wrong:
        return content, []
    fault = Fault(
        conversation="",
        place=Place(number),
        kind=FindingKind.BROKEN_TEXT,
        text=f"record {number} has {' and '.join(wrong)}",
        remedy="leave the mark out" if wrong == [MARKED] else "have U+FFFD stand in their place",
    )
    return content, [fault]

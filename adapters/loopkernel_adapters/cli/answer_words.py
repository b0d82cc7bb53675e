"""What a line says in answer to a question: an exact word, or nothing. A sentence that begins so is no consent."""

import enum
import re

from attrs import frozen
from loopkernel.data.user_deltas import CrashAnswerKind


class Word(enum.Enum):
    """What can be answered to a call that asks."""

    YES = "yes"
    NO = "no"
    ALWAYS = "always"
    EDIT = "edit"
    SHOW = "show"


@frozen
class Said:
    """A word, and what stands behind it."""

    word: Word
    rest: str = ""


@frozen
class SaidAfterCrash:
    """The same after a crash."""

    kind: CrashAnswerKind
    rest: str = ""


_ALONE = {
    "y": Word.YES,
    "yes": Word.YES,
    "n": Word.NO,
    "no": Word.NO,
    "always": Word.ALWAYS,
    "edit": Word.EDIT,
    "show": Word.SHOW,
}
_NO_WHY = re.compile(r"no[\s,.;:!]+(.*)", re.IGNORECASE | re.DOTALL)
_EDIT = re.compile(r"edit\s+(.+)", re.IGNORECASE | re.DOTALL)
_DONE = re.compile(r"done\s+(.+)", re.IGNORECASE | re.DOTALL)


def said_in(line: str) -> Said | None:
    """What the line says of a call that asks; None when it is none of the answers."""
    text = line.strip()
    alone = _ALONE.get(text.lower())
    if alone is not None:
        return Said(alone)
    if found := _NO_WHY.fullmatch(text):
        return Said(Word.NO, found[1].strip())
    if found := _EDIT.fullmatch(text):
        return Said(Word.EDIT, found[1])
    return None


def said_after_crash_in(line: str) -> SaidAfterCrash | None:
    """The same of a call that was running when the process ended."""
    text = line.strip()
    for kind in CrashAnswerKind:
        if text.lower() == kind.value:
            return SaidAfterCrash(kind)
    found = _DONE.fullmatch(text)
    return None if found is None else SaidAfterCrash(CrashAnswerKind.DONE, found[1])

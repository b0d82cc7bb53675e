"""Cutting texts that may hold a secret: hidden first, cut second. The one door to every bound on a text.

A value that a bound cuts in two is no longer found, and the greater part of it would be told. So nothing in the tools,
the providers and the driver cuts a text by itself: they go through here, where the secrets in force are hidden before
anything is left out. The driver puts those of its session in force for whatever it begins (`in_force`); a thread and a
task that a run begins inherit them, a task that was there before does not, and is given them.

What is streamed is hidden as it comes: `HiddenText` and `HiddenBytes` hold back what may be the beginning of a value.
"""

import codecs
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from loopkernel_adapters.secrets import NO_SECRETS, Secrets

_PIECE = 65_536  # characters, or bytes, that are hidden at a time, so that little is looked at of a long text

_IN_FORCE: ContextVar[Secrets] = ContextVar("_IN_FORCE", default=NO_SECRETS)


# The secrets that nothing which is cut here may tell. Each command of a driver asks, so this is the very method.
secrets_in_force: Callable[[], Secrets] = _IN_FORCE.get


@contextmanager
def in_force(secrets: Secrets) -> Iterator[None]:
    """Have these in force within the block, and in the tasks and threads that are begun there."""
    before = _IN_FORCE.set(secrets)
    try:
        yield
    finally:
        _IN_FORCE.reset(before)


class HiddenText:
    """A text that comes in pieces, without secrets: what may be the beginning of a value waits for what comes next."""

    def __init__(self, secrets: Secrets | None = None) -> None:
        self._secrets = secrets_in_force() if secrets is None else secrets
        self._waiting = ""

    def feed(self, piece: str) -> str:
        """What can be told once this piece is there as well."""
        if not self._secrets:
            return piece
        text = self._waiting + piece
        end = self._secrets.settled(text)
        self._waiting = text[end:]
        return self._secrets.hide(text[:end])

    def end(self, *, cut: bool = False) -> str:
        """What was still waiting. Of a text that was `cut` at its end, what a value begins with there is hidden."""
        waiting, self._waiting = self._waiting, ""
        return self._secrets.hide_cut(waiting) if cut else self._secrets.hide(waiting)


class HiddenBytes:
    """The same for the bytes of a text of UTF-8; whatever is none comes through as it is."""

    def __init__(self, secrets: Secrets | None = None) -> None:
        self._secrets = secrets_in_force() if secrets is None else secrets
        self._text = HiddenText(self._secrets)
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")

    def feed(self, piece: bytes) -> bytes:
        """What can be told once this piece is there as well."""
        if not self._secrets:
            return piece
        return self._text.feed(self._decoder.decode(piece)).encode("utf-8", "surrogateescape")

    def end(self, *, cut: bool = False) -> bytes:
        """What was still waiting, as for `HiddenText`."""
        rest = self._text.feed(self._decoder.decode(b"", True)) + self._text.end(cut=cut)
        return rest.encode("utf-8", "surrogateescape")


def hidden(text: str, secrets: Secrets | None = None) -> str:
    """The text without secrets, for whoever looks at it before the driver does."""
    return (secrets_in_force() if secrets is None else secrets).hide(text)


def beginning(text: str, most: int, mark: str = "", secrets: Secrets | None = None, *, cut: bool = False) -> str:
    """The text without secrets; of one that is longer than `most`, so much of its beginning, and the mark.

    A text that was `cut` at its end before is one in which a value may have been cut there.
    """
    hiding = HiddenText(secrets)
    told: list[str] = []
    size = 0
    for place in range(0, len(text), _PIECE):
        told.append(hiding.feed(text[place : place + _PIECE]))
        size += len(told[-1])
        if size > most:
            break
    else:
        told.append(hiding.end(cut=cut))
    whole = "".join(told)
    return whole if len(whole) <= most else whole[:most] + mark


def both_ends(text: str, each: int, between: Callable[[int], str], secrets: Secrets | None = None) -> str:
    """The text without secrets; of one that is longer than twice `each`, so much of its beginning and of its end.

    What stands between the two is told how many characters were left out.
    """
    whole = hidden(text, secrets)
    left_out = len(whole) - 2 * each
    return whole if left_out <= 0 else f"{whole[:each]}{between(left_out)}{whole[-each:]}"


def first_line(text: str, secrets: Secrets | None = None) -> str:
    """The first line of the text, without secrets."""
    return hidden(text, secrets).partition("\n")[0]


def one_line(text: str, most: int, secrets: Secrets | None = None) -> str:
    """The text without secrets in one line of at most so many characters, each white space in it a single space."""
    looked_at = beginning(text, 2 * most, "…", secrets)
    line = " ".join(looked_at.split())
    return line if len(line) <= most else line[: most - 1] + "…"


def beginning_of_file(descriptor: int, enough: int) -> tuple[bytes, int]:
    """What comes next from the descriptor, without secrets: all of it, or more than `enough`; and how much was read."""
    hiding = HiddenBytes()
    found = bytearray()
    read = 0
    while len(found) <= enough:
        piece = os.read(descriptor, min(_PIECE, enough + 1))
        if not piece:
            found += hiding.end()
            break
        read += len(piece)
        found += hiding.feed(piece)
    return bytes(found), read

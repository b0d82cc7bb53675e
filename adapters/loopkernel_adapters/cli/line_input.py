"""The lines that a person types, or that a pipe or a file brings: read when they are asked for, and no sooner.

The event loop watches the descriptor: nothing blocks, no thread waits, and whoever waits for a line can be cancelled.

A line answers a question only if it was begun after the question was put, and ended, alone. `set_aside` is called
before a question is shown, `first_moments` when it is shown, and `answer` when it may be answered.
"""

import array
import asyncio
import fcntl
import os
import select
import stat
import sys
import termios
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager

from attrs import frozen

from loopkernel_adapters.cli.outcomes import Unusable

LONGEST_LINE = 1_000_000  # bytes; also of all the lines that came before they were asked for
LONGEST_TYPED = 4_095  # bytes of a line at a terminal of Linux, which throws away what is typed behind them
GRACE_SECONDS = 0.5  # after a question has appeared, within which nobody can have read it
_PIECE = 65_536  # bytes
PASTE_SECONDS = 0.05  # within which the rest comes of a text that is pasted or written in pieces
_MOST_PIECES = 20  # that are waited for, one after the other

Pause = Callable[[float], Awaitable[None]]


@frozen
class Heard:
    """What was said when it was asked. `early`: it was begun before that; `several`: it came with more behind it."""

    text: str
    early: bool = False
    several: bool = False


class LineInput:
    """Lines from a descriptor, or from nowhere (None). The descriptor stays open, and blocking as it was.

    `pause` waits for so many seconds.
    """

    def __init__(self, descriptor: int | None, encoding: str = "utf-8", pause: Pause = asyncio.sleep) -> None:
        self._descriptor = descriptor
        self._encoding = encoding
        self._pause = pause
        self._unread = b""
        self._begun: list[
            str
        ] = []  # lines of a message whose reader was cancelled: no answer to what is asked meanwhile
        self._kept: deque[str] = deque()  # messages that came before they were wanted
        self._ended = descriptor is None
        self._floods = False  # more comes than anybody says who is asked

    @property
    def is_terminal(self) -> bool:
        """Whether a terminal shows what is typed."""
        return self._descriptor is not None and os.isatty(self._descriptor)

    @property
    def cuts_lines(self) -> bool:
        """Whether lines that are longer than LONGEST_TYPED lose their end."""
        return self.is_terminal

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Within it, lines are read: here, when they are asked for."""
        yield

    @property
    def has_begun(self) -> bool:
        """Whether a line has begun that has not ended."""
        return bool(self._unread) and b"\n" not in self._unread

    def forget_typing(self) -> None:
        """Forget what was typed before it was asked for. What a pipe or a file holds is kept."""
        if self._descriptor is not None and self.is_terminal:
            termios.tcflush(self._descriptor, termios.TCIFLUSH)

    async def line(self) -> str | None:
        """The next line, without its end; None when the input has ended. Raises Unusable for one that is too long."""
        while b"\n" not in self._unread and not self._ended:
            await self._read_more()
        if not self._unread:
            return None
        line, _, self._unread = self._unread.partition(b"\n")
        return self._decoded(line)

    async def message(self, stands_alone: Callable[[str], bool]) -> str | None:
        """The next line; at a terminal with those that came with it in one go, as a pasted text does.

        A line that `stands_alone` is not part of a text. Raises as `line`.
        """
        if not self._begun:
            first = self._kept.popleft() if self._kept else await self.line()
            if first is None or not self.is_terminal or stands_alone(first):
                return first
            self._begun.append(first)
        while (following := await self._pasted(0 if len(self._begun) == 1 else PASTE_SECONDS)) is not None:
            if stands_alone(following):
                self._kept.appendleft(following)
                break
            self._begun.append(following)
        text, self._begun = "\n".join(self._begun), []
        return text

    async def _pasted(self, seconds: float) -> str | None:
        """The next line, if it comes within these seconds."""
        if self._kept:
            return self._kept.popleft()
        if b"\n" not in self._unread and not self._ended and self._descriptor is not None:
            if not select.select([self._descriptor], [], [], 0)[0]:
                try:
                    async with asyncio.timeout(seconds):
                        await _readable(self._descriptor)
                except TimeoutError:
                    return None
            await self._read_more()
        return await self.line() if b"\n" in self._unread else None

    # --- answers ---

    async def set_aside(self) -> list[str]:
        """The lines that have come by now, taken out: a question that is put from now on is not answered by them."""
        self._floods = True
        for _ in range(_MOST_PIECES):
            before = len(self._unread)
            if before + sum(map(len, self._kept)) > LONGEST_LINE:
                break
            self._take()
            if self.is_terminal or len(self._unread) == before:
                self._floods = False
                break
            await self._pause(PASTE_SECONDS)  # whoever could not write all of it at once goes on now
        return self._whole_lines()

    def keep(self, lines: Iterable[str]) -> None:
        """Let these be messages, before all that is still to come."""
        self._kept.extend(lines)

    async def first_moments(self) -> list[str]:
        """At a terminal, the lines that were typed while nobody can have read the question, taken out."""
        if not self.is_terminal:
            return []
        await self._pause(GRACE_SECONDS)
        self._take()
        return self._whole_lines()

    async def answer(self) -> Heard | None:
        """What is said to the question that was put; None where nobody can answer any more. Raises as `line`.

        A file holds only what was written before, and so does what brings lines without end. A line without its own
        end may be the half of another.
        """
        early = bool(self._unread)
        if self._floods or self._is_file():
            return None
        while b"\n" not in self._unread and not self._ended:
            await self._read_more()
        if b"\n" not in self._unread:
            self._unread = b""
            return None
        line = await self.line() or ""
        if not self.is_terminal:
            self._take(once=True)
            return Heard(line, early, several=bool(self._unread))
        await self._pause(PASTE_SECONDS)
        self._take()
        several = bool(self._unread)
        return Heard("\n".join([line, *self._whole_lines()]), early, several)

    def _whole_lines(self) -> list[str]:
        *lines, self._unread = self._unread.split(b"\n")
        return [self._decoded(line) for line in lines]

    def _decoded(self, line: bytes) -> str:
        return line.decode(self._encoding, "replace")

    def _is_file(self) -> bool:
        return self._descriptor is not None and stat.S_ISREG(os.fstat(self._descriptor).st_mode)

    def _take(self, once: bool = False) -> None:
        """Read what is there by now, without waiting; at a terminal also the line that is still being typed."""
        descriptor = self._descriptor
        if descriptor is None or self._ended or self._is_file():
            return
        if self.is_terminal:
            self._unread += _typed(descriptor)
            return
        while not self._ended and len(self._unread) <= LONGEST_LINE and select.select([descriptor], [], [], 0)[0]:
            piece = _read(descriptor)
            self._ended = piece == b""
            self._unread += piece or b""
            if once or piece is None:
                return

    async def _read_more(self) -> None:
        descriptor = self._descriptor
        if descriptor is None:
            return
        await _readable(descriptor)
        piece = _read(descriptor)
        if piece is None:
            return
        self._unread += piece
        if not piece:
            self._ended = True
        elif len(self._unread) > LONGEST_LINE and b"\n" not in self._unread:
            self._ended, self._unread = True, b""
            raise Unusable(
                f"the input holds a line of more than {LONGEST_LINE} bytes, so it is read no further; put so long a "
                "text into a file of the workspace, and name the file. What was recorded can be gone on with"
            )


def _read(descriptor: int) -> bytes | None:
    """A piece; nothing at the end, and None where somebody else has read it."""
    try:
        return os.read(descriptor, _PIECE)
    except BlockingIOError:
        return None
    except OSError:  # the terminal is gone
        return b""


def _typed(terminal: int) -> bytes:
    """All that was typed, with the line that has not ended: the terminal gives it out where it collects no lines."""
    try:
        usual = termios.tcgetattr(terminal)
        keys = list(usual[6])
        keys[termios.VMIN] = keys[termios.VTIME] = 0
        at_once = [*usual[:3], usual[3] & ~termios.ICANON, *usual[4:6], keys]
        termios.tcsetattr(terminal, termios.TCSANOW, at_once)
        try:
            waiting = array.array("i", [0])
            fcntl.ioctl(terminal, termios.FIONREAD, waiting)
            found = os.read(terminal, waiting[0]) if waiting[0] > 0 else b""
        finally:
            termios.tcsetattr(terminal, termios.TCSANOW, usual)
    except (OSError, termios.error):  # the terminal is gone, which whoever reads it is told
        return b""
    return found.replace(b"\0", b"")  # a key that ends the input, before it was asked for


async def _readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    try:
        loop.add_reader(descriptor, readable.set)
    except PermissionError:  # a file, or no device that can be waited for: reading it never blocks
        return
    try:
        await readable.wait()
    finally:
        loop.remove_reader(descriptor)


def standard_input() -> LineInput:
    """The lines of the standard input; none where there is none."""
    try:
        return LineInput(sys.stdin.fileno(), sys.stdin.encoding)
    except (AttributeError, OSError, ValueError):  # closed, or replaced by something that is not a file
        return LineInput(None)

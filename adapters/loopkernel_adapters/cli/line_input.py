"""The lines that a person types, or that a pipe or a file brings: read when they are asked for, and no sooner.

The event loop watches the descriptor: nothing blocks, no thread waits, and whoever waits for a line can be cancelled.
"""

import asyncio
import os
import select
import sys
import termios
from collections.abc import Callable

from loopkernel_adapters.cli.outcomes import Unusable

LONGEST_LINE = 1_000_000  # bytes
LONGEST_TYPED = 4_095  # bytes of a line at a terminal of Linux, which throws away what is typed behind them
_PIECE = 65_536  # bytes
_PASTE_SECONDS = 0.05  # within which the rest comes of a text that is pasted in pieces


class LineInput:
    """Lines from a descriptor, or from nowhere (None). The descriptor stays open, and blocking as it was."""

    def __init__(self, descriptor: int | None, encoding: str = "utf-8") -> None:
        self._descriptor = descriptor
        self._encoding = encoding
        self._unread = b""
        self._begun: list[
            str
        ] = []  # lines of a message whose reader was cancelled: no answer to what is asked meanwhile
        self._ended = descriptor is None

    @property
    def is_terminal(self) -> bool:
        """Whether a terminal shows what is typed."""
        return self._descriptor is not None and os.isatty(self._descriptor)

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
        return line.decode(self._encoding, "replace")

    async def message(self, stands_alone: Callable[[str], bool]) -> str | None:
        """The next line; at a terminal with those that came with it in one go, as a pasted text does.

        A line that `stands_alone` is not part of a text. Raises as `line`.
        """
        if not self._begun:
            first = await self.line()
            if first is None or not self.is_terminal or stands_alone(first):
                return first
            self._begun.append(first)
        while (following := await self._pasted(0 if len(self._begun) == 1 else _PASTE_SECONDS)) is not None:
            if stands_alone(following):
                self._unread = f"{following}\n".encode(self._encoding, "replace") + self._unread
                break
            self._begun.append(following)
        text, self._begun = "\n".join(self._begun), []
        return text

    async def _pasted(self, seconds: float) -> str | None:
        """The next line, if it comes within these seconds."""
        if b"\n" not in self._unread and not self._ended and self._descriptor is not None:
            if not select.select([self._descriptor], [], [], 0)[0]:
                try:
                    async with asyncio.timeout(seconds):
                        await _readable(self._descriptor)
                except TimeoutError:
                    return None
            await self._read_more()
        return await self.line() if b"\n" in self._unread else None

    async def _read_more(self) -> None:
        descriptor = self._descriptor
        if descriptor is None:
            return
        await _readable(descriptor)
        try:
            piece = os.read(descriptor, _PIECE)
        except BlockingIOError:  # somebody else has read it
            return
        except OSError:  # the terminal is gone
            piece = b""
        self._unread += piece
        if not piece:
            self._ended = True
        elif len(self._unread) > LONGEST_LINE and b"\n" not in self._unread:
            self._ended, self._unread = True, b""
            raise Unusable(
                f"the input holds a line of more than {LONGEST_LINE} bytes, so it is read no further; put so long a "
                "text into a file of the workspace, and name the file. What was recorded can be gone on with"
            )


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
    except (AttributeError, OSError, ValueError):  # closed, or replaced by something that is no file
        return LineInput(None)

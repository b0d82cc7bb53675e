"""A program at the other end of a pipe that answers as it is asked: a line is written when one is wanted, not before."""

import os
from collections import deque

from loopkernel_adapters.cli.line_input import Heard, LineInput
from typing_extensions import override


class Answering(LineInput):
    """Gives these lines, each when it is wanted, and then ends. `close` lets go of the pipe."""

    def __init__(self, *lines: str) -> None:
        self._reading, self._writing = os.pipe()
        self._lines = deque(lines)
        self._open = True
        super().__init__(self._reading)

    @override
    async def line(self) -> str | None:
        self._write_next()
        return await super().line()

    @override
    async def answer(self) -> Heard | None:
        self._write_next()
        return await super().answer()

    def _write_next(self) -> None:
        if b"\n" in self._unread:
            return
        if self._lines:
            os.write(self._writing, f"{self._lines.popleft()}\n".encode())
        elif self._open:
            self._open = False
            os.close(self._writing)

    def close(self) -> None:
        """Let go of what is left of the pipe."""
        os.close(self._reading)
        if self._open:
            os.close(self._writing)

"""A program at the other end of a pipe that answers as it is asked: each line is written when one is wanted."""

import os
import select
import subprocess
from collections import deque
from collections.abc import Sequence
from subprocess import PIPE

from loopkernel_adapters.cli.line_input import Heard, LineInput
from typing_extensions import override

PATIENCE_SECONDS = 60  # after which a program that says nothing is taken to be stuck


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


def answered_by_a_program(command: Sequence[str], prompt: str, *answers: str) -> subprocess.CompletedProcess[str]:
    """Run the command, and write each answer to its pipe when the prompt has been shown once more."""
    with subprocess.Popen(command, stdin=PIPE, stdout=PIPE, stderr=PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        shown = ""
        for count, answer in enumerate(answers, start=1):
            while shown.count(prompt) < count:
                ready, _, _ = select.select([process.stdout], [], [], PATIENCE_SECONDS)
                assert ready, f"it is stuck after: {shown}"
                piece = os.read(process.stdout.fileno(), 65_536).decode()
                assert piece, f"it ended without asking: {shown}"
                shown += piece
            process.stdin.write(f"{answer}\n")
            process.stdin.flush()
        process.stdin.close()
        shown += process.stdout.read()
        errors = process.stderr.read()
    return subprocess.CompletedProcess(command, process.returncode, shown, errors)

"""The command line at a terminal, with a person who types."""

import codecs
import os
import pty
import re
import select
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

import pyte

PATIENCE_SECONDS = 60  # after which a program that says nothing is taken to be stuck

# The program makes the terminal its own, so that Ctrl-C reaches it, and is then the command line.
PROGRAM = """
import fcntl, runpy, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
runpy.run_module("loopkernel_adapters", run_name="__main__", alter_sys=True)
"""

_BEGUN = re.compile(r"(\x1b(\[[0-9;?]*)?|\r)\Z")
_END_OF_QUESTION = re.compile(
    r"\\\?(\\ )*\Z"
)  # which is painted when it can be answered, with what is between left out
_HIGH = 1_000  # lines
_OF_ANOTHER = ("COLUMNS", "LINES")  # what the terminal says counts: pytest-xdist sets them for its workers
_CONTROL = re.compile(r"\x1b\[(\d+)C|\x1b\[[0-9;?]*[A-Za-z]|\r(?!\n)")
XTERM: Mapping[str, str] = {"TERM": "xterm-256color"}
INTERRUPT, END_OF_INPUT = b"\x03", b"\x04"


class Person:
    """Sits at the terminal of a process: reads what it shows, and types."""

    def __init__(self, descriptor: int, process: subprocess.Popen[bytes], columns: int) -> None:
        self.raw = b""  # what the terminal was sent
        self.shown = ""  # the text of it, without colours and movements
        self.process = process
        self._columns = columns
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._left = ""
        self._descriptor = descriptor
        self._read = 0

    def type(self, keys: bytes) -> None:
        """Type these keys."""
        os.write(self._descriptor, keys)

    def wait_for(self, text: str) -> None:
        """Read on until the text has been shown, behind what was waited for before."""
        deadline = time.monotonic() + PATIENCE_SECONDS  # what is under way may be painted for ever
        wanted = re.compile(_END_OF_QUESTION.sub(r" *\\?", re.escape(text)))
        while (found := wanted.search(self.shown, self._read)) is None:
            assert self._read_more(), f"it ended without showing {text!r}: {self.shown}"
            assert time.monotonic() < deadline, f"it does not show {text!r}: {self.lines()}"
        self._read = found.end()

    def wait_for_end(self) -> int:
        """Read all that is still shown; the exit status."""
        while self._read_more():
            pass
        return self.process.wait()

    def hang_up(self) -> None:
        """Take the terminal away."""
        os.close(self._descriptor)

    def _read_more(self) -> bool:
        ready, _, _ = select.select([self._descriptor], [], [], PATIENCE_SECONDS)
        assert ready, f"it is stuck after showing: {self.shown}"
        try:
            piece = os.read(self._descriptor, 65_536)
        except OSError:  # how a terminal ends
            piece = b""
        self.raw += piece
        text = self._left + self._decoder.decode(piece)
        whole = _BEGUN.sub("", text)  # a control sequence may come in pieces
        self._left = text[len(whole) :]
        self.shown += _CONTROL.sub(lambda found: " " * int(found[1] or 0), whole)
        return bool(piece)

    def lines(self) -> list[str]:
        """What stands on the terminal now, by lines, if it were high enough for all of them."""
        screen = pyte.Screen(self._columns, _HIGH)
        pyte.ByteStream(screen).feed(self.raw)
        return [line.rstrip() for line in "\n".join(screen.display).rstrip().split("\n")]


@contextmanager
def at_a_terminal(
    *arguments: str,
    typed_ahead: bytes = b"",
    stdout: int | None = None,
    size: tuple[int, int] = (24, 160),
    variables: Mapping[str, str] = XTERM,
) -> Iterator[Person]:
    """The command line with these arguments at a terminal of its own, of that size; stdout may lead elsewhere."""
    person, program = pty.openpty()
    termios.tcsetwinsize(program, size)
    os.write(person, typed_ahead)
    output = program if stdout is None else stdout
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *arguments],
        stdin=program,
        stdout=output,
        stderr=program,
        start_new_session=True,
        env={**{name: value for name, value in os.environ.items() if name not in _OF_ANOTHER}, **variables},
    )
    os.close(program)
    try:
        yield Person(person, process, size[1])
    finally:
        process.kill()
        process.wait()
        with suppress(OSError):  # unless it was hung up
            os.close(person)

"""The terminal: text from models, tools and logs, made harmless and written at once."""

import io
import os
import re
import sys
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from loopkernel.later_typing import override

from loopkernel_adapters.cli.shown_text import signs_for

if TYPE_CHECKING:
    from loopkernel.data.states import State  # the help needs none of it

LABEL_WIDTH = 11
LONGEST_LINE = 300  # characters of a text that is shown in one line
USUAL = (80, 24)  # columns and lines of a terminal that does not tell
LEAST = (30, 10)  # fewer are taken for so many
INSTALL = "pip install 'loopkernel[cli]' brings colours, editing and completion"
UNSEEN = (1_000, 10)  # of what is not a terminal: it breaks no line, and holds as many as there are

# Control characters could move the cursor, rename the window or hide text; so could marks of writing direction.
# And what shows nothing could hide words between those that are seen.
_HARMFUL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]"
)


def printable(text: str) -> str:
    """The text with what a terminal would obey shown as an escape; line breaks and tabs stay."""
    return _HARMFUL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def in_one_line(text: str, longest: int = LONGEST_LINE, advice: str = "") -> str:
    """The text in one line; when it is long, cut, with its length and the advice behind it."""
    line = " / ".join(text.strip().splitlines())
    return line if len(line) <= longest else f"{line[:longest]}... ({len(text)} characters{advice})"


class Screen:
    """Writes lines with a label, and text that streams.

    When nobody reads any more, or nothing can be written, it goes on without writing; `failure` then tells why,
    unless the reader has just gone away.
    """

    def __init__(self, stream: TextIO) -> None:
        self.failure: OSError | None = None
        self.hide: Callable[[str], str] = str  # takes secrets out of what is not from the log, where they never are
        self._stream = stream
        self._streaming: str | None = None  # the label whose text streams

    def line(self, text: str = "") -> None:
        """One line."""
        self.end_stream()
        self._write(f"{printable(self.hide(text))}\n")

    def labelled(self, label: str, text: str) -> None:
        """One line with a label before it."""
        self.line(f"{label:<{LABEL_WIDTH}} {text}".rstrip())

    def changes(self, lines: Sequence[str]) -> None:
        """What a call would do to a file, as lines of a diff: for a person who watches, since the call says it too."""

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]], numbers: Container[int] = ()) -> None:
        """Rows under the names of their columns; `numbers` are the places of those that hold numbers."""
        widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
        for row in (columns, *rows):
            cells = [
                cell.rjust(width) if at in numbers else cell.ljust(width)
                for at, (cell, width) in enumerate(zip(row, widths, strict=True))
            ]
            self.line("  ".join(cells).rstrip())

    @contextmanager
    def watching(self, state_of: "Callable[[], State]") -> Iterator[None]:
        """Within it, a person who watches sees what is under way."""
        yield

    def took(self, call: object) -> str:
        """How long the call has been seen to run, in words behind its result; nothing where nobody has watched."""
        return ""

    def block(self, label: str, lines: Sequence[str]) -> None:
        """Lines that are one text: the first has the label, and each other is marked as its continuation."""
        self.end_stream()
        goes_on = signs_for(self.shows).goes_on
        for number, text in enumerate(lines):
            self.labelled(f"{goes_on:>{LABEL_WIDTH}}" if number else label, text)

    def ask_in_lines(self, label: str, lines: Sequence[str]) -> None:
        """As `block`, but a person goes on behind the last line once `listen` has been called; `answered` ends it."""
        self.block(label, lines[:-1])
        goes_on = f"{signs_for(self.shows).goes_on:>{LABEL_WIDTH}}"
        self._open(goes_on if len(lines) > 1 else label, lines[-1])

    def listen(self) -> None:
        """End the question: from now on it can be answered."""
        self._write("? ")

    @property
    def paints(self) -> bool:
        """Whether it can move its cursor, and what is needed for that is installed."""
        return False

    @property
    def is_seen(self) -> bool:
        """Whether it is a terminal, of which a person sees so much and no more."""
        return self.size() != UNSEEN

    def size(self) -> tuple[int, int]:
        """How many columns and lines can be seen at one time; a file or a pipe has its own idea of them."""
        try:
            columns, lines = os.get_terminal_size(self._stream.fileno())
        except (OSError, ValueError):
            return UNSEEN
        return (max(columns, LEAST[0]), max(lines, LEAST[1])) if columns and lines else USUAL

    def shows(self, text: str) -> bool:
        """Whether the encoding has a way to write the text."""
        try:
            text.encode(self._stream.encoding or "utf-8")
        except UnicodeEncodeError:
            return False
        return True

    def stream(self, label: str, piece: str) -> None:
        """A piece of text, right after the one before it; the label stands before the first."""
        if self._streaming == label:
            self._write(printable(piece))
        else:
            self._open(label, piece)

    def ask(self, label: str, text: str) -> None:
        """One line that a person goes on with; `answered` ends it."""
        self._open(label, f"{text} ")

    def prompt(self, label: str) -> None:
        """A label that a person goes on behind; `answered` ends the line."""
        self._open(label, "")

    def _open(self, label: str, text: str) -> None:
        """Begin a line that does not end yet."""
        self.end_stream()
        self._streaming = label
        self._write(f"{label:<{LABEL_WIDTH}} {printable(text)}")

    def answered(self, answer: str | None, *, echoed: bool) -> None:
        """The line that was answered, None without an answer; `echoed`: the terminal has shown it with its end."""
        if answer is not None and echoed:
            self._streaming = None
            return
        if answer is not None:
            self._write(printable(in_one_line(self.hide(answer))))
        self.end_stream()

    def end_stream(self) -> None:
        """End the line of text that streams, if there is one."""
        if self._streaming is not None:
            self._streaming = None
            self._write("\n")

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError as error:
            self._fail(error)

    def _fail(self, error: OSError) -> None:
        """Go on without writing."""
        close_for_good(self._stream)
        if not isinstance(error, BrokenPipeError):
            self.failure = error


class NoScreen(Screen):
    """Shows nothing: for whoever is told otherwise."""

    def __init__(self) -> None:
        super().__init__(io.StringIO())

    @override
    def _write(self, text: str) -> None:
        """Drop it."""


def close_for_good(stream: TextIO) -> None:
    """Let later writes, and the interpreter's last one, go nowhere instead of failing again."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, stream.fileno())
    finally:
        os.close(nowhere)


def for_questions(screen: Screen) -> Screen:
    """Where a person sees a question who reads no standard output, since it goes to a file or a pipe: else the screen.

    Ask for it when a person answers at a terminal.
    """
    unseen = sys.stdout is None or not sys.stdout.isatty()
    return Screen(sys.stderr) if unseen and sys.stderr is not None and sys.stderr.isatty() else screen


def terminal(*, plain: bool = False) -> Screen:
    """The standard output, or nothing where there is none. What its encoding cannot show is shown as an escape.

    Where a person watches who can be shown more than lines, it is shown by rich.
    """
    if sys.stdout is None:
        return Screen(io.StringIO())
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    return Screen(sys.stdout) if plain else _rich_screen(sys.stdout)


def shows_more_than_lines(stream: TextIO) -> bool:
    """Whether it is a terminal that can move its cursor."""
    return stream.isatty() and os.environ.get("TERM", "dumb") not in ("dumb", "unknown", "")


def _rich_screen(stream: TextIO) -> Screen:
    if not shows_more_than_lines(stream):
        return Screen(stream)
    try:
        from loopkernel_adapters.cli.rich_screen import RichScreen

        return RichScreen(stream)
    except ImportError as error:
        if sys.stderr is not None:
            print(f"loopkernel: {error.name} is missing, so what follows is plain: {INSTALL}", file=sys.stderr)
        return Screen(stream)

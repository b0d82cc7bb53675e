"""What a person at a terminal sees: colours, replies as Markdown, and what is under way below all that is over.

Nothing that others have written is taken for markup of rich; all of it is made harmless first. A line that goes on does
so behind its label, so that no text of others begins one; only commands are broken by the terminal alone.
"""

import io
import sys
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal, TextIO, cast

from loopkernel.data.states import State
from loopkernel.later_typing import override
from rich.console import Console
from rich.live import Live
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from loopkernel_adapters.cli.markdown_text import shown_whole
from loopkernel_adapters.cli.screen import LABEL_WIDTH, Screen, printable
from loopkernel_adapters.cli.under_way import UnderWay

NARROW = 60  # columns; in fewer, a label stands above a reply instead of before it
PICTURES_A_SECOND = 10
LEAST_ROOM = 20  # columns for a text behind its label
COPIED = ("go on", "see")  # commands, which only the terminal may break: else they are copied in pieces
SHORTEST_TOLD = 0.1  # seconds that a call took

STYLES = {
    "model": "bold",
    "thought": "dim",
    "call": "cyan",
    "result": "green",
    "tool": "bold magenta",
    "input": "magenta",
    "because": "magenta",
    "question": "bold magenta",
    "answer": "bold magenta",
    "ask": "magenta",
    "beware": "bold red",
    "error": "bold red",
    "refused": "red",
    "limit": "red",
    "interrupt": "yellow",
    "cancelled": "yellow",
    "retry": "yellow",
    "you": "bold blue",
    "user": "bold blue",
}
REPLIES = ("model", "thought")
DIFF_STYLES = {"+": "green", "-": "red", "@": "cyan"}


class _Sink(io.TextIOBase):
    """Where rich writes: to the screen, which minds a reader that has gone away."""

    def __init__(self, stream: TextIO, write: Callable[[str], None]) -> None:
        self._stream = stream
        self._pass_on = write

    @property
    @override
    def encoding(self) -> str:  # type: ignore[override]  # typeshed has a plain attribute
        return self._stream.encoding or "utf-8"

    @override
    def isatty(self) -> bool:
        return self._stream.isatty()

    @override
    def fileno(self) -> int:
        return self._stream.fileno()

    @override
    def write(self, text: str) -> int:
        self._pass_on(text)
        return len(text)


class RichScreen(Screen):
    """Shows it on a terminal that can move its cursor."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        sink = cast(TextIO, _Sink(stream, self._write))  # it has all of a text file; only its name says otherwise
        self.console = Console(file=sink, force_terminal=True, markup=False, emoji=False, highlight=False)
        self._under_way: UnderWay | None = None
        self._reply = ("", "")  # its label, and what has come of it
        self._live: Live | None = None

    @property
    @override
    def paints(self) -> bool:
        return True

    @override
    def line(self, text: str = "") -> None:
        self.end_stream()
        self._print(Text(printable(self.hide(text))))

    @override
    def labelled(self, label: str, text: str) -> None:
        self.end_stream()
        if label in COPIED:
            self._print(self._labelled(label, self.hide(text)))
            return
        indent = max(LABEL_WIDTH, len(printable(label))) + 1
        told = Text(printable(self.hide(text))).wrap(self.console, max(self.console.width - indent, LEAST_ROOM))
        for number, part in enumerate(told or [Text()]):
            part.rstrip()
            self._print(self._labelled("" if number else label, part.plain, indent))

    @override
    def changes(self, lines: Sequence[str]) -> None:
        self.end_stream()
        room = max(self.console.width - LABEL_WIDTH - 1, LEAST_ROOM)
        for line in lines:
            style = DIFF_STYLES.get(line[:1], "dim")
            for part in Text(printable(self.hide(line))).wrap(self.console, room, overflow="fold"):
                self._print(Text(f"{'':<{LABEL_WIDTH}} {part.plain}", style))

    @override
    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]], numbers: Container[int] = ()) -> None:
        self.end_stream()
        shown = Table(box=None, pad_edge=False, header_style="bold")
        for number, column in enumerate(columns):
            side: Literal["left", "right"] = "right" if number in numbers else "left"
            shown.add_column(Text(column), justify=side, no_wrap=number == 0, overflow="fold")
        for row in rows:
            shown.add_row(*(Text(printable(self.hide(cell))) for cell in row))
        self.console.print(shown)

    @override
    def stream(self, label: str, piece: str) -> None:
        if not label.endswith(REPLIES):
            super().stream(label, piece)
            return
        if self._reply[0] != label or self._streaming is not None:
            self.end_stream()
        self._tell_reply(label, self._reply[1] + printable(piece))

    @override
    def listen(self) -> None:
        self.console.print("? ", end="", soft_wrap=True)

    @override
    def end_stream(self) -> None:
        super().end_stream()
        self._end_reply()
        if self._under_way is not None and self._live is None:
            self._start()

    def _end_reply(self) -> None:
        """Show the reply as it is in the end."""
        label, text = self._reply
        self._tell_reply("", "")
        if text.strip():
            self._print_reply(label, text)

    @override
    def answered(self, answer: str | None, *, echoed: bool) -> None:
        super().answered(answer, echoed=echoed)
        self.end_stream()

    @contextmanager
    @override
    def watching(self, state_of: Callable[[], State]) -> Iterator[None]:
        self._under_way = UnderWay(state_of, self.shows, lambda text: printable(self.hide(text)))
        try:
            yield
        finally:
            self.end_stream()
            self._under_way = None
            self._stop()

    @override
    def took(self, call: object) -> str:
        seconds = None if self._under_way is None else self._under_way.took(call)
        return "" if seconds is None or seconds < SHORTEST_TOLD else f" ({seconds:.1f} s)"

    @override
    def _open(self, label: str, text: str) -> None:
        self.end_stream()
        self._stop()  # whoever types writes where it would be painted
        self._streaming = label
        self.console.print(self._labelled(label, text), end="", soft_wrap=True)

    def _labelled(self, label: str, text: str, indent: int = LABEL_WIDTH + 1) -> Text:
        kind = (label.split() or [""])[0]
        return Text(f"{f'{printable(label)} ':<{indent}}", STYLES.get(kind, "dim")).append(printable(text), "default")

    def _print(self, text: Text) -> None:
        text.rstrip()
        self.console.print(text, soft_wrap=True)

    def _tell_reply(self, label: str, text: str) -> None:
        self._reply = (label, text)
        if self._under_way is not None:
            self._under_way.reply = self._reply

    def _print_reply(self, label: str, text: str) -> None:
        is_narrow, wide = self.console.width < NARROW, max(LABEL_WIDTH, len(label))
        room = max(self.console.width - (2 if is_narrow else wide + 2), 1)
        as_markdown = label.endswith("model") and self.shows("─•")
        shown = shown_whole(text, room) if as_markdown else Text(text.strip(), "dim", overflow="fold")
        if is_narrow:
            self._print(self._labelled(label, ""))
            if self.console.width < LEAST_ROOM:  # only the terminal can break it
                self._print(Text("  " + text.strip().replace("\n", "\n  ")))
            else:
                self.console.print(Padding(shown, (0, 0, 0, 2)))
            return
        beside = Table.grid(padding=(0, 1, 0, 0))
        beside.add_column(width=wide, no_wrap=True)
        beside.add_column(overflow="fold")
        named = self._labelled(label, "")
        named.rstrip()
        beside.add_row(named, shown)
        self.console.print(beside)

    def _start(self) -> None:
        self._live = Live(
            self._under_way,
            console=self.console,
            refresh_per_second=PICTURES_A_SECOND,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=sys.stderr is not None and sys.stderr.isatty(),
        )
        self._live.start()

    def _stop(self) -> None:
        live, self._live = self._live, None
        if live is not None:
            live.update("")
            live.stop()

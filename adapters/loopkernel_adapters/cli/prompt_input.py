"""The prompt of a chat at a terminal: what is typed is edited below, while all that is shown goes above it.

It gives lines as `LineInput` does, and keeps its promise: a line answers a question only if it was begun after the
question was put, and ended by a key, alone. It reads keys all the time, so it knows of each line when it was begun.
What is shown is written at once, and not by `patch_stdout` of prompt_toolkit, whose thread writes later: a question
has to stand on the screen before an answer to it counts.
"""

import asyncio
import io
import os
import select
import signal
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext, redirect_stderr, suppress
from pathlib import Path

from attrs import frozen
from loopkernel.later_typing import override
from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import Completer
from prompt_toolkit.data_structures import Size
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.input import Input, create_input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import BufferControl, ConditionalContainer, FormattedTextControl, HSplit, Layout, Window
from prompt_toolkit.layout.processors import BeforeInput
from prompt_toolkit.output import ColorDepth, Output
from prompt_toolkit.output.vt100 import Vt100_Output

from loopkernel_adapters.cli.line_input import GRACE_SECONDS, PASTE_SECONDS, Heard, LineInput, Pause
from loopkernel_adapters.cli.screen import LEAST, USUAL, printable

TICK_SECONDS = 0.1  # between two pictures of what is under way
LONGEST_HISTORY = 500_000  # bytes; of a longer one the older half is forgotten
MOST_COMPLETIONS = 8  # that are shown at one time
_MOST_READS = 1_000  # pieces of what has been typed by now
# At a question only these keys do anything, beside letters and signs: many others bring back what was typed before
# (histories, what was cut, what was undone, macros), and that could be a word that nobody means now.
_EDITS_AN_ANSWER = frozenset(
    {Keys.ControlM, Keys.ControlJ, Keys.ControlC, Keys.ControlD, Keys.ControlA, Keys.ControlE, Keys.ControlB}
    | {Keys.ControlF, Keys.ControlH, Keys.ControlU, Keys.ControlW, Keys.ControlK, Keys.ControlL, Keys.Delete}
    | {Keys.Left, Keys.Right, Keys.Home, Keys.End, Keys.BracketedPaste}
)
_NO_KEYS = frozenset(
    {Keys.Any, Keys.CPRResponse, Keys.Vt100MouseEvent, Keys.WindowsMouseEvent, Keys.SIGINT, Keys.Ignore}
)


@frozen
class Typed:
    """A line that was ended. `asked`: how many questions could be answered when it was begun."""

    text: str
    asked: int


class _Above(io.TextIOBase):
    """What is written to it stands above the prompt."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._pass_on = write

    @override
    def write(self, text: str) -> int:
        self._pass_on(text)
        return len(text)


class PromptInput(LineInput):
    """Reads keys while it is `open`. `above` gives the lines of what is under way, and says whether there are any.

    What goes wrong as it is shown ends the input, and is raised when it is left.
    `hide` takes secrets out of what is kept of messages for the next session.
    """

    def __init__(
        self,
        completer: Completer | None = None,
        history: History | None = None,
        keys: Input | None = None,
        output: Output | None = None,
        pause: Pause = asyncio.sleep,
    ) -> None:
        super().__init__(None, pause=pause)
        self.above: Callable[[], StyleAndTextTuples] = list
        self.hide: Callable[[str], str] = str
        self._keys = keys or create_input(sys.stdin)
        self._output = output or _output()
        self._history = history or InMemoryHistory()
        self._label = ""
        self._lines: deque[Typed] = deque()
        self._came = asyncio.Event()
        self._asked = 0
        self._begun_at: int | None = None  # how many questions could be answered when this line was begun
        self._answers = False  # a question is open
        self._is_answered = False  # what is typed may answer it
        self._over = False
        self._buffer = Buffer(
            completer=completer, history=self._history, multiline=True, on_text_changed=self._note_beginning
        )
        self._app = self._application()

    # --- the screen above ---

    def write(self, text: str) -> None:
        """Show it above the prompt, or where no prompt is, as it is."""
        if self._app.is_running:
            self._app.renderer.erase()
        self._output.write_raw(text)
        self._output.flush()
        self._app.invalidate()

    def label(self, text: str, *, answers: bool) -> None:
        """What stands before the line that is edited; `answers`: it belongs to a question."""
        self._label, self._answers = text, answers
        self._app.invalidate()

    # --- the lines, as `LineInput` gives them ---

    @property
    @override
    def is_terminal(self) -> bool:
        return True

    @property
    @override
    def cuts_lines(self) -> bool:
        return False

    @property
    @override
    def has_begun(self) -> bool:
        return bool(self._buffer.text)

    @asynccontextmanager
    @override
    async def open(self) -> AsyncIterator[None]:
        running = asyncio.ensure_future(self._run())
        ticking = asyncio.ensure_future(self._tick())
        seen = sys.stderr is not None and sys.stderr.isatty()
        try:
            with redirect_stderr(_Above(self.write)) if seen else nullcontext():
                yield
        finally:
            ticking.cancel()
            if self._app.is_running and self._app.future is not None and not self._app.future.done():
                self._app.exit()
            else:
                running.cancel()
            ended, _ = await asyncio.gather(running, ticking, return_exceptions=True)
        if isinstance(ended, Exception):
            raise ended

    @override
    def forget_typing(self) -> None:
        self._lines.clear()
        self._buffer.reset()

    @override
    async def line(self) -> str | None:
        await self._next()
        return self._lines.popleft().text if self._lines else None

    @override
    async def message(self, stands_alone: Callable[[str], bool]) -> str | None:
        text = await super().message(stands_alone)
        if text is not None and text.strip():
            with suppress(OSError):
                self._history.append_string(self.hide(text))
        return text

    @override
    async def _pasted(self, seconds: float) -> str | None:
        if self._kept:
            return self._kept.popleft()
        if not self._lines:
            await self._drain()
        if not self._lines:
            await self._pause(seconds)
        return self._lines.popleft().text if self._lines else None

    @override
    async def set_aside(self) -> list[str]:
        await self._drain()
        return self._taken()

    @override
    async def first_moments(self) -> list[str]:
        await self._pause(GRACE_SECONDS)
        await self._drain()
        return self._taken()

    @override
    async def answer(self) -> Heard | None:
        self._asked += 1
        self._is_answered = True
        try:
            await self._next()
        finally:
            self._is_answered = False
        if not self._lines:
            return None
        typed = self._lines.popleft()
        await self._pause(PASTE_SECONDS)
        await self._drain()
        several = bool(self._lines) or self.has_begun
        return Heard("\n".join([typed.text, *self._taken()]), typed.asked < self._asked, several)

    async def _next(self) -> None:
        """Wait until a line has ended, or the input has."""
        while not self._lines and not self._over:
            self._came.clear()
            await self._came.wait()

    def _taken(self) -> list[str]:
        texts = [typed.text for typed in self._lines]
        self._lines.clear()
        return texts

    async def _drain(self) -> None:
        """Let all keys be taken that have been typed by now."""
        for _ in range(_MOST_READS):
            await asyncio.sleep(0)
            try:
                if self._over or not select.select([self._keys.fileno()], [], [], 0)[0]:
                    return
            except (OSError, ValueError):  # the terminal is gone
                return

    # --- keys ---

    async def _run(self) -> None:
        try:
            await self._app.run_async(handle_sigint=False, set_exception_handler=False)
        except (EOFError, OSError):  # the terminal is gone
            pass
        finally:
            self._end()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            if not self._answers and self.above():
                self._app.invalidate()

    def _note_beginning(self, _: Buffer) -> None:
        if not self._buffer.text:
            self._begun_at = None
        elif self._begun_at is None:
            self._begun_at = self._asked

    def _accept(self) -> None:
        """Take the line that is edited, as one that has ended."""
        asked = self._asked if self._begun_at is None else self._begun_at
        text = self._buffer.text
        self._buffer.reset()
        self._begun_at = None
        self._lines.append(Typed(text, asked))
        self._came.set()

    def _end(self) -> None:
        self._over = True
        self._came.set()

    def _application(self) -> "Application[None]":
        above = ConditionalContainer(
            Window(FormattedTextControl(self._shown_above), dont_extend_height=True),
            Condition(lambda: bool(self._shown_above())),
        )
        edited = Window(
            BufferControl(self._buffer, input_processors=[BeforeInput(lambda: self._label, "bold")]),
            wrap_lines=True,
            dont_extend_height=True,
        )
        offered = Window(FormattedTextControl(self._offered), height=1)
        shows_offered = Condition(lambda: self._buffer.complete_state is not None and not self._answers)
        return Application(
            Layout(HSplit([above, edited, ConditionalContainer(offered, shows_offered)]), focused_element=edited),
            key_bindings=self._bindings(),
            input=self._keys,
            output=self._output,
            erase_when_done=True,
        )

    def _shown_above(self) -> StyleAndTextTuples:
        return [] if self._answers else self.above()

    def _offered(self) -> StyleAndTextTuples:
        state = self._buffer.complete_state
        if state is None:
            return []
        at = state.complete_index or 0
        shown = state.completions[at - at % MOST_COMPLETIONS :][:MOST_COMPLETIONS]
        chosen = state.current_completion
        return [("reverse" if each is chosen else "", f"{printable(each.display_text)}  ") for each in shown]

    def _bindings(self) -> KeyBindings:
        keys = KeyBindings()
        asked = Condition(lambda: self._answers or self._is_answered)

        @keys.add("enter")
        @keys.add("c-j")
        def _(event: KeyPressEvent) -> None:
            self._accept()

        @keys.add("escape", "enter")
        @keys.add("escape", "c-j")
        def _(event: KeyPressEvent) -> None:
            self._buffer.insert_text("\n")

        @keys.add("c-c")
        def _(event: KeyPressEvent) -> None:
            signal.raise_signal(signal.SIGINT)

        @keys.add("c-d", filter=Condition(lambda: not self._buffer.text))
        def _(event: KeyPressEvent) -> None:
            self._end()

        def nothing(event: KeyPressEvent) -> None:
            """A key that does nothing now."""

        for key in Keys:
            if key not in _EDITS_AN_ANSWER | _NO_KEYS:
                keys.add(key, filter=asked, eager=True)(nothing)
        keys.add("c-x", eager=True)(nothing)  # macros end lines by themselves
        keys.add("c-z")(nothing)
        return keys


def _output() -> Output:
    """The standard output, which is never asked where its cursor is: the answer would come as keys."""

    def size() -> Size:
        try:
            found = os.get_terminal_size(sys.stdout.fileno())
        except (OSError, ValueError):
            found = os.terminal_size((0, 0))
        return Size(
            rows=max(found.lines, LEAST[1]) if found.lines else USUAL[1],
            columns=max(found.columns, LEAST[0]) if found.columns else USUAL[0],
        )

    colours = ColorDepth.from_env()
    return Vt100_Output(sys.stdout, size, term=os.environ.get("TERM"), default_color_depth=colours, enable_cpr=False)


def kept_history(folder: Path) -> History:
    """What was typed in earlier sessions, in a file that its owner alone reads; else that of this session."""
    path = folder / "history"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600))
        path.chmod(0o600)
        if path.stat().st_size > LONGEST_HISTORY:
            _forget_the_older_half(path)
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(path))


def _forget_the_older_half(path: Path) -> None:
    """Keep the messages of the second half of the file: each begins with an empty line and a comment."""
    whole = path.read_bytes()
    _, begins, kept = whole[len(whole) // 2 :].partition(b"\n\n#")
    new = path.with_suffix(".new")
    with new.open("wb") as file:
        new.chmod(0o600)
        file.write(begins[1:] + kept)
    new.replace(path)

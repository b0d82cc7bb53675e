"""What is under way, in a few lines below all that is over: the reply as it grows, calls that run, a retry to come."""

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from loopkernel.data.ids import OperationKind
from loopkernel.data.states import Backoff, Compacting, State, Streaming, Thinking
from loopkernel.data.words import CallStatus

from loopkernel_adapters.cli.shown_text import told_input, told_name
from loopkernel_adapters.driver.children import WITH_CALLS

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.text import Text

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
PLAIN_FRAMES = "|/-\\"
FRAMES_A_SECOND = 10
LABEL_WIDTH = 11
_LONGEST_TAIL = 4_000  # characters of a reply that are laid out anew for each picture
_MOST_CALLS = 8  # that have a line of their own
_INPUT = 200  # characters of the input of a call

# What the model is doing, where no call runs.
_WORDS = ((Thinking, "is asked"), (Streaming, "replies"), (Compacting, "makes the conversation shorter"))


class UnderWay:
    """Pictures of a state. `state_of` is asked for each; `now` gives seconds, `now_ms` the date.

    Times are told of what has been seen under way, from when it was first seen.
    """

    def __init__(
        self,
        state_of: Callable[[], State],
        shows: Callable[[str], bool],
        hide: Callable[[str], str],
        now: Callable[[], float] = time.monotonic,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self.reply: tuple[str, str] = ("", "")  # the label, and the text so far
        self._state_of = state_of
        self._hide = hide
        self._now = now
        self._now_ms = now_ms
        self._frames = FRAMES if shows(FRAMES) else PLAIN_FRAMES
        self._since: dict[object, float] = {}

    def took(self, call: object) -> float | None:
        """For how many seconds the call has been seen to run; None where it was over before."""
        since = self._since.pop(call, None)
        return None if since is None else self._now() - since

    def lines(self, width: int, most: int) -> "list[Text]":
        """The picture: at most so many lines of at most this width."""
        from rich.text import Text

        working = [
            Text(f"{label:<{LABEL_WIDTH}} {self._frame()} {about}", style="cyan", no_wrap=True)
            for label, about in self._working()
        ]
        for line in working:
            line.truncate(width, overflow="ellipsis")
        return [*self._tail(width, max(most - len(working), 1)), *working]

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "RenderResult":
        yield from self.lines(options.max_width - 1, max(console.size.height - 4, 3))

    def _tail(self, width: int, most: int) -> "list[Text]":
        from rich.console import Console
        from rich.text import Text

        label, text = self.reply
        if not text:
            return []
        room = max(width - LABEL_WIDTH - 1, 10)
        wide = Console(width=room, file=None)
        wrapped = Text(text[-_LONGEST_TAIL:].rstrip()).wrap(wide, room, tab_size=4)[-most:]
        first = f"{label:<{LABEL_WIDTH}} "
        return [Text(first if not number else " " * len(first)).append(line) for number, line in enumerate(wrapped)]

    def _frame(self) -> str:
        return self._frames[int(self._now() * FRAMES_A_SECOND) % len(self._frames)]

    def _seconds(self, what: object) -> str:
        begun = self._since.setdefault(what, self._now())
        return f"{self._now() - begun:.0f} s"

    def _working(self) -> Iterator[tuple[str, str]]:
        """What is under way, each with its label."""
        state = self._state_of()
        if isinstance(state, Backoff):
            left = max(0, state.timer.deadline_ms - self._now_ms()) / 1_000
            yield "retry", f"in {left:.0f} s"
            return
        running = []
        if isinstance(state, WITH_CALLS):
            running = [entry for entry in state.ledger.entries if entry.status is CallStatus.IN_PROGRESS]
        for entry in running[:_MOST_CALLS]:
            about = f"{told_name(entry.tool)} {told_input(entry.given, _INPUT, self._hide)}"
            yield f"call {entry.call.id}", f"{self._seconds(entry.call.id)} {about}"
        for entry in running[_MOST_CALLS:]:
            self._seconds(entry.call.id)
        if len(running) > _MOST_CALLS:
            yield "", f"and {len(running) - _MOST_CALLS} more calls"
        if running or not isinstance(state, Thinking | Streaming | Compacting):
            return
        for kind, words in _WORDS:
            if isinstance(state, kind):
                requests = state.session.operations.minted[OperationKind.MODEL]
                yield "model", f"{words}, {self._seconds((kind is Compacting, requests))}"

"""A run as a document: fed one record after the other, so that a run that goes on is told by what is new of it."""

from collections.abc import Iterable

from attrs import define, field, frozen
from loopkernel.data.json_text import JsonValue
from loopkernel.data.records import LogRecord, StepRecord
from loopkernel.data.states import Initial, State
from loopkernel.data.steps import Context
from loopkernel.data.threads import Thread
from loopkernel.loop.transition import transition
from loopkernel.replaying import START

from loopkernel_adapters.viewing.bars import Bars
from loopkernel_adapters.viewing.messages import Messages, message_as_json
from loopkernel_adapters.viewing.plain import plain
from loopkernel_adapters.viewing.shown import one_line, visible
from loopkernel_adapters.viewing.steps import Steps

# Milliseconds of 1973. What comes before a recording's first time is told as at time 0, and a time of day follows it.
LONG_AGO = 100_000_000_000


@frozen(kw_only=True)
class Note:
    """Something about a run that is marked in it: a broken law, a fault of a recording. `step` counts from 1."""

    kind: str
    text: str
    step: int | None = None
    effect: str = ""
    remedy: str = ""
    place: str = ""

    def as_json(self) -> JsonValue:
        """The note as plain data."""
        return {
            "kind": self.kind,
            "text": visible(self.text, 1_000),
            "step": self.step,
            "effect": visible(self.effect, 1_000),
            "remedy": visible(self.remedy, 1_000),
            "place": one_line(self.place, 100),
        }


@define
class RunDocument:
    """What the page shows of one run. `clock_ms` is when it began."""

    name: str
    kind: str = "a log of loopkernel"
    notes: list[Note] = field(factory=list)
    state: State = START
    clock_ms: int | None = None
    _now_ms: int = 0
    _steps: Steps = field(factory=Steps)
    _bars: Bars = field(factory=Bars)
    _messages: Messages = field(factory=Messages)

    def take(self, records: Iterable[LogRecord]) -> None:
        """The next records of the run."""
        for record in records:
            self._take(record)

    def _take(self, record: LogRecord) -> None:
        context = Context(record.delta, record.now_ms)
        after, effects = transition(self.state, context)
        step = StepRecord(self.state, context, after, effects)
        if self.clock_ms is None or (self.clock_ms < LONG_AGO <= record.now_ms):
            self.clock_ms = record.now_ms
        self._now_ms = max(self._now_ms, record.now_ms - self.clock_ms)
        number = len(self._steps.steps) + 1
        self._steps.take(number, self._now_ms, step)
        self._bars.take(number, self._now_ms, step)
        thread = Thread() if after.session is None else after.session.thread
        self._messages.take(number, thread)
        self.state = after

    @property
    def length(self) -> int:
        """How many steps it has."""
        return len(self._steps.steps)

    def as_json(self) -> JsonValue:
        """All of it."""
        return {
            **self._head(),
            "start": plain(Initial()),
            "steps": self._steps.steps,
            "bars": [bar.as_json() for bar in self._bars.bars],
            "messages": [message_as_json(shown) for shown in self._messages.shown],
        }

    def news(self, since: int) -> JsonValue:
        """What is new since step `since`, which the page has; bars and messages come with their places."""
        bars, messages = self._bars.bars, self._messages.shown
        return {
            **self._head(),
            "since": since,
            "steps": self._steps.steps[since:],
            "bars": [[at, bar.as_json()] for at, bar in enumerate(bars) if bar.last > since],
            "messages": [
                [at, message_as_json(shown)]
                for at, shown in enumerate(messages)
                if shown.step > since or (shown.gone or 0) > since
            ],
        }

    def _head(self) -> dict[str, JsonValue]:
        return {
            "name": one_line(self.name, 300),
            "kind": one_line(self.kind, 100),
            "clock": self.clock_ms,
            "duration": self._now_ms,
            "rules": self._steps.rules,
            "notes": [note.as_json() for note in self.notes],
        }

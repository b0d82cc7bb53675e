"""What takes time in a run, as bars: model calls, tool runs, waiting for people, retries, compactions, and the turns.

A bar begins and ends with a step, and has the times of these. It is read from what went out and what was reported, and
for what the loop itself waits for from its states; so it says what the log says, also where a run was cut off.
"""

import enum
from collections.abc import Hashable, Iterator

from attrs import define, field
from loopkernel.data import effects as commands
from loopkernel.data import events
from loopkernel.data.ids import OperationKind, RunOperation
from loopkernel.data.json_text import JsonValue
from loopkernel.data.model_deltas import ModelCompleted, ModelFailed
from loopkernel.data.outside_deltas import (
    ChildEnded,
    CorrectionAnswered,
    HandoffDone,
    HandoffFailed,
    HookAnswered,
)
from loopkernel.data.records import StepRecord
from loopkernel.data.states import Backoff, Cancelled, Done, HandingOff, Idle, Initial, State
from loopkernel.data.thread_deltas import Forked, Resumed
from loopkernel.data.tool_deltas import ToolFailed, ToolLost, ToolStopped, ToolSucceeded
from loopkernel.data.waits import ForAnswer, ForApproval, ForChild, ForWord
from loopkernel.views.waiting import PersonWait, waiting

from loopkernel_adapters.viewing.shown import one_line

LONGEST_LABEL = 160


class BarKind(enum.Enum):
    """What takes the time."""

    TURN = "turn"
    MODEL = "model"
    TOOL = "tool"
    PERSON = "person"
    RETRY = "retry"
    COMPACTION = "compaction"
    OTHER = "other"


@define(kw_only=True)
class Bar:
    """From step `first`, at `from_ms`, to step `last`, at `to_ms`; `how` is how it ended, "" while it has not."""

    kind: BarKind
    label: str
    first: int
    from_ms: int
    last: int
    to_ms: int
    call: str = ""
    how: str = ""

    def as_json(self) -> JsonValue:
        """The bar as plain data."""
        return {
            "kind": self.kind.value,
            "label": self.label,
            "call": self.call,
            "first": self.first,
            "last": self.last,
            "from": self.from_ms,
            "to": self.to_ms,
            "how": self.how,
        }


@define
class Bars:
    """All bars of a run so far. What is still open reaches to the last step."""

    bars: list[Bar] = field(factory=list)
    _open: dict[Hashable, int] = field(factory=dict)  # the place of each that has not ended
    _step: int = 0
    _at_ms: int = 0

    def take(self, number: int, at_ms: int, step: StepRecord) -> None:
        """One step more, and its time."""
        self._step, self._at_ms = number, at_ms
        if step.after is not step.before or step.effects:
            self._reported(step)
            for effect in step.effects:
                self._gone_out(effect)
            self._waited_for(step.before, step.after)
        for place in self._open.values():
            self.bars[place].last, self.bars[place].to_ms = number, at_ms

    def _begin(self, key: Hashable, kind: BarKind, label: str, call: str = "") -> None:
        if key in self._open:
            return
        self._open[key] = len(self.bars)
        at, now, told = self._step, self._at_ms, one_line(label, LONGEST_LABEL)
        self.bars.append(Bar(kind=kind, label=told, first=at, from_ms=now, last=at, to_ms=now, call=call))

    def _end(self, key: Hashable, how: str) -> None:
        place = self._open.pop(key, None)
        if place is not None:
            bar = self.bars[place]
            bar.last, bar.to_ms, bar.how = self._step, self._at_ms, how

    # --- what is reported, and what goes out ---

    def _reported(self, step: StepRecord) -> None:
        delta = step.context.delta
        match delta:
            case Resumed() | Forked():
                kept = {BarKind.TURN, BarKind.PERSON, BarKind.RETRY}
                for key, place in [*self._open.items()]:
                    if self.bars[place].kind not in kept:
                        self._end(key, "lost in a restart" if isinstance(delta, Resumed) else "left to the old lineage")
            case ModelCompleted():
                self._end((OperationKind.MODEL, delta.operation), delta.stop.value)
            case ModelFailed():
                self._end((OperationKind.MODEL, delta.operation), f"failed: {delta.error.value}")
            case ToolSucceeded() | ToolFailed() | ToolStopped() | ToolLost():
                how = type(delta).__name__.removeprefix("Tool").lower()
                if not _goes_on(delta.operation, step.after):
                    self._end((OperationKind.RUN, delta.operation), "done" if how == "succeeded" else how)
            case ChildEnded():
                self._end((OperationKind.RUN, delta.operation), delta.reason.value)
            case HookAnswered():
                self._end((OperationKind.HOOK, delta.operation), _answer(delta))
            case CorrectionAnswered():
                self._end((OperationKind.CORRECTION, delta.operation), "answered")
            case HandoffDone() | HandoffFailed():
                self._end((OperationKind.HANDOFF, delta.operation), "done" if type(delta) is HandoffDone else "failed")
            case _:
                pass

    def _gone_out(self, effect: commands.Effect) -> None:
        match effect:
            case commands.CallModel():
                model = effect.request.model or "the model"
                label = f"request {effect.operation} to {model} ({effect.request.reason.value})"
                self._begin((OperationKind.MODEL, effect.operation), BarKind.MODEL, label)
            case commands.AbortModel():
                self._end((OperationKind.MODEL, effect.operation), "stopped")
            case events.ReplyRetracted():
                self._end((OperationKind.MODEL, effect.reply), "retracted")
            case commands.StartTool() | commands.StartChild():
                again = f", run {effect.run}" if effect.run > 1 else ""
                agent = "sub-agent " if isinstance(effect, commands.StartChild) else ""
                label = f"{agent}{effect.tool} {effect.input.text}{again}"
                self._begin((OperationKind.RUN, effect.operation), BarKind.TOOL, label, str(effect.call))
            case commands.AskHook():
                label = f"hook {effect.context.name} at {effect.context.point.value}"
                self._begin((OperationKind.HOOK, effect.operation), BarKind.OTHER, label)
            case commands.CheckCorrection():
                self._begin((OperationKind.CORRECTION, effect.operation), BarKind.OTHER, "a look at the course")
            case commands.HandOff():
                self._begin((OperationKind.HANDOFF, effect.operation), BarKind.OTHER, "a handoff")
            case commands.AbortOther():
                self._end((effect.kind, effect.operation), "stopped")
            case events.LeaseBroken():
                self._end_run_of(str(effect.call), "did not stop in time")
            case events.CompactionStarted():
                self._begin("compaction", BarKind.COMPACTION, "the thread is made smaller")
            case events.CompactionEnded():
                self._end("compaction", "done" if effect.done else "failed")
            case _:
                pass

    def _end_run_of(self, call: str, how: str) -> None:
        for key, place in [*self._open.items()]:
            if self.bars[place].kind is BarKind.TOOL and self.bars[place].call == call:
                self._end(key, how)

    # --- what the loop itself waits for ---

    def _waited_for(self, before: State, after: State) -> None:
        turn, was_turn = turn_of(after), turn_of(before)
        if was_turn is not None and turn != was_turn:
            self._end(("turn", was_turn), _rest(after))
        if turn is not None:
            self._begin(("turn", turn), BarKind.TURN, f"turn {turn}")
        if isinstance(before, Backoff) and (not isinstance(after, Backoff) or after.timer != before.timer):
            self._end(("retry", before.timer.operation), "over")
        if isinstance(after, Backoff):
            retries = after.turn.recovery.retries
            label = f"retry {retries} after: {after.error.value}"
            self._begin(("retry", after.timer.operation), BarKind.RETRY, label)
        if isinstance(after, Done):
            for key in [*self._open]:
                self._end(key, "not over when the run ended")
        waits = {("person", *_asked(wait)): wait for wait in waiting(after)}
        for key in [key for key in self._open if isinstance(key, tuple) and key[0] == "person" and key not in waits]:
            self._end(key, "answered")
        for key, wait in waits.items():
            self._begin(key, BarKind.PERSON, _person(wait), str(wait.call))


def _goes_on(run: RunOperation, state: State) -> bool:
    """Whether the run goes on in the background, although its call has been answered."""
    held = () if state.session is None else state.session.held
    return any(each.operation == run and each.background for each in held)


def _asked(wait: PersonWait) -> Iterator[str]:
    yield str(wait.call)
    yield type(wait.reason).__name__
    yield wait.reason.question if isinstance(wait.reason, ForAnswer) else ""


def _person(wait: PersonWait) -> str:
    match wait.reason:
        case ForApproval():
            return f"approval of {wait.tool}"
        case ForAnswer():
            return f"{wait.tool} asks: {wait.reason.question}"
        case ForWord():
            return f"what became of {wait.tool} in the restart"
        case ForChild():
            return f"a call of the sub-agent {wait.tool}"


def _answer(answered: HookAnswered) -> str:
    return type(answered.answer).__name__.removeprefix("Hook").lower()


def _rest(state: State) -> str:
    """How the last turn ended."""
    if isinstance(state, Done):
        return state.reason.value
    end = None if state.session is None else state.session.last_end
    return "cancelled" if end is None else end.value


def turn_of(state: State) -> int | None:
    """The number of the turn in progress; None at rest."""
    match state:
        case Initial() | Idle() | HandingOff() | Cancelled() | Done():
            return None
        case _:
            turn = getattr(state, "turn", None) or getattr(state, "within", None)
            return getattr(turn, "number", None)

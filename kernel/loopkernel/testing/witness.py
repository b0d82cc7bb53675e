"""A second opinion on a run: what is open, cut short and sent, known from deltas and effects alone.

It predicts how deltas are taken, and what the state must then hold. What became of messages, what
the thread holds and what was used is for the laws CONSERVE, MIRROR and BUDGET to say, which judge the run as well. Kept
far simpler than the kernel, so that the two are not wrong in the same way.
"""

from collections.abc import Iterator

from attrs import define

from loopkernel.data.deltas import Delta
from loopkernel.data.effects import (
    AbortModel,
    AbortOther,
    AbortTool,
    AskHook,
    CallModel,
    CancelTimer,
    CheckCall,
    CheckCorrection,
    Effect,
    HandOff,
    StartChild,
    StartTimer,
    StartTool,
    Summarise,
)
from loopkernel.data.events import (
    ApprovalAsked,
    CallAppeared,
    EditRefused,
    LeaseBroken,
    LineageForked,
    QuestionAsked,
    ReplyRetracted,
    SessionResumed,
    ToolEnded,
    TurnEnded,
)
from loopkernel.data.ids import CallId, OperationKind
from loopkernel.data.model_deltas import ModelCall, ModelCompleted, ModelFailed
from loopkernel.data.outside_deltas import (
    ChildAsks,
    ChildEnded,
    CorrectionAnswered,
    HandoffDone,
    HandoffFailed,
    HookAnswered,
    SummaryFailed,
    SummaryReady,
    TimerFired,
)
from loopkernel.data.states import Initial, State
from loopkernel.data.thread_deltas import Acquired, Disposed, Resumed
from loopkernel.data.tool_deltas import ToolChecked, ToolFailed, ToolLost, ToolStopped, ToolSucceeded
from loopkernel.data.user_deltas import (
    AnswersCall,
    Approve,
    ChangesSettings,
    RetryNow,
)
from loopkernel.data.words import RefusalReason, TimerPurpose
from loopkernel.laws.step_laws import pending_timers
from loopkernel.laws.views import ledger_in, started_operation, turn_of
from loopkernel.testing.witness_calls import Waiting
from loopkernel.testing.witness_foresight import AT_REST, RELEASED, Foresight
from loopkernel.testing.witness_outcomes import (
    Fate,
    goes_aside,
    kind_of,
)
from loopkernel.testing.witness_thread import SentByUser, calls_left_out

# The reports that close what they are about; a run that goes on in the background is not closed.
_RunEnded = ToolSucceeded | ToolFailed | ToolStopped | ToolLost
Closing = (ModelCompleted | ModelFailed | ToolChecked | _RunEnded | TimerFired) | (
    HookAnswered | CorrectionAnswered | SummaryReady | SummaryFailed | ChildEnded | HandoffDone | HandoffFailed
)
_ABOUT_CALLS = CheckCall | StartTool | StartChild | ApprovalAsked | QuestionAsked | EditRefused | ToolEnded


@define
class Witness(Foresight):
    """A run as its deltas and effects tell of it, step by step."""

    # --- what happens -----------------------------------------------------------------------------------

    def take(
        self, delta: Delta, refusal: RefusalReason | None, effects: tuple[Effect, ...], over: bool
    ) -> Iterator[str]:
        """Learns from a step, `over` if the run ended with it; gives what is wrong with it."""
        if refusal is None:
            yield from self._accept(delta, effects)
        elif refusal is RefusalReason.STALE and isinstance(delta, ToolSucceeded | ToolFailed | ChildEnded):
            self.aborted.pop(delta.operation, None)  # it has stopped, whatever it reports
        died: set[CallId] = set()
        for effect in effects:
            if isinstance(effect, SessionResumed):
                died = self._restart(doubted=isinstance(delta, Resumed) and delta.doubted)
            elif isinstance(effect, LineageForked):  # what runs belongs to the other lineage
                self._restart()
                self.aside.clear()
            elif isinstance(effect, _ABOUT_CALLS):
                yield from self._learn_of_call(effect, died, effects)
            else:
                yield from self._learn(effect)
        if refusal is None and isinstance(
            delta, Disposed
        ):  # a check of an edit is made again when the call is shown again
            self._cut_all(OperationKind.CHECK)
            self.seen.restart()
        if over:
            self.aborted.clear()
        still = self.open_operations(OperationKind.RUN)
        self.aside = {run: call for run, call in self.aside.items() if run in still}

    def _accept(self, delta: Delta, effects: tuple[Effect, ...]) -> Iterator[str]:
        self.seen.approvals.change(delta)
        refused = [effect for effect in effects if isinstance(effect, EditRefused)]
        if isinstance(delta, ToolSucceeded | ToolFailed) and goes_aside(delta) and delta.operation in self.aside:
            self.repeated.discard(delta.operation)
        elif isinstance(delta, ToolSucceeded) and delta.output.background:
            self.aside[delta.operation] = next(c.call for c in self.seen.open() if c.run == delta.operation)
        elif isinstance(delta, Closing):
            yield from self._close(delta)
        if isinstance(delta, ToolChecked):
            expected = self.seen.judged(delta.operation, delta.verdict)
            if refused != ([] if expected is None else [expected]):
                yield f"the edit is refused as {refused}, and not as {expected}"
        elif isinstance(delta, ModelCall):
            self.seen.seen(delta)
        elif isinstance(delta, SentByUser):
            self.thread.accept(delta)
        elif isinstance(delta, RetryNow):
            self.turns_open = 1
        elif isinstance(delta, AnswersCall):
            self.seen.answer(delta)
        elif isinstance(delta, ChildAsks):
            self.seen.child_asks(delta)
        if isinstance(delta, Acquired | Resumed) and self.open_calls:
            self.turns_open = 1  # the calls of a released thread are shown again, in a new turn
        resettled = isinstance(delta, Resumed) and not delta.doubted
        if (
            resettled
            or isinstance(delta, ChangesSettings)
            or (isinstance(delta, Approve) and delta.remember is not None)
        ):
            yield from self._reconsider(effects)

    def _close(self, delta: Closing) -> Iterator[str]:
        kind, number = kind_of(delta), delta.operation
        if number in self.aborted and kind is OperationKind.RUN:
            del self.aborted[number]  # it has stopped; it was cut short, and stays so
            return
        if self.operations.get((kind, number)) is not Fate.OPEN:
            yield f"{kind.name} operation {number} reports its end, and is not open"
        self.operations[kind, number] = Fate.REPORTED
        if kind is OperationKind.RUN:
            self.aside.pop(number, None)
            self.seen.run_is_over(number)

    def _reconsider(self, effects: tuple[Effect, ...]) -> Iterator[str]:
        ended = {effect.result.call for effect in effects if isinstance(effect, ToolEnded)}
        yield from (
            f"call {call} is denied now, and still waits" for call in self.seen.reconsider() if call not in ended
        )

    def _learn_of_call(self, effect: _ABOUT_CALLS, died: set[CallId], effects: tuple[Effect, ...]) -> Iterator[str]:
        if isinstance(effect, CheckCall):
            yield from self._cut_check(effect.call)
            yield from self._open(OperationKind.CHECK, effect.operation)
        elif isinstance(effect, ToolEnded):
            yield from self._cut_check(effect.result.call)
        elif isinstance(effect, StartTool | StartChild):
            yield from self._open(OperationKind.RUN, effect.operation)
            again = next((run for run, call in self.aside.items() if call == effect.call), None)
            if again is not None:  # it went on in the background, and is begun again after a restart
                self.aside[effect.operation] = self.aside.pop(again)
                self.repeated.add(effect.operation)
                return
        yield from self.seen.learn(effect, died)
        if isinstance(effect, EditRefused):
            yield from self._reconsider(effects)

    def _learn(self, effect: Effect) -> Iterator[str]:
        for call in calls_left_out(effect, list(self.seen.calls)):
            yield from self._cut_check(call)
            del self.seen.calls[call]
        for reply in self.thread.learn(effect):
            self.seen.forget_reply(reply)
        if self.thread.begins_a_turn(effect):
            self.turns_open = 1  # it may end in this very step, before its request
        if isinstance(effect, CallModel):
            yield from self._open(OperationKind.MODEL, effect.operation)
        elif isinstance(effect, StartTimer):
            self.deadlines[effect.operation] = effect.deadline_ms
            yield from self._open(OperationKind.TIMER, effect.operation)
            if effect.purpose is TimerPurpose.GRACE and not self.aborted:
                yield f"timer {effect.operation} gives time to stop, and no run was aborted"
        elif isinstance(effect, CancelTimer):
            yield from self._cut(OperationKind.TIMER, effect.operation)
        elif isinstance(effect, AbortModel):
            yield from self._cut(OperationKind.MODEL, effect.operation)
        elif isinstance(effect, AbortTool):
            yield from self._abort(effect.operation)
        elif isinstance(effect, AskHook | CheckCorrection | Summarise | HandOff):
            started = started_operation(effect)
            if started is not None:
                yield from self._open(*started)
        elif isinstance(effect, AbortOther):
            yield from self._cut(effect.kind, effect.operation)
        elif isinstance(effect, LeaseBroken):
            self.aborted = {run: call for run, call in self.aborted.items() if call != effect.call}
        elif isinstance(effect, CallAppeared):
            if effect.call not in self.seen.calls:
                yield f"call {effect.call} appears, and no such call came"
        elif isinstance(effect, ReplyRetracted):
            for call in [call for call in self.open_calls if call.reply == effect.reply]:
                yield from self._cut_check(call)
            self.seen.forget_reply(effect.reply)
        elif isinstance(effect, TurnEnded):
            self.turns_open -= 1

    def _restart(self, *, doubted: bool = False) -> set[CallId]:
        """What was in flight is lost, and begun again under new ids; so are the runs in the background, or not."""
        self.operations.update((name, Fate.CUT) for name, fate in self.operations.items() if fate is Fate.OPEN)
        self.aborted.clear()
        return self.seen.restart(doubted=doubted)

    def _open(self, kind: OperationKind, number: int) -> Iterator[str]:
        newest = max((n for other, n in self.operations if other is kind), default=0)
        if number != newest + 1:
            yield f"{kind.name} operation {number} begins after {newest}"
        if kind is OperationKind.MODEL:
            self.turns_open = 1
        self.operations[kind, number] = Fate.OPEN

    def _cut(self, kind: OperationKind, number: int) -> Iterator[str]:
        if self.operations.get((kind, number)) is not Fate.OPEN:
            yield f"{kind.name} operation {number} is closed, and is not open"
        self.operations[kind, number] = Fate.CUT

    def _abort(self, number: int) -> Iterator[str]:
        """The run is told to stop: it is held until it has."""
        call = self.aside.pop(number, None) or next((c.call for c in self.seen.open() if c.run == number), None)
        yield from self._cut(OperationKind.RUN, number)
        if call is not None:
            self.aborted[number] = call

    def _cut_check(self, call: CallId) -> Iterator[str]:
        """The open check of the call, if any, is of no more interest."""
        seen = self.seen.calls.get(call)
        if seen is not None and seen.check is not None:
            yield from self._cut(OperationKind.CHECK, seen.check)
            seen.check = None

    def _cut_all(self, kind: OperationKind) -> None:
        for number in self.open_operations(kind):
            self.operations[kind, number] = Fate.CUT

    # --- what the state must hold -----------------------------------------------------------------------

    def contradictions(self, state: State) -> Iterator[str]:
        """What the state holds that cannot be."""
        session = state.session
        if session is None:
            return
        if isinstance(state, (*RELEASED, *AT_REST)):
            yield from self._contradictions_at_rest(state)
        elif self.turns_open != (0 if turn_of(state) is None else 1):
            yield f"{type(state).__name__}, but {self.turns_open} turns are open"
        ledger = state.ledger if isinstance(state, Initial) else ledger_in(state)
        yield from self.seen.contradictions(ledger)
        held = {run.operation: run.call for run in session.held if not run.background}
        aside = {run.operation: run.call for run in session.held if run.background}
        if (held, aside) != (self.aborted, self.aside):
            yield f"held are the runs {held}, aside {aside}, and not {self.aborted} and {self.aside}"
        pending = sorted(timer.operation for timer in pending_timers(state))
        if pending != sorted(self.open_operations(OperationKind.TIMER)):
            yield f"pending are the timers {pending}, and not {self.open_operations(OperationKind.TIMER)}"

    def _contradictions_at_rest(self, state: State) -> Iterator[str]:
        """Nothing is open but runs that outlast their calls, and the calls of a released thread that wait."""
        asked = self.seen.waiting(Waiting.APPROVAL, Waiting.EDIT, Waiting.WORD) if isinstance(state, Initial) else []
        kinds = [kind for kind, _ in self.operations if kind is not OperationKind.TIMER]
        left = {(kind, n) for kind in kinds for n in self.open_operations(kind)}
        left -= {(OperationKind.RUN, number) for number in self.aside}
        if left or self.turns_open or set(self.open_calls) != set(asked):
            yield f"at rest, but open are {left}, calls {self.open_calls}, {self.turns_open} turns"

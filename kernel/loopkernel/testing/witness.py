"""A second opinion on a run: what is open, cut short, billed and sent, known from deltas and effects alone.

It predicts how deltas are taken, and what the state must then hold. Kept far simpler than the kernel, so that the two
are not wrong in the same way.
"""

from collections.abc import Iterator

from attrs import Factory, define

from loopkernel.data.choices import OnBusy
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import (
    AbortModel,
    AbortTool,
    CallModel,
    CancelTimer,
    CheckCall,
    Effect,
    StartTimer,
    StartTool,
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
from loopkernel.data.ids import CallId, ModelOperation, OperationKind
from loopkernel.data.model_deltas import ModelCall, ModelCompleted, ModelDelta, ModelFailed, ModelUsage
from loopkernel.data.outside_deltas import (
    ChildEnded,
    ChildProgress,
    OutsideDelta,
    TimerFired,
)
from loopkernel.data.policy import Policy
from loopkernel.data.states import Backoff, Cancelled, Done, Idle, Initial, State
from loopkernel.data.thread_deltas import Acquired, Disposed, Forked, Resumed, ThreadDelta
from loopkernel.data.tool_deltas import ToolChecked, ToolDelta, ToolFailed, ToolStopped, ToolSucceeded
from loopkernel.data.usage import NO_USAGE, Usage
from loopkernel.data.user_deltas import (
    AnswersCall,
    Approve,
    CancelAll,
    CancelCall,
    ChangesSettings,
    DismissError,
    EditMessage,
    RetryNow,
    Say,
    Steer,
)
from loopkernel.data.words import RefusalReason, TimerPurpose
from loopkernel.laws.step_laws import pending_timers
from loopkernel.laws.views import ledger_in
from loopkernel.testing.witness_calls import SeenCalls, Waiting
from loopkernel.testing.witness_outcomes import ACCEPTED, REFUSED, UNFORESEEN, Fate, Outcomes, goes_aside, kind_of, only
from loopkernel.testing.witness_thread import SeenThread, SentByUser, calls_left_out

# The reports that close what they are about; a run that goes on in the background is not closed.
Closing = ModelCompleted | ModelFailed | ToolChecked | ToolSucceeded | ToolFailed | ToolStopped | TimerFired
_RELEASED = (Initial, Done)
_AT_REST = (Idle, Cancelled)
_ABOUT_CALLS = CheckCall | StartTool | ApprovalAsked | QuestionAsked | EditRefused | ToolEnded


@define
class Witness:
    """What has happened so far. Runs that outlast the answers to their calls are `held`, with the calls."""

    seen: SeenCalls = Factory(SeenCalls)
    thread: SeenThread = Factory(SeenThread)
    operations: dict[tuple[OperationKind, int], Fate] = Factory(dict)
    deadlines: dict[int, int] = Factory(dict)  # of the timers that were started
    aborted: dict[int, CallId] = Factory(dict)
    aside: dict[int, CallId] = Factory(dict)
    repeated: set[int] = Factory(set)  # of those aside: begun again by a restart, they may say once more that they are
    billed: dict[int, Usage] = Factory(dict)
    turns_open: int = 0

    @property
    def policy(self) -> Policy:
        """The policy that holds now."""
        return self.seen.approvals.policy

    @property
    def open_calls(self) -> list[CallId]:
        """The calls that are not answered yet."""
        return [call.call for call in self.seen.open()]

    # --- predictions ------------------------------------------------------------------------------------

    def outcomes(self, state: State, delta: Delta) -> Outcomes:
        """How the state may take the delta."""
        if isinstance(delta, ModelDelta | ToolDelta | OutsideDelta | TimerFired):
            return self._outcomes_of_report(delta)
        if isinstance(delta, ThreadDelta):
            return self._outcomes_of_life(state, delta)
        if isinstance(state, _RELEASED):
            return only(RefusalReason.NOT_NOW)
        return self._outcomes_of_wish(state, delta)

    def _outcomes_of_report(self, delta: ModelDelta | ToolDelta | OutsideDelta | TimerFired) -> Outcomes:
        kind, number = kind_of(delta), delta.operation
        if kind is OperationKind.RUN and number in self.aborted:
            return ACCEPTED if isinstance(delta, ToolStopped) else only(RefusalReason.STALE)
        if kind is OperationKind.RUN and number in self.aside and goes_aside(delta):
            return ACCEPTED if number in self.repeated else only(RefusalReason.DUPLICATE)
        fate = self.operations.get((kind, number))
        if fate is None:
            return only(RefusalReason.UNKNOWN)
        if fate is Fate.REPORTED and kind is not OperationKind.TIMER:
            return only(RefusalReason.DUPLICATE)
        if fate is not Fate.OPEN:
            return only(RefusalReason.STALE)
        # Open; but no run is a sub-agent yet.
        return REFUSED if isinstance(delta, ChildProgress | ChildEnded) else ACCEPTED

    def _outcomes_of_life(self, state: State, delta: ThreadDelta) -> Outcomes:
        """Of what happens to the session itself."""
        released = isinstance(state, Initial)
        if isinstance(delta, Disposed):
            return only(RefusalReason.NOT_NOW) if isinstance(state, Done) else ACCEPTED
        if isinstance(delta, Acquired | Resumed):
            takes = released and state.session is not None
            if isinstance(delta, Resumed):
                takes = takes or not isinstance(state, _RELEASED)
            return ACCEPTED if takes else only(RefusalReason.NOT_NOW)
        if isinstance(delta, Forked):
            return only(RefusalReason.NOT_NOW) if isinstance(state, _RELEASED) else ACCEPTED
        return UNFORESEEN if released and state.session is None else only(RefusalReason.NOT_NOW)

    def _outcomes_of_wish(self, state: State, delta: Delta) -> Outcomes:
        if isinstance(delta, SentByUser):
            return self._outcomes_of_message(state, delta)
        if isinstance(state, Backoff) and isinstance(delta, RetryNow | DismissError):
            return ACCEPTED
        if isinstance(delta, CancelAll):
            return ACCEPTED if self.turns_open else only(RefusalReason.NOT_NOW)
        if isinstance(delta, CancelCall | AnswersCall):
            self.seen.gone = self._gone()
        if isinstance(delta, CancelCall):
            return self.seen.outcomes_of_cancel(delta.call, delta.call in self.aside.values())
        if isinstance(delta, AnswersCall):
            return self.seen.outcomes_of_answer(delta)
        return ACCEPTED if isinstance(delta, ChangesSettings) else UNFORESEEN

    def _gone(self) -> set[ModelOperation]:
        """The replies that were asked for, and are neither under way nor in the thread."""
        asked = {number for kind, number in self.operations if kind is OperationKind.MODEL}
        gone = asked - set(self.open_operations(OperationKind.MODEL)) - set(self.thread.replies())
        return {ModelOperation(number) for number in gone}

    def _outcomes_of_message(self, state: State, delta: SentByUser) -> Outcomes:
        if delta.key is not None and delta.key in self.thread.keys:
            return only(RefusalReason.DUPLICATE)
        if isinstance(delta, EditMessage):
            return ACCEPTED if delta.message in self.thread.editable() else only(RefusalReason.UNKNOWN)
        if isinstance(state, (*_AT_REST, Backoff)) or isinstance(delta, Steer):
            return ACCEPTED
        if isinstance(delta, Say) and self.policy.on_busy is OnBusy.REJECT:
            return only(RefusalReason.NOT_NOW)
        if isinstance(delta, Say) and self.policy.on_busy is OnBusy.INTERRUPT:
            return ACCEPTED
        if state.session is None:
            return REFUSED
        full = len(state.session.inbox.queue) >= self.policy.queue_limit
        return only(RefusalReason.FULL) if full else ACCEPTED

    # --- what happens -----------------------------------------------------------------------------------

    def take(
        self, delta: Delta, refusal: RefusalReason | None, effects: tuple[Effect, ...], over: bool
    ) -> Iterator[str]:
        """Learns from a step, `over` if the run ended with it; gives what is wrong with it."""
        billable = refusal is None or refusal is RefusalReason.STALE
        if billable and isinstance(delta, ModelUsage | ModelCompleted | ModelFailed):
            before = self.billed.get(delta.operation, NO_USAGE)
            self.billed[delta.operation] = before.most(delta.usage)
        if refusal is None:
            yield from self._accept(delta, effects)
        elif refusal is RefusalReason.STALE and isinstance(delta, ToolSucceeded | ToolFailed):
            self.aborted.pop(delta.operation, None)  # it has stopped, whatever it reports
        died: set[CallId] = set()
        for effect in effects:
            if isinstance(effect, SessionResumed):
                died = self._restart()
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
        if isinstance(delta, Acquired | Resumed) and self.open_calls:
            self.turns_open = 1  # the calls of a released thread are shown again, in a new turn
        if isinstance(delta, ChangesSettings) or (isinstance(delta, Approve) and delta.remember is not None):
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
        elif isinstance(effect, StartTool):
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

    def _restart(self) -> set[CallId]:
        """What was in flight is lost, and begun again under new ids; so are the runs in the background, or not."""
        self.operations.update((name, Fate.CUT) for name, fate in self.operations.items() if fate is Fate.OPEN)
        self.aborted.clear()
        return self.seen.restart()

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

    def open_operations(self, kind: OperationKind) -> list[int]:
        """The operations of the kind that are open."""
        return [n for (other, n), fate in self.operations.items() if other is kind and fate is Fate.OPEN]

    def contradictions(self, state: State) -> Iterator[str]:
        """What the state holds that cannot be."""
        session = state.session
        if session is None:
            return
        if isinstance(state, (*_RELEASED, *_AT_REST)):
            yield from self._contradictions_at_rest(state)
        elif self.turns_open != 1:
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
        closed = [
            used for number, used in self.billed.items() if number not in self.open_operations(OperationKind.MODEL)
        ]
        total = NO_USAGE
        for used in closed:
            total = total.plus(used)
        if session.usage != total:
            yield f"the usage is {session.usage}, and what was reported comes to {total}"
        yield from self.thread.contradictions(session)

    def _contradictions_at_rest(self, state: State) -> Iterator[str]:
        """Nothing is open but runs that outlast their calls, and the calls of a released thread that wait."""
        asked = self.seen.waiting(Waiting.APPROVAL, Waiting.EDIT, Waiting.WORD) if isinstance(state, Initial) else []
        kinds = [kind for kind, _ in self.operations if kind is not OperationKind.TIMER]
        left = {(kind, n) for kind in kinds for n in self.open_operations(kind)}
        left -= {(OperationKind.RUN, number) for number in self.aside}
        if left or self.turns_open or set(self.open_calls) != set(asked):
            yield f"at rest, but open are {left}, calls {self.open_calls}, {self.turns_open} turns"

"""A second opinion on a run: what is open, cut short, billed and sent, known from deltas and effects alone.

It predicts how reports and messages are taken, and what the state must then hold. Kept far simpler than the kernel,
so that the two are not wrong in the same way.
"""

import enum
from collections.abc import Iterator

from attrs import Factory, define, field

from loopkernel.data.blocks import UserBlock
from loopkernel.data.choices import OnBusy
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import AbortModel, AbortTool, CallModel, CheckCall, Effect, StartTool
from loopkernel.data.events import (
    CallAppeared,
    InputSettled,
    ReplyFailed,
    ReplyRetracted,
    SessionResumed,
    ToolEnded,
    TurnEnded,
)
from loopkernel.data.ids import CallId, CheckOperation, OperationKind, ReceiptId
from loopkernel.data.messages import UserMessage
from loopkernel.data.model_deltas import ModelCompleted, ModelDelta, ModelFailed, ModelUsage
from loopkernel.data.outside_deltas import (
    ChildEnded,
    ChildProgress,
    CorrectionAnswered,
    HookAnswered,
    OutsideDelta,
    SummaryFailed,
    SummaryReady,
    TimerFired,
)
from loopkernel.data.policy import Policy
from loopkernel.data.sessions import QueuedInput, Session, WaitingSteer
from loopkernel.data.states import Cancelled, Done, Idle, Initial, State
from loopkernel.data.thread_deltas import Created
from loopkernel.data.tool_deltas import ToolChecked, ToolDelta, ToolFailed, ToolStopped, ToolSucceeded
from loopkernel.data.usage import NO_USAGE, Usage
from loopkernel.data.user_deltas import CancelAll, CancelCall, ChangePolicy, Enqueue, Say, Steer
from loopkernel.data.words import InputFate, RefusalReason


class Fate(enum.Enum):
    """Where an operation stands."""

    OPEN = "open"
    REPORTED = "reported"  # closed by its own report
    CUT = "cut"  # closed otherwise


# How a delta may be taken: refused for one of these reasons, or (None) accepted.
Outcomes = frozenset[RefusalReason | None]
ACCEPTED: Outcomes = frozenset({None})
REFUSED: Outcomes = frozenset(RefusalReason)
UNFORESEEN: Outcomes = ACCEPTED | REFUSED

_GONE = frozenset({InputFate.DISCARDED, InputFate.HANDED_BACK, InputFate.SUPERSEDED})
# The reports that close what they are about.
Closing = ModelCompleted | ModelFailed | ToolChecked | ToolSucceeded | ToolFailed | ToolStopped
_RELEASED = (Initial, Done)
_AT_REST = (Idle, Cancelled)


def _only(reason: RefusalReason) -> Outcomes:
    return frozenset({reason})


@define
class Witness:
    """What has happened so far."""

    operations: dict[tuple[OperationKind, int], Fate] = Factory(dict)
    checks: dict[CallId, CheckOperation] = Factory(dict)
    open_calls: list[CallId] = Factory(list)
    billed: dict[int, Usage] = Factory(dict)
    sent: list[tuple[UserBlock, ...]] = Factory(list)
    keys: set[str] = Factory(set)
    gone: set[ReceiptId] = Factory(set)
    turns_open: int = 0
    policy: Policy = field(factory=Policy)

    # --- predictions ------------------------------------------------------------------------------------

    def outcomes(self, state: State, delta: Delta) -> Outcomes:
        """How the state may take the delta."""
        if isinstance(delta, ModelDelta | ToolDelta | OutsideDelta | TimerFired):
            return self._outcomes_of_report(delta)
        if isinstance(delta, Say | Enqueue | Steer):
            return self._outcomes_of_message(state, delta)
        if isinstance(delta, CancelAll):
            return ACCEPTED if self.turns_open else _only(RefusalReason.NOT_NOW)
        if isinstance(delta, CancelCall):
            return ACCEPTED if delta.call in self.open_calls else REFUSED
        return UNFORESEEN

    def _outcomes_of_report(self, delta: ModelDelta | ToolDelta | OutsideDelta | TimerFired) -> Outcomes:
        fate = self.operations.get((_kind_of(delta), delta.operation))
        if fate is None:
            return _only(RefusalReason.UNKNOWN)
        if fate is Fate.REPORTED:
            return _only(RefusalReason.DUPLICATE)
        if fate is Fate.CUT:
            return _only(RefusalReason.STALE)
        # Open; but no run is a sub-agent yet.
        return REFUSED if isinstance(delta, ChildProgress | ChildEnded) else ACCEPTED

    def _outcomes_of_message(self, state: State, delta: Say | Enqueue | Steer) -> Outcomes:
        if isinstance(state, _RELEASED):
            return _only(RefusalReason.NOT_NOW)
        if delta.key is not None and delta.key in self.keys:
            return _only(RefusalReason.DUPLICATE)
        if isinstance(state, _AT_REST) or isinstance(delta, Steer):
            return ACCEPTED
        if isinstance(delta, Say) and self.policy.on_busy is OnBusy.REJECT:
            return _only(RefusalReason.NOT_NOW)
        if isinstance(delta, Say) and self.policy.on_busy is OnBusy.INTERRUPT:
            return ACCEPTED
        full = len(state.session.inbox.queue) >= self.policy.queue_limit
        return _only(RefusalReason.FULL) if full else ACCEPTED

    # --- what happens -----------------------------------------------------------------------------------

    def take(self, delta: Delta, refusal: RefusalReason | None, effects: tuple[Effect, ...]) -> Iterator[str]:
        """Learns from a step; gives what is wrong with it."""
        billable = refusal is None or refusal is RefusalReason.STALE
        if billable and isinstance(delta, ModelUsage | ModelCompleted | ModelFailed):
            before = self.billed.get(delta.operation, NO_USAGE)
            self.billed[delta.operation] = before.most(delta.usage)
        if refusal is not None:
            return
        self._accept(delta)
        for effect in effects:
            yield from self._learn(effect)

    def _accept(self, delta: Delta) -> None:
        if isinstance(delta, Closing):
            self.operations[_kind_of(delta), delta.operation] = Fate.REPORTED
        elif isinstance(delta, Say | Enqueue | Steer):
            self.sent.append(delta.content)
            if delta.key is not None:
                self.keys.add(delta.key)
        elif isinstance(delta, Created | ChangePolicy):
            self.policy = delta.policy

    def _learn(self, effect: Effect) -> Iterator[str]:
        if isinstance(effect, CallModel):
            yield from self._open(OperationKind.MODEL, effect.operation)
        elif isinstance(effect, CheckCall):
            self.checks[effect.call] = effect.operation
            yield from self._open(OperationKind.CHECK, effect.operation)
        elif isinstance(effect, StartTool):
            yield from self._open(OperationKind.RUN, effect.operation)
        elif isinstance(effect, AbortModel):
            yield from self._cut(OperationKind.MODEL, effect.operation)
        elif isinstance(effect, AbortTool):
            yield from self._cut(OperationKind.RUN, effect.operation)
        elif isinstance(effect, CallAppeared):
            self.open_calls.append(effect.call)
        elif isinstance(effect, ToolEnded):
            yield from self._answered(effect.result.call)
        elif isinstance(effect, ReplyFailed | ReplyRetracted):
            for call in [call for call in self.open_calls if call.reply == effect.reply]:
                yield from self._answered(call)
        elif isinstance(effect, SessionResumed):  # what was in flight is lost, and begun again under new ids
            for name in [name for name, fate in self.operations.items() if fate is Fate.OPEN]:
                self.operations[name] = Fate.CUT
        elif isinstance(effect, TurnEnded):
            self.turns_open -= 1
        elif isinstance(effect, InputSettled) and effect.fate in _GONE:
            self.gone.add(effect.receipt)

    def _open(self, kind: OperationKind, number: int) -> Iterator[str]:
        newest = max((n for other, n in self.operations if other is kind), default=0)
        if number != newest + 1:
            yield f"{kind.name} operation {number} begins after {newest}"
        if kind is OperationKind.MODEL:
            self.turns_open = 1
        self.operations[kind, number] = Fate.OPEN

    def _cut(self, kind: OperationKind, number: int) -> Iterator[str]:
        if self.operations.get((kind, number)) is not Fate.OPEN:
            yield f"{kind.name} operation {number} is aborted, and is not open"
        self.operations[kind, number] = Fate.CUT

    def _answered(self, call: CallId) -> Iterator[str]:
        if call not in self.open_calls:
            yield f"call {call} is answered, and is not open"
            return
        self.open_calls.remove(call)
        check = self.checks.get(call)
        if check is not None and self.operations[OperationKind.CHECK, check] is Fate.OPEN:
            self.operations[OperationKind.CHECK, check] = Fate.CUT

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
            left = [name for name, fate in self.operations.items() if fate is Fate.OPEN]
            if left or self.open_calls or self.turns_open:
                yield f"at rest, but open are {left}, calls {self.open_calls}, {self.turns_open} turns"
        elif self.turns_open != 1:
            yield f"{type(state).__name__}, but {self.turns_open} turns are open"
        closed = [
            used for number, used in self.billed.items() if number not in self.open_operations(OperationKind.MODEL)
        ]
        total = NO_USAGE
        for used in closed:
            total = total.plus(used)
        if session.usage != total:
            yield f"the usage is {session.usage}, and what was reported comes to {total}"
        yield from self._contradictions_of_inbox(session)

    def _contradictions_of_inbox(self, session: Session) -> Iterator[str]:
        """Every accepted message is in one place, as it was sent, and the thread keeps it."""
        found: dict[int, tuple[UserBlock, ...]] = {}
        kept = [m for m in session.thread if isinstance(m, UserMessage) and m.receipt is not None]
        holders: list[UserMessage | QueuedInput | WaitingSteer] = [*kept, *session.inbox.queue, *session.inbox.steers]
        for holder in holders:
            receipt = holder.receipt
            if receipt is None:
                continue
            if receipt in found:
                yield f"receipt {receipt} is in two places"
            found[receipt] = holder.content
        expected = {n: content for n, content in enumerate(self.sent, 1) if ReceiptId(n) not in self.gone}
        if found != expected:
            yield f"sent and kept are the receipts {sorted(expected)}, and {sorted(found)} are found"


def _kind_of(delta: ModelDelta | ToolDelta | OutsideDelta | TimerFired) -> OperationKind:
    """The kind of operation that a report is about."""
    if isinstance(delta, ModelDelta):
        return OperationKind.MODEL
    if isinstance(delta, ToolChecked):
        return OperationKind.CHECK
    if isinstance(delta, ToolDelta | ChildProgress | ChildEnded):
        return OperationKind.RUN
    if isinstance(delta, TimerFired):
        return OperationKind.TIMER
    if isinstance(delta, HookAnswered):
        return OperationKind.HOOK
    if isinstance(delta, CorrectionAnswered):
        return OperationKind.CORRECTION
    return OperationKind.SUMMARY if isinstance(delta, SummaryReady | SummaryFailed) else OperationKind.HANDOFF

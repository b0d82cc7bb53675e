"""The pair law about who gets which answer: ADDRESS.

Two deltas that came one after the other, about two open calls, are taken in the other order too. Each call must get
what it got: the answer of its tool, a person's word, the end of its time.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import final

from attrs import frozen

from loopkernel.data.blocks import ToolResult
from loopkernel.data.children import ChildCall
from loopkernel.data.choices import OnReject, OnToolFailure
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import AnswerTool, Effect
from loopkernel.data.events import LimitReached, ToolEnded
from loopkernel.data.hook_calls import RunEnd
from loopkernel.data.ids import CallId, OperationKind
from loopkernel.data.json_text import Json
from loopkernel.data.ledgers import ChildWait, Edit, Ledger, LedgerEntry
from loopkernel.data.outside_deltas import ChildAsks, ChildEnded, HookAnswered, TimerFired
from loopkernel.data.policy import Policy
from loopkernel.data.records import StepRecord
from loopkernel.data.states import State
from loopkernel.data.steps import Context
from loopkernel.data.tool_deltas import ToolAsked, ToolFailed, ToolLost, ToolStopped, ToolSucceeded
from loopkernel.data.user_deltas import (
    AnswersCall,
    Approve,
    CancelCall,
    Reject,
)
from loopkernel.data.words import CallStatus
from loopkernel.laws.changes import changes
from loopkernel.laws.gates import call_of_hook
from loopkernel.laws.reports import Judged, Transition
from loopkernel.laws.shadow.step import JudgedStep
from loopkernel.laws.views import call_of_run, call_of_timer, entry_of_call, ledger_in, refuses, taken_again

_AboutRuns = ToolSucceeded | ToolFailed | ToolStopped | ToolLost | ToolAsked | ChildEnded | ChildAsks


@final
@frozen
class Got:
    """What a call got: its end, a person's word on it, a hook's, and the answer to the question of its tool.

    What a sub-agent waits for is a question too.
    """

    result: ToolResult | None
    approved: bool
    edit: Edit | None
    question: str | tuple[ChildCall, ...] | None
    told: tuple[Json | None, ...]
    hooked: Json | None = None
    end: RunEnd | None = None


@final
class Address:
    """Two deltas about two calls, one after the other, give each call the same in the other order."""

    def __init__(self, judged: Judged) -> None:
        self._transition = judged.transition
        self._first: StepRecord | None = None
        self._under_way = _UnderWay()

    def take(self, step: JudgedStep) -> Iterator[str]:
        """What is wrong with this step and the one before it."""
        first, second, self._first = self._first, step.record, step.record
        calls = None if first is None else _independent(first, second, self._under_way.of(first.before))
        if first is None or calls is None:
            return
        swapped = _swapped(first, second, self._transition)
        if swapped is None:
            return
        effects = (*first.effects, *second.effects)
        if any(isinstance(effect, LimitReached) for effect in (*effects, *swapped[1])):
            return  # which of the calls a limit keeps from starting does depend on the order
        for call in calls:
            if _got(call, first.before, second.after, effects) != _got(call, first.before, *swapped):
                yield f"call {call} is answered otherwise when the reports come in other order"


@final
class _UnderWay:
    """The operations that some call of a ledger has: of any other, no look at all calls has to find that none has it.

    `of` moves it to another ledger, best to the next one of a run.
    """

    def __init__(self) -> None:
        self._ledger: Ledger | None = None
        self._calls: Counter[tuple[OperationKind, int]] = Counter()

    def of(self, state: State) -> "_UnderWay":
        """The operations in this state."""
        ledger = ledger_in(state)
        for _, old, new in changes(self._ledger, ledger):
            self._calls.subtract(_operations(old))
            self._calls.update(_operations(new))
        self._ledger = ledger
        return self

    def has(self, kind: OperationKind, operation: int) -> bool:
        """Whether a call has it."""
        return self._calls[kind, operation] > 0


def _operations(entry: LedgerEntry | None) -> Iterator[tuple[OperationKind, int]]:
    if entry is None:
        return
    gate = entry.hooks.open
    if entry.operation is not None:
        yield OperationKind.RUN, entry.operation
    if gate is not None:
        yield OperationKind.HOOK, gate.operation
    for timer in (entry.timer, None if gate is None else gate.timer):
        if timer is not None:
            yield OperationKind.TIMER, timer.operation


def _independent(first: StepRecord, second: StepRecord, known: _UnderWay) -> tuple[CallId, CallId] | None:
    """The calls that two neighbouring deltas are about, where their order may not matter."""
    session = first.before.session
    if session is None or refuses(first) or refuses(second):
        return None
    policy = session.settings.policy
    one, other = first.context.delta, second.context.delta
    if _reaches_others(one, first.before, policy) or _reaches_others(other, first.before, policy):
        return None
    mine, theirs = (_about(delta, first.before, known) for delta in (one, other))
    return None if mine is None or theirs is None or mine == theirs else (mine, theirs)


def _reaches_others(delta: Delta, state: State, policy: Policy) -> bool:
    """Whether it does something, by policy, to other calls than its own."""
    if isinstance(delta, Approve):
        return delta.remember is not None
    timed = isinstance(delta, TimerFired)  # of a run, or of the wait for a person
    failure = timed or isinstance(delta, ToolFailed | ToolStopped | ChildEnded | HookAnswered)
    rejection = timed or isinstance(delta, Reject)
    return (failure and policy.on_tool_failure is OnToolFailure.CANCEL_SIBLINGS) or (
        rejection and policy.on_reject is not OnReject.CONTINUE
    )


def _about(delta: Delta, state: State, known: _UnderWay) -> CallId | None:
    """The call, running or waiting for a person, that the delta is about; None: about no such call."""
    entry: LedgerEntry | None = None
    if isinstance(delta, _AboutRuns):
        entry = call_of_run(state, delta.operation) if known.has(OperationKind.RUN, delta.operation) else None
    elif isinstance(delta, HookAnswered):
        entry = call_of_hook(state, delta.operation) if known.has(OperationKind.HOOK, delta.operation) else None
    elif isinstance(delta, TimerFired):
        entry = call_of_timer(state, delta.operation) if known.has(OperationKind.TIMER, delta.operation) else None
    elif isinstance(delta, AnswersCall | CancelCall):
        entry = entry_of_call(ledger_in(state), delta.call)
    if entry is None:
        return None
    under_way = entry.status in (CallStatus.IN_PROGRESS, CallStatus.BLOCKED_ON_USER) or entry.hooks.open is not None
    return entry.call.id if under_way else None


def _swapped(first: StepRecord, second: StepRecord, transition: Transition) -> tuple[State, tuple[Effect, ...]] | None:
    """Where the two lead, and their effects, when the second comes first."""
    one = taken_again(first.before, Context(second.context.delta, first.context.now_ms), transition)
    if one is None:
        return None
    two = taken_again(one.next, Context(first.context.delta, second.context.now_ms), transition)
    return None if two is None else (two.next, (*one.effects, *two.effects))


def _got(call: CallId, before: State, after: State, effects: Sequence[Effect]) -> Got:
    """What the call has got in the end. What became of it that was never told is not asked for."""
    result = next((end.result for end in effects if isinstance(end, ToolEnded) and end.result.call == call), None)
    entry = entry_of_call(ledger_in(after), call)
    known = entry_of_call(ledger_in(before), call)
    operation = None if known is None else known.operation
    told = tuple(effect.value for effect in effects if isinstance(effect, AnswerTool) and effect.operation == operation)
    if entry is None or not entry.is_open:
        return Got(result, False, None, None, told)
    wait = entry.person.wait
    asks = wait.asked if isinstance(wait, ChildWait) else entry.question
    return Got(result, entry.person.approved, entry.person.edit, asks, told, entry.hooks.input, entry.hooks.end)

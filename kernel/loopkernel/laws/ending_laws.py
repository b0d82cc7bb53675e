"""The trace law about the ends of calls: ONE-END. An end is told once, and reaches the model."""

from collections.abc import Iterator
from typing import final

from loopkernel.data.blocks import ToolResult
from loopkernel.data.effects import Effect, StartChild
from loopkernel.data.events import (
    ChildFinished,
    ChildStarted,
    MessageAdded,
    ReplyRetracted,
    ThreadCut,
    ThreadRewritten,
    ToolEnded,
    TurnEnded,
)
from loopkernel.data.held_runs import HeldRun
from loopkernel.data.ids import CallId
from loopkernel.data.ledgers import LedgerEntry
from loopkernel.data.messages import AssistantMessage, Message, ResultMessage, UserMessage, UserOrigin
from loopkernel.data.model_deltas import ModelCall
from loopkernel.data.outside_deltas import ChildEnded
from loopkernel.data.states import Done, Initial, State
from loopkernel.data.tool_deltas import ToolLost
from loopkernel.data.words import OPEN_STATUSES, CallStatus, HookPoint, TurnEndReason
from loopkernel.laws.shadow.step import JudgedStep
from loopkernel.laws.views import FIRST_REPLY, Start, call_of_run, calls_kept, entry_of_call, held_in

_NATURAL = frozenset(
    {TurnEndReason.MODEL_STOP, TurnEndReason.STOP_SEQUENCE, TurnEndReason.OUTPUT, TurnEndReason.TOOL_FINAL}
)


@final
class OneEnd:
    """Each call that stays is answered once, before its turn ends; its answer never changes."""

    def __init__(self, start: State) -> None:
        self._told, self._children = EndsTold(start), ChildrenTold(start)

    def take(self, step: JudgedStep) -> Iterator[str]:
        """What is wrong with this step."""
        for effect in step.effects:
            yield from self._told.take(effect, step.after)
        yield from _of_no_call(step)
        yield from _changed_ends(step)
        yield from _lost(step)
        yield from _ends_in_background(step)
        yield from self._children.take(step)


@final
class EndsTold:
    """The answers so far, the calls of kept replies that are owed one, and the calls that have started."""

    def __init__(self, start: State) -> None:
        self._ended: dict[CallId, ToolResult] = {}
        self._owed: dict[CallId, None] = {}  # in order
        self._started: set[CallId] = set()
        for entry in entries_in(start):
            if entry.runs:
                self._started.add(entry.call.id)
            if entry.result is not None:
                self._ended[entry.call.id] = entry.result

    def take(self, effect: Effect, after: State) -> Iterator[str]:
        """What is wrong with this effect."""
        if isinstance(effect, Start):
            self._started.add(effect.call)
        elif isinstance(effect, ToolEnded):
            yield from self._answered(effect.result)
            self._ended.setdefault(effect.result.call, effect.result)
            self._owed.pop(effect.result.call, None)
        elif isinstance(effect, MessageAdded) and isinstance(effect.message, AssistantMessage):
            self._owed.update((call.id, None) for call in effect.message.calls if call.id not in self._ended)
        elif isinstance(effect, MessageAdded) and isinstance(effect.message, ResultMessage):
            for result in effect.message.results:
                yield from self._in_thread(result)
        elif isinstance(effect, ReplyRetracted):
            for call in sorted(self._started - self._ended.keys(), key=lambda call: call.position):
                if call.reply == effect.reply:
                    yield f"reply {effect.reply} is taken back, and call {call}, which has started, has no end"
        elif isinstance(effect, TurnEnded):
            yield from self._turn_ended(effect, after)

    def _answered(self, result: ToolResult) -> Iterator[str]:
        if result.status in OPEN_STATUSES:
            yield f"call {result.call} ends as {result.status.value}, which is not an end"
        if result.call in self._ended:
            first = self._ended[result.call].status.value
            yield f"call {result.call} ends as {result.status.value}, after it had ended as {first}"

    def _in_thread(self, result: ToolResult) -> Iterator[str]:
        if result.call.reply < FIRST_REPLY:
            self._ended.setdefault(result.call, result)
            self._owed.pop(result.call, None)
        if result.call not in self._ended:
            yield f"the thread answers call {result.call}, which has not ended"
        elif self._ended[result.call] != result:
            yield f"the thread answers call {result.call} otherwise than it ended"

    def _turn_ended(self, ended: TurnEnded, after: State) -> Iterator[str]:
        """All are answered; but of a thread that is released, calls that wait for a person stay (rule CANCEL-2)."""
        waiting = set[CallId]()
        if ended.reason is TurnEndReason.DISPOSED and isinstance(after, Initial):
            waiting.update(entry.call.id for entry in entries_in(after) if _waits_for_person(entry))
        yield from (f"the turn ends, and call {call} has no answer" for call in self._owed if call not in waiting)
        self._owed = {call: None for call in self._owed if call in waiting}


@final
class ChildrenTold:
    """The sub-agents that are told to run: each is told to end, before its call is (rule CHILD-2)."""

    def __init__(self, start: State) -> None:
        self._going = {entry.call.id for entry in entries_in(start) if entry.has_run and entry.child is not None}
        self._ends: dict[CallId, TurnEndReason] = {}

    def take(self, step: JudgedStep) -> Iterator[str]:
        """What is wrong with this step."""
        for effect in step.effects:
            if isinstance(effect, ChildStarted):
                if effect.call in self._going:
                    yield f"the sub-agent of call {effect.call} is told to start a second time"
                self._going.add(effect.call)
            elif isinstance(effect, ChildFinished):
                if effect.call not in self._going:
                    yield f"the sub-agent of call {effect.call} is told to end, and none is going on"
                reported = _reported_end(effect.call, step)
                if reported is not None and reported is not effect.reason:
                    yield f"the sub-agent of call {effect.call} ends otherwise than it has reported"
                self._going.discard(effect.call)
                self._ends[effect.call] = effect.reason
            elif isinstance(effect, StartChild) and not effect.resumed and effect.call not in self._going:
                if ChildStarted(effect.call) not in step.effects:
                    yield f"the sub-agent of call {effect.call} starts, and is not told to"
            elif isinstance(effect, ToolEnded):
                yield from self._answered(effect.result, step.after)

    def _answered(self, result: ToolResult, state: State) -> Iterator[str]:
        """CHILD-2: a natural end is `done`, every other an error; only a hook may make an error of what was done."""
        if result.call in self._going:
            yield f"call {result.call} ends, and its sub-agent is not told to have ended"
            self._going.discard(result.call)
        reason = self._ends.pop(result.call, None)
        if reason is None or state.session is None:
            return
        hooked = any(hook.point is HookPoint.AFTER_TOOL and hook.gated for hook in state.session.settings.policy.hooks)
        told = f"the sub-agent of call {result.call} has ended as {reason.value}, and the call as {result.status.value}"
        if result.status is CallStatus.DONE and reason not in _NATURAL:
            yield told
        if result.status is CallStatus.ERROR and reason in _NATURAL and not hooked:
            yield told


def _reported_end(call: CallId, step: JudgedStep) -> TurnEndReason | None:
    """How the sub-agent of the call has reported with this step to have ended, if it has."""
    delta = step.delta
    if not isinstance(delta, ChildEnded):
        return None
    entry = call_of_run(step.before, delta.operation)
    return delta.reason if entry is not None and entry.call.id == call else None


def _waits_for_person(entry: LedgerEntry) -> bool:
    return entry.status is CallStatus.BLOCKED_ON_USER and not entry.is_running


def entries_in(state: State) -> tuple[LedgerEntry, ...]:
    """The calls in the state, those of a released thread too."""
    ledger = calls_kept(state)
    return () if ledger is None else tuple(ledger.entries)


def _of_no_call(step: JudgedStep) -> Iterator[str]:
    """Each end is that of a call that there is: one of an imported thread, one in a ledger, or one that has just come.

    A call that has just come, and makes its reply too large, is answered in the same step: no ledger ever shows it.
    """
    ledger = step.calls_before
    coming = None
    if isinstance(step.taken, ModelCall) and ledger is not None:
        coming = CallId(ledger.reply, len(ledger.entries) + 1)
    for call in (result.call for result in step.ends):
        if call.reply < FIRST_REPLY or call == coming:
            continue
        if entry_of_call(ledger, call) is None and entry_of_call(step.calls, call) is None:
            yield f"call {call} is told to have ended, and there is no such call"


def _changed_ends(step: JudgedStep) -> Iterator[str]:
    """TOOL-4 in the ledger: a terminal status, and the answer with it, never changes."""
    for old, new in step.changed_calls():
        if not old.is_open and (old.status, old.result) != (new.status, new.result):
            yield f"call {old.call.id} had ended as {old.status.value}, and is now {new.status.value}"


def _lost(step: JudgedStep) -> Iterator[str]:
    """TOOL-16: a call ends as lost where nobody will say how its run has ended, and only there."""
    entry = call_of_run(step.before, step.taken.operation) if isinstance(step.taken, ToolLost) else None
    owed = {entry.call.id} if entry is not None and entry.is_open else set[CallId]()
    told = {result.call for result in step.ends if result.ran and result.status is CallStatus.LOST}
    yield from (f"nobody will say how the run of call {call} has ended, and it is not lost" for call in owed - told)
    yield from (f"call {call} ends as lost, and nobody has said so" for call in told - owed)


def _ends_in_background(step: JudgedStep) -> Iterator[str]:
    """TOOL-20: each run in the background ends once; the end waits, and goes into the thread with the next request."""
    before, after = step.session_before, step.session
    if before is None or after is None or isinstance(step.after, Done):
        return
    if before.inbox.background is after.inbox.background and before.held is after.held:
        return
    going = {run.operation for run in _in_background(step.after)}
    repeated = {run.call for run in _in_background(step.after)}
    ended = [run.call for run in _in_background(step.before) if run.operation not in going]
    ended = [call for call in ended if call not in repeated]
    owed = [call for call in (*(end.call for end in before.inbox.background), *ended) if not _is_cut(step, call)]
    injected = [effect for effect in step.effects if _tells_end(effect)]
    kept = [end.call for end in after.inbox.background]
    if owed[len(injected) :] != kept:
        told = ", ".join(map(str, owed)) or "none"
        yield f"the ends {told} of runs in the background were waiting, {len(injected)} went in, {len(kept)} wait"


def _is_cut(step: JudgedStep, call: CallId) -> bool:
    """Whether the reply of the call is taken back with this step, so that nobody is told of its end."""
    messages = () if step.session_before is None else tuple(step.session_before.thread)
    for effect in step.effects:
        if isinstance(effect, ReplyRetracted) and effect.reply == call.reply:
            return True
        if isinstance(effect, MessageAdded) and isinstance(effect.message, AssistantMessage):
            left_out = all(one.id != call for one in effect.message.calls)  # with a note in its place (INFER-7)
            if effect.message.reply == call.reply and left_out:
                return True
        if isinstance(effect, ThreadRewritten):
            messages = effect.messages
        if isinstance(effect, ThreadCut):
            kept = (*_compacted(step.after), *messages[: effect.length])
            last = max((message.reply for message in kept if isinstance(message, AssistantMessage)), default=0)
            return call.reply > last
    return False


def _compacted(state: State) -> Iterator[Message]:
    """What compactions have taken out of the thread."""
    removals = () if state.session is None else state.session.compactions.removals
    return (message for removal in removals for message in removal.messages)


def _in_background(state: State) -> Iterator[HeldRun]:
    return (run for run in held_in(state) if run.background)


def _tells_end(effect: Effect) -> bool:
    return (
        isinstance(effect, MessageAdded)
        and isinstance(effect.message, UserMessage)
        and effect.message.origin is UserOrigin.BACKGROUND_RESULT
    )

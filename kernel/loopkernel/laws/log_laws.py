"""Trace laws about the log and the thread: WRITE-AHEAD and PREFIX.

WRITE-AHEAD has a part that only a driver can break (the delta is durable before the command goes out); what
the kernel owes is here: each prefix of the log gives a valid state, which says of every command that it is open.
"""

from collections.abc import Iterator, Mapping
from typing import final

from loopkernel.data.effects import CallModel, Command, Request
from loopkernel.data.events import (
    MessageReplaced,
    OpaqueDropped,
    ResultsCleared,
    ThreadCompacted,
    ThreadCut,
    ThreadRepaired,
    ThreadRewritten,
)
from loopkernel.data.ids import OperationKind
from loopkernel.data.ledgers import Ledger, LedgerEntry
from loopkernel.data.states import Confirming, Dispatching, Executing, State
from loopkernel.data.threads import Thread
from loopkernel.data.words import CallStatus
from loopkernel.laws.reply_ends import redactions_as_told
from loopkernel.laws.shadow.step import JudgedStep
from loopkernel.laws.views import Answering, extends, started_operation

_REWRITES = (ThreadRewritten, ThreadCut, MessageReplaced, ThreadCompacted, ResultsCleared, ThreadRepaired)


@final
class WriteAhead:
    """The steps are one chain of valid states that survive being written down; every command's id is in state."""

    def __init__(self, start: State) -> None:
        self._came_to = start

    def take(self, step: JudgedStep) -> Iterator[str]:
        """What is wrong with this step."""
        if step.before is not self._came_to and step.before != self._came_to:
            yield "the step does not begin where the one before it ended"
        self._came_to = step.after
        yield from _time_and_ids(step)
        yield from _miscounted(step)
        yield from step.retake.lost


def _time_and_ids(step: JudgedStep) -> Iterator[str]:
    """Time never goes back; what is started was minted in this very step, from the counters (rule DELTA-3).

    A report that is stale, and frees what its run used, may start calls: time goes on for them.
    """
    before, after = step.before.stamp, step.after.stamp
    counted = after.version > before.version and not step.refused
    now_ms = max(before.now_ms, step.context.now_ms) if counted else before.now_ms
    freed = step.refused and step.held_before != step.held
    if after.now_ms != now_ms and not (freed and after.now_ms == max(before.now_ms, step.context.now_ms)):
        yield f"the state says {after.now_ms} ms, and the latest time seen is {now_ms} ms"
    if step.session is None:
        return
    minted = step.session.operations.minted
    was_minted = (0,) * len(minted) if step.session_before is None else step.session_before.operations.minted
    if minted == was_minted and not any(isinstance(effect, Command) for effect in step.effects):
        return
    named: dict[OperationKind, set[int]] = {kind: set() for kind in OperationKind}
    for effect in step.effects:
        started = started_operation(effect) if isinstance(effect, Command) else None
        if started is not None:
            named[started[0]].add(started[1])
    for kind, numbers in named.items():
        if minted[kind] < was_minted[kind]:
            yield f"{kind.name.lower()} operations were minted up to {was_minted[kind]}, and now up to {minted[kind]}"
        fresh = set(range(was_minted[kind] + 1, minted[kind] + 1))
        if numbers - fresh:
            yield f"{kind.name.lower()} operation {min(numbers - fresh)} is started, and this step has not minted it"
        if fresh - numbers:
            yield f"{kind.name.lower()} operation {min(fresh - numbers)} is open in state, and no command starts it"


def _miscounted(step: JudgedStep) -> Iterator[str]:
    """A ledger agrees with itself, and the phase with it: counts, order, a result exactly for what is answered."""
    ledger = step.calls
    if ledger is None or step.recounted is None:
        return
    for place, _, entry in step.recounted:
        if entry is not None:
            yield from _faults_of(entry, place, ledger)
    told = {
        "unanswered": ledger.unanswered,
        "running": ledger.running,
        "waiting": ledger.waiting,
        "asking": ledger.asking,
        "in their check": ledger.checking,
        "sub-agents": ledger.children,
        "hooked": ledger.hooked,
    }
    for name, count in told.items():
        if count != step.counts[name]:
            yield f"the ledger counts {count} calls as {name}, and holds {step.counts[name]}"
    if isinstance(step.after, Answering) and not isinstance(step.after, _phase_of(step.counts)):
        yield f"the state is {type(step.after).__name__}, which its ledger is not (rule STATE-5)"


def _faults_of(entry: LedgerEntry, place: int, ledger: Ledger) -> Iterator[str]:
    if (entry.call.id.reply, entry.call.id.position) != (ledger.reply, place + 1):
        yield f"the ledger of reply {ledger.reply} holds call {entry.call.id} at place {place + 1}"
    if entry.is_open is not (entry.result is None):
        yield f"call {entry.call.id} is {entry.status.value} and has {'a' if entry.result else 'no'} result"
    if (entry.status is CallStatus.BLOCKED_ON_USER) is (entry.person.wait is None):
        yield f"call {entry.call.id} is {entry.status.value}, and the ledger has another wait for it"


def _phase_of(counts: Mapping[str, int]) -> type[Answering]:
    """STATE-5, over what is under way: all of it waits for a person, or the rest of it is sub-agents only."""
    under_way = counts["running"] + counts["hooked"]
    if not under_way:
        return Confirming if counts["waiting"] else Executing
    return Dispatching if under_way == counts["sub-agents"] else Executing


# --- PREFIX -------------------------------------------------------------------------------------------


@final
class Prefix:
    """A request holds the thread of its state, and extends the request before it unless a rewrite was told."""

    def __init__(self, _: State) -> None:
        self._last: Request | None = None
        self._rewritten = False

    def take(self, step: JudgedStep) -> Iterator[str]:
        """What is wrong with this step."""
        yield from redactions_as_told(step)
        for effect in step.effects:
            self._rewritten = self._rewritten or isinstance(effect, _REWRITES)
            if not isinstance(effect, CallModel):
                continue
            request = effect.request
            if step.session is not None and not _same(request.thread, step.session.thread):
                yield f"request {request.number} does not hold the thread of the session"
            if self._last is not None:
                yield from _departs(self._last, request, self._rewritten, step)
            self._last, self._rewritten = request, False


def _same(one: Thread, other: Thread) -> bool:
    return one is other or (
        one.generation == other.generation and len(one) == len(other) and extends(one.messages, other.messages)
    )


def _departs(last: Request, request: Request, rewritten: bool, step: JudgedStep) -> Iterator[str]:
    """How a request departs from the one before it without an event that says so."""
    same_generation = request.thread.generation == last.thread.generation
    if not same_generation and not rewritten:
        yield f"request {request.number} holds a rewritten thread, and no event said so"
    if same_generation and not extends(last.thread.messages, request.thread.messages):
        yield f"request {request.number} does not begin with the messages of request {last.number}"
    left_out = request.model != last.model and last.model in request.thread.opaque_models
    if left_out and not any(
        isinstance(effect, OpaqueDropped) and last.model in effect.models for effect in step.effects
    ):
        yield f"request {request.number} drops opaque blocks of {last.model}, and no event says so (rule INFER-15)"

"""Step laws about a transition as such: TOTAL and TIMER-DATA."""

from collections.abc import Iterable, Iterator

from attrs import evolve

from loopkernel.data.effects import CancelTimer, Effect, StartTimer
from loopkernel.data.events import ClockJumped, Refused
from loopkernel.data.held_runs import HeldRun
from loopkernel.data.ids import OperationKind, TimerOperation
from loopkernel.data.ledgers import LedgerEntry
from loopkernel.data.outside_deltas import ChildEnded, TimerFired
from loopkernel.data.records import StepRecord
from loopkernel.data.states import Backoff, Done, State, Streaming
from loopkernel.data.steps import Context
from loopkernel.data.thread_deltas import Acquired, Forked, Resumed
from loopkernel.data.timers import Timer
from loopkernel.data.tool_deltas import ToolFailed, ToolStopped, ToolSucceeded
from loopkernel.data.words import RefusalReason, UserAction
from loopkernel.laws.changes import changes
from loopkernel.laws.gates import gate_of_turn
from loopkernel.laws.memory import Memory
from loopkernel.laws.outside_timers import outside_timers
from loopkernel.laws.reports import Findings, Judged
from loopkernel.laws.views import calls_kept, held_in, refuses, taken_again

# --- TOTAL ----------------------------------------------------------------------------------------------


def total(record: StepRecord, judged: Judged) -> Findings:
    """The step, taken again, gives a state and effects; it takes effect, or changes nothing and says why."""
    try:
        again: object = judged.transition(record.before, record.context)
    except Exception as error:  # whatever it is: raising is the breach
        return [f"{met(record)} raises {type(error).__name__}: {error}"]
    if not (isinstance(again, tuple) and len(again) == 2 and isinstance(again[0], State)):
        return [f"{met(record)} gives no state"]
    if not (isinstance(again[1], tuple) and all(isinstance(effect, Effect) for effect in again[1])):
        return [f"{met(record)} gives something that is no effect"]
    return list(_refused_in_full(record, judged) if refuses(record) else _accepted(record))


def met(record: StepRecord) -> str:
    """The delta and the state that it met, for people."""
    return f"{type(record.context.delta).__name__} in {type(record.before).__name__}"


def _accepted(record: StepRecord) -> Iterator[str]:
    """DELTA-7: an accepted delta is counted, so one that is not counted was dropped in silence."""
    grown = record.after.stamp.version - record.before.stamp.version
    if grown == 0:
        yield f"{met(record)} is neither counted as accepted nor refused with a reason"
    elif grown != 1:
        yield f"{met(record)} moves the version by {grown}, not by 1"


def _refused_in_full(record: StepRecord, judged: Judged) -> Iterator[str]:
    """DELTA-2: what is refused changes nothing, but for two parts of a report that is stale."""
    run = _shown_to_have_stopped(record)
    if run is not None:
        yield from _frees_and_no_more(record, run, judged)
        return
    after, before = record.after, record.before
    if len(record.effects) > 1:
        yield f"{met(record)} is refused, and yet it has effects"
    if after is before or after == before:
        return
    stale = any(isinstance(effect, Refused) and effect.reason is RefusalReason.STALE for effect in record.effects)
    if stale and type(after) is type(before) and after.session is not None and before.session is not None:
        was = before.session
        billed = evolve(after.session, usage=was.usage, operations=was.operations, started=was.started)
        unbilled: State = evolve(after, session=billed)
        counts = after.session.operations.minted == before.session.operations.minted
        if counts and unbilled == before:
            return
    yield f"{met(record)} is refused, and yet it changes the state"


def _shown_to_have_stopped(record: StepRecord) -> HeldRun | None:
    """The aborted run that has now reported its end, after its call was answered (rule TOOL-17)."""
    delta = record.context.delta
    if not isinstance(delta, ToolSucceeded | ToolFailed | ChildEnded):
        return None
    held = (run for run in held_in(record.before) if run.operation == delta.operation and not run.background)
    return next(held, None)


def _frees_and_no_more(record: StepRecord, run: HeldRun, judged: Judged) -> Iterator[str]:
    """A stale report frees the resources of its run. It does what `ToolStopped` does, but is not counted."""
    before, after = record.before, record.after
    if record.effects[0] != Refused(UserAction.REPORT, RefusalReason.STALE):
        yield f"{met(record)} is late, and refused otherwise than as stale"
    left = tuple(held for held in held_in(before) if held is not run)
    if held_in(after) != left and not isinstance(after, Done):
        yield f"the late report of call {run.call} does not free the resources of its run, and of no other"
    if run.grace is not None and CancelTimer(run.grace.operation) not in record.effects:
        yield f"the late report of call {run.call} leaves the grace time of its run pending"
    same = taken_again(before, Context(ToolStopped(run.operation), record.context.now_ms), judged.transition)
    if same is None:
        yield f"{met(record)} is refused, and a ToolStopped in its place raises"
        return
    expected: State = evolve(same.next, stamp=after.stamp)
    if isinstance(record.context.delta, ChildEnded) and expected.session is not None and after.session is not None:
        billed = after.session  # what it has used counts, which BUDGET judges
        used = evolve(expected.session, usage=billed.usage, operations=billed.operations, started=billed.started)
        expected = evolve(expected, session=used)
    if (after, record.effects[1:]) != (expected, same.effects):
        yield f"{met(record)} is refused, and yet it does more than to free the resources of its run"
    if after.stamp not in (before.stamp, before.stamp.at(record.context.now_ms)):
        yield f"{met(record)} is refused, and yet it is counted"


# --- TIMER-DATA -----------------------------------------------------------------------------------------


def timer_data(record: StepRecord, memory: Memory) -> Findings:
    """A delay that is pending stands in state with its deadline, one for each thing it bounds; others do nothing.

    A fork has none: those that were pending belong to the lineage that was forked (rule RESUME-6).
    """
    delta, found = record.context.delta, list[str]()
    timers = [effect for effect in record.effects if isinstance(effect, StartTimer | CancelTimer)]
    before, pending = _timers_to_judge(record, timers, memory)
    judged = isinstance(delta, TimerFired) or bool(timers or pending or before)
    if isinstance(delta, TimerFired) and not refuses(record):
        if all(timer.operation != delta.operation for timer in before):
            found.append(f"timer {delta.operation} is not pending, and yet it does something")
        if any(timer.operation == delta.operation for timer in pending):
            found.append(f"timer {delta.operation} has fired, and is still pending")
    for timer in timers:
        if isinstance(timer, StartTimer) and (
            Timer(timer.operation, timer.purpose, timer.deadline_ms) not in pending
            and CancelTimer(timer.operation) not in timers
        ):
            found.append(
                f"timer {timer.operation} ({timer.purpose.value}) is started, but the state has no such deadline"
            )
        if isinstance(timer, CancelTimer) and any(timer.operation == other.operation for other in pending):
            found.append(f"timer {timer.operation} is closed, but the state still waits for it")
    if len({timer.operation for timer in pending}) != len(pending):
        found.append("one timer bounds two things")
    found.extend(_jump_untold(record))
    if isinstance(delta, Forked) and not refuses(record):
        found.extend(f"timer {timer.operation} is of the lineage that was forked, and is closed" for timer in timers)
        found.extend(f"timer {timer.operation} is of the lineage that was forked, and waited for" for timer in pending)
    elif isinstance(delta, Acquired | Resumed):
        found.extend(_not_started_anew(record, pending, timers))
    else:
        found.extend(_left_running(record, before, pending, timers))
        found.extend(outside_timers(record, timers))  # also where a delay is missing, and no other one is pending
    return found if judged or found else None


def _jump_untold(record: StepRecord) -> Iterator[str]:
    """DELTA-7: a clock that is found to be behind the log is told, once, by as much; nothing else is told of."""
    delta = record.context.delta
    behind_ms = delta.clock_behind_ms if isinstance(delta, Resumed) and not refuses(record) else 0
    told = [effect.by_ms for effect in record.effects if isinstance(effect, ClockJumped)]
    if told != ([-behind_ms] if behind_ms > 0 else []):
        yield f"the clock was found {behind_ms} ms behind the log, and what is told of it is {told}"


def _timers_to_judge(
    record: StepRecord, timers: list[StartTimer | CancelTimer], memory: Memory
) -> tuple[tuple[Timer, ...], tuple[Timer, ...]]:
    """What is pending before and after the step. Where that is enough, only of calls that have changed.

    It is, if the state before has been judged, and the step is about no other timer than these and new ones.
    """
    delta, session = record.context.delta, record.before.session
    if memory.knows(record.before) and session is not None and not isinstance(delta, Acquired | Resumed | Forked):
        changed = list(changes(calls_kept(record.before), calls_kept(record.after)))
        before = (*_timers_of([one for _, one, _ in changed]), *_timers_beside_calls(record.before))
        pending = (*_timers_of([one for _, _, one in changed]), *_timers_beside_calls(record.after))
        known = {timer.operation for timer in before}
        about = {timer.operation for timer in (*timers, *pending)} | _fired(record)
        if all(operation in known or operation > session.operations.minted[OperationKind.TIMER] for operation in about):
            return before, pending
    return pending_timers(record.before), pending_timers(record.after)


def _fired(record: StepRecord) -> set[TimerOperation]:
    return {record.context.delta.operation} if isinstance(record.context.delta, TimerFired) else set()


def _not_started_anew(
    record: StepRecord, pending: tuple[Timer, ...], timers: list[StartTimer | CancelTimer]
) -> Iterator[str]:
    """A restart outlives all timers: what is still waited for is timed anew, a retry for the same time (RESUME-3)."""
    started = {timer.operation for timer in timers}
    for timer in pending if not refuses(record) else ():
        if timer.operation not in started:
            yield f"timer {timer.operation} ({timer.purpose.value}) is waited for, and not started after the restart"
    if isinstance(record.before, Backoff) and isinstance(record.after, Backoff):
        before_ms, after_ms = record.before.timer.deadline_ms, record.after.timer.deadline_ms
        if before_ms != after_ms:
            yield f"the retry was due at {before_ms} ms, and is at {after_ms} ms since the restart"


def _left_running(
    record: StepRecord,
    before: tuple[Timer, ...],
    pending: tuple[Timer, ...],
    timers: list[StartTimer | CancelTimer],
) -> Iterator[str]:
    """A delay that is no longer waited for is closed, unless its end is this step."""
    delta = record.context.delta
    ended = {timer.operation for timer in timers if isinstance(timer, CancelTimer)}
    if isinstance(delta, TimerFired):
        ended.add(delta.operation)
    still = set(pending)
    for timer in before:
        if timer not in still and timer.operation not in ended:
            yield f"timer {timer.operation} ({timer.purpose.value}) is no longer waited for, and is not closed"


def pending_timers(state: State) -> tuple[Timer, ...]:
    """The delays that the state waits for: of a retry, a silent stream, its calls, hooks, and runs that are to stop."""
    ledger = calls_kept(state)
    return (*_timers_of(() if ledger is None else ledger.entries), *_timers_beside_calls(state))


def _timers_of(entries: Iterable[LedgerEntry | None]) -> Iterator[Timer]:
    for entry in entries:
        if entry is not None and entry.timer is not None:
            yield entry.timer
        gate = None if entry is None or not entry.is_open else entry.hooks.open
        if gate is not None and gate.timer is not None:
            yield gate.timer


def _timers_beside_calls(state: State) -> Iterator[Timer]:
    gate = gate_of_turn(state)
    if isinstance(state, Backoff):
        yield state.timer
    if isinstance(state, Streaming):
        yield from (timer for timer in (state.silence, state.time_limit) if timer is not None)
    if gate is not None and gate.timer is not None:
        yield gate.timer
    yield from (run.grace for run in held_in(state) if run.grace is not None)

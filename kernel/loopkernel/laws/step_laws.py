"""Step laws about a transition as such: TOTAL and TIMER-DATA."""

from collections.abc import Iterable, Iterator

from attrs import evolve

from loopkernel.data.effects import CancelTimer, StartTimer
from loopkernel.data.events import ClockJumped, Refused
from loopkernel.data.held_runs import HeldRun
from loopkernel.data.ids import OperationKind, TimerOperation
from loopkernel.data.ledgers import LedgerEntry
from loopkernel.data.outside_deltas import ChildEnded, TimerFired
from loopkernel.data.states import Backoff, Done, State, Streaming
from loopkernel.data.steps import Context
from loopkernel.data.thread_deltas import Acquired, Forked, Resumed
from loopkernel.data.timers import Timer
from loopkernel.data.tool_deltas import ToolFailed, ToolStopped, ToolSucceeded
from loopkernel.data.words import RefusalReason, UserAction
from loopkernel.laws.gates import gate_of_turn
from loopkernel.laws.outside_timers import outside_timers
from loopkernel.laws.reports import Findings, Judged
from loopkernel.laws.retakes import met
from loopkernel.laws.shadow.step import JudgedStep
from loopkernel.laws.views import calls_kept, held_in, taken_again

# --- TOTAL ----------------------------------------------------------------------------------------------


def total(step: JudgedStep, judged: Judged) -> Findings:
    """The step, taken again, gives a state and effects; it takes effect, or changes nothing and says why."""
    if step.retake.raised:
        return list(step.retake.raised)
    return list(_refused_in_full(step, judged) if step.refused else _accepted(step))


def _accepted(step: JudgedStep) -> Iterator[str]:
    """DELTA-7: an accepted delta is counted, so one that is not counted was dropped in silence."""
    grown = step.after.stamp.version - step.before.stamp.version
    if grown == 0:
        yield f"{met(step.record)} is neither counted as accepted nor refused with a reason"
    elif grown != 1:
        yield f"{met(step.record)} moves the version by {grown}, not by 1"


def _refused_in_full(step: JudgedStep, judged: Judged) -> Iterator[str]:
    """DELTA-2: what is refused changes nothing, but for two parts of a report that is stale."""
    run = _shown_to_have_stopped(step)
    if run is not None:
        yield from _frees_and_no_more(step, run, judged)
        return
    after, before = step.after, step.before
    if len(step.effects) > 1:
        yield f"{met(step.record)} is refused, and yet it has effects"
    if after is before or after == before:
        return
    stale = any(isinstance(effect, Refused) and effect.reason is RefusalReason.STALE for effect in step.effects)
    if stale and type(after) is type(before) and after.session is not None and before.session is not None:
        was = before.session
        billed = evolve(after.session, usage=was.usage, operations=was.operations, started=was.started)
        unbilled: State = evolve(after, session=billed)
        counts = after.session.operations.minted == before.session.operations.minted
        if counts and unbilled == before:
            return
    yield f"{met(step.record)} is refused, and yet it changes the state"


def _shown_to_have_stopped(step: JudgedStep) -> HeldRun | None:
    """The aborted run that has now reported its end, after its call was answered (rule TOOL-17)."""
    delta = step.delta
    if not isinstance(delta, ToolSucceeded | ToolFailed | ChildEnded):
        return None
    held = (run for run in step.held_before if run.operation == delta.operation and not run.background)
    return next(held, None)


def _frees_and_no_more(step: JudgedStep, run: HeldRun, judged: Judged) -> Iterator[str]:
    """A stale report frees the resources of its run. It does what `ToolStopped` does, but is not counted."""
    before, after = step.before, step.after
    if step.effects[0] != Refused(UserAction.REPORT, RefusalReason.STALE):
        yield f"{met(step.record)} is late, and refused otherwise than as stale"
    left = tuple(held for held in held_in(before) if held is not run)
    if held_in(after) != left and not isinstance(after, Done):
        yield f"the late report of call {run.call} does not free the resources of its run, and of no other"
    if run.grace is not None and CancelTimer(run.grace.operation) not in step.effects:
        yield f"the late report of call {run.call} leaves the grace time of its run pending"
    same = taken_again(before, Context(ToolStopped(run.operation), step.context.now_ms), judged.transition)
    if same is None:
        yield f"{met(step.record)} is refused, and a ToolStopped in its place raises"
        return
    expected: State = evolve(same.next, stamp=after.stamp)
    if isinstance(step.delta, ChildEnded) and expected.session is not None and after.session is not None:
        billed = after.session  # what it has used counts, which BUDGET judges
        used = evolve(expected.session, usage=billed.usage, operations=billed.operations, started=billed.started)
        expected = evolve(expected, session=used)
    if (after, step.effects[1:]) != (expected, same.effects):
        yield f"{met(step.record)} is refused, and yet it does more than to free the resources of its run"
    if after.stamp not in (before.stamp, before.stamp.at(step.context.now_ms)):
        yield f"{met(step.record)} is refused, and yet it is counted"


# --- TIMER-DATA -----------------------------------------------------------------------------------------


def timer_data(step: JudgedStep) -> Findings:
    """A delay that is pending stands in state with its deadline, one for each thing it bounds; others do nothing.

    A fork has none: those that were pending belong to the lineage that was forked (rule RESUME-6).
    """
    delta, found = step.delta, list[str]()
    timers = [effect for effect in step.effects if isinstance(effect, StartTimer | CancelTimer)]
    before, pending = _timers_to_judge(step, timers)
    judged = isinstance(delta, TimerFired) or bool(timers or pending or before)
    if isinstance(delta, TimerFired) and not step.refused:
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
    found.extend(_jump_untold(step))
    if isinstance(step.taken, Forked):
        found.extend(f"timer {timer.operation} is of the lineage that was forked, and is closed" for timer in timers)
        found.extend(f"timer {timer.operation} is of the lineage that was forked, and waited for" for timer in pending)
    elif isinstance(delta, Acquired | Resumed):
        found.extend(_not_started_anew(step, pending, timers))
    else:
        found.extend(_left_running(step, before, pending, timers))
        found.extend(outside_timers(step, timers))  # also where a delay is missing, and no other one is pending
    return found if judged or found else None


def _jump_untold(step: JudgedStep) -> Iterator[str]:
    """DELTA-7: a clock that is found to be behind the log is told, once, by as much; nothing else is told of."""
    behind_ms = step.taken.clock_behind_ms if isinstance(step.taken, Resumed) else 0
    told = [effect.by_ms for effect in step.told(ClockJumped)]
    if told != ([-behind_ms] if behind_ms > 0 else []):
        yield f"the clock was found {behind_ms} ms behind the log, and what is told of it is {told}"


def _timers_to_judge(
    step: JudgedStep, timers: list[StartTimer | CancelTimer]
) -> tuple[tuple[Timer, ...], tuple[Timer, ...]]:
    """What is pending before and after the step. Where that is enough, only of calls that have changed.

    It is, if the state before has been judged, and the step is about no other timer than these and new ones.
    """
    delta, session = step.delta, step.session_before
    if step.memory.knows(step.before) and session is not None and not isinstance(delta, Acquired | Resumed | Forked):
        before = (*_timers_of([one for _, one, _ in step.changes]), *_timers_beside_calls(step.before))
        pending = (*_timers_of([one for _, _, one in step.changes]), *_timers_beside_calls(step.after))
        known = {timer.operation for timer in before}
        about = {timer.operation for timer in (*timers, *pending)} | _fired(step)
        if all(operation in known or operation > session.operations.minted[OperationKind.TIMER] for operation in about):
            return before, pending
    return pending_timers(step.before), pending_timers(step.after)


def _fired(step: JudgedStep) -> set[TimerOperation]:
    return {step.delta.operation} if isinstance(step.delta, TimerFired) else set()


def _not_started_anew(
    step: JudgedStep, pending: tuple[Timer, ...], timers: list[StartTimer | CancelTimer]
) -> Iterator[str]:
    """A restart outlives all timers: what is still waited for is timed anew, a retry for the same time (RESUME-3)."""
    started = {timer.operation for timer in timers}
    for timer in pending if not step.refused else ():
        if timer.operation not in started:
            yield f"timer {timer.operation} ({timer.purpose.value}) is waited for, and not started after the restart"
    if isinstance(step.before, Backoff) and isinstance(step.after, Backoff):
        before_ms, after_ms = step.before.timer.deadline_ms, step.after.timer.deadline_ms
        if before_ms != after_ms:
            yield f"the retry was due at {before_ms} ms, and is at {after_ms} ms since the restart"


def _left_running(
    step: JudgedStep,
    before: tuple[Timer, ...],
    pending: tuple[Timer, ...],
    timers: list[StartTimer | CancelTimer],
) -> Iterator[str]:
    """A delay that is no longer waited for is closed, unless its end is this step."""
    delta = step.delta
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

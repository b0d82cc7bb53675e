"""A log, folded: the deltas of a run with their times give its states and effects again, bit for bit; and forked.

Nothing here decides anything: each step is one call of `transition` (rules DELTA-1 and RESUME-1).
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from loopkernel.data.errors import OtherRules, demand_kind, quoted
from loopkernel.data.records import LogRecord, StepRecord
from loopkernel.data.states import Done, Initial, State
from loopkernel.data.steps import Context, Step
from loopkernel.data.thread_deltas import RULES_VERSION, Created, Forked
from loopkernel.loop.transition import transition as kernel_transition

__all__ = ["START", "LogRecord", "StepRecord", "Transition", "first_divergence", "fold", "fork", "replay"]

Transition: TypeAlias = Callable[[State, Context], Step[State]]

START = Initial()  # where every log begins


def fold(
    records: Iterable[LogRecord], start: State = START, *, transition: Transition = kernel_transition
) -> tuple[StepRecord, ...]:
    """Every step of the run that the log describes, in order. Keeps all states: they share their parts.

    Raises OtherRules where the log was begun under another version of the rules, TypeError for what is not a record.
    """
    steps: list[StepRecord] = []
    state = start
    for record in records:
        context = _context_of(record, len(steps), state)
        steps.append(StepRecord(state, context, *transition(state, context)))
        state = steps[-1].after
    return tuple(steps)


def replay(records: Iterable[LogRecord], start: State = START, *, transition: Transition = kernel_transition) -> State:
    """The state that the log leads to; `start` where the log is empty.

    Raises OtherRules where the log was begun under another version of the rules, TypeError for what is not a record.
    """
    state = start
    for place, record in enumerate(records):
        state = transition(state, _context_of(record, place, state)).next
    return state


def _context_of(record: LogRecord, place: int, state: State) -> Context:
    """What the record says that came in, and when."""
    demand_kind(record, (LogRecord,), f"record {place + 1} must be a LogRecord: read texts with codec.record_from_text")
    delta = record.delta
    if state.session is None and isinstance(delta, Created) and delta.rules_version != RULES_VERSION:
        raise OtherRules(delta.rules_version, RULES_VERSION)
    return Context(delta, record.now_ms)


def fork(records: Sequence[LogRecord], at: int, session_id: str, now_ms: int) -> tuple[LogRecord, ...]:
    """The log of a new lineage that leaves the old one after its first `at` records (rule RESUME-6).

    Write it to a store of its own and open that; the old log is not touched. Each fork of a log needs a `session_id` of
    its own, since the idempotency keys of tool runs are made from it. Raises ValueError where there is nothing to fork
    or the id is not a new one, and OtherRules as `replay` does.
    """
    if not 0 <= at <= len(records):
        raise ValueError(f"cannot fork after record {at}: the log has {len(records)} records")
    begun = tuple(records[:at])
    state = replay(begun)
    if state.session is None:
        raise ValueError(f"cannot fork after record {at}: no session has been created by then")
    if isinstance(state, Initial):
        raise ValueError(f"cannot fork after record {at}: nobody owns the session then; fork while it is acquired")
    if isinstance(state, Done):
        raise ValueError(f"cannot fork after record {at}: the run is over ({state.reason.value}); fork before its end")
    before = [record.delta.session_id for record in begun if isinstance(record.delta, Created | Forked)]
    if not session_id or session_id in before:
        raise ValueError(f"cannot fork as session {quoted(session_id)}: give the fork an id that no other log has")
    return (*begun, LogRecord(Forked(session_id=session_id), now_ms))


def first_divergence(left: Sequence[StepRecord], right: Sequence[StepRecord]) -> int | None:
    """The index of the first step in which two runs differ, None if they are the same.

    Where one run is the beginning of the other, the index is the length of the shorter.
    """
    for index, (one, other) in enumerate(zip(left, right, strict=False)):
        if one != other:
            return index
    return None if len(left) == len(right) else min(len(left), len(right))

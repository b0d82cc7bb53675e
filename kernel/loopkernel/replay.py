"""A log, folded: the deltas of a run with their times give its states and effects again, bit for bit.

Nothing here decides anything: each step is one call of `transition` (rules DELTA-1 and RESUME-1).
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from loopkernel.data.records import LogRecord, StepRecord
from loopkernel.data.states import Initial, State
from loopkernel.data.steps import Context, Step
from loopkernel.transition import transition as kernel_transition

__all__ = ["LogRecord", "StepRecord", "Transition", "first_divergence", "fold", "replay"]

Transition: TypeAlias = Callable[[State, Context], Step[State]]

START = Initial()  # where every log begins


def fold(
    records: Iterable[LogRecord], start: State = START, *, transition: Transition = kernel_transition
) -> tuple[StepRecord, ...]:
    """Every step of the run that the log describes, in order. Keeps all states: they share their parts."""
    steps: list[StepRecord] = []
    state = start
    for record in records:
        context = Context(record.delta, record.now_ms)
        after, effects = transition(state, context)
        steps.append(StepRecord(state, context, after, effects))
        state = after
    return tuple(steps)


def replay(records: Iterable[LogRecord], start: State = START, *, transition: Transition = kernel_transition) -> State:
    """The state that the log leads to; `start` where the log is empty."""
    state = start
    for record in records:
        state = transition(state, Context(record.delta, record.now_ms)).next
    return state


def first_divergence(left: Sequence[StepRecord], right: Sequence[StepRecord]) -> int | None:
    """The index of the first step in which two runs differ, None if they are the same.

    Where one run is the beginning of the other, the index is the length of the shorter.
    """
    for index, (one, other) in enumerate(zip(left, right, strict=False)):
        if one != other:
            return index
    return None if len(left) == len(right) else min(len(left), len(right))

"""A run, a delta at a time: the one loop around `transition` under every player of the kit.

A player is a run and its own choice of the next delta: by hand, by a scenario, by dice, or from what a driver writes.
"""

from collections.abc import Iterable

from loopkernel.data.deltas import Delta
from loopkernel.data.records import LogRecord, StepRecord
from loopkernel.data.states import State
from loopkernel.data.steps import Context
from loopkernel.later_typing import override
from loopkernel.loop.transition import transition as kernel_transition
from loopkernel.replaying import START, Transition


def log_of(steps: Iterable[StepRecord]) -> tuple[LogRecord, ...]:
    """What came in, and when."""
    return tuple(LogRecord(step.context.delta, step.context.now_ms) for step in steps)


class Run:
    """A kernel's state, its steps so far, and its clock. It is shown as its log, since states are long."""

    def __init__(self, transition: Transition = kernel_transition) -> None:
        self.transition = transition
        self.state: State = START
        self.steps: list[StepRecord] = []
        self.now_ms = 0

    def take(self, delta: Delta, now_ms: int | None = None) -> StepRecord:
        """One step, by the clock or at another time. Where the kernel raises, nothing has happened."""
        context = Context(delta, self.now_ms if now_ms is None else now_ms)
        step = StepRecord(self.state, context, *self.transition(self.state, context))
        self.steps.append(step)
        self.state = step.after
        return step

    @property
    def log(self) -> tuple[LogRecord, ...]:
        """What came in, and when."""
        return log_of(self.steps)

    @override
    def __repr__(self) -> str:
        return "".join(f"\n    {record.now_ms} ms: {record.delta}" for record in self.log)

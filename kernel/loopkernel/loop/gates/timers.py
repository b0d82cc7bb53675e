"""Pending delays: minted with their deadlines, and closed (laws TIMER-DATA and CANCEL-2)."""

from loopkernel.data.effects import CancelTimer, Effect, StartTimer
from loopkernel.data.ids import OperationKind, TimerOperation
from loopkernel.data.operations import Operations
from loopkernel.data.timers import Timer
from loopkernel.data.words import TimerPurpose


def start_timer(
    operations: Operations, purpose: TimerPurpose, deadline_ms: int
) -> tuple[Operations, Timer, StartTimer]:
    """A new delay until the deadline."""
    operations, number = operations.mint(OperationKind.TIMER)
    timer = Timer(TimerOperation(number), purpose, deadline_ms)
    return operations, timer, StartTimer(operation=timer.operation, purpose=purpose, deadline_ms=deadline_ms)


def close_timer(timer: Timer | None) -> tuple[Effect, ...]:
    """What the delay was for is over."""
    return () if timer is None else (CancelTimer(timer.operation),)

"""Pending delays as data: a deadline in state and a timer outside (rule RETRY-4)."""

from typing import final

from loopkernel.data.ids import TimerOperation
from loopkernel.data.value_classes import frozen
from loopkernel.data.words import TimerPurpose


@final
@frozen
class Timer:
    """A delay that is pending until `deadline_ms`."""

    operation: TimerOperation
    purpose: TimerPurpose
    deadline_ms: int

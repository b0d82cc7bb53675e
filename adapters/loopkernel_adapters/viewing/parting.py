"""Where two runs part: the first step that is not as that of the other, whenever it came.

Two runs of one task differ in their names, and in what they were begun under; that alone is not where they part.
"""

from collections.abc import Sequence

from loopkernel.data.deltas import Delta
from loopkernel.data.records import LogRecord
from loopkernel.data.thread_deltas import Acquired, Created


def parting_step(left: Sequence[LogRecord], right: Sequence[LogRecord]) -> int | None:
    """The number of the first step whose deltas differ, from 1; None: the runs take the same steps."""
    for number, (one, other) in enumerate(zip(left, right, strict=False), start=1):
        if not _same(one.delta, other.delta):
            return number
    return None if len(left) == len(right) else min(len(left), len(right)) + 1


def _same(one: Delta, other: Delta) -> bool:
    return one == other or (type(one) is type(other) and isinstance(one, Created | Acquired))

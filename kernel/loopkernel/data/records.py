"""What is kept of a run: the log's records, from which everything follows, and the steps that they lead to."""

from typing import final

from loopkernel.data.checked_fields import checked_fields
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import Effect
from loopkernel.data.states import State
from loopkernel.data.steps import Context
from loopkernel.data.value_classes import frozen, maker


@final
@frozen(field_transformer=checked_fields)
class LogRecord:
    """A delta and the time, in milliseconds, at which it was applied."""

    delta: Delta
    now_ms: int


new_record = maker(LogRecord)


@final
@frozen
class StepRecord:
    """One step, whole: what laws judge and replays compare."""

    before: State
    context: Context
    after: State
    effects: tuple[Effect, ...]

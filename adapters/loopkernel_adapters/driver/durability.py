"""Which records must be durable at once, which may wait for the next that must, and when a snapshot is kept."""

from loopkernel.data.deltas import Delta
from loopkernel.data.effects import Effect
from loopkernel.data.model_deltas import FromModel, ModelInput, ModelReasoning, ModelText
from loopkernel.data.tool_deltas import FromTool, ToolProgress

INCREMENTS = frozenset({ModelText, ModelReasoning, ModelInput, ToolProgress})
RECORDS_PER_GROUP = 64  # so many increments are handed to the store at the latest
EVERY = 5_000  # records: to fold so many costs a quarter of a second
WORTH_CLOSING = 500  # records: to fold so many costs as much as a person notices
SHARE = 4  # a snapshot of a long thread is dear, so the log has to grow by a quarter between two of them


def must_last(delta: Delta, effects: tuple[Effect, ...], at_rest: bool) -> bool:
    """Whether the record is made durable at once, even if no command follows from it.

    Not so an increment, nor a report from which nothing follows yet: nobody has been told anything that the
    loss of it would take back. But at rest, nothing may follow for a long time.
    """
    if type(delta) in INCREMENTS:
        return False
    return at_rest or bool(effects) or not isinstance(delta, FromModel | FromTool)


def snapshot_due(records_since: int, closing: bool, records_before: int = 0) -> bool:
    """Whether to keep a snapshot now, so many records after the last one (or the beginning).

    `records_before` is how many records the last one covers. Writing a snapshot costs as much as the thread is long, so
    they become rarer as the log grows: then all of them together cost no more than a fixed part of each record.
    """
    if closing:
        return records_since > max(WORTH_CLOSING, records_before // (SHARE * 10))
    return records_since >= max(EVERY, records_before // SHARE)

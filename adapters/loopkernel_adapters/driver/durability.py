"""Which records must be durable at once, and which may wait for the next that must."""

from loopkernel.data.deltas import Delta
from loopkernel.data.effects import Effect
from loopkernel.data.model_deltas import FromModel, ModelInput, ModelReasoning, ModelText
from loopkernel.data.tool_deltas import FromTool, ToolProgress

INCREMENTS = frozenset({ModelText, ModelReasoning, ModelInput, ToolProgress})
RECORDS_PER_GROUP = 64  # so many increments are handed to the store at the latest


def must_last(delta: Delta, effects: tuple[Effect, ...], at_rest: bool) -> bool:
    """Whether the record is made durable at once, even if no command follows from it.

    Not so an increment, nor a report from which nothing follows yet: nobody has been told anything that the
    loss of it would take back. But at rest, nothing may follow for a long time.
    """
    if type(delta) in INCREMENTS:
        return False
    return at_rest or bool(effects) or not isinstance(delta, FromModel | FromTool)

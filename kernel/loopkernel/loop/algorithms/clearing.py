"""Bodies of old results are cleared, and what says which call they answered stays (rule TOOL-11); usable alone."""

from collections.abc import Collection

from attrs import evolve

from loopkernel.data.blocks import TextBlock, ToolResult
from loopkernel.data.ids import CallId
from loopkernel.data.messages import ResultMessage

CLEARED = "(The output of this call was removed to save space. Call the tool again if you need it.)"
_BODY = (TextBlock(CLEARED),)


def is_cleared(result: ToolResult) -> bool:
    """Whether the body has been cleared."""
    return result.content == _BODY


def cleared(result: ToolResult) -> ToolResult:
    """The result with a note in place of its body; the same object if it has been cleared."""
    return result if is_cleared(result) else evolve(result, content=_BODY)


def cleared_message(message: ResultMessage, calls: Collection[CallId]) -> ResultMessage:
    """The message with the results of these calls cleared; the same object if nothing changes."""
    results = tuple(cleared(result) if result.call in calls else result for result in message.results)
    return message if results == message.results else evolve(message, results=results)

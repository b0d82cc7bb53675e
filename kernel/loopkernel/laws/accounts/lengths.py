"""How many characters of a message a model reads: as laws count them (rule COMPACT-1)."""

from loopkernel.data.blocks import (
    MediaBlock,
    OpaqueBlock,
    ReasoningBlock,
    ServerCall,
    TextBlock,
    ToolCall,
)
from loopkernel.data.messages import Message, ResultMessage


def length_of(message: Message) -> int:
    """Those of texts, payloads, names and inputs of calls, and results; media have none."""
    if isinstance(message, ResultMessage):
        return sum(_length(block) for result in message.results for block in result.content)
    return sum(map(_length, message.content))


def _length(block: TextBlock | MediaBlock | ReasoningBlock | OpaqueBlock | ToolCall | ServerCall) -> int:
    if isinstance(block, ToolCall | ServerCall):
        return len(block.tool) + len(block.input.text)
    if isinstance(block, OpaqueBlock):
        return len(block.payload.text)
    return 0 if isinstance(block, MediaBlock) else len(block.text)

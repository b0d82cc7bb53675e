"""A request as messages: what a provider is given, in the two roles that providers know (rule INFER-2)."""

import enum
from typing import final

from loopkernel.data.blocks import (
    MediaBlock,
    OpaqueBlock,
    ReasoningBlock,
    ServerCall,
    TextBlock,
    ToolCall,
    ToolResult,
)
from loopkernel.data.value_classes import frozen


class Role(enum.Enum):
    """Who speaks, as providers know it; results are the user's."""

    USER = "user"
    ASSISTANT = "assistant"


ProjectedBlock = TextBlock | MediaBlock | ReasoningBlock | OpaqueBlock | ToolCall | ServerCall | ToolResult


@final
@frozen
class ProjectedMessage:
    """One message of a request; never empty."""

    role: Role
    content: tuple[ProjectedBlock, ...]

"""The thread and what stands in it; and conversations from elsewhere, which a run can begin from.

Public: all that stands in `__all__`.
"""

from loopkernel.data.blocks import (
    AssistantBlock,
    MediaBlock,
    OpaqueBlock,
    RawInput,
    ReasoningBlock,
    ServerCall,
    TextBlock,
    ToolCall,
    ToolResult,
    UserBlock,
    text_of,
)
from loopkernel.data.foreign import (
    ForeignCall,
    ForeignMessage,
    ForeignReply,
    ForeignResult,
    ForeignResults,
    ForeignUser,
)
from loopkernel.data.ids import CallId
from loopkernel.data.json_text import Json, JsonValue
from loopkernel.data.messages import AssistantMessage, Message, ReplyState, ResultMessage, UserMessage, UserOrigin
from loopkernel.data.threads import Thread
from loopkernel.data.usage import Usage
from loopkernel.data.words import CallStatus, CancelReason

__all__ = [
    "AssistantBlock",
    "AssistantMessage",
    "CallId",
    "CallStatus",
    "CancelReason",
    "ForeignCall",
    "ForeignMessage",
    "ForeignReply",
    "ForeignResult",
    "ForeignResults",
    "ForeignUser",
    "Json",
    "JsonValue",
    "MediaBlock",
    "Message",
    "OpaqueBlock",
    "RawInput",
    "ReasoningBlock",
    "ReplyState",
    "ResultMessage",
    "ServerCall",
    "TextBlock",
    "Thread",
    "ToolCall",
    "ToolResult",
    "Usage",
    "UserBlock",
    "UserMessage",
    "UserOrigin",
    "text_of",
]

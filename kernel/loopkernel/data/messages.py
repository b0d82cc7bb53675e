"""Messages, as the thread keeps them. A result message stands right after the reply whose calls it answers."""

import enum
from typing import final

from attrs import field

from loopkernel.data.blocks import AssistantBlock, ToolCall, ToolResult, UserBlock, content_of
from loopkernel.data.checked_fields import checked_fields
from loopkernel.data.ids import MessageId, ModelOperation, ReceiptId
from loopkernel.data.usage import NO_USAGE, Usage
from loopkernel.data.value_classes import frozen, maker
from loopkernel.data.words import StopReason


class UserOrigin(enum.Enum):
    """Who put a user message into the thread: the user, or the kernel for a named reason."""

    SAID = "said"
    QUEUED = "queued"
    STEERED = "steered"
    NUDGE = "nudge"
    CONTINUATION = "continuation"
    STOP_HOOK = "stop_hook"
    CORRECTION = "correction"
    ERROR_FEEDBACK = "error_feedback"
    LOOP_NOTE = "loop_note"
    SUMMARY = "summary"
    GAP_NOTE = "gap_note"
    BACKGROUND_RESULT = "background_result"
    CALL_NOTE = "call_note"
    HOOK = "hook"


SENT_BY_USER = frozenset({UserOrigin.SAID, UserOrigin.QUEUED, UserOrigin.STEERED})


class ReplyState(enum.Enum):
    """Whether a reply in the thread is whole, or was cut by a cancel (rule INPUT-5)."""

    COMPLETE = "complete"
    CANCELLED = "cancelled"


@final
@frozen(kw_only=True, field_transformer=checked_fields)
class UserMessage:
    """What the user, or the kernel in the user's place, told the model."""

    id: MessageId
    content: tuple[UserBlock, ...] = field(converter=content_of)
    origin: UserOrigin = UserOrigin.SAID
    receipt: ReceiptId | None = None


@final
@frozen(kw_only=True, field_transformer=checked_fields)
class AssistantMessage:
    """One reply of the model. `reply` is the number of its request; `stop` is None when it was cancelled."""

    id: MessageId
    reply: ModelOperation
    model: str
    content: tuple[AssistantBlock, ...]
    stop: StopReason | None
    state: ReplyState = ReplyState.COMPLETE
    usage: Usage = NO_USAGE

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The calls to answer, in the model's order."""
        return tuple(block for block in self.content if isinstance(block, ToolCall))


new_assistant_message = maker(AssistantMessage)


@final
@frozen(kw_only=True, field_transformer=checked_fields)
class ResultMessage:
    """The answers to the calls of one reply, in the order of the calls (rule TOOL-8)."""

    id: MessageId
    reply: ModelOperation
    results: tuple[ToolResult, ...]


Message = UserMessage | AssistantMessage | ResultMessage

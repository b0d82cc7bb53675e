"""What messages are made of: text, reasoning, media, opaque items, tool calls and tool results."""

from collections.abc import Iterable
from typing import TypeAlias, final

from attrs import field

from loopkernel.data.checked_fields import checked_fields
from loopkernel.data.ids import CallId
from loopkernel.data.json_text import Json
from loopkernel.data.value_classes import frozen, maker
from loopkernel.data.words import CallStatus, CancelReason


@final
@frozen(field_transformer=checked_fields)
class TextBlock:
    """Text, of any length. Lone surrogates are replaced when the block is built."""

    text: str


@final
@frozen(field_transformer=checked_fields)
class ReasoningBlock:
    """The model's visible reasoning."""

    text: str


@final
@frozen(field_transformer=checked_fields)
class MediaBlock:
    """An image or another file: its media type, and a reference that the adapter resolves, or base64 data."""

    media_type: str
    data: str


@final
@frozen(field_transformer=checked_fields)
class OpaqueBlock:
    """A provider's own item (signed reasoning, redacted thinking), returned verbatim to its model alone."""

    model: str
    payload: Json


@final
@frozen(field_transformer=checked_fields)
class RawInput:
    """Tool arguments that do not parse, kept as they came."""

    text: str


@final
@frozen(kw_only=True, field_transformer=checked_fields)
class ToolCall:
    """A call that the model made.

    `provider_id` is data, never an identity (rule TOOL-14). `after` holds the provider's
    ids of the earlier calls of the same reply that it declares to depend on.
    """

    id: CallId
    provider_id: str
    tool: str
    input: Json | RawInput
    after: tuple[str, ...] = ()


new_call = maker(ToolCall)


@final
@frozen(kw_only=True, field_transformer=checked_fields)
class ServerCall:
    """A call that the provider ran itself; part of the reply, no answer owed (rule TOOL-15)."""

    provider_id: str
    tool: str
    input: Json
    result: Json | None = None


UserBlock = TextBlock | MediaBlock
Content: TypeAlias = str | UserBlock | Iterable[UserBlock]


def content_of(given: Content) -> Content:
    """The blocks: a text is a block of its own. What else was given is for the field to judge."""
    if isinstance(given, str):
        return (TextBlock(given),)
    if isinstance(given, TextBlock | MediaBlock):
        return (given,)
    return given  # a tuple, or what the field makes one of, or refuses


AssistantBlock = TextBlock | ReasoningBlock | OpaqueBlock | ToolCall | ServerCall


@final
@frozen(kw_only=True, field_transformer=checked_fields)
class ToolResult:
    """The one answer to a call. `reason` says why a call that did not run, or was cut short, is closed.

    `status` is terminal. `final` and `stops_loop` are the tool's own words (rule TOOL-13); `status_from_text` says that
    the status was read from text, not from a field (rule TOOL-16). `decided`: a person answered the approval, or a
    question, of the call.
    """

    call: CallId
    provider_id: str
    tool: str
    status: CallStatus
    content: tuple[UserBlock, ...] = field(default=(), converter=content_of)
    reason: CancelReason | None = None
    ran: bool = False
    final: bool = False
    stops_loop: bool = False
    status_from_text: bool = False
    decided: bool = False


new_result = maker(ToolResult)


def text_of(content: tuple[UserBlock, ...]) -> str:
    """The text of the blocks, joined by line breaks; media have none."""
    return "\n".join([block.text for block in content if isinstance(block, TextBlock)])

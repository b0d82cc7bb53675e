"""Messages in the form that the conventions have for them, for whoever asked for content.

They come out of the log, so they have passed the filter of secrets.
"""

import json
from collections.abc import Iterable
from typing import TypeAlias, assert_never

from loopkernel.data.blocks import (
    AssistantBlock,
    MediaBlock,
    OpaqueBlock,
    ReasoningBlock,
    ServerCall,
    TextBlock,
    ToolCall,
    UserBlock,
)
from loopkernel.data.json_text import JsonValue
from loopkernel.data.messages import AssistantMessage, UserMessage

Part: TypeAlias = dict[str, JsonValue]


def messages_as_json(messages: Iterable[UserMessage | AssistantMessage]) -> str:
    """The messages as `gen_ai.input.messages` and `gen_ai.output.messages` have them."""
    return json.dumps([_message(message) for message in messages], ensure_ascii=False)


def _message(message: UserMessage | AssistantMessage) -> Part:
    match message:
        case UserMessage():
            return {"role": "user", "parts": [_said(block) for block in message.content]}
        case AssistantMessage():
            stop = "cancelled" if message.stop is None else message.stop.value
            return {
                "role": "assistant",
                "parts": [part for block in message.content for part in _replied(block)],
                "finish_reason": stop,
            }
        case _:
            assert_never(message)


def _said(block: UserBlock) -> Part:
    match block:
        case TextBlock():
            return {"type": "text", "content": block.text}
        case MediaBlock():
            return {"type": "media"}  # named, not sent: it may be megabytes
        case _:
            assert_never(block)


def _replied(block: AssistantBlock) -> Iterable[Part]:
    match block:
        case TextBlock():
            yield {"type": "text", "content": block.text}
        case ReasoningBlock():
            yield {"type": "reasoning", "content": block.text}
        case ToolCall() | ServerCall():
            yield {
                "type": "tool_call",
                "id": block.provider_id,
                "name": block.tool,
                "arguments": block.input.text,
            }
        case OpaqueBlock():
            return  # only its provider can read it
        case _:
            assert_never(block)

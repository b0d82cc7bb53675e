"""What can be read in messages: all text of a request or a thread, and who speaks."""

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import assert_never

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
    text_of,
)
from loopkernel.data.json_text import Json, JsonValue
from loopkernel.data.messages import AssistantMessage, Message, ResultMessage, UserMessage
from loopkernel.testing.scenarios.data.world import Role

Block = AssistantBlock | MediaBlock | ToolResult


def roles_of(roles: Iterable[Role]) -> tuple[Role, ...]:
    """Who speaks, neighbours of one role counted once."""
    return tuple(role for role, _ in groupby(roles))


def role_of(message: Message) -> Role:
    """Who speaks in a message of the thread; results are the user's."""
    match message:
        case UserMessage() | ResultMessage():
            return Role.USER
        case AssistantMessage():
            return Role.ASSISTANT
        case _:
            assert_never(message)


def blocks_of(message: Message) -> tuple[Block, ...]:
    """What a message of the thread is made of."""
    match message:
        case UserMessage() | AssistantMessage():
            return message.content
        case ResultMessage():
            return message.results
        case _:
            assert_never(message)


def text_in(blocks: Iterable[Block]) -> str:
    """All that can be read in the blocks."""
    return "\n".join(text for block in blocks for text in _texts(block))


def _texts(block: Block) -> Iterator[str]:
    match block:
        case TextBlock() | ReasoningBlock():
            yield block.text
        case MediaBlock():
            yield block.data
        case OpaqueBlock():
            yield from _texts_of_json(block.payload)
        case ToolCall():
            yield block.tool
            yield from _texts_of_input(block.input)
        case ServerCall():
            yield block.tool
            yield from _texts_of_json(block.input)
            if block.result is not None:
                yield from _texts_of_json(block.result)
        case ToolResult():
            yield text_of(block.content)
        case _:
            assert_never(block)


def _texts_of_input(call_input: Json | RawInput) -> Iterator[str]:
    if isinstance(call_input, RawInput):
        yield call_input.text
    else:
        yield from _texts_of_json(call_input)


def _texts_of_json(json: Json) -> Iterator[str]:
    """The JSON text, and each text in it as it reads without escapes."""
    yield json.text
    yield from _leaves(json.value())


def _leaves(value: JsonValue) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _leaves(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _leaves(item)

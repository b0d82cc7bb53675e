"""The thread as a person reads it: each message once, with the step that it came with, and the one it went with."""

from typing import assert_never

from attrs import define, evolve, field, frozen
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
)
from loopkernel.data.differences import different_items
from loopkernel.data.json_text import JsonValue
from loopkernel.data.messages import AssistantMessage, Message, ReplyState, ResultMessage, UserMessage
from loopkernel.data.threads import Thread

from loopkernel_adapters.viewing.plain import plain
from loopkernel_adapters.viewing.shown import one_line, visible

LONGEST_TEXT = 20_000  # characters of a text in the thread
LONGEST_INPUT = 4_000


@frozen
class ShownMessage:
    """A message, the step that it came with, and the one at which it was gone; None: it is still there."""

    message: Message
    step: int
    gone: int | None = None


@define
class Messages:
    """All messages that the thread of a run has had, in the order in which they came."""

    shown: list[ShownMessage] = field(factory=list)
    _thread: Thread = Thread()
    _at: dict[int, int] = field(factory=dict)  # the place in `shown` of each message that is there now, by its number

    def take(self, step: int, thread: Thread) -> None:
        """The thread is this one after the step."""
        before, self._thread = self._thread, thread
        came: dict[int, Message] = {}
        left: dict[int, Message] = {}
        for _, old, new in different_items(before.messages, thread.messages):
            if old is not None:
                left[old.id] = old
            if new is not None:
                came[new.id] = new
        stays = {number for number, message in came.items() if left.get(number) is message}
        for number in left.keys() - stays:
            place = self._at.pop(number)
            self.shown[place] = evolve(self.shown[place], gone=step)
        for number, message in came.items():
            if number not in stays:
                self._at[number] = len(self.shown)
                self.shown.append(ShownMessage(message, step))


def message_as_json(shown: ShownMessage) -> JsonValue:
    """The message as plain data."""
    message = shown.message
    told: dict[str, JsonValue] = {"id": message.id, "step": shown.step, "gone": shown.gone}
    match message:
        case UserMessage():
            told |= {"who": "user", "origin": message.origin.value, "parts": [_given(part) for part in message.content]}
        case AssistantMessage():
            told |= {
                "who": "model",
                "model": one_line(message.model, 100),
                "reply": message.reply,
                "cut": message.state is not ReplyState.COMPLETE,
                "stop": None if message.stop is None else message.stop.value,
                "tokens": [message.usage.input, message.usage.output],
                "parts": [_said(part) for part in message.content],
            }
        case ResultMessage():
            told |= {"who": "tools", "reply": message.reply, "parts": [_result(part) for part in message.results]}
        case _:
            assert_never(message)
    return told


def _given(block: UserBlock) -> JsonValue:
    match block:
        case TextBlock():
            return {"is": "text", "text": visible(block.text, LONGEST_TEXT)}
        case MediaBlock():
            told = f"{one_line(block.media_type, 60)}, {len(block.data)} characters of data or reference"
            return {"is": "media", "text": told}
        case _:
            assert_never(block)


def _said(block: AssistantBlock) -> JsonValue:
    match block:
        case TextBlock():
            return {"is": "text", "text": visible(block.text, LONGEST_TEXT)}
        case ReasoningBlock():
            return {"is": "thought", "text": visible(block.text, LONGEST_TEXT)}
        case OpaqueBlock():
            return {"is": "opaque", "text": "an item of its provider, kept as it is"}
        case ServerCall():
            given = plain(block.input, LONGEST_INPUT)
            return {"is": "server call", "tool": one_line(block.tool, 100), "input": given, "text": ""}
        case ToolCall():
            made = plain(block.input.text if isinstance(block.input, RawInput) else block.input, LONGEST_INPUT)
            return {"is": "call", "call": str(block.id), "tool": one_line(block.tool, 100), "input": made, "text": ""}
        case _:
            assert_never(block)


def _result(result: ToolResult) -> JsonValue:
    parts = [_given(block) for block in result.content]
    return {
        "is": "result",
        "call": str(result.call),
        "tool": one_line(result.tool, 100),
        "status": result.status.value,
        "reason": None if result.reason is None else result.reason.value,
        "ran": result.ran,
        "parts": parts,
    }

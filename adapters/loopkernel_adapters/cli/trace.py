"""The events of a run, as lines for a reader: one for each event, and the reply as it streams."""

import enum
import re
from typing import TypeAlias, assert_never

import attrs
from loopkernel.data import events
from loopkernel.data.blocks import (
    AssistantBlock,
    OpaqueBlock,
    ReasoningBlock,
    ServerCall,
    TextBlock,
    ToolCall,
    UserBlock,
    text_of,
)
from loopkernel.data.events import Event
from loopkernel.data.messages import AssistantMessage, Message, ResultMessage, UserMessage

from loopkernel_adapters.cli.screen import Screen, in_one_line

_CAPITAL = re.compile(r"(?<!^)(?=[A-Z])")


# Events that need no words of their own.
PlainEvent: TypeAlias = (
    events.ReplyFailed
    | events.ReplyAborted
    | events.ReplyRetracted
    | events.OpaqueDropped
    | events.ApprovalRemembered
    | events.EditRefused
    | events.LeaseBroken
    | events.Queued
    | events.Dequeued
    | events.Discarded
    | events.Steered
    | events.Edited
    | events.RetryScheduled
    | events.ErrorCleared
    | events.CompactionStarted
    | events.CompactionEnded
    | events.ThreadRewritten
    | events.ResultsCleared
    | events.ChildStarted
    | events.ChildFinished
    | events.CorrectionChecked
    | events.CorrectionInjected
    | events.HandoffStarted
    | events.HandoffEnded
    | events.LoopNoted
    | events.ToolDisabled
    | events.LoopStopped
    | events.LimitReached
    | events.ThreadRepaired
    | events.WorkCancelled
    | events.LineageForked
    | events.SessionResumed
)


class Trace:
    """Shows events; an observer of the driver."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen

    def show(self, event: Event) -> None:
        """Write the event's line, or its piece of the reply."""
        if isinstance(event, events.ReplyGrew):
            self._screen.stream("thought" if event.reasoning else "model", event.text)
        else:
            self._screen.labelled(*labelled(event))


def labelled(event: Event) -> tuple[str, str]:
    """The label and the text of the event's line."""
    if isinstance(event, PlainEvent):
        return _plain(event)
    match event:
        case events.ReplyGrew():
            return "model", event.text
        case events.RunStarted():
            return "run", f"started, session {event.session_id}"
        case events.MessageAdded():
            return _message(event.message)
        case events.CallAppeared():
            return f"call {event.call}", event.tool
        case events.ToolEnded():
            result = event.result
            why = f" ({result.reason.value})" if result.reason is not None else ""
            return f"result {result.call}", f"{result.status.value}{why}: {_content(result.content)}"
        case events.ToolProgressed():
            return f"tool {event.call}", in_one_line(event.text)
        case events.ApprovalAsked():
            return f"ask {event.call}", "waits for approval"
        case events.QuestionAsked():
            return f"question {event.call}", in_one_line(event.question)
        case events.ReplyEnded():
            return "reply", f"{event.reply}: ended, {event.stop.value}"
        case events.InputSettled():
            return "input", f"{event.receipt}: {event.fate.value}"
        case events.Refused():
            return "refused", f"{event.action.value}: {event.reason.value}"
        case events.ErrorShown():
            return "error", f"{event.error.value}: {in_one_line(event.message)}"
        case events.TurnEnded():
            usage = event.usage
            return "turn", f"ended: {event.reason.value}; {usage.input} tokens in, {usage.output} out"
        case _:
            assert_never(event)


def _plain(event: PlainEvent) -> tuple[str, str]:
    """The name of the event and its fields."""
    name = _CAPITAL.sub(" ", type(event).__name__).lower()
    fields = ", ".join(f"{key} {_value(value)}" for key, value in attrs.asdict(event, recurse=False).items())
    return "event", in_one_line(f"{name}: {fields}" if fields else name)


def _value(value: object) -> str:
    if isinstance(value, enum.Enum):
        return str(value.value)
    return f"{len(value)} items" if isinstance(value, tuple) else str(value)


def _message(message: Message) -> tuple[str, str]:
    match message:
        case UserMessage():
            return "user", _content(message.content)
        case AssistantMessage():
            parts = map(_reply_part, message.content)
            return "message", f"{message.id}: reply {message.reply}, {', '.join(parts) or 'empty'}"
        case ResultMessage():
            return "message", f"{message.id}: results of reply {message.reply}, {len(message.results)} of them"
        case _:
            assert_never(message)


def _reply_part(block: AssistantBlock) -> str:
    match block:
        case TextBlock():
            return f"{len(block.text)} characters of text"
        case ReasoningBlock():
            return f"{len(block.text)} characters of thought"
        case ToolCall():
            return f"call {block.id} {block.tool} {in_one_line(block.input.text)}"
        case ServerCall():
            return f"a call of {block.tool} that the provider ran"
        case OpaqueBlock():
            return "an opaque block"
        case _:
            assert_never(block)


def _content(content: tuple[UserBlock, ...]) -> str:
    media = sum(not isinstance(block, TextBlock) for block in content)
    return in_one_line(text_of(content)) + (f" ({media} media)" if media else "")

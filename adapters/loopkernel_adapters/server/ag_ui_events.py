"""What happens in a run, as events of AG-UI: a fold over its events, each of which is decided on here.

What the protocol has an event for is told by that. All else passes as `CUSTOM`, under its own name, so that nothing is
kept from a client that knows this project. What cannot be taken back in a stream is mended at its end, by a snapshot.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Literal, TypeAlias, assert_never

from ag_ui.core import (
    AssistantMessage as ShownAssistantMessage,
)
from ag_ui.core import (
    BaseEvent,
    CustomEvent,
    FunctionCall,
    MessagesSnapshotEvent,
    ReasoningEndEvent,
    ReasoningMessage,
    ReasoningMessageContentEvent,
    ReasoningMessageEndEvent,
    ReasoningMessageStartEvent,
    ReasoningStartEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)
from ag_ui.core import Message as ShownMessage
from ag_ui.core import ToolCall as ShownToolCall
from ag_ui.core import ToolMessage as ShownToolMessage
from ag_ui.core import UserMessage as ShownUserMessage
from loopkernel.codec import effects_to_text
from loopkernel.data import events
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
from loopkernel.data.ids import CallId, ModelOperation
from loopkernel.data.json_text import Json
from loopkernel.data.messages import SENT_BY_USER, AssistantMessage, Message, ResultMessage, UserMessage
from loopkernel.data.states import State

from loopkernel_adapters.driver.children import WITH_CALLS
from loopkernel_adapters.server.ag_ui_content import parts_of

Shown: TypeAlias = Iterator[BaseEvent]

_CALLS = ToolCall | ServerCall

# Events that the protocol has no word for: they pass under their own names.
Passed = (
    events.RunStarted
    | events.Refused
    | events.InputSettled
    | events.OpaqueDropped
    | events.Queued
    | events.Dequeued
    | events.Discarded
    | events.Steered
    | events.RetryScheduled
    | events.ErrorShown
    | events.ErrorCleared
    | events.LimitReached
    | events.ThreadRepaired
    | events.WorkCancelled
    | events.LineageForked
    | events.SessionResumed
    | events.ClockJumped
    | events.TurnEnded
    | events.ToolProgressed
    | events.ApprovalAsked
    | events.ApprovalRemembered
    | events.ApprovalForgotten
    | events.EditRefused
    | events.QuestionAsked
    | events.LeaseBroken
    | events.CompactionStarted
    | events.CompactionEnded
    | events.ThreadCompacted
    | events.ResultsCleared
    | events.ChildStarted
    | events.ChildAsked
    | events.ChildFinished
    | events.CorrectionChecked
    | events.CorrectionInjected
    | events.HandoffStarted
    | events.HandoffEnded
    | events.LoopNoted
    | events.ToolDisabled
    | events.LoopStopped
)


class Translation:
    """What a client is told of each event, given what it was told of those before."""

    def __init__(self, sent: frozenset[str] = frozenset()) -> None:
        """`sent`: the calls whose results the client has sent itself."""
        self._sent = sent
        self._streaming: tuple[str, bool] | None = None  # the message that is open, and whether it is reasoning
        self._pieces = 0  # messages that were begun, so that each has a name of its own
        self._said: dict[tuple[ModelOperation, bool], str] = {}  # what was told of replies; true: their reasoning
        self._calls: set[CallId] = set()  # that were told
        self._answered: set[CallId] = set()
        self.differs = False  # whether the client has what the thread has not

    def of(self, event: events.Event, state: State) -> Shown:
        """What to tell of the event; `state` is what it, or what has happened since, has led to."""
        if isinstance(event, Passed):
            yield _custom(event)
            return
        match event:
            case events.ReplyGrew():
                yield from self._grown(event)
            case events.CallAppeared():
                yield from self.close()
                yield from self._called(event.call, event.tool, _input_of(event.call, state), event.call.reply)
            case events.MessageAdded():
                yield from self._added(event.message)
            case events.ToolEnded():
                yield from self._ended(event.result)
            case events.ReplyEnded() | events.ReplyAborted() | events.ReplyFailed():
                yield from self.close()
                yield _custom(event)
            case events.ReplyRetracted():
                yield from self.close()
                self.differs = self.differs or self._was_told(event.reply)
                yield _custom(event)
            case events.Edited() | events.ThreadCut() | events.ThreadRewritten() | events.MessageReplaced():
                self.differs = True
                yield _custom(event)
            case _:
                assert_never(event)

    def close(self) -> Shown:
        """End the message that is open, if one is."""
        if self._streaming is None:
            return
        (name, reasoning), self._streaming = self._streaming, None
        if reasoning:
            yield ReasoningMessageEndEvent(message_id=name)
            yield ReasoningEndEvent(message_id=name)
        else:
            yield TextMessageEndEvent(message_id=name)

    def _grown(self, event: events.ReplyGrew) -> Shown:
        if not event.text:
            return
        if self._streaming is None or self._streaming[1] != event.reasoning:
            yield from self.close()
            yield from self._begun(event.reply, event.reasoning)
        assert self._streaming is not None  # it was begun above
        name = self._streaming[0]
        kind = event.reply, event.reasoning
        self._said[kind] = self._said.get(kind, "") + event.text
        if event.reasoning:
            yield ReasoningMessageContentEvent(message_id=name, delta=event.text)
        else:
            yield TextMessageContentEvent(message_id=name, delta=event.text)

    def _begun(self, reply: ModelOperation, reasoning: bool) -> Shown:
        self._pieces += 1
        name = f"reply-{reply}-{self._pieces}"
        self._streaming = name, reasoning
        if reasoning:
            yield ReasoningStartEvent(message_id=name)
            yield ReasoningMessageStartEvent(message_id=name, role="reasoning")
        else:
            yield TextMessageStartEvent(message_id=name, role="assistant")

    def _added(self, message: Message) -> Shown:
        match message:
            case UserMessage() if message.origin in SENT_BY_USER:
                return  # whoever has sent it has it
            case UserMessage():
                name = f"message-{message.id}"
                yield TextMessageStartEvent(message_id=name, role="user")
                yield TextMessageContentEvent(message_id=name, delta=_words(message.content))
                yield TextMessageEndEvent(message_id=name)
            case AssistantMessage():
                yield from self._completed(message)
            case ResultMessage():
                for result in message.results:
                    if result.call not in self._answered:  # as of a thread from elsewhere
                        yield from self._ended(result)
            case _:
                assert_never(message)

    def _completed(self, message: AssistantMessage) -> Shown:
        """The reply as it is kept, as far as it was not told while it came."""
        yield from self.close()
        for reasoning in (True, False):
            said, kept = self._said.get((message.reply, reasoning), ""), _text_in(message, reasoning)
            if not said and kept:
                yield from self._grown(events.ReplyGrew(message.reply, kept, reasoning=reasoning))
                yield from self.close()
            elif said != kept:
                self.differs = True
        if self._calls_of(message.reply) - {call.id for call in message.calls}:
            self.differs = True
        for block in message.content:
            if isinstance(block, ToolCall) and block.id not in self._calls:
                yield from self._called(block.id, block.tool, block.input, message.reply)
            elif isinstance(block, ServerCall):
                yield from _run_elsewhere(block, message.reply)

    def _was_told(self, reply: ModelOperation) -> bool:
        return bool(self._said.keys() & {(reply, False), (reply, True)} or self._calls_of(reply))

    def _calls_of(self, reply: ModelOperation) -> set[CallId]:
        return {call for call in self._calls if call.reply == reply}

    def _called(self, call: CallId, tool: str, given: Json | RawInput | None, reply: ModelOperation) -> Shown:
        self._calls.add(call)
        name = str(call)
        yield ToolCallStartEvent(tool_call_id=name, tool_call_name=tool, parent_message_id=f"calls-{reply}")
        yield ToolCallArgsEvent(tool_call_id=name, delta="" if given is None else given.text)
        yield ToolCallEndEvent(tool_call_id=name)

    def _ended(self, result: ToolResult) -> Shown:
        self._answered.add(result.call)
        yield from self.close()
        if str(result.call) in self._sent:
            return
        content = parts_of(result.content)
        yield ToolCallResultEvent(
            message_id=f"result-{result.call}", tool_call_id=str(result.call), content=content, role="tool"
        )


def snapshot_of(thread: Iterable[Message]) -> MessagesSnapshotEvent:
    """The whole thread, for a client that has something else."""
    return MessagesSnapshotEvent(messages=[shown for message in thread for shown in _shown(message)])


def _shown(message: Message) -> Iterator[ShownMessage]:
    match message:
        case UserMessage():
            yield ShownUserMessage(id=f"message-{message.id}", content=parts_of(message.content))
        case AssistantMessage():
            yield from _shown_reply(message)
        case ResultMessage():
            for result in message.results:
                name = str(result.call)
                yield ShownToolMessage(id=f"result-{name}", tool_call_id=name, content=parts_of(result.content))
        case _:
            assert_never(message)


def _shown_reply(message: AssistantMessage) -> Iterator[ShownMessage]:
    """The parts of a reply, in their order: a message of the protocol has one text, and its calls behind it."""
    parts = [block for block in message.content if not isinstance(block, OpaqueBlock)]
    for number, (kind, blocks) in enumerate(groupby(parts, _kind)):
        name = f"message-{message.id}-{number}"
        match kind:
            case "text":
                yield ShownAssistantMessage(id=name, content=_joined(blocks))
            case "reasoning":
                yield ReasoningMessage(id=name, content=_joined(blocks))
            case "calls":
                yield from _shown_calls(name, [block for block in blocks if isinstance(block, _CALLS)], message.reply)
            case _:
                assert_never(kind)


def _kind(block: AssistantBlock) -> Literal["text", "reasoning", "calls"]:
    return "reasoning" if isinstance(block, ReasoningBlock) else "calls" if isinstance(block, _CALLS) else "text"


def _joined(blocks: Iterable[AssistantBlock]) -> str:
    return "".join(block.text for block in blocks if isinstance(block, TextBlock | ReasoningBlock))


def _shown_calls(name: str, calls: Sequence[ToolCall | ServerCall], reply: ModelOperation) -> Iterator[ShownMessage]:
    """The calls, and what came of those that the provider has run itself."""
    names = [str(call.id) if isinstance(call, ToolCall) else _name_elsewhere(call, reply) for call in calls]
    shown = [
        ShownToolCall(id=called, function=FunctionCall(name=call.tool, arguments=call.input.text))
        for called, call in zip(names, calls, strict=True)
    ]
    yield ShownAssistantMessage(id=name, tool_calls=shown)
    for called, call in zip(names, calls, strict=True):
        if isinstance(call, ServerCall):
            yield ShownToolMessage(id=f"result-{called}", tool_call_id=called, content=_given(call))


def _name_elsewhere(call: ServerCall, reply: ModelOperation) -> str:
    return f"provider/{reply}/{call.provider_id}"


def _given(call: ServerCall) -> str:
    return "" if call.result is None else call.result.text


def _run_elsewhere(call: ServerCall, reply: ModelOperation) -> Shown:
    """A call that the provider ran itself."""
    name = _name_elsewhere(call, reply)
    yield ToolCallStartEvent(tool_call_id=name, tool_call_name=call.tool, parent_message_id=f"calls-{reply}")
    yield ToolCallArgsEvent(tool_call_id=name, delta=call.input.text)
    yield ToolCallEndEvent(tool_call_id=name)
    yield ToolCallResultEvent(message_id=f"result-{name}", tool_call_id=name, content=_given(call), role="tool")


def _custom(event: events.Event) -> CustomEvent:
    (told,) = json.loads(effects_to_text((event,)))
    return CustomEvent(name=f"loopkernel.{told['type']}", value=told)


def _words(content: Iterable[UserBlock]) -> str:
    """The texts, and of each picture and the like, that there is one."""
    return "\n".join(f"[{block.media_type}]" if isinstance(block, MediaBlock) else block.text for block in content)


def _text_in(message: AssistantMessage, reasoning: bool) -> str:
    kind = ReasoningBlock if reasoning else TextBlock
    return "".join(block.text for block in message.content if isinstance(block, kind))


def _input_of(call: CallId, state: State) -> Json | RawInput | None:
    """What the call was made with: it stands in the ledger, and later in the thread."""
    for entry in state.ledger.entries if isinstance(state, WITH_CALLS) else ():
        if entry.call.id == call:
            return entry.call.input
    for message in reversed(tuple(state.session.thread)) if state.session is not None else ():
        if isinstance(message, AssistantMessage) and message.reply == call.reply:
            return next((made.input for made in message.calls if made.id == call), None)
    return None

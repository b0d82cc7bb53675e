"""What happens in a session, as updates for an editor: a fold over its events, and the thread of one that is loaded.

Each event is decided on here. Those that give no update are what the protocol has no word for (docs/acp.md lists
them); what a person has to answer is asked in `questions.py`, and how a turn ended is the answer to its prompt.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import assert_never

from acp.schema import (
    AgentMessageChunk,
    AgentThoughtChunk,
    ConfigOptionUpdate,
    CurrentModeUpdate,
    SessionInfoUpdate,
    TextContentBlock,
    ToolCallProgress,
    ToolCallStart,
    UserMessageChunk,
)
from loopkernel.data import events
from loopkernel.data.blocks import OpaqueBlock, RawInput, ReasoningBlock, ServerCall, TextBlock, ToolCall, ToolResult
from loopkernel.data.ids import CallId, ModelOperation
from loopkernel.data.json_text import Json, JsonValue
from loopkernel.data.messages import SENT_BY_USER, AssistantMessage, Message, ResultMessage, UserMessage
from loopkernel.data.states import State
from loopkernel.data.words import CallStatus

from loopkernel_adapters.acp.calls import OURS, ShownCall, ended, known, started, under_way
from loopkernel_adapters.acp.content import shown
from loopkernel_adapters.driver.children import WITH_CALLS

MessageUpdate = UserMessageChunk | AgentMessageChunk | AgentThoughtChunk
Update = MessageUpdate | ToolCallStart | ToolCallProgress | CurrentModeUpdate | ConfigOptionUpdate | SessionInfoUpdate


class Updates:
    """What an editor is told of each event, given what it was told of those before."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._streamed: set[ModelOperation] = set()  # replies of which something was told as it came
        self._calls: dict[CallId, ShownCall] = {}  # that were told and have no answer yet
        self._running: set[CallId] = set()  # of these, those that were told to run

    def know(self, thread: Iterable[Message]) -> None:
        """Take up the calls that a loaded thread has left open."""
        for message in thread:
            if isinstance(message, AssistantMessage):
                self._calls = {call.id: _shown(call) for call in message.calls}
            elif isinstance(message, ResultMessage):
                for result in message.results:
                    self._calls.pop(result.call, None)

    def of(self, event: events.Event, state: State) -> tuple[Update, ...]:
        """What to tell of the event; `state` is what it has led to."""
        return (*self._of(event, state), *self._begun(state))

    def _of(self, event: events.Event, state: State) -> Iterable[Update]:
        match event:
            case events.ReplyGrew():
                self._streamed.add(event.reply)
                return [_grown(event)]
            case events.CallAppeared():
                return [self._appeared(event, state)]
            case events.MessageAdded():
                return self._added(event.message)
            case events.ReplyRetracted() | events.ReplyFailed():
                return self._retracted(event.reply)
            case events.ToolProgressed():
                self._running.add(event.call)
                return [under_way((event.call,), event.text)]
            case events.ToolEnded():
                return self._ended(event.result)
            case (
                # how far the loop is, which shows by itself
                events.RunStarted()
                | events.ReplyEnded()
                | events.ReplyAborted()
                | events.InputSettled()
                | events.Steered()
                | events.SessionResumed()
                # told by the answer to the prompt
                | events.TurnEnded()
                | events.Refused()
                | events.ErrorShown()
                | events.ErrorCleared()
                | events.LimitReached()
                | events.WorkCancelled()
                # asked, and answered, by a request of its own
                | events.ApprovalAsked()
                | events.ApprovalRemembered()
                | events.ApprovalForgotten()
                | events.EditRefused()
                | events.QuestionAsked()
                | events.ChildAsked()
                # the protocol has no word for these
                | events.OpaqueDropped()
                | events.LeaseBroken()
                | events.Queued()
                | events.Dequeued()
                | events.Discarded()
                | events.Edited()
                | events.RetryScheduled()
                | events.CompactionStarted()
                | events.CompactionEnded()
                | events.ThreadCompacted()
                | events.ThreadRewritten()
                | events.ThreadCut()
                | events.MessageReplaced()
                | events.ResultsCleared()
                | events.ChildStarted()
                | events.ChildFinished()
                | events.CorrectionChecked()
                | events.CorrectionInjected()
                | events.HandoffStarted()
                | events.HandoffEnded()
                | events.LoopNoted()
                | events.ToolDisabled()
                | events.LoopStopped()
                | events.ThreadRepaired()
                | events.LineageForked()
                | events.ClockJumped()
            ):
                return []
            case _:
                assert_never(event)

    def _appeared(self, event: events.CallAppeared, state: State) -> Update:
        call = ShownCall(address=(event.call,), tool=event.tool, input=_input_of(event.call, state))
        self._calls[event.call] = call
        return started(call, self._folder)

    def _added(self, message: Message) -> Iterator[Update]:
        match message:
            case UserMessage() if message.origin not in SENT_BY_USER:
                yield from of_message(message, self._folder)
            case UserMessage() | ResultMessage():
                return  # whoever has sent it has it; and each result was told when it came
            case AssistantMessage() if message.reply not in self._streamed and not self._has_calls_of(message.reply):
                self._calls.update((call.id, _shown(call)) for call in message.calls)
                yield from of_message(message, self._folder)
            case AssistantMessage():
                self._streamed.discard(message.reply)
                yield from self._completed(message)
            case _:
                assert_never(message)

    def _completed(self, message: AssistantMessage) -> Iterator[Update]:
        """What was not known of its calls while it streamed; those that the provider ran itself are not announced."""
        for block in message.content:
            if isinstance(block, ToolCall) and block.id not in self._calls:
                continue  # it was answered already, and its input told then
            if isinstance(block, ToolCall) and self._calls[block.id].input is None:
                self._calls[block.id] = _shown(block)
                yield known(_shown(block), self._folder)
            elif isinstance(block, ServerCall):
                yield from _run_elsewhere(block, message.reply)

    def _retracted(self, reply: ModelOperation) -> Iterator[Update]:
        """The protocol cannot take anything back: who knows what we call so drops it, everybody sees its calls end."""
        if reply in self._streamed:
            self._streamed.discard(reply)
            yield AgentMessageChunk(
                session_update="agent_message_chunk",
                content=TextContentBlock(type="text", text=""),
                message_id=message_id(reply),
                field_meta={OURS: {"retracted": True}},
            )
        for call in [call for call in self._calls if call.reply == reply]:
            gone: dict[str, JsonValue] = {"retracted": True}
            shown_call = self._calls.pop(call)
            yield ToolCallProgress(
                session_update="tool_call_update", tool_call_id=shown_call.id, status="failed", field_meta={OURS: gone}
            )

    def _ended(self, result: ToolResult) -> Iterator[Update]:
        call = self._calls.pop(result.call, None)
        self._running.discard(result.call)
        if call is None:  # it was told before this was loaded, or by a reply that nobody saw streaming
            call = ShownCall(address=(result.call,), tool=result.tool)
        yield ended(call, result, self._folder)

    def _has_calls_of(self, reply: ModelOperation) -> bool:
        return any(call.reply == reply for call in self._calls)

    def _begun(self, state: State) -> Iterator[Update]:
        """The calls that have started since: no event says so."""
        for entry in state.ledger.entries if isinstance(state, WITH_CALLS) else ():
            call = entry.call.id
            if entry.status is CallStatus.IN_PROGRESS and call in self._calls and call not in self._running:
                self._running.add(call)
                yield under_way((call,))


# --- messages that are whole -----------------------------------------------------------------------------


def of_thread(thread: Iterable[Message], folder: Path) -> Iterator[Update]:
    """The thread of a session that is loaded, as if it had just been seen."""
    calls: dict[CallId, ToolCall] = {}
    for message in thread:
        yield from of_message(message, folder)
        if isinstance(message, AssistantMessage):
            calls = {call.id: call for call in message.calls}
        elif isinstance(message, ResultMessage):
            for result in message.results:
                of = calls.get(result.call)
                call = ShownCall(address=(result.call,), tool=result.tool) if of is None else _shown(of)
                yield ended(call, result, folder)


def of_message(message: Message, folder: Path) -> Iterator[Update]:
    """A message, but for results, which end the calls that they answer."""
    match message:
        case UserMessage():
            origin: dict[str, JsonValue] = {"origin": message.origin.value}
            for block in message.content:
                yield UserMessageChunk(
                    session_update="user_message_chunk",
                    content=shown(block),
                    message_id=f"message-{message.id}",
                    field_meta={OURS: origin},
                )
        case AssistantMessage():
            for part in message.content:
                match part:
                    case TextBlock() | ReasoningBlock():
                        reasoning = isinstance(part, ReasoningBlock)
                        yield _grown(events.ReplyGrew(message.reply, part.text, reasoning))
                    case ToolCall():
                        yield started(_shown(part), folder)
                    case ServerCall():
                        yield from _run_elsewhere(part, message.reply)
                    case OpaqueBlock():
                        pass  # for its model alone
                    case _:
                        assert_never(part)
        case ResultMessage():
            return
        case _:
            assert_never(message)


def notice(text: str) -> Update:
    """What this program has to say itself: shown as the agent's, and marked."""
    return AgentMessageChunk(
        session_update="agent_message_chunk",
        content=TextContentBlock(type="text", text=f"{text}\n\n"),
        message_id="notice",
        field_meta={OURS: {"notice": True}},
    )


def message_id(reply: ModelOperation) -> str:
    """How the protocol names a reply."""
    return f"reply-{reply}"


def _grown(event: events.ReplyGrew) -> Update:
    content, name = TextContentBlock(type="text", text=event.text), message_id(event.reply)
    if event.reasoning:
        return AgentThoughtChunk(session_update="agent_thought_chunk", content=content, message_id=name)
    return AgentMessageChunk(session_update="agent_message_chunk", content=content, message_id=name)


def _run_elsewhere(call: ServerCall, reply: ModelOperation) -> Iterator[Update]:
    """A call that the provider ran itself."""
    yield ToolCallStart(
        session_update="tool_call",
        tool_call_id=f"provider/{reply}/{call.provider_id}",
        title=call.tool,
        kind="other",
        status="completed",
        raw_input=call.input.value(),
        raw_output=None if call.result is None else call.result.value(),
        field_meta={OURS: {"name": call.tool}},
    )


def _shown(call: ToolCall) -> ShownCall:
    return ShownCall(address=(call.id,), tool=call.tool, input=call.input)


def _input_of(call: CallId, state: State) -> Json | RawInput | None:
    entries = state.ledger.entries if isinstance(state, WITH_CALLS) else ()
    return next((entry.call.input for entry in entries if entry.call.id == call), None)

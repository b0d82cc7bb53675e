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
from attrs import Factory, define
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


# Events that give no update.
Untold = (
    # how far the loop is, which shows by itself
    events.RunStarted
    | events.ReplyEnded
    | events.ReplyAborted
    | events.ReplyFailed
    | events.InputSettled
    | events.Steered
    | events.SessionResumed
    # told by the answer to the prompt
    | events.TurnEnded
    | events.Refused
    | events.ErrorShown
    | events.ErrorCleared
    | events.LimitReached
    | events.WorkCancelled
    # asked, and answered, by a request of its own
    | events.ApprovalAsked
    | events.ApprovalRemembered
    | events.ApprovalForgotten
    | events.EditRefused
    | events.QuestionAsked
    | events.ChildAsked
    # the protocol has no word for these
    | events.OpaqueDropped
    | events.LeaseBroken
    | events.Queued
    | events.Dequeued
    | events.Discarded
    | events.Edited
    | events.RetryScheduled
    | events.CompactionStarted
    | events.CompactionEnded
    | events.ThreadCompacted
    | events.ThreadRewritten
    | events.ThreadCut
    | events.MessageReplaced
    | events.ResultsCleared
    | events.ChildFinished
    | events.CorrectionChecked
    | events.CorrectionInjected
    | events.HandoffStarted
    | events.HandoffEnded
    | events.LoopNoted
    | events.ToolDisabled
    | events.LoopStopped
    | events.ThreadRepaired
    | events.LineageForked
    | events.ClockJumped
)


@define
class Told:
    """What was told of a reply while it came: its pieces, each whether it is reasoning, and its calls."""

    pieces: list[tuple[bool, str]] = Factory(list)
    calls: dict[CallId, ShownCall] = Factory(dict)

    def add(self, reasoning: bool, text: str) -> None:
        """One more piece; those of one kind in a row are one."""
        if self.pieces and self.pieces[-1][0] == reasoning:
            self.pieces[-1] = reasoning, self.pieces[-1][1] + text
        elif text:
            self.pieces.append((reasoning, text))


class Updates:
    """What an editor is told of each event, given what it was told of those before."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._replies: dict[ModelOperation, Told] = {}  # those that are coming
        self._open: dict[CallId, ShownCall] = {}  # calls that were told and have no answer yet
        self._running: set[CallId] = set()  # of these, those that were told to run
        self._answered: set[CallId] = set()  # calls whose answer was told, and is in no message yet

    def know(self, thread: Iterable[Message]) -> None:
        """Take up the calls that a loaded thread has left open."""
        for message in thread:
            if isinstance(message, AssistantMessage):
                self._open = {call.id: _shown(call) for call in message.calls}
            elif isinstance(message, ResultMessage):
                for result in message.results:
                    self._open.pop(result.call, None)

    def of(self, event: events.Event, state: State) -> tuple[Update, ...]:
        """What to tell of the event; `state` is what it has led to."""
        return tuple(self._of(event, state))

    def begun(self, state: State) -> Iterator[Update]:
        """The calls that have started since: no event says so."""
        for entry in state.ledger.entries if isinstance(state, WITH_CALLS) else ():
            call = entry.call.id
            if entry.status is CallStatus.IN_PROGRESS and call in self._open and call not in self._running:
                self._running.add(call)
                yield under_way((call,))

    def _of(self, event: events.Event, state: State) -> Iterable[Update]:
        if isinstance(event, Untold):
            return []
        match event:
            case events.ReplyGrew():
                self._replies.setdefault(event.reply, Told()).add(event.reasoning, event.text)
                return [_grown(event.text, event.reasoning, message_id(event.reply))]
            case events.CallAppeared():
                return [self._appeared(event, state)]
            case events.MessageAdded():
                return self._added(event.message)
            case events.ReplyRetracted():
                return self._retracted(event.reply)
            case events.ToolProgressed():
                self._running.add(event.call)
                return [under_way((event.call,), event.text)]
            case events.ToolEnded():
                return self._ended(event.result)
            case events.ChildStarted():
                return self.begun(state)
            case _:
                assert_never(event)

    def _appeared(self, event: events.CallAppeared, state: State) -> Update:
        call = ShownCall(address=(event.call,), tool=event.tool, input=_input_of(event.call, state))
        self._replies.setdefault(event.call.reply, Told()).calls[event.call] = call
        self._open[event.call] = call
        return started(call, self._folder)

    def _added(self, message: Message) -> Iterator[Update]:
        match message:
            case UserMessage() if message.origin in SENT_BY_USER:
                return  # whoever has sent it has it
            case UserMessage():
                yield from of_message(message, self._folder)
            case AssistantMessage():
                yield from self._completed(message, self._replies.pop(message.reply, Told()))
            case ResultMessage():
                for result in message.results:
                    if result.call not in self._answered:  # as of a thread from elsewhere
                        yield from self._ended(result)
                    self._answered.discard(result.call)
            case _:
                assert_never(message)

    def _completed(self, message: AssistantMessage, told: Told) -> Iterator[Update]:
        """The reply as it is kept, as far as it is not what was told while it came."""
        name = message_id(message.reply)
        if _pieces_of(message) != told.pieces:
            if told.pieces:
                yield _taken_back(name)
                name = f"{name}-kept"
            for reasoning, text in _pieces_of(message):
                yield _grown(text, reasoning, name)
        yield from self._gone(call for call in told.calls if call not in {kept.id for kept in message.calls})
        for block in message.content:
            if isinstance(block, ServerCall):
                yield from _run_elsewhere(block, message.reply)
            elif isinstance(block, ToolCall):
                before, call = told.calls.get(block.id), _shown(block)
                if block.id not in self._answered:
                    self._open[block.id] = call
                if before is None:
                    yield started(call, self._folder)
                elif before.input != call.input:
                    yield known(call, self._folder)

    def _retracted(self, reply: ModelOperation) -> Iterator[Update]:
        """The protocol cannot take anything back: who knows our mark drops it, and everybody sees its calls end."""
        told = self._replies.pop(reply, Told())
        if told.pieces:
            yield _taken_back(message_id(reply))
        yield from self._gone(told.calls)

    def _gone(self, calls: Iterable[CallId]) -> Iterator[Update]:
        for call in calls:
            self._open.pop(call, None)
            self._answered.discard(call)
            yield ToolCallProgress(
                session_update="tool_call_update",
                tool_call_id=str(call),
                status="failed",
                field_meta={OURS: {"retracted": True}},
            )

    def _ended(self, result: ToolResult) -> Iterator[Update]:
        call = self._open.pop(result.call, None)
        self._running.discard(result.call)
        self._answered.add(result.call)
        yield ended(ShownCall(address=(result.call,), tool=result.tool) if call is None else call, result, self._folder)


def _taken_back(name: str) -> Update:
    return AgentMessageChunk(
        session_update="agent_message_chunk",
        content=TextContentBlock(type="text", text=""),
        message_id=name,
        field_meta={OURS: {"retracted": True}},
    )


def _pieces_of(message: AssistantMessage) -> list[tuple[bool, str]]:
    told = Told()
    for block in message.content:
        if isinstance(block, TextBlock | ReasoningBlock):
            told.add(isinstance(block, ReasoningBlock), block.text)
    return told.pieces


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
                        yield _grown(part.text, isinstance(part, ReasoningBlock), message_id(message.reply))
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


def _grown(text: str, reasoning: bool, name: str) -> Update:
    content = TextContentBlock(type="text", text=text)
    if reasoning:
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

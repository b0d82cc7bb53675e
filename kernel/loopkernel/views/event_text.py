"""Each event in one line of words, for logs and screens. Texts from outside stand in quotes, and are cut when long.

for event in machine.deliver(delta, now_ms):
    print(event_to_text(event))  # call 1.1 is answered: done, with "buy milk"
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import assert_never, get_args

from loopkernel.data.blocks import MediaBlock, OpaqueBlock, ReasoningBlock, ServerCall, TextBlock, ToolCall, UserBlock
from loopkernel.data.errors import demand_kind, quoted
from loopkernel.data.events import (
    ApprovalAsked,
    ApprovalForgotten,
    ApprovalRemembered,
    CallAppeared,
    ChildAsked,
    ChildFinished,
    ChildStarted,
    ClockJumped,
    CompactionEnded,
    CompactionStarted,
    CorrectionChecked,
    CorrectionInjected,
    Dequeued,
    Discarded,
    Edited,
    EditRefused,
    ErrorCleared,
    ErrorShown,
    Event,
    HandoffEnded,
    HandoffStarted,
    InputSettled,
    LeaseBroken,
    LimitReached,
    LineageForked,
    LoopNoted,
    LoopStopped,
    MessageAdded,
    MessageReplaced,
    OpaqueDropped,
    QuestionAsked,
    Queued,
    Refused,
    ReplyAborted,
    ReplyEnded,
    ReplyFailed,
    ReplyGrew,
    ReplyRetracted,
    ResultsCleared,
    RetryScheduled,
    RunStarted,
    SessionResumed,
    Steered,
    ThreadCompacted,
    ThreadCut,
    ThreadRepaired,
    ThreadRewritten,
    ToolDisabled,
    ToolEnded,
    ToolProgressed,
    TurnEnded,
    WorkCancelled,
)
from loopkernel.data.messages import AssistantMessage, Message, ResultMessage, UserMessage
from loopkernel.data.remembered import Remembered, RememberedCall, RememberedPattern, RememberedTool
from loopkernel.data.user_deltas import RememberCall, RememberPattern, RememberTool, Remembrance
from loopkernel.data.words import RefusalReason

_Reply = ReplyGrew | CallAppeared | ReplyEnded | ReplyFailed | ReplyAborted | ReplyRetracted | OpaqueDropped
_Input = Refused | InputSettled | Queued | Dequeued | Discarded | Steered | Edited
_Call = (
    ToolProgressed
    | ToolEnded
    | ApprovalAsked
    | ApprovalRemembered
    | ApprovalForgotten
    | EditRefused
    | QuestionAsked
    | LeaseBroken
    | ChildStarted
    | ChildAsked
    | ChildFinished
)
_Thread = (
    MessageAdded
    | MessageReplaced
    | ThreadRewritten
    | ThreadCut
    | ThreadRepaired
    | CompactionStarted
    | CompactionEnded
    | ThreadCompacted
    | ResultsCleared
)


def event_to_text(event: Event) -> str:
    """The event in one line of words."""
    demand_kind(event, get_args(Event), "an event is due, not a command")
    if isinstance(event, _Reply):
        return _of_reply(event)
    if isinstance(event, _Call):
        return _of_call(event)
    if isinstance(event, _Thread):
        return _of_thread(event)
    if isinstance(event, _Input):
        return _of_input(event)
    match event:
        case TurnEnded():
            return f"the turn ended: {event.reason.value}; {event.usage.total} tokens in all"
        case RunStarted():
            return f"the run {quoted(event.session_id)} began"
        case RetryScheduled():
            return f"retry {event.attempt} comes in {event.delay_ms} ms"
        case ErrorShown():
            return f"error {event.error.value}: {quoted(event.message)}"
        case ErrorCleared():
            return "the error is cleared"
        case LimitReached():
            return f"the limit {event.limit.value} is reached"
        case WorkCancelled():
            return f"everything open is stopped: {event.reason.value}"
        case CorrectionChecked():
            return "the course was checked"
        case CorrectionInjected():
            return "a correction went into the thread"
        case HandoffStarted():
            return "a handoff to a new thread began"
        case HandoffEnded():
            return "the handoff failed" if event.thread is None else f"the work goes on in {quoted(event.thread)}"
        case LoopNoted():
            return f"the model was told that it repeats calls of {quoted(event.tool)}"
        case ToolDisabled():
            return f"{quoted(event.tool)} is not offered for a while, since its calls repeat"
        case LoopStopped():
            return f"the turn ends, since calls of {quoted(event.tool)} repeat"
        case LineageForked():
            return f"the run {quoted(event.session_id)} forked off here"
        case SessionResumed():
            return "the session goes on"
        case ClockJumped():
            return f"the clock was set {'forward' if event.by_ms > 0 else 'back'} by {abs(event.by_ms)} ms"
        case _:
            assert_never(event)


def _of_reply(event: _Reply) -> str:
    match event:
        case ReplyGrew():
            return f"reply {event.reply} {'thinks' if event.reasoning else 'says'} {quoted(event.text)}"
        case CallAppeared():
            return f"call {event.call}: the model calls {quoted(event.tool)}"
        case ReplyEnded():
            return f"reply {event.reply} is complete: {event.stop.value}"
        case ReplyFailed():
            return f"reply {event.reply} failed: {event.error.value}"
        case ReplyAborted():
            return f"reply {event.reply} was stopped"
        case ReplyRetracted():
            return f"what reply {event.reply} has said is void"
        case OpaqueDropped():
            models = ", ".join(map(quoted, event.models))
            return f"request {event.request} leaves out what only other models understand: {models}"
        case _:
            assert_never(event)


_REFUSED: Mapping[RefusalReason, str] = MappingProxyType(
    {
        RefusalReason.DUPLICATE: "it was taken before",
        RefusalReason.STALE: "it is on something that is over",
        RefusalReason.UNKNOWN: "it is on something that there is not, as an operation that no command began",
        RefusalReason.NOT_NOW: "this state does not take it",
        RefusalReason.FULL: "the queue has no room",
        RefusalReason.INVALID: "it does not pass its check",
        RefusalReason.DENIED: "the rules forbid it",
    }
)


def _of_input(event: _Input) -> str:
    match event:
        case Refused():
            return f"{event.action.value} was refused: {event.reason.value} ({_REFUSED[event.reason]})"
        case InputSettled():
            return f"input {event.receipt} is settled: {event.fate.value}"
        case Queued():
            return f"input {event.number} waits in the queue"
        case Dequeued():
            return f"input {event.number} leaves the queue and starts a turn"
        case Discarded():
            return f"input {event.number} was taken out of the queue"
        case Steered():
            return f"steering message {event.number} went into the thread"
        case Edited():
            return f"message {event.message} was replaced, and what followed it dropped"
        case _:
            assert_never(event)


def _of_call(event: _Call) -> str:
    match event:
        case ToolProgressed():
            return f"call {event.call} is under way: {quoted(event.text)}"
        case ToolEnded(result):
            why = "" if result.reason is None else f" ({result.reason.value})"
            return f"call {result.call} is answered: {result.status.value}{why}, with {_content(result.content)}"
        case ApprovalAsked():
            return f"call {event.call} waits for approval"
        case ApprovalRemembered():
            return f"the approval of call {event.call} holds for {_remembrance(event.remembrance)}"
        case ApprovalForgotten():
            return f"the approval of {_remembered(event.remembered)} is taken back"
        case EditRefused():
            return (
                f"{event.action.value} of call {event.call} was refused: {event.reason.value}; the call keeps waiting"
            )
        case QuestionAsked():
            return f"call {event.call} asks {quoted(event.question)}"
        case LeaseBroken():
            return f"call {event.call} did not stop in time: what it holds is taken from it"
        case ChildStarted():
            return f"call {event.call} is done by a sub-agent"
        case ChildAsked():
            return (
                f"call {'/'.join(map(str, event.asked.path))} of the sub-agent of call {event.call} waits for a person"
            )
        case ChildFinished():
            return f"the sub-agent of call {event.call} ended: {event.reason.value}"
        case _:
            assert_never(event)


def _of_thread(event: _Thread) -> str:
    match event:
        case MessageAdded():
            return f"message {event.message.id}, {_message(event.message)}"
        case MessageReplaced():
            return f"message {event.message.id} now reads: {_message(event.message)}"
        case ThreadRewritten():
            return f"the thread is {len(event.messages)} messages again: what was compacted was put back"
        case ThreadCut():
            return f"the thread is cut to {event.length} messages"
        case ThreadRepaired():
            kinds = ", ".join(repair.kind.value for repair in event.repairs)
            return f"the thread was repaired in {len(event.repairs)} places: {kinds}"
        case CompactionStarted():
            return "the thread is being made smaller"
        case CompactionEnded():
            return "the thread was made smaller" if event.done else "the thread could not be made smaller"
        case ThreadCompacted():
            rest = "nothing" if event.first is None else f"message {event.first} and what follows"
            return f"the thread now is {'no summary' if event.note is None else 'a summary'}, and {rest}"
        case ResultsCleared():
            return f"the results of calls {', '.join(map(str, event.calls))} were cleared"
        case _:
            assert_never(event)


def _message(message: Message) -> str:
    match message:
        case UserMessage():
            return f"{message.origin.value}: {_content(message.content)}"
        case AssistantMessage():
            return f"the reply of {quoted(message.model)}: {_content(message.content)}"
        case ResultMessage():
            return f"the results of {len(message.results)} calls"
        case _:
            assert_never(message)


def _content(content: tuple[UserBlock | ReasoningBlock | OpaqueBlock | ToolCall | ServerCall, ...]) -> str:
    return ", ".join(map(_block, content)) or "nothing"


def _block(block: UserBlock | ReasoningBlock | OpaqueBlock | ToolCall | ServerCall) -> str:
    match block:
        case TextBlock():
            return quoted(block.text)
        case ReasoningBlock():
            return f"thought {quoted(block.text)}"
        case MediaBlock():
            return f"a medium ({quoted(block.media_type)})"
        case OpaqueBlock():
            return "an item of its provider"
        case ToolCall():
            return f"call {block.id} of {quoted(block.tool)}"
        case ServerCall():
            return f"a call of {quoted(block.tool)} that the provider ran"
        case _:
            assert_never(block)


def _remembrance(remembrance: Remembrance) -> str:
    match remembrance:
        case RememberCall():
            return "the same input"
        case RememberTool():
            return "every input"
        case RememberPattern():
            return f"each input that matches {len(remembrance.fields)} patterns"
        case _:
            assert_never(remembrance)


def _remembered(remembered: Remembered) -> str:
    match remembered:
        case RememberedCall():
            return f"{quoted(remembered.tool)} with the input {quoted(remembered.input.text)}"
        case RememberedTool():
            return f"{quoted(remembered.tool)} with every input"
        case RememberedPattern():
            return f"{quoted(remembered.tool)} with each input that matches {len(remembered.fields)} patterns"
        case _:
            assert_never(remembered)

"""The events of a run, as lines for a reader: one for each event, and the reply as it streams."""

import enum
import re
from collections.abc import Sequence
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
from loopkernel.data.effects import AskHook
from loopkernel.data.events import Event
from loopkernel.data.messages import AssistantMessage, Message, ResultMessage, UserMessage
from loopkernel.data.records import LogRecord
from loopkernel.data.states import Cancelled, Idle, State

from loopkernel_adapters.cli.approval_words import approval_told, remembered_told
from loopkernel_adapters.cli.edits import show_changes
from loopkernel_adapters.cli.screen import Screen, in_one_line
from loopkernel_adapters.cli.words import (
    ADVICE,
    CANCELS,
    FAILURES,
    cause_of,
    clock_told,
    counted,
    limit_told,
    retry_told,
    tokens_told,
)
from loopkernel_adapters.optional_ports import Address

INDENT = "  "  # before what a sub-agent does, for each level
_CAPITAL = re.compile(r"(?<!^)(?=[A-Z])")


# Events that need no words of their own.
PlainEvent: TypeAlias = (
    events.OpaqueDropped
    | events.EditRefused
    | events.LeaseBroken
    | events.ThreadCut
    | events.MessageReplaced
    | events.ThreadRepaired
)

# What happens beside the conversation: it is made shorter, watched, or handed over.
CourseEvent: TypeAlias = (
    events.CompactionStarted
    | events.CompactionEnded
    | events.ThreadCompacted
    | events.ThreadRewritten
    | events.CorrectionChecked
    | events.CorrectionInjected
    | events.HandoffStarted
    | events.HandoffEnded
)
ChildEvent: TypeAlias = events.ChildStarted | events.ChildAsked | events.ChildFinished

# What goes wrong, and what is done about it.
TroubleEvent: TypeAlias = (
    events.ReplyFailed
    | events.ReplyAborted
    | events.ReplyRetracted
    | events.RetryScheduled
    | events.ErrorShown
    | events.ErrorCleared
    | events.ResultsCleared
    | events.LimitReached
    | events.LoopNoted
    | events.ToolDisabled
    | events.LoopStopped
    | events.WorkCancelled
)
InboxEvent: TypeAlias = events.Queued | events.Dequeued | events.Discarded | events.Steered | events.Edited


def show(screen: Screen, event: Event, state: State, within: Address = (), cause: str = "") -> None:
    """Write the event's line, or its piece of the reply. `state` is the one that the event led to.

    What a sub-agent does is indented, with the address that it is `within`. `cause` is what the service of the model
    has said of a request that failed.
    """
    before = f"{INDENT * len(within)}{in_words(within)}> " if within else ""
    if isinstance(event, events.ReplyGrew):
        screen.stream(f"{before}{'thought' if event.reasoning else 'model'}", event.text)
    else:
        label, text = labelled(event, state, cause)
        took = screen.took(event.result.call) if isinstance(event, events.ToolEnded) and not within else ""
        screen.labelled(f"{before}{label}", f"{text}{took}")
        if isinstance(event, events.MessageAdded) and isinstance(event.message, AssistantMessage):
            show_changes(screen, event.message)


def show_hook(screen: Screen, asked: AskHook) -> None:
    """Write that a hook is asked."""
    context = asked.context
    about = f" about call {context.call}" if context.call is not None else ""
    screen.labelled("hook", f"{context.point.value}: {context.name} is asked{about}")


def in_words(address: Address) -> str:
    """The address of a sub-agent, or of a call in one, as a person names it."""
    return "/".join(map(str, address))


def labelled(event: Event, state: State, cause: str = "") -> tuple[str, str]:
    """The label and the text of the event's line."""
    if isinstance(event, PlainEvent):
        return _plain(event)
    if isinstance(event, TroubleEvent):
        return _trouble(event, state, cause)
    if isinstance(event, InboxEvent):
        return _inbox(event, state)
    if isinstance(event, CourseEvent):
        return _course(event)
    if isinstance(event, ChildEvent):
        return _child(event)
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
        case events.ApprovalRemembered():
            return (
                "approval",
                f"{remembered_told(event, state)} runs unasked from now on; `loopkernel approvals` takes it back",
            )
        case events.ApprovalForgotten():
            return "approval", f"{approval_told(event.remembered)} is taken back, and asks again"
        case events.QuestionAsked():
            return f"question {event.call}", in_one_line(event.question)
        case events.ReplyEnded():
            return "reply", f"{event.reply}: ended, {event.stop.value}"
        case events.InputSettled():
            return "input", f"{event.receipt}: {event.fate.value}"
        case events.Refused():
            return "refused", f"{event.action.value}: {event.reason.value}"
        case events.LineageForked():
            return "fork", f"goes on in a new lineage, session {event.session_id}; what was open is left to the old one"
        case events.SessionResumed():
            return "resume", "goes on where the log ended"
        case events.ClockJumped():
            return "clock", f"was set {clock_told(event.by_ms)}; every wait goes on as if it had not been"
        case events.TurnEnded():
            usage = event.usage
            return "turn", f"ended: {event.reason.value}; {tokens_told(usage.input, usage.output)}"
        case _:
            assert_never(event)


def _trouble(event: TroubleEvent, state: State, cause: str) -> tuple[str, str]:
    """Failures and what is done about them, limits, repetition, cancels."""
    match event:
        case events.ReplyFailed():
            told_anyway = state.session is not None and state.session.error is not None
            said = "" if told_anyway else in_one_line(cause)
            return "reply", f"{event.reply}: failed, {event.error.value}: {said or FAILURES[event.error]}"
        case events.ReplyAborted():
            return "reply", f"{event.reply}: cut short"
        case events.ReplyRetracted():
            return "reply", f"{event.reply}: retracted; what was shown of it does not count"
        case events.RetryScheduled():
            return "retry", retry_told(event, state)
        case events.ErrorShown():
            said = in_one_line(event.message) or FAILURES[event.error]
            return "error", f"{event.error.value}: {said}; {ADVICE[event.error]}"
        case events.ErrorCleared():
            return "error", "cleared"
        case events.ResultsCleared():
            return "event", "old tool results are left out of the conversation, to make it shorter"
        case events.LimitReached():
            return "limit", limit_told(event.limit, None if state.session is None else state.session.settings.policy)
        case events.LoopNoted():
            return "loop", f"the model repeats its calls of {event.tool}, and is told so"
        case events.ToolDisabled():
            return "loop", f"the model repeats its calls of {event.tool}, which it is not offered for a while"
        case events.LoopStopped():
            return "loop", f"the model goes on repeating its calls of {event.tool}, so the turn ends"
        case events.WorkCancelled():
            return "cancelled", f"{CANCELS[event.reason]} ({event.reason.value})"
        case _:
            assert_never(event)


def _inbox(event: InboxEvent, state: State) -> tuple[str, str]:
    """What becomes of messages that wait, and of those that are replaced."""
    match event:
        case events.Queued():
            turn = "your next turn" if isinstance(state, Idle | Cancelled) else "the turn"
            return "queue", f"message {event.number} waits for the end of {turn}"
        case events.Dequeued():
            return "queue", f"message {event.number} starts a turn"
        case events.Discarded():
            return "queue", f"message {event.number} is discarded"
        case events.Steered():
            return "steer", f"message {event.number} goes into the turn"
        case events.Edited():
            return "edit", f"message {event.message} is replaced, and what followed it is dropped"
        case _:
            assert_never(event)


def _course(event: CourseEvent) -> tuple[str, str]:
    """How the conversation is made shorter, watched, and handed over."""
    match event:
        case events.CompactionStarted():
            return "compact", "the conversation is made shorter"
        case events.CompactionEnded():
            return "compact", "done" if event.done else "it could not be made shorter, and goes on as it was"
        case events.ThreadCompacted():
            kept = "nothing is kept" if event.first is None else f"message {event.first} and what follows is kept"
            note = f": {_message(event.note)[1]}" if event.note is not None else ""
            return "compact", f"{kept}; the rest is left out{note}"
        case events.ThreadRewritten():
            return "compact", f"what was left out is put back: {counted(len(event.messages), 'message')} in all"
        case events.CorrectionChecked():
            return "correction", "the course has been looked at"
        case events.CorrectionInjected():
            return "correction", "the model is told to correct its course"
        case events.HandoffStarted():
            return "handoff", "the work is carried over to a new session"
        case events.HandoffEnded():
            return "handoff", "it failed" if event.thread is None else f"the work goes on in session {event.thread}"
        case _:
            assert_never(event)


def _child(event: ChildEvent) -> tuple[str, str]:
    """The sub-agents of a session."""
    match event:
        case events.ChildStarted():
            return f"agent {event.call}", "a sub-agent begins"
        case events.ChildAsked():
            return f"ask {in_words((event.call, *event.asked.path))}", "a call of a sub-agent waits for a person"
        case events.ChildFinished():
            return f"agent {event.call}", f"the sub-agent has ended: {event.reason.value}"
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
            return f"{counted(len(block.text), 'character')} of text"
        case ReasoningBlock():
            return f"{counted(len(block.text), 'character')} of thought"
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


class Trace:
    """Shows every event on the screen. `records` is the log so far, which has the cause of a failure."""

    def __init__(self, screen: Screen, records: Sequence[LogRecord]) -> None:
        self._screen = screen
        self._records = records

    def event(self, event: Event, state: State, within: Address = ()) -> None:
        """Show it."""
        show(self._screen, event, state, within, "" if within else cause_of(event, self._records))

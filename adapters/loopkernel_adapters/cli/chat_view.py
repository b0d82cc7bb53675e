"""The events of a chat, as a person wants them who has typed the messages: no more than is worth a line."""

from collections.abc import Sequence

from loopkernel.data import events
from loopkernel.data.blocks import ToolCall, text_of
from loopkernel.data.events import Event
from loopkernel.data.messages import AssistantMessage, UserMessage
from loopkernel.data.records import LogRecord
from loopkernel.data.states import State
from loopkernel.data.words import RefusalReason, TurnEndReason
from loopkernel.later_typing import override

from loopkernel_adapters.cli.approval_words import number_of, remembered_told
from loopkernel_adapters.cli.edits import show_changes
from loopkernel_adapters.cli.screen import Screen, in_one_line
from loopkernel_adapters.cli.session import Teller
from loopkernel_adapters.cli.summary import NATURAL_ENDS
from loopkernel_adapters.cli.trace import show
from loopkernel_adapters.cli.words import cause_of, queue_lines, queue_told
from loopkernel_adapters.optional_ports import Address

# What the person knows, since it was typed or is told by another line.
KNOWN = (events.CallAppeared, events.ReplyEnded, events.InputSettled, events.RunStarted)

REFUSALS = {
    RefusalReason.DUPLICATE: "it has been said already",
    RefusalReason.STALE: "it comes too late: what it is about is over",
    RefusalReason.UNKNOWN: "there is nothing that it could be about",
    RefusalReason.NOT_NOW: "there is nothing to do it to now",
    RefusalReason.FULL: "the queue is full; wait, or take messages out with /queue drop N",
    RefusalReason.INVALID: "the new input does not fit",
    RefusalReason.DENIED: "the rules of this session deny it",
}


class ChatView(Teller):
    """Shows them. `typed` is told of each message that the person can still see where it was typed.

    `records` is the log so far, which has the cause of a failure.
    """

    def __init__(self, screen: Screen, records: Sequence[LogRecord]) -> None:
        self._screen = screen
        self._records = records
        self._typed: list[str] = []

    def typed(self, text: str) -> None:
        """The person has just typed this message, so it is not shown again."""
        self._typed = [text.strip()]

    @override
    def event(self, event: Event, state: State, within: Address = ()) -> None:
        if within:
            show(self._screen, event, state, within)
        elif isinstance(event, events.MessageAdded):
            self._message(event)
        elif isinstance(event, events.TurnEnded) and event.reason in NATURAL_ENDS:
            self._screen.end_stream()
        elif isinstance(event, events.TurnEnded):
            show(self._screen, event, state)
            if event.reason is TurnEndReason.ERROR:
                self._screen.labelled("", "/retry asks the model again, and so does whatever you say")
            if queue_lines(state):  # which only a natural end begins on
                self._screen.labelled("queue", f"{queue_told(state)}: taken after what you say next; /queue shows it")
        elif isinstance(event, events.ApprovalRemembered):
            back = f"/approvals drop {number_of(event, state)} takes it back"
            self._screen.labelled("approval", f"{remembered_told(event, state)} runs unasked from now on; {back}")
        elif isinstance(event, events.Refused):
            self._screen.labelled("refused", f"{event.action.value}: {REFUSALS[event.reason]}")
        elif not isinstance(event, KNOWN):
            show(self._screen, event, state, cause=cause_of(event, self._records))

    def _message(self, event: events.MessageAdded) -> None:
        message = event.message
        if isinstance(message, AssistantMessage):
            for block in message.content:
                if isinstance(block, ToolCall):
                    self._screen.labelled(f"call {block.id}", f"{block.tool} {in_one_line(block.input.text)}")
            show_changes(self._screen, message)
        elif isinstance(message, UserMessage):
            text = text_of(message.content)
            if self._typed == [text]:
                self._typed = []
            else:
                self._screen.labelled("you", in_one_line(text))

"""What a sub-agent's run reports to its parent: what it says, whom it waits for, and how it ended (section CHILD)."""

from collections.abc import Iterator

from attrs import define

from loopkernel.data.blocks import TextBlock
from loopkernel.data.children import ChildCall
from loopkernel.data.events import MessageAdded, MessageReplaced
from loopkernel.data.ids import RunOperation
from loopkernel.data.ledgers import ChildWait
from loopkernel.data.messages import AssistantMessage, ReplyState
from loopkernel.data.outside_deltas import ChildAsks, ChildEnded, ChildProgress
from loopkernel.data.records import StepRecord
from loopkernel.data.states import Done, State
from loopkernel.data.usage import NO_USAGE, Usage
from loopkernel.data.words import TurnEndReason
from loopkernel.laws.views import ledger_in

ChildReport = ChildProgress | ChildAsks | ChildEnded


@define
class ChildReports:
    """Follows a sub-agent step by step, which is run `operation` of its parent.

    `asked` is what the parent knows to wait for a person, `text` the last that the sub-agent has said.
    """

    operation: RunOperation
    asked: tuple[ChildCall, ...] = ()
    text: str = ""
    over: bool = False

    def after(self, record: StepRecord) -> Iterator[ChildReport]:
        """What its parent has to know after the step."""
        for effect in record.effects:
            said = effect.message if isinstance(effect, MessageAdded | MessageReplaced) else None
            if not isinstance(said, AssistantMessage) or not _text_of(said):
                continue
            self.text = _text_of(said)
            if isinstance(effect, MessageAdded) and said.state is ReplyState.COMPLETE:
                yield ChildProgress(self.operation, self.text)
        yield from self.of(record.after)

    def of(self, state: State) -> Iterator[ChildReport]:
        """What has changed in whom it waits for, and whether it is over."""
        asked = calls_that_wait(state)
        if asked != self.asked:
            self.asked = asked
            yield ChildAsks(self.operation, asked)
        if isinstance(state, Done) and not self.over:
            self.over = True
            yield self.end(state)

    def end(self, state: State, unbilled: Usage = NO_USAGE) -> ChildEnded:
        """How it ended, and what it has used; `unbilled` is what its own sub-agents have, which it never heard of."""
        session = state.session
        return ChildEnded(
            operation=self.operation,
            reason=state.reason if isinstance(state, Done) else TurnEndReason.USER_ABORT,
            text=self.text,
            usage=unbilled if session is None else session.usage.plus(unbilled),
            tool_calls=0 if session is None else session.started,
        )


def calls_that_wait(state: State) -> tuple[ChildCall, ...]:
    """The calls that wait for a person, those of sub-agents of the sub-agent too."""
    ledger = ledger_in(state)
    found: list[ChildCall] = []
    for entry in () if ledger is None else ledger.entries:
        wait = entry.person.wait
        if isinstance(wait, ChildWait):
            found.extend(ChildCall((entry.call.id, *inner.path)) for inner in wait.asked)
        elif wait is not None:
            found.append(ChildCall((entry.call.id,)))
    return tuple(found)


def _text_of(message: AssistantMessage) -> str:
    return "\n".join(block.text for block in message.content if isinstance(block, TextBlock) and block.text)

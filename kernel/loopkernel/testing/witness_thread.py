"""What the witness knows of the thread, as events tell of it, and of what became of all that the user sent."""

from collections.abc import Iterator

from attrs import Factory, define

from loopkernel.data.blocks import UserBlock
from loopkernel.data.effects import Effect
from loopkernel.data.events import (
    InputSettled,
    MessageAdded,
    MessageReplaced,
    ThreadCompacted,
    ThreadCut,
    ThreadRewritten,
)
from loopkernel.data.ids import CallId, MessageId, ModelOperation, ReceiptId
from loopkernel.data.messages import SENT_BY_USER, AssistantMessage, Message, UserMessage
from loopkernel.data.sessions import QueuedInput, Session, WaitingSteer
from loopkernel.data.user_deltas import EditMessage, Enqueue, Say, Steer
from loopkernel.data.words import InputFate

SentByUser = Say | Enqueue | Steer | EditMessage
_GONE = frozenset({InputFate.DISCARDED, InputFate.HANDED_BACK, InputFate.SUPERSEDED})


@define
class SeenThread:
    """The messages, oldest first, and those that compactions took out, by id.

    Also what was sent, by receipt, with the keys of callers; and whose receipts are gone.
    """

    messages: list[Message] = Factory(list)
    removed: dict[MessageId, Message] = Factory(dict)
    sent: list[tuple[UserBlock, ...]] = Factory(list)
    keys: set[str] = Factory(set)
    gone: set[ReceiptId] = Factory(set)

    def accept(self, delta: SentByUser) -> None:
        """The input has got the next receipt."""
        self.sent.append(delta.content)
        if delta.key is not None:
            self.keys.add(delta.key)

    def learn(self, effect: Effect) -> list[ModelOperation]:
        """An event tells of a change; gives the replies that it drops."""
        if isinstance(effect, MessageAdded):
            self.messages.append(effect.message)
        elif isinstance(effect, MessageReplaced):
            self._replace(effect.message)
        elif isinstance(effect, ThreadCompacted):
            self._compact(effect)
        elif isinstance(effect, ThreadRewritten):
            self.messages = list(effect.messages)
            for message in effect.messages:
                self.removed.pop(message.id, None)
        elif isinstance(effect, ThreadCut):
            dropped = self.messages[effect.length :]
            del self.messages[effect.length :]
            return [message.reply for message in dropped if isinstance(message, AssistantMessage)]
        elif isinstance(effect, InputSettled) and effect.fate in _GONE:
            self.gone.add(effect.receipt)
        return []

    def _compact(self, cut: ThreadCompacted) -> None:
        ids = [message.id for message in self.messages]
        until = len(ids) if cut.first is None else ids.index(cut.first)
        opening = [message for message in self.messages[:until] if message.id == cut.opening]
        self.removed.update((m.id, m) for m in self.messages[:until] if m not in opening)
        self.messages = [*opening, *([] if cut.note is None else [cut.note]), *self.messages[until:]]

    def _replace(self, message: Message) -> None:
        self.messages = [message if other.id == message.id else other for other in self.messages]
        if isinstance(message, UserMessage) and message.receipt is not None:
            self.sent[message.receipt - 1] = message.content

    def begins_a_turn(self, effect: Effect) -> bool:
        """Whether a message of the user has come in: a turn is open now, if none was."""
        if not isinstance(effect, MessageAdded) or not isinstance(effect.message, UserMessage):
            return False
        return effect.message.origin in SENT_BY_USER

    def editable(self) -> list[MessageId]:
        """The messages that the user sent, and may replace."""
        known = (*self.removed.values(), *self.messages)
        return [m.id for m in known if isinstance(m, UserMessage) and m.origin in SENT_BY_USER]

    def replies(self) -> list[ModelOperation]:
        """The replies that are in the thread."""
        return [message.reply for message in self.messages if isinstance(message, AssistantMessage)]

    def compacted_replies(self) -> set[ModelOperation]:
        """The replies that compactions took out, and no edit has put back."""
        return {message.reply for message in self.removed.values() if isinstance(message, AssistantMessage)}

    def contradictions(self, session: Session) -> Iterator[str]:
        """Every accepted message is in one place, as it was sent, and the thread keeps it."""
        found: dict[int, tuple[UserBlock, ...]] = {}
        kept = [m for m in session.thread if isinstance(m, UserMessage) and m.receipt is not None]
        holders: list[UserMessage | QueuedInput | WaitingSteer] = [*kept, *session.inbox.queue, *session.inbox.steers]
        for holder in holders:
            receipt = holder.receipt
            if receipt is None:
                continue
            if receipt in found:
                yield f"receipt {receipt} is in two places"
            found[receipt] = holder.content
        out = {m.receipt for m in self.removed.values() if isinstance(m, UserMessage)}
        expected = {n: c for n, c in enumerate(self.sent, 1) if ReceiptId(n) not in self.gone | out}
        if found != expected:
            yield f"sent and kept are the receipts {sorted(expected)}, and {sorted(found)} are found"
        if [message.id for message in session.thread] != [message.id for message in self.messages]:
            yield f"the thread has {len(session.thread)} messages, and events told of {len(self.messages)}"


def calls_left_out(effect: Effect, calls: list[CallId]) -> list[CallId]:
    """The calls of a reply that is stored without them (rule INFER-7)."""
    if not isinstance(effect, MessageAdded) or not isinstance(effect.message, AssistantMessage):
        return []
    kept = {call.id for call in effect.message.calls}
    return [call for call in calls if call.reply == effect.message.reply and call not in kept]

"""What the witness knows of the thread, as events tell of it, and of what the user sent."""

from attrs import Factory, define

from loopkernel.data.effects import Effect
from loopkernel.data.events import (
    MessageAdded,
    ThreadCompacted,
    ThreadCut,
    ThreadRewritten,
)
from loopkernel.data.ids import CallId, MessageId, ModelOperation
from loopkernel.data.messages import SENT_BY_USER, AssistantMessage, Message, UserMessage
from loopkernel.data.user_deltas import EditMessage, Enqueue, Say, Steer
from loopkernel.data.vector import Vector
from loopkernel.laws.shadow.thread import thread_after

SentByUser = Say | Enqueue | Steer | EditMessage


@define
class SeenThread:
    """The messages, oldest first, those that compactions took out, by id, and the keys of callers."""

    messages: Vector[Message] = Vector()
    removed: dict[MessageId, Message] = Factory(dict)
    keys: set[str] = Factory(set)

    def accept(self, delta: SentByUser) -> None:
        """The input was taken."""
        if delta.key is not None:
            self.keys.add(delta.key)

    def learn(self, effect: Effect) -> list[ModelOperation]:
        """An event tells of a change; gives the replies that it drops."""
        before, self.messages = self.messages, thread_after(self.messages, effect)
        if isinstance(effect, ThreadCompacted):
            kept = {message.id for message in self.messages}
            self.removed.update((message.id, message) for message in before if message.id not in kept)
        elif isinstance(effect, ThreadRewritten):
            for message in effect.messages:
                self.removed.pop(message.id, None)
        elif isinstance(effect, ThreadCut):
            dropped = before.since(effect.length)
            return [message.reply for message in dropped if isinstance(message, AssistantMessage)]
        return []

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


def calls_left_out(effect: Effect, calls: list[CallId]) -> list[CallId]:
    """The calls of a reply that is stored without them (rule INFER-7)."""
    if not isinstance(effect, MessageAdded) or not isinstance(effect.message, AssistantMessage):
        return []
    kept = {call.id for call in effect.message.calls}
    return [call for call in calls if call.reply == effect.message.reply and call not in kept]

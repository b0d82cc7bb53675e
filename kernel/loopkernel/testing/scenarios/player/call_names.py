"""What a scenario calls things: its names of calls, and the numbers of the messages that the user sent."""

from collections.abc import Iterable

from attrs import Factory, define

from loopkernel.data.effects import Effect
from loopkernel.data.events import Edited, MessageAdded
from loopkernel.data.ids import CallId, MessageId, ModelOperation
from loopkernel.data.messages import SENT_BY_USER, UserMessage

# What nobody made: far above any number that a bounded run can mint.
NO_CALL = CallId(ModelOperation(1_000_000), 1)
NO_MESSAGE = MessageId(1_000_000)


@define
class CallNames:
    """The scenario's names, learnt as the run goes on. A name that is used again means its latest call.

    `children` are the names within the sub-agents, by the calls that they run for.
    """

    names: dict[CallId, str] = Factory(dict)
    calls: dict[str, CallId] = Factory(dict)
    sent: list[MessageId] = Factory(list)
    children: dict[CallId, "CallNames"] = Factory(dict)

    def expect_calls(self, reply: ModelOperation, names: Iterable[str]) -> None:
        """The calls of a reply, in the order in which they will stream."""
        for position, name in enumerate(names, 1):
            call = CallId(reply, position)
            self.names[call] = name
            self.calls[name] = call

    def name_of(self, call: CallId) -> str:
        """The scenario's name of a call, or its id where the scenario has none."""
        return self.names.get(call, str(call))

    def address_of(self, call: CallId, path: Iterable[CallId]) -> str:
        """What a call within a sub-agent is called: `c1/k1` is k1 of the sub-agent that runs for c1."""
        words, names = [self.name_of(call)], self.children.get(call)
        for inner in path:
            words.append(str(inner) if names is None else names.name_of(inner))
            names = None if names is None else names.children.get(inner)
        return "/".join(words)

    def call_named(self, name: str) -> CallId:
        """The call of that name, or one that does not exist."""
        return self.calls.get(name, NO_CALL)

    def message_sent(self, number: int) -> MessageId:
        """The message that the user sent as the `number`-th (from 1), or one that does not exist."""
        return self.sent[number - 1] if 1 <= number <= len(self.sent) else NO_MESSAGE

    def number_of(self, message: MessageId) -> int:
        """Which of the user's messages this is, from 1; 0 if it is none of them."""
        return self.sent.index(message) + 1 if message in self.sent else 0

    def learn(self, effects: Iterable[Effect]) -> None:
        """Note the messages that came and went with one step."""
        for effect in effects:
            if isinstance(effect, Edited):
                del self.sent[max(self.number_of(effect.message) - 1, 0) :]
            elif isinstance(effect, MessageAdded):
                message = effect.message
                if isinstance(message, UserMessage) and message.origin in SENT_BY_USER:
                    self.sent.append(message.id)

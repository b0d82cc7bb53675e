"""The conversation: an append-only log of messages, and a generation that changes when history is rewritten."""

from collections.abc import Iterator

from loopkernel.data.messages import Message
from loopkernel.data.value_classes import frozen, maker
from loopkernel.data.vector import Vector


@frozen
class Thread:
    """The messages in order.

    Within one `generation` a thread only grows, so a request that holds a later thread extends one that
    holds an earlier. `opaque_models` names the models that left opaque blocks in it.
    """

    messages: Vector[Message] = Vector()
    generation: int = 0
    opaque_models: tuple[str, ...] = ()

    def append(self, message: Message) -> "Thread":
        """This thread with one more message."""
        return new_thread(self.messages.append(message), self.generation, self.opaque_models)

    def __len__(self) -> int:
        return self.messages.size

    def __iter__(self) -> Iterator[Message]:
        return iter(self.messages)


new_thread = maker(Thread)

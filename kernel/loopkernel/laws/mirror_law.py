"""The pair law about what a client sees: MIRROR. The client folds the events, and knows nothing else."""

from collections.abc import Iterator
from typing import final

from loopkernel.data.effects import Effect, TellHook
from loopkernel.data.events import (
    ApprovalForgotten,
    ErrorCleared,
    ErrorShown,
)
from loopkernel.data.messages import Message
from loopkernel.data.remembered import RememberedCall
from loopkernel.data.sessions import ShownError
from loopkernel.data.states import State
from loopkernel.data.vector import Vector
from loopkernel.laws.accounts.secrets import as_shown, shown_json
from loopkernel.laws.shadow.step import JudgedStep
from loopkernel.laws.shadow.thread import thread_after
from loopkernel.laws.views import extends


@final
class Client:
    """What a client holds that knows the start and the events alone: the visible thread and the shown error."""

    def __init__(self, start: State) -> None:
        session = start.session
        self.messages: Vector[Message] = Vector.of(() if session is None else map(as_shown, session.thread.messages))
        self.error: ShownError | None = None if session is None else session.error

    def take(self, effect: Effect) -> None:
        """Fold one event; what a client has no view of is passed over."""
        self.messages = thread_after(self.messages, effect)
        if isinstance(effect, ErrorShown):
            self.error = ShownError(effect.error, effect.message)
        elif isinstance(effect, ErrorCleared):
            self.error = None


def _secrets_told(step: JudgedStep) -> Iterator[str]:
    """TOOL-12 beside the thread: for hooks that observe messages, and of approvals that are taken back."""
    for effect in step.effects:
        if isinstance(effect, TellHook):
            message = effect.context.message
            if message is not None and as_shown(message) != message:
                yield f"hook {effect.context.name} is told of message {message.id}, and of a secret in it"
        elif isinstance(effect, ApprovalForgotten):
            approval = effect.remembered
            if isinstance(approval, RememberedCall) and shown_json(approval.input) != approval.input:
                yield f"an approval of tool {approval.tool} is told to be taken back with a secret in it"


@final
class Mirror:
    """A client that folds the events holds the kernel's thread, but for secrets, and its error after every step."""

    def __init__(self, start: State) -> None:
        self._client = Client(start)

    def take(self, step: JudgedStep) -> Iterator[str]:
        """What is wrong with this step."""
        client = self._client
        shown = client.messages
        yield from _secrets_told(step)
        for effect in step.effects:
            client.take(effect)
        session = step.session
        if session is None:
            return
        held = session.thread.messages
        if len(client.messages) != len(held) or not _same_news(client, shown, step, held):
            yield f"the client holds {len(client.messages)} messages, not the kernel's {len(held)}"
            client.messages = Vector.of(map(as_shown, held))  # go on from the truth, so that one fault is told once
        if client.error != session.error:
            yield f"the client shows {client.error}, and the kernel {session.error}"
            client.error = session.error


def _same_news(client: Client, shown: Vector[Message], step: JudgedStep, held: Vector[Message]) -> bool:
    """Whether the threads are the same, given that they were before this step, and what is shown holds no secret."""
    before = None if step.session_before is None else step.session_before.thread.messages
    if before is held and client.messages is shown:
        return True
    known = len(before) if before is not None and extends(before, held) and extends(shown, client.messages) else 0
    return list(client.messages.since(known)) == list(map(as_shown, held.since(known)))

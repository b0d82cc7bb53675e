"""The thread as a region: each function appends one message and says so."""

from attrs import evolve

from loopkernel.data.blocks import AssistantBlock, OpaqueBlock, TextBlock, ToolResult, UserBlock
from loopkernel.data.effects import Effect
from loopkernel.data.events import InputSettled, MessageAdded
from loopkernel.data.ids import MessageId, ModelOperation, ReceiptId
from loopkernel.data.messages import (
    AssistantMessage,
    Message,
    ReplyState,
    ResultMessage,
    UserMessage,
    UserOrigin,
)
from loopkernel.data.sessions import NO_COURSE, OpenReply, Session
from loopkernel.data.threads import Thread
from loopkernel.data.watches import Watch
from loopkernel.data.words import InputFate, StopReason
from loopkernel.loop.algorithms.clearing import is_cleared
from loopkernel.loop.algorithms.compaction import grown
from loopkernel.loop.algorithms.redaction import redacted_message
from loopkernel.loop.gates.hooks import tell_message


def _append(session: Session, thread: Thread, message: Message) -> tuple[Session, tuple[Effect, ...]]:
    """The message goes to the end of the thread; what is shown of it holds no secret (rule TOOL-12)."""
    bodies = session.bodies
    if isinstance(message, ResultMessage):
        bodies += sum([not is_cleared(result) for result in message.results])
    longer = session.updated(
        thread=thread.append(message),
        counters=session.counters.with_message(message.id),
        bodies=bodies,
        size=grown(session.size, message),
    )
    return longer, (MessageAdded(redacted_message(message)), *tell_message(longer, message))


def _next_id(session: Session) -> MessageId:
    return MessageId(session.counters.messages + 1)


def add_input(
    session: Session,
    content: tuple[UserBlock, ...],
    origin: UserOrigin,
    receipt: ReceiptId,
    key: str | None = None,
) -> tuple[Session, tuple[Effect, ...]]:
    """What the user sent goes into the thread; its receipt is settled.

    Repetition, and what happens before a correction, are counted anew (rules LIMIT-3 and HOOK-3).
    """
    if session.watch.calls or session.course is not NO_COURSE:
        session = evolve(session, watch=Watch(disabled=session.watch.disabled), course=NO_COURSE)
    message = UserMessage(id=_next_id(session), content=content, origin=origin, receipt=receipt)
    session, added = _append(session, session.thread, message)
    return session, (InputSettled(receipt, InputFate.IN_THREAD, key), *added)


def add_foreign_input(session: Session, content: tuple[UserBlock, ...]) -> tuple[Session, tuple[Effect, ...]]:
    """What a user sent in a conversation recorded elsewhere goes into the thread; it has no receipt here."""
    message = UserMessage(id=_next_id(session), content=content)
    return _append(session, session.thread, message)


def add_note(session: Session, text: str, origin: UserOrigin) -> tuple[Session, tuple[Effect, ...]]:
    """What the kernel says in the user's place goes into the thread."""
    return add_blocks(session, (TextBlock(text),), origin)


def add_blocks(
    session: Session, content: tuple[UserBlock, ...], origin: UserOrigin
) -> tuple[Session, tuple[Effect, ...]]:
    """What the kernel hands over in the user's place goes into the thread."""
    message = UserMessage(id=_next_id(session), content=content, origin=origin)
    return _append(session, session.thread, message)


def add_reply(
    session: Session, reply: OpenReply, content: tuple[AssistantBlock, ...], stop: StopReason | None
) -> tuple[Session, tuple[Effect, ...]]:
    """A reply goes into the thread, whole, or (without a stop reason) cut by a cancel."""
    message = AssistantMessage(
        id=_next_id(session),
        reply=reply.operation,
        model=reply.model,
        content=content,
        stop=stop,
        state=ReplyState.CANCELLED if stop is None else ReplyState.COMPLETE,
        usage=reply.usage,
    )
    thread = session.thread
    for block in content:
        if isinstance(block, OpaqueBlock) and block.model not in thread.opaque_models:
            thread = Thread(thread.messages, thread.generation, (*thread.opaque_models, block.model))
    return _append(session, thread, message)


def add_results(
    session: Session, reply: ModelOperation, results: tuple[ToolResult, ...]
) -> tuple[Session, tuple[Effect, ...]]:
    """The answers to a reply's calls go into the thread, in call order."""
    message = ResultMessage(id=_next_id(session), reply=reply, results=results)
    return _append(session, session.thread, message)

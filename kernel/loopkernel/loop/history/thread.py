"""The thread: each function appends one message and says so."""

from attrs import evolve

from loopkernel.data.blocks import AssistantBlock, OpaqueBlock, TextBlock, ToolResult, UserBlock
from loopkernel.data.events import InputSettled, MessageAdded
from loopkernel.data.ids import MessageId, ModelOperation, ReceiptId
from loopkernel.data.messages import (
    Message,
    ReplyState,
    ResultMessage,
    UserMessage,
    UserOrigin,
    new_assistant_message,
)
from loopkernel.data.sessions import NO_COURSE, OpenReply
from loopkernel.data.threads import Thread
from loopkernel.data.usage import Usage
from loopkernel.data.watches import Watch
from loopkernel.data.words import HookPoint, InputFate, StopReason
from loopkernel.loop.algorithms.clearing import is_cleared
from loopkernel.loop.algorithms.compaction import grown
from loopkernel.loop.algorithms.redaction import redacted_message
from loopkernel.loop.draft import Draft, L
from loopkernel.loop.gates.hooks import context, tell_hooks


def _append(
    draft: Draft[L],
    message: Message,
    thread: Thread | None = None,
    usage: Usage | None = None,
    watch: Watch | None = None,
) -> Draft[L]:
    """The message goes to the end of the thread; what is shown of it holds no secret (rule TOOL-12).

    The thread, and what else is given, take the place of the session's.
    """
    session = draft.session
    bodies = session.bodies
    if isinstance(message, ResultMessage):
        for result in message.results:
            bodies += not is_cleared(result)
    longer = session.updated(
        thread=(session.thread if thread is None else thread).append(message),
        usage=usage,
        counters=session.counters.with_message(message.id),
        bodies=bodies,
        watch=watch,
        size=grown(session.size, message),
    )
    shown = redacted_message(message)
    draft = draft.with_session(longer, MessageAdded(shown))
    if not longer.settings.policy.hooks:
        return draft
    return tell_hooks(draft, context(longer, HookPoint.MESSAGE_ADDED, message=shown))


def _next_id(draft: Draft[L]) -> MessageId:
    return MessageId(draft.session.counters.messages + 1)


def add_input(
    draft: Draft[L], content: tuple[UserBlock, ...], origin: UserOrigin, receipt: ReceiptId, key: str | None = None
) -> Draft[L]:
    """What the user sent goes into the thread; its receipt is settled.

    Repetition, and what happens before a correction, are counted anew (rules LIMIT-3 and HOOK-3).
    """
    session = draft.session
    if session.watch.calls or session.course is not NO_COURSE:
        draft = draft.with_session(evolve(session, watch=Watch(disabled=session.watch.disabled), course=NO_COURSE))
    draft = draft.tell(InputSettled(receipt, InputFate.IN_THREAD, key))
    return _append(draft, UserMessage(id=_next_id(draft), content=content, origin=origin, receipt=receipt))


def add_foreign_input(draft: Draft[L], content: tuple[UserBlock, ...]) -> Draft[L]:
    """What a user sent in a conversation recorded elsewhere goes into the thread; it has no receipt here."""
    return _append(draft, UserMessage(id=_next_id(draft), content=content))


def add_note(draft: Draft[L], text: str, origin: UserOrigin) -> Draft[L]:
    """What the kernel says in the user's place goes into the thread."""
    return add_blocks(draft, (TextBlock(text),), origin)


def add_blocks(draft: Draft[L], content: tuple[UserBlock, ...], origin: UserOrigin) -> Draft[L]:
    """What the kernel hands over in the user's place goes into the thread."""
    return _append(draft, UserMessage(id=_next_id(draft), content=content, origin=origin))


def add_reply(
    draft: Draft[L],
    reply: OpenReply,
    content: tuple[AssistantBlock, ...],
    stop: StopReason | None,
    *,
    usage: Usage | None = None,
    watch: Watch | None = None,
) -> Draft[L]:
    """A reply goes into the thread, whole, or (without a stop reason) cut by a cancel.

    `usage` and `watch` are those of the session from then on, where they are given.
    """
    message = new_assistant_message(
        id=_next_id(draft),
        reply=reply.operation,
        model=reply.model,
        content=content,
        stop=stop,
        state=ReplyState.CANCELLED if stop is None else ReplyState.COMPLETE,
        usage=reply.usage,
    )
    thread: Thread = draft.session.thread
    for block in content:
        if isinstance(block, OpaqueBlock) and block.model not in thread.opaque_models:
            thread = Thread(thread.messages, thread.generation, (*thread.opaque_models, block.model))
    return _append(draft, message, thread, usage, watch)


def add_results(draft: Draft[L], reply: ModelOperation, results: tuple[ToolResult, ...]) -> Draft[L]:
    """The answers to a reply's calls go into the thread, in call order."""
    return _append(draft, ResultMessage(id=_next_id(draft), reply=reply, results=results))

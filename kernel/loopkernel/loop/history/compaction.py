"""The thread is made smaller, by a summary, a window or cleared results, and put back for an edit (COMPACT)."""

from collections import deque
from typing import assert_never

from attrs import evolve, frozen

from loopkernel.data.blocks import OpaqueBlock, TextBlock
from loopkernel.data.choices import CompactionMoment, CompactionStrategy
from loopkernel.data.compactions import Compactions, Cut, Removal
from loopkernel.data.effects import AbortOther, Effect, Summarise
from loopkernel.data.events import CompactionEnded, CompactionStarted, ThreadCompacted, ThreadRewritten
from loopkernel.data.ids import MessageId, OperationKind, SummaryOperation
from loopkernel.data.messages import SENT_BY_USER, AssistantMessage, Message, ResultMessage, UserMessage, UserOrigin
from loopkernel.data.policy import Compaction
from loopkernel.data.sessions import Session, Turn
from loopkernel.data.threads import Thread
from loopkernel.data.vector import Vector
from loopkernel.loop.algorithms.clearing import is_cleared
from loopkernel.loop.algorithms.compaction import (
    characters_of,
    cut_messages,
    fitted,
    is_too_large,
    is_too_long,
    needs_note,
    plan_cut,
    removed,
    rewritten,
)
from loopkernel.loop.algorithms.redaction import redacted_message
from loopkernel.loop.algorithms.wording import GAP, summary_text
from loopkernel.loop.history.clearing import clear_before

Changed = tuple[Session, tuple[Effect, ...]]


@frozen
class Opened:
    """A compaction that has begun: done already, unless a summary is being made under `operation`."""

    session: Session
    cut: Cut
    effects: tuple[Effect, ...]
    operation: SummaryOperation | None = None


# --- when -----------------------------------------------------------------------------------------------


def compact_if_due(session: Session, turn: Turn, now_ms: int) -> tuple[Session, Opened | None]:
    """Before a request: the compaction that a trigger, or the user, asks for; None where there is none to make."""
    policy, past = session.settings.policy.compaction, session.compactions
    if past.requested:
        session = evolve(session, compactions=evolve(past, requested=False))
    elif policy is None or not _is_due(session, policy, turn) or _is_put_off(session, now_ms):
        return session, None
    opened = compact(session)
    return (session, None) if opened is None else (opened.session, opened)


def _is_due(session: Session, policy: Compaction, turn: Turn) -> bool:
    first = not turn.requested
    if policy.when is CompactionMoment.TURN_START and not first:
        return False
    return is_too_long(session.thread.messages, policy, first=first) or is_too_large(session.size, policy)


def _is_put_off(session: Session, now_ms: int) -> bool:
    """Whether none is tried for now, since too many have failed (rule COMPACT-4)."""
    again_ms = session.compactions.again_ms
    return again_ms is not None and now_ms < again_ms


def _is_useless(session: Session) -> bool:
    useless_at = session.compactions.useless_at
    return useless_at is not None and len(session.thread) <= useless_at


def request_compaction(session: Session) -> Session | None:
    """The user wants one before the next request; None where nothing could be cut."""
    if planned_cut(session) is None:
        return None
    return evolve(session, compactions=evolve(session.compactions, requested=True))


def planned_cut(session: Session) -> Cut | None:
    """What a compaction would keep; None where there is nothing to cut, or the last one was of no use (COMPACT-5)."""
    policy = session.settings.policy.compaction
    if policy is None or _is_useless(session):
        return None
    cut = plan_cut(session.thread.messages, policy)
    if cut is None or policy.strategy is not CompactionStrategy.CLEAR:
        return cut
    return cut if _has_bodies_before(session, cut.until) else None


def _has_bodies_before(session: Session, until: int) -> bool:
    messages = session.thread.messages
    found = (messages[index] for index in range(min(session.bodies_from, until), until))
    return any(
        not is_cleared(result) for message in found if isinstance(message, ResultMessage) for result in message.results
    )


# --- how ------------------------------------------------------------------------------------------------


def compact(session: Session) -> Opened | None:
    """A compaction by the policy's strategy; None where there is nothing to cut."""
    policy, cut = session.settings.policy.compaction, planned_cut(session)
    if policy is None or cut is None:
        return None
    match policy.strategy:
        case CompactionStrategy.SUMMARISE:
            session, operation, asked = ask_summary(session, cut)
            return Opened(session, cut, (CompactionStarted(), *asked), operation)
        case CompactionStrategy.WINDOW:
            note = GAP if needs_note(session.thread.messages, cut) else None
            session, trimmed = _replace(session, cut, note, UserOrigin.GAP_NOTE)
        case CompactionStrategy.CLEAR:
            before = session.size.total
            session, trimmed = clear_before(session, cut.until)
            session = _succeeded(session, before)
        case other:
            assert_never(other)
    return Opened(session, cut, (CompactionStarted(), *trimmed, CompactionEnded(True)))


def ask_summary(session: Session, cut: Cut) -> tuple[Session, SummaryOperation, tuple[Effect, ...]]:
    """A summary of what the cut leaves out is asked for."""
    operations, number = session.operations.mint(OperationKind.SUMMARY)
    operation = SummaryOperation(number)
    command = Summarise(operation=operation, thread=session.thread, cut=cut)
    return session.with_operations(operations), operation, (command,)


def take_summary(session: Session, cut: Cut, text: str) -> Changed:
    """The summary takes the place of what the cut leaves out (rule COMPACT-3)."""
    cut = fitted(cut, len(session.thread))
    session, trimmed = _replace(session, cut, summary_text(text), UserOrigin.SUMMARY)
    return session, (*trimmed, CompactionEnded(True))


def summary_failed(session: Session, now_ms: int) -> Changed:
    """There is no summary: after too many failures in a row none is tried for some time (rule COMPACT-4)."""
    policy, past = session.settings.policy.compaction, session.compactions
    failures = past.failures + 1
    pause = policy is not None and failures >= policy.failures
    again_ms = now_ms + policy.cooldown_ms if policy is not None and pause else past.again_ms
    session = evolve(session, compactions=evolve(past, failures=failures, again_ms=again_ms))
    return session, (CompactionEnded(False),)


def abort_summary(session: Session, operation: SummaryOperation) -> Changed:
    """The summary is of no more interest, and whoever makes it is told so."""
    session, ended = drop_summary(session, operation)
    return session, (AbortOther(OperationKind.SUMMARY, operation), *ended)


def drop_summary(session: Session, operation: SummaryOperation) -> Changed:
    """The summary is of no more interest."""
    operations = session.operations.abandon(OperationKind.SUMMARY, operation)
    return session.with_operations(operations), (CompactionEnded(False),)


def _replace(session: Session, cut: Cut, note: str | None, origin: UserOrigin) -> Changed:
    """The note, if any, takes the place of what the cut leaves out, which is kept to be put back (rule INPUT-4)."""
    thread, size = session.thread, session.size.total
    before = thread.messages
    counters, message = session.counters, None
    if note is not None:
        counters = evolve(counters, messages=counters.messages + 1)
        message = UserMessage(id=MessageId(counters.messages), content=(TextBlock(note),), origin=origin)
    messages = cut_messages(before, cut, message)
    removal = Removal(
        messages=before.first(cut.until) if cut.opening is None else Vector.of(removed(before, cut)),
        opening=None if cut.opening is None else before[cut.opening].id,
        before=0 if cut.opening is None else cut.opening,
        note=None if message is None else message.id,
    )
    past = session.compactions
    session = evolve(
        with_messages(session, messages),
        counters=counters,
        compactions=evolve(past, removals=past.removals.append(removal)),
    )
    told = ThreadCompacted(
        opening=removal.opening,
        note=None if message is None else redacted_message(message),
        first=before[cut.until].id if cut.until < before.size else None,
    )
    return _succeeded(session, size), (told,)


def _succeeded(session: Session, size: int) -> Session:
    """The compaction is done; whether it was of use shows in the characters that the thread had before it."""
    useless_at = len(session.thread) if session.size.total >= size else None
    past: Compactions = session.compactions
    return evolve(session, compactions=evolve(past, failures=0, again_ms=None, useless_at=useless_at))


def with_messages(session: Session, messages: Vector[Message]) -> Session:
    """The session with other messages in its thread, all of it counted anew."""
    bodies = total = 0
    opaque: dict[str, None] = {}
    for message in messages:
        total += characters_of(message)
        if isinstance(message, ResultMessage):
            bodies += sum(not is_cleared(result) for result in message.results)
        elif isinstance(message, AssistantMessage):
            opaque.update((block.model, None) for block in message.content if isinstance(block, OpaqueBlock))
    thread = Thread(messages, session.thread.generation + 1, tuple(opaque))
    return evolve(session, thread=thread, bodies=bodies, bodies_from=0, size=rewritten(total))


# --- and back -------------------------------------------------------------------------------------------


def was_removed(session: Session, message: MessageId) -> bool:
    """Whether a compaction has taken the message of that id, one that the user sent, out of the thread."""
    return any(
        found.id == message and isinstance(found, UserMessage) and found.origin in SENT_BY_USER
        for removal in session.compactions.removals
        for found in removal.messages
    )


def restore_for(session: Session, message: MessageId) -> Changed:
    """The message is about to be edited: what compactions took out, of it and of what stood before it, is put back."""
    removals = session.compactions.removals
    left = removals.size
    thread = deque(session.thread.messages)
    there = any(found.id == message for found in thread)
    while left and (not there or removals[left - 1].opening == message):
        left -= 1
        there = there or any(found.id == message for found in removals[left].messages)
        _put_back(thread, removals[left])
    if left == removals.size:
        return session, ()
    session = with_messages(session, Vector.of(thread))
    session = evolve(session, compactions=evolve(session.compactions, removals=removals.first(left), useless_at=None))
    return session, (ThreadRewritten(tuple(redacted_message(each) for each in thread)),)


def _put_back(thread: deque[Message], removal: Removal) -> None:
    """The thread begins again as it did before the removal."""
    front: list[Message] = []
    for stayed in (removal.opening, removal.note):
        if stayed is not None and thread and thread[0].id == stayed:
            front.append(thread.popleft())
    opening = [found for found in front if found.id == removal.opening]
    gone = tuple(removal.messages)
    thread.extendleft(reversed((*gone[: removal.before], *opening, *gone[removal.before :])))

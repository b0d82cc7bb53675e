"""The thread is made smaller: old results cleared, a summary or a window put in its place; and put back for an edit.

Rules TOOL-11 and COMPACT-1 to 5.
"""

from collections import deque
from typing import assert_never

from attrs import evolve

from loopkernel.data.blocks import OpaqueBlock, TextBlock
from loopkernel.data.choices import ClearMoment, CompactionMoment, CompactionStrategy
from loopkernel.data.compactions import Compactions, Cut, Removal
from loopkernel.data.effects import AbortOther, Summarise
from loopkernel.data.events import (
    CompactionEnded,
    CompactionStarted,
    MessageReplaced,
    ResultsCleared,
    ThreadCompacted,
    ThreadRewritten,
)
from loopkernel.data.ids import CallId, MessageId, OperationKind, SummaryOperation
from loopkernel.data.messages import SENT_BY_USER, AssistantMessage, Message, ResultMessage, UserMessage, UserOrigin
from loopkernel.data.policy import ClearResults, Compaction
from loopkernel.data.sessions import Session, Turn
from loopkernel.data.threads import Thread
from loopkernel.data.value_classes import frozen
from loopkernel.data.vector import Vector
from loopkernel.loop.algorithms.clearing import cleared_message, is_cleared
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
    within_window,
)
from loopkernel.loop.algorithms.redaction import redacted_message
from loopkernel.loop.algorithms.shortening import with_short_results
from loopkernel.loop.algorithms.wording import GAP, summary_text
from loopkernel.loop.draft import Draft, L


@frozen
class OpenSummary:
    """A summary that is being made of what `cut` leaves out."""

    operation: SummaryOperation
    cut: Cut


# --- results are cleared --------------------------------------------------------------------------------


def clear_results(draft: Draft[L]) -> Draft[L]:
    """By policy, at each request: above a count of results with a body, all but the latest lose it."""
    policy = draft.session.settings.policy.clear_results
    if policy is None or policy.when is not ClearMoment.EACH_REQUEST or draft.session.bodies <= policy.above:
        return draft
    return _clear(draft, policy.keep)


def clears_under_pressure(session: Session) -> ClearResults | None:
    """How bodies of results are cleared when the prompt is too long, whatever their count; None: none is left to."""
    policy = session.settings.policy.clear_results
    return None if policy is None or session.bodies <= policy.keep else policy


def clear_under_pressure(draft: Draft[L], policy: ClearResults) -> Draft[L]:
    """The prompt is too long: all bodies but the latest are cleared (rule INFER-8)."""
    return _clear(draft, policy.keep)


def _clear_before(draft: Draft[L], until: int) -> Draft[L]:
    """All results before that index of the thread lose their body (rule COMPACT-2)."""
    later = draft.session.thread.messages.since(until)
    kept = sum(
        not is_cleared(result) for message in later if isinstance(message, ResultMessage) for result in message.results
    )
    return _clear(draft, kept)


def _clear(draft: Draft[L], keep: int) -> Draft[L]:
    """All results but so many lose their body; nothing is told where none has to."""
    session = draft.session
    if session.bodies <= keep:
        return draft
    thread = session.thread
    messages, remaining, gone = thread.messages, session.bodies, list[CallId]()
    total = session.size.total
    first = len(messages)
    for index in range(session.bodies_from, len(messages)):
        message = messages[index]
        if not isinstance(message, ResultMessage):
            continue
        bodies = [result.call for result in message.results if not is_cleared(result)]
        old = bodies[: remaining - keep]
        shorter = cleared_message(message, frozenset(old))
        total += characters_of(shorter) - characters_of(message)
        messages = messages.replace(index, shorter)
        gone.extend(old)
        remaining -= len(old)
        if len(old) < len(bodies):
            first = index
            break
    thread = evolve(thread, messages=messages, generation=thread.generation + 1)
    size = rewritten(total)
    cleared = evolve(session, thread=thread, bodies=remaining, bodies_from=first, size=size)
    return draft.with_session(cleared).tell(ResultsCleared(tuple(gone)))


def replace_message(draft: Draft[L], place: int, replaced: Message) -> Draft[L]:
    """The message at that place of the thread reads otherwise, which is told."""
    session = draft.session
    thread, message = session.thread, session.thread.messages[place]
    messages = thread.messages.replace(place, replaced)
    thread = Thread(messages, thread.generation + 1, thread.opaque_models)
    size = rewritten(session.size.total + characters_of(replaced) - characters_of(message))
    bodies = session.bodies + bodies_of(replaced) - bodies_of(message)
    session = session.updated(thread=thread, size=size, bodies=bodies)
    if isinstance(replaced, ResultMessage) and place < session.bodies_from:
        session = evolve(session, bodies_from=place)
    return draft.with_session(session).tell(MessageReplaced(redacted_message(replaced)))


def bodies_of(message: Message) -> int:
    """How many of its results have a body."""
    return sum(not is_cleared(each) for each in message.results) if isinstance(message, ResultMessage) else 0


def shorten_oldest(draft: Draft[L]) -> Draft[L] | None:
    """The prompt is too long: by policy the oldest results keep their ends alone (INFER-8); None: they do already."""
    policy = draft.session.settings.policy.compaction
    kept = None if policy is None else policy.shorten_results
    if kept is None:
        return None
    messages = draft.session.thread.messages
    for place in range(messages.size):
        message = messages[place]
        if isinstance(message, ResultMessage):
            shorter = with_short_results(message, kept)
            return None if shorter == message else replace_message(draft, place, shorter)
    return None


# --- when -----------------------------------------------------------------------------------------------


def compact_if_due(draft: Draft[L], turn: Turn) -> tuple[Draft[L], OpenSummary | None]:
    """Before a request: the compaction that a trigger, or the user, asks for; a summary comes only later."""
    session = draft.session
    policy, past = session.settings.policy.compaction, session.compactions
    if past.requested:
        draft = draft.with_session(evolve(session, compactions=evolve(past, requested=False)))
    elif policy is None or not _is_due(session, policy, turn) or _is_put_off(session, draft.stamp.now_ms):
        return draft, None
    cut = planned_cut(draft.session)
    return (draft, None) if cut is None else compact(draft, cut)


def _is_due(session: Session, policy: Compaction, turn: Turn) -> bool:
    first = not turn.requested
    if policy.when is CompactionMoment.TURN_END or (policy.when is CompactionMoment.TURN_START and not first):
        return False
    return is_too_long(session.thread.messages, policy, first=first) or is_too_large(session.size, policy)


def compact_at_end(draft: Draft[L]) -> Draft[L]:
    """By policy, the thread is made smaller when a turn ends, and not before requests (rule COMPACT-1)."""
    session = draft.session
    policy = session.settings.policy.compaction
    if policy is None or policy.when is not CompactionMoment.TURN_END:
        return draft
    if not (is_too_long(session.thread.messages, policy, first=True) or is_too_large(session.size, policy)):
        return draft
    cut = planned_cut(session)
    return draft if cut is None else compact(draft, cut)[0]


def _is_put_off(session: Session, now_ms: int) -> bool:
    """Whether none is tried for now, since too many have failed (rule COMPACT-4)."""
    again_ms = session.compactions.again_ms
    return again_ms is not None and now_ms < again_ms


def _is_useless(session: Session) -> bool:
    useless_at = session.compactions.useless_at
    return useless_at is not None and len(session.thread) <= useless_at


def request_compaction(draft: Draft[L]) -> Draft[L] | None:
    """The user wants one before the next request; None where nothing could be cut."""
    session = draft.session
    if planned_cut(session) is None:
        return None
    return draft.with_session(evolve(session, compactions=evolve(session.compactions, requested=True)))


def planned_cut(session: Session, *, too_long: bool = False) -> Cut | None:
    """What a compaction would keep; None where there is nothing to cut, or the last one was of no use (COMPACT-5).

    `too_long`: of a prompt that is too long something has to go, however few messages a window holds (rule INFER-8).
    """
    policy = session.settings.policy.compaction
    if policy is None:
        return None
    goes_on = too_long and policy.strategy is CompactionStrategy.WINDOW  # each such cut leaves fewer messages
    if _is_useless(session) and not goes_on:
        return None
    if too_long:
        policy = within_window(session.thread.messages, policy)
        if policy is None:
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


def compact(draft: Draft[L], cut: Cut) -> tuple[Draft[L], OpenSummary | None]:
    """What the cut leaves out goes, by the policy's strategy; a summary comes only later."""
    policy, session = draft.session.settings.policy.compaction, draft.session
    if policy is None:
        return draft, None
    draft = draft.tell(CompactionStarted())
    match policy.strategy:
        case CompactionStrategy.SUMMARISE:
            return ask_summary(draft, cut)
        case CompactionStrategy.WINDOW:
            note = GAP if needs_note(session.thread.messages, cut) else None
            draft = _replace(draft, cut, note, UserOrigin.GAP_NOTE)
        case CompactionStrategy.CLEAR:
            draft = _succeeded(_clear_before(draft, cut.until), session.size.total)
        case other:
            assert_never(other)
    return draft.tell(CompactionEnded(True)), None


def ask_summary(draft: Draft[L], cut: Cut) -> tuple[Draft[L], OpenSummary]:
    """A summary of what the cut leaves out is asked for."""
    draft, number = draft.mint(OperationKind.SUMMARY)
    operation = SummaryOperation(number)
    command = Summarise(operation=operation, thread=draft.session.thread, cut=cut)
    return draft.tell(command), OpenSummary(operation, cut)


def take_summary(draft: Draft[L], cut: Cut, text: str) -> Draft[L]:
    """The summary takes the place of what the cut leaves out (rule COMPACT-3)."""
    cut = fitted(cut, len(draft.session.thread))
    return _replace(draft, cut, summary_text(text), UserOrigin.SUMMARY).tell(CompactionEnded(True))


def summary_failed(draft: Draft[L]) -> Draft[L]:
    """There is no summary: after too many failures in a row none is tried for some time (rule COMPACT-4)."""
    policy, past = draft.session.settings.policy.compaction, draft.session.compactions
    failures = past.failures + 1
    pause = policy is not None and failures >= policy.failures
    again_ms = draft.stamp.now_ms + policy.cooldown_ms if policy is not None and pause else past.again_ms
    past = evolve(past, failures=failures, again_ms=again_ms)
    return draft.with_session(evolve(draft.session, compactions=past)).tell(CompactionEnded(False))


def abort_summary(draft: Draft[L], operation: SummaryOperation) -> Draft[L]:
    """The summary is of no more interest, and whoever makes it is told so."""
    return forget_summary(draft.tell(AbortOther(OperationKind.SUMMARY, operation)), operation)


def forget_summary(draft: Draft[L], operation: SummaryOperation) -> Draft[L]:
    """The summary is of no more interest."""
    return draft.abandon(OperationKind.SUMMARY, operation).tell(CompactionEnded(False))


def _replace(draft: Draft[L], cut: Cut, note: str | None, origin: UserOrigin) -> Draft[L]:
    """The note, if any, takes the place of what the cut leaves out, which is kept to be put back (rule INPUT-4)."""
    session = draft.session
    size, before = session.size.total, session.thread.messages
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
    return _succeeded(draft.with_session(session).tell(told), size)


def _succeeded(draft: Draft[L], size: int) -> Draft[L]:
    """The compaction is done; whether it was of use shows in the characters that the thread had before it."""
    session = draft.session
    useless_at = len(session.thread) if session.size.total >= size else None
    past: Compactions = evolve(session.compactions, failures=0, again_ms=None, useless_at=useless_at)
    return draft.with_session(evolve(session, compactions=past))


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


def restore_for(draft: Draft[L], message: MessageId) -> Draft[L]:
    """The message is about to be edited: what compactions took out, of it and of what stood before it, is put back."""
    session = draft.session
    removals = session.compactions.removals
    left = removals.size
    thread = deque(session.thread.messages)
    there = any(found.id == message for found in thread)
    while left and (not there or removals[left - 1].opening == message):
        left -= 1
        there = there or any(found.id == message for found in removals[left].messages)
        _put_back(thread, removals[left])
    if left == removals.size:
        return draft
    session = with_messages(session, Vector.of(thread))
    session = evolve(session, compactions=evolve(session.compactions, removals=removals.first(left), useless_at=None))
    return draft.with_session(session).tell(ThreadRewritten(tuple(redacted_message(each) for each in thread)))


def _put_back(thread: deque[Message], removal: Removal) -> None:
    """The thread begins again as it did before the removal."""
    front: list[Message] = []
    for stayed in (removal.opening, removal.note):
        if stayed is not None and thread and thread[0].id == stayed:
            front.append(thread.popleft())
    opening = [found for found in front if found.id == removal.opening]
    gone = tuple(removal.messages)
    thread.extendleft(reversed((*gone[: removal.before], *opening, *gone[removal.before :])))

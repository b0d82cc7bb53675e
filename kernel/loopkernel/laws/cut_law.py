"""The pair law about compaction: CUT-SAFE. A thread that was cut, or put together again, still keeps law PAIR.

Two things are judged. What the kernel did: each cut that is told, and the thread after it. And what it might do: the
threads that were sent are cut as the kernel would, under many policies, again and again, until nothing is left to cut.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import final

from loopkernel.data.blocks import TextBlock
from loopkernel.data.choices import CompactionStrategy
from loopkernel.data.compactions import Cut
from loopkernel.data.events import (
    MessageReplaced,
    ResultsCleared,
    ThreadCompacted,
    ThreadCut,
    ThreadRewritten,
)
from loopkernel.data.ids import MessageId
from loopkernel.data.messages import (
    AssistantMessage,
    Message,
    ResultMessage,
    UserMessage,
    UserOrigin,
)
from loopkernel.data.outside_deltas import SummaryReady
from loopkernel.data.policy import Compaction, Policy
from loopkernel.data.sessions import Session
from loopkernel.data.states import Compacting
from loopkernel.data.threads import Thread
from loopkernel.data.vector import Vector
from loopkernel.laws.accounts.cutting import is_left_by_cut, is_sent_by_user, opens_a_turn, too_long, where_to_cut
from loopkernel.laws.compaction_due import CompactionDue, is_reactive
from loopkernel.laws.reports import Judged, PlanCut, Project
from loopkernel.laws.request_laws import rounds_of, unpaired
from loopkernel.laws.shadow.step import JudgedStep
from loopkernel.laws.shadow.thread import thread_after

# To cut a thread under every policy costs so many times its length. So that judging a run stays linear, each step earns
# the right to so many messages; the last thread of a run is always cut.
FIRST_ALLOWANCE = 1_000
ALLOWANCE = 4
WEIGHT = 10

SUMMARISE, WINDOW = CompactionStrategy.SUMMARISE, CompactionStrategy.WINDOW
POLICIES = tuple(
    Compaction(strategy=strategy, keep_turns=turns, keep_messages=messages, keep_ratio=ratio)
    for strategy in (SUMMARISE, WINDOW)
    for turns, messages, ratio in (
        (1, None, None),
        (2, None, None),
        (None, 1, None),
        (None, 2, None),
        (None, 5, None),
        (None, None, 0.5),
    )
)

_REWRITES = ThreadCompacted | ThreadRewritten | ThreadCut | ResultsCleared | MessageReplaced


@final
class CutSafe:
    """Cuts that were made, and that could be made, leave every call with its answer, and end."""

    def __init__(self, judged: Judged) -> None:
        self._judged = judged
        self._allowance, self._due, self._steps = FIRST_ALLOWANCE, CompactionDue(), 0
        self._uncut: tuple[int, Vector[Message]] | None = None  # what was sent last, and at which step
        self._begun: Policy | None = None  # when the compaction began that is under way, if its beginning was seen

    def take(self, step: JudgedStep) -> Iterator[str]:
        """What is wrong with this step; with the last one, also what is wrong with the last thread that was sent."""
        self._allowance += ALLOWANCE
        yield from self._due.take(step)
        session = step.session
        if session is not None and any(isinstance(effect, _REWRITES) for effect in step.effects):
            policy = self._begun if isinstance(step.delta, SummaryReady) else session.settings.policy
            yield from _cut_wrongly(step, policy)
            yield from _parted(step, session, self._judged.project)
        if _begins(step):
            self._begun = None if session is None else session.settings.policy
        for request in step.requests:
            self._uncut = self._steps, request.thread.messages
            if self._allowance >= WEIGHT * len(request.thread):
                self._allowance -= WEIGHT * len(request.thread)
                self._uncut = None
                yield from unsafe_cuts(request.thread.messages, self._judged.plan_cut)
        if step.is_last and self._uncut is not None:
            number, messages = self._uncut
            for wrong in unsafe_cuts(messages, self._judged.plan_cut):
                yield f"of the thread that step {number} sent: {wrong}"
        self._steps += 1


# --- what the kernel did ----------------------------------------------------------------------------------


def _begins(step: JudgedStep) -> bool:
    """Whether a compaction is under way after the step that was not before."""
    before, after = step.before, step.after
    went_on = isinstance(before, Compacting) and isinstance(after, Compacting) and before.operation == after.operation
    return isinstance(after, Compacting) and not went_on


def _cut_wrongly(step: JudgedStep, policy: Policy | None) -> Iterator[str]:
    """What is wrong with the cuts of this step, judged by the thread before each, and by the policy if it is known."""
    messages: Vector[Message] = Vector() if step.session_before is None else step.session_before.thread.messages
    taken_out = {message.id: message for message in _removed_before(step)}
    for place, effect in enumerate(step.effects):
        if isinstance(effect, ThreadRewritten):
            yield from _put_back_wrongly(effect, messages, taken_out)
        elif isinstance(effect, ThreadCompacted):
            thread = list(messages)
            taken_out.update((message.id, message) for message in thread)
            yield from _compacted_wrongly(effect, thread)
            if policy is not None and policy.compaction is not None and policy.compaction.strategy is WINDOW:
                shorter = is_reactive(step, place)
                compaction = too_long(thread, policy.compaction) if shorter else policy.compaction
                yield from _cut_elsewhere(effect, thread, compaction)
            if policy is not None:
                yield from _keeps_too_much(effect, thread, policy.compaction)
        messages = thread_after(messages, effect)


def _removed_before(step: JudgedStep) -> Iterator[Message]:
    session = step.session_before
    for removal in () if session is None else session.compactions.removals:
        yield from removal.messages


def _put_back_wrongly(
    rewritten: ThreadRewritten, thread: Iterable[Message], taken_out: dict[MessageId, Message]
) -> Iterator[str]:
    """INPUT-4: what is put back is what was taken out."""
    known = taken_out | {message.id: message for message in thread}
    for message in rewritten.messages:
        if known.get(message.id) != message:
            yield f"message {message.id} is put back, and is another than was taken out"


def _compacted_wrongly(cut: ThreadCompacted, thread: Sequence[Message]) -> Iterator[str]:
    ids = [message.id for message in thread]
    until = ids.index(cut.first) if cut.first in ids else len(ids)  # as a client takes it
    if cut.opening is not None and cut.opening not in ids[:until]:
        yield f"message {cut.opening} stays in front of a cut, and was not there"
    gone = [message for message in thread[:until] if message.id != cut.opening]
    if all(is_left_by_cut(message) for message in gone):
        yield "a cut takes nothing out of the thread but what earlier ones have left"
    if cut.note is not None and (cut.note.id in ids or not is_left_by_cut(cut.note)):
        yield f"message {cut.note.id} stands for what was cut, and is neither a summary nor a note on it"
    front = [message for message in thread[:until] if message.id == cut.opening]
    kept: list[Message] = [*front, *([] if cut.note is None else [cut.note]), *thread[until:]]
    yield from badly_begun(kept)


def _cut_elsewhere(cut: ThreadCompacted, thread: Sequence[Message], compaction: Compaction | None) -> Iterator[str]:
    """COMPACT-2 for a window, which is cut in one step: where, and with a note only where one is needed."""
    due = None if compaction is None else where_to_cut(thread, compaction)
    if due is None:
        yield "a window is cut, and nothing of it is to go"
        return
    kept = thread[due.until :]
    opening = None if due.opening is None else thread[due.opening].id
    needs_note = opening is not None or not kept or not is_sent_by_user(kept[0])
    if (cut.first, cut.opening) != (kept[0].id if kept else None, opening):
        yield f"a window is cut before message {cut.first}, with {cut.opening} in front, and not as {due}"
    elif (cut.note is not None) is not needs_note:
        yield f"a window {'has no' if needs_note else 'has a'} note in front of what is kept"


def _keeps_too_much(cut: ThreadCompacted, thread: Sequence[Message], compaction: Compaction | None) -> Iterator[str]:
    """COMPACT-2: so many turns or messages, and a reply more where only its results would be left."""
    ids = [message.id for message in thread]
    kept = thread[ids.index(cut.first) :] if cut.first in ids else ()
    if compaction is None:
        yield "the thread is compacted, and the policy has no compaction"
    elif compaction.keep_turns is not None:
        turns = sum(map(opens_a_turn, kept))
        if turns > compaction.keep_turns:
            yield f"a cut keeps {turns} turns, and {compaction.keep_turns} are to be kept"
    elif compaction.keep_messages is not None and len(kept) > compaction.keep_messages + 1:
        yield f"a cut keeps {len(kept)} messages, and {compaction.keep_messages} are to be kept"


def _parted(step: JudgedStep, session: Session, project: Project) -> Iterator[str]:
    """The whole thread, projected: each call is answered right after it. Calls that are still open do not count."""
    if step.ledger is not None and not step.requests:
        return
    model = session.last_model or session.settings.policy.model
    wrong = list(_unpaired_in(session.thread, model, project))
    before = step.session_before
    removals = () if before is None else before.compactions.removals
    known = (before is not None and any(_unpaired_in(before.thread, model, project))) or any(
        any(_badly_paired(tuple(removal.messages))) for removal in removals
    )
    if wrong and not known:  # else PAIR has told of it
        yield from (f"in the thread that was cut, {one}" for one in wrong)


def _unpaired_in(thread: Thread, model: str, project: Project) -> Iterator[str]:
    for calls, results in rounds_of(project(thread, model)):
        yield from unpaired(calls, results)


# --- what it might do -------------------------------------------------------------------------------------


def unsafe_cuts(messages: Vector[Message], plan_cut: PlanCut) -> Iterator[str]:
    """What is wrong with the cuts of this thread under some policy. One that is broken already is for PAIR to say."""
    if any(_badly_paired(tuple(messages))):
        return
    for compaction in POLICIES:
        yield from (
            f"under {_told(compaction)}, {wrong}" for wrong in _cut_again_and_again(messages, compaction, plan_cut)
        )


def _cut_again_and_again(messages: Vector[Message], compaction: Compaction, plan_cut: PlanCut) -> Iterator[str]:
    for _ in range(len(messages) + 1):
        cut = plan_cut(messages, compaction)
        due = where_to_cut(tuple(messages), compaction)
        if cut != due:
            yield f"a thread of {len(messages)} messages is to be cut as {cut}, and not as {due}"
        if cut is None:
            return
        shorter = _cut(messages, cut, compaction)
        if len(shorter) > len(messages):
            yield f"a thread of {len(messages)} messages is cut to {len(shorter)}"
            return
        wrong = [*badly_begun(shorter), *_badly_paired(shorter)]
        if wrong:
            yield from wrong
            return
        messages = Vector.of(shorter)
    yield "there is always something left to cut"


def _cut(messages: Vector[Message], cut: Cut, compaction: Compaction) -> tuple[Message, ...]:
    """The thread after the cut, as a client would make it."""
    kept = tuple(messages.since(cut.until))
    opening = () if cut.opening is None else (messages[cut.opening],)
    first = kept[0] if kept else None
    if compaction.strategy is WINDOW and not opening and first is not None and is_sent_by_user(first):
        return kept
    origin = UserOrigin.GAP_NOTE if compaction.strategy is WINDOW else UserOrigin.SUMMARY
    latest = max((message.id for message in messages), default=0)
    note = UserMessage(id=MessageId(latest + 1), content=(TextBlock("(cut)"),), origin=origin)
    return (*opening, note, *kept)


def badly_begun(messages: Sequence[Message]) -> Iterator[str]:
    """A thread that was cut begins with something that a user might have said."""
    if not messages:
        yield "nothing is left of the thread"
    elif not isinstance(messages[0], UserMessage):
        yield f"message {messages[0].id}, which is not a user's, comes first after a cut"


def _badly_paired(messages: Sequence[Message]) -> Iterator[str]:
    """Calls that are parted from their answers."""
    owed: tuple[object, ...] = ()
    for message in messages:
        answers = tuple(result.call for result in message.results) if isinstance(message, ResultMessage) else ()
        if answers != owed:
            yield f"before or in message {message.id}, {len(owed)} calls are owed answers, and {len(answers)} come"
        owed = tuple(call.id for call in message.calls) if isinstance(message, AssistantMessage) else ()
    if owed:
        yield f"the last {len(owed)} calls have no answers"


def _told(compaction: Compaction) -> str:
    keeps = {
        "turns": compaction.keep_turns,
        "messages": compaction.keep_messages,
        "of all": compaction.keep_ratio,
    }
    kept = next(f"{amount} {name}" for name, amount in keeps.items() if amount is not None)
    return f"{compaction.strategy.value}, keeping {kept}"

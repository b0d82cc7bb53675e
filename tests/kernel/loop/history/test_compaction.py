"""The thread is made smaller, and put back for an edit: what is remembered gives the thread as it was."""

from typing import NamedTuple

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.choices import CompactionMoment, CompactionStrategy
from loopkernel.data.compactions import NO_COMPACTIONS, Compactions, Cut
from loopkernel.data.effects import Effect, Summarise
from loopkernel.data.events import CompactionEnded, ResultsCleared, ThreadCompacted, ThreadRewritten
from loopkernel.data.ids import MessageId, SummaryOperation
from loopkernel.data.messages import SENT_BY_USER, Message, ResultMessage, UserMessage, UserOrigin
from loopkernel.data.model_deltas import Redaction
from loopkernel.data.policy import Compaction
from loopkernel.data.sessions import Session, Turn
from loopkernel.data.threads import Thread
from loopkernel.data.vector import Vector
from loopkernel.loop.algorithms.clearing import is_cleared
from loopkernel.loop.algorithms.compaction import characters_of, rewritten
from loopkernel.loop.algorithms.wording import GAP
from loopkernel.loop.history.compaction import (
    abort_summary,
    compact,
    compact_if_due,
    planned_cut,
    request_compaction,
    restore_for,
    summary_failed,
    take_summary,
    was_removed,
    with_messages,
)
from loopkernel.loop.turn.editing import cut_from, redact_input

from tests.kernel.building import at_rest, named, of_kind, text
from tests.kernel.drafts import drafted, outcome
from tests.kernel.loop.algorithms.threads import Turns, keeping, thread_of, turns

SUMMARISE, WINDOW, CLEAR = CompactionStrategy.SUMMARISE, CompactionStrategy.WINDOW, CompactionStrategy.CLEAR
SAID = UserOrigin.SAID
TURN = Turn(number=1, opened_ms=0)
# A turn whose model has been asked already.
LATER = evolve(TURN, requested=True)


def holding(messages: Vector[Message], compaction: Compaction | None) -> Session:
    """A session with that thread, under a policy that compacts so."""
    session = at_rest().session
    settings = evolve(session.settings, policy=evolve(session.settings.policy, compaction=compaction))
    session = with_messages(evolve(session, settings=settings), messages)
    highest = max((message.id for message in messages), default=0)
    return evolve(session, counters=evolve(session.counters, messages=highest))


def always(
    strategy: CompactionStrategy = SUMMARISE, *, turns: int = 1, when: CompactionMoment = CompactionMoment.ANY
) -> Compaction:
    """A policy by which every thread is too large."""
    return Compaction(strategy=strategy, trigger_ratio=None, trigger_tokens=1, keep_turns=turns, when=when)


TWO_TURNS = thread_of([(SAID, [(1, None)]), (SAID, [(1, None)])])
TOO_LARGE = holding(TWO_TURNS, always())


class Opened(NamedTuple):
    """A compaction that has begun: done already, unless a summary is being made under `operation`."""

    session: Session
    cut: Cut
    effects: tuple[Effect, ...]
    operation: SummaryOperation | None


def compacted_by(session: Session) -> Opened | None:
    """The compaction of the thread, if there is something to cut."""
    cut = planned_cut(session)
    if cut is None:
        return None
    draft, summary = compact(drafted(session), cut)
    return Opened(draft.session, cut, draft.effects, None if summary is None else summary.operation)


def due(session: Session, turn: Turn = LATER, now_ms: int = 0) -> Opened | None:
    """The compaction before a request, if there is one."""
    draft, summary = compact_if_due(drafted(session, now_ms), turn)
    cut = planned_cut(session)
    if not draft.effects or cut is None:
        return None
    return Opened(draft.session, cut, draft.effects, None if summary is None else summary.operation)


def ids(session: Session) -> list[int]:
    """The ids of the messages in the thread."""
    return [message.id for message in session.thread]


# --- when -------------------------------------------------------------------------------------------------


def test_under_a_policy_that_makes_no_thread_smaller_a_cut_leaves_it_as_it_is() -> None:
    opened = compacted_by(TOO_LARGE)
    assert opened is not None
    never = drafted(holding(TWO_TURNS, None))
    assert compact(never, opened.cut) == (never, None)


@pytest.mark.rule("COMPACT-1")
def test_a_thread_that_is_too_large_is_summarised_before_a_request() -> None:
    opened = due(TOO_LARGE, LATER, 0)
    assert opened is not None
    assert named(opened.effects) == ["CompactionStarted", "Summarise"]
    (asked,) = of_kind(Summarise, opened.effects)
    assert (asked.operation, asked.cut, asked.thread) == (opened.operation, opened.cut, TOO_LARGE.thread)
    assert opened.session.thread == TOO_LARGE.thread


@pytest.mark.rule("COMPACT-1")
@pytest.mark.rule("COMPACT-2")
def test_nothing_is_compacted_without_a_trigger_a_policy_or_something_to_cut() -> None:
    small = holding(TWO_TURNS, evolve(always(), trigger_tokens=10_000))
    assert due(small, LATER, 0) is None
    assert due(holding(TWO_TURNS, None), LATER, 0) is None
    assert compacted_by(holding(TWO_TURNS, None)) is None
    assert due(holding(thread_of([(SAID, [])]), always())) is None


@pytest.mark.rule("COMPACT-1")
def test_policy_may_have_it_looked_at_when_a_turn_starts_only() -> None:
    session = holding(TWO_TURNS, evolve(always(), when=CompactionMoment.TURN_START))
    assert due(session, LATER, 0) is None
    assert due(session, TURN, 0) is not None


@pytest.mark.rule("COMPACT-1")
@pytest.mark.rule("COMPACT-4")
def test_what_the_user_asks_for_is_done_whatever_the_triggers_say() -> None:
    quiet = holding(TWO_TURNS, evolve(always(), trigger_tokens=None))
    wanted = request_compaction(drafted(quiet))
    assert wanted is not None
    asked = wanted.session
    assert asked.compactions.requested
    opened = due(asked, LATER, 0)
    assert opened is not None
    assert not opened.session.compactions.requested
    idle, summary = compact_if_due(drafted(evolve(asked, thread=Thread())), LATER)  # by now there is nothing to cut
    assert (summary, idle.effects, idle.session.compactions.requested) == (None, (), False)
    assert request_compaction(drafted(holding(TWO_TURNS, None))) is None
    assert request_compaction(drafted(holding(thread_of([(SAID, [])]), always()))) is None


@pytest.mark.rule("COMPACT-4")
def test_after_three_failures_in_a_row_none_is_tried_for_a_minute() -> None:
    session = TOO_LARGE
    for failures in (1, 2):
        session, _ = outcome(summary_failed(drafted(session, 500)))
        assert session.compactions == Compactions(failures=failures)
    session, told = outcome(summary_failed(drafted(session, 500)))
    assert told == (CompactionEnded(False),)
    assert session.compactions.again_ms == 60_500
    assert due(session, LATER, 60_499) is None
    assert due(session, LATER, 60_500) is not None
    assert compacted_by(session) is not None  # a prompt that is too long cannot wait
    opened = due(evolve(session, compactions=evolve(session.compactions, requested=True)), LATER, 501)
    assert opened is not None
    healed, _ = outcome(take_summary(drafted(session), opened.cut, "so far"))
    assert (healed.compactions.failures, healed.compactions.again_ms) == (0, None)


@pytest.mark.rule("COMPACT-5")
def test_a_compaction_that_shrank_nothing_is_not_tried_again_before_the_thread_has_grown() -> None:
    opened = compacted_by(TOO_LARGE)
    assert opened is not None
    session, _ = outcome(take_summary(drafted(TOO_LARGE), opened.cut, "x" * 10_000))
    assert session.compactions.useless_at == len(session.thread)
    more = UserMessage(id=MessageId(99), content=text("on"))
    longer = with_messages(session, session.thread.messages.append(more))
    assert due(session, LATER, 0) is None
    assert compacted_by(session) is None  # not even where the prompt is too long, or the user asks for it
    assert request_compaction(drafted(session)) is None
    assert compacted_by(longer) is not None
    shorter, _ = outcome(take_summary(drafted(TOO_LARGE), opened.cut, ""))
    assert shorter.compactions.useless_at == (
        len(shorter.thread) if shorter.size.total >= TOO_LARGE.size.total else None
    )


# --- how --------------------------------------------------------------------------------------------------


@pytest.mark.rule("COMPACT-3")
def test_the_summary_takes_the_place_of_what_is_cut_out_as_one_user_message() -> None:
    opened = compacted_by(TOO_LARGE)
    assert opened is not None
    session, effects = outcome(take_summary(drafted(TOO_LARGE), opened.cut, "so far"))
    assert ids(session) == [7, 4, 5, 6]
    note = session.thread.messages[0]
    assert isinstance(note, UserMessage)
    assert (note.origin, "so far" in str(note.content)) == (UserOrigin.SUMMARY, True)
    assert effects == (ThreadCompacted(opening=None, note=note, first=MessageId(4)), CompactionEnded(True))
    (removal,) = session.compactions.removals
    assert ([message.id for message in removal.messages], removal.note) == ([1, 2, 3], 7)
    assert session.size == rewritten(sum(map(characters_of, session.thread)))


@pytest.mark.rule("COMPACT-2")
@pytest.mark.rule("COMPACT-4")
def test_a_window_is_trimmed_at_once_and_notes_the_gap_where_it_does_not_start_with_the_user() -> None:
    trimmed = compacted_by(holding(TWO_TURNS, always(WINDOW)))
    assert trimmed is not None
    assert (ids(trimmed.session), trimmed.operation) == ([4, 5, 6], None)
    assert named(trimmed.effects) == ["CompactionStarted", "ThreadCompacted", "CompactionEnded"]
    one_turn = compacted_by(holding(thread_of([(SAID, [(1, None)] * 3)]), always(WINDOW)))
    assert one_turn is not None
    assert ids(one_turn.session) == [1, 8, 6, 7]
    note = one_turn.session.thread.messages[1]
    assert isinstance(note, UserMessage)
    assert (note.content, note.origin) == (text(GAP), UserOrigin.GAP_NOTE)


@pytest.mark.rule("COMPACT-2")
@pytest.mark.rule("TOOL-11")
def test_a_clearing_takes_the_bodies_of_old_results_and_no_message() -> None:
    session = holding(TWO_TURNS, always(CLEAR))
    cleared = compacted_by(session)
    assert cleared is not None
    assert named(cleared.effects) == ["CompactionStarted", "ResultsCleared", "CompactionEnded"]
    assert [call.reply for call in of_kind(ResultsCleared, cleared.effects)[0].calls] == [1]
    assert ids(cleared.session) == ids(session)
    assert planned_cut(cleared.session) is None  # there is nothing more to clear
    results = [message.results[0] for message in cleared.session.thread if isinstance(message, ResultMessage)]
    assert [is_cleared(result) for result in results] == [True, False]


@pytest.mark.rule("COMPACT-2")
@given(turns.map(thread_of), keeping())
def test_what_is_counted_of_a_compacted_thread_is_what_is_there(
    messages: Vector[Message], compaction: Compaction
) -> None:
    session = holding(messages, compaction)
    opened = compacted_by(session)
    if opened is None:
        return
    after = opened.session
    if opened.operation is not None:
        after, _ = outcome(take_summary(drafted(after), opened.cut, "so far"))
    results = [result for found in after.thread if isinstance(found, ResultMessage) for result in found.results]
    assert after.bodies == sum(not is_cleared(result) for result in results)
    assert after.size == rewritten(sum(map(characters_of, after.thread)))
    assert after.thread.generation > session.thread.generation


def test_a_summary_of_no_more_interest_is_aborted() -> None:
    opened = compacted_by(TOO_LARGE)
    assert opened is not None
    assert opened.operation is not None
    session, effects = outcome(abort_summary(drafted(opened.session), opened.operation))
    assert named(effects) == ["AbortOther", "CompactionEnded"]
    assert session.thread == TOO_LARGE.thread


# --- and back ---------------------------------------------------------------------------------------------

# What is done to a thread: so many turns more, a compaction, or an edit of the nth message that the user sent.
Done = list[tuple[str, Turns | Compaction | int]]
done: st.SearchStrategy[Done] = st.lists(
    st.tuples(st.just("grow"), turns.filter(bool))
    | st.tuples(st.just("compact"), keeping(SUMMARISE, WINDOW))
    | st.tuples(st.just("edit"), st.integers(0, 12)),
    max_size=12,
)


class Remembered:
    """The same thread without any trick: before each compaction that still counts a whole copy is kept."""

    def __init__(self) -> None:
        self.session = holding(Vector(), None)
        # What stood before what each compaction kept, how many messages took its place, and the one that it kept alone.
        self.copies: list[tuple[list[Message], int, MessageId | None]] = []

    @property
    def messages(self) -> list[Message]:
        """The thread as it is."""
        return list(self.session.thread)

    def grow(self, more: Turns) -> None:
        start = self.session.counters.messages
        new = [evolve(found, id=MessageId(start + found.id)) for found in thread_of(more)]
        messages = Vector.of([*self.messages, *new])
        counters = evolve(self.session.counters, messages=start + len(new))
        self.session = evolve(with_messages(self.session, messages), counters=counters)

    def compact(self, compaction: Compaction) -> None:
        policy = evolve(self.session.settings.policy, compaction=compaction)
        self.session = evolve(self.session, settings=evolve(self.session.settings, policy=policy))
        opened = compacted_by(self.session)
        if opened is None:
            return
        before, opening = self.messages, opened.cut.opening
        gone = before[: opened.cut.until]
        self.session = opened.session
        if opened.operation is not None:
            self.session, _ = outcome(take_summary(drafted(self.session), opened.cut, "so far"))
        front = len(self.messages) - len(before[opened.cut.until :])
        self.copies.append((gone, front, None if opening is None else before[opening].id))

    def restored(self, message: MessageId) -> list[Message]:
        """The thread with as few compactions undone as leave the message where it stood."""
        thread = self.messages
        while self.copies and not self._stands(thread, message):
            gone, front, _ = self.copies.pop()
            thread = [*gone, *thread[front:]]
        return thread

    def _stands(self, thread: list[Message], message: MessageId) -> bool:
        """Whether the message is there, and the last compaction has not kept it alone, in front of its note."""
        there = any(found.id == message for found in thread)
        kept_alone = self.copies[-1][2] == message
        return there and not kept_alone

    def sent(self) -> list[MessageId]:
        """All messages of the user that still count, in or out of the thread."""
        removed = [found for removal in self.session.compactions.removals for found in removal.messages]
        spoken = (found for found in (*removed, *self.messages) if isinstance(found, UserMessage))
        return sorted(found.id for found in spoken if found.origin in SENT_BY_USER)


def is_note(message: Message) -> bool:
    """Whether the message stands for what was cut out."""
    return isinstance(message, UserMessage) and message.origin is UserOrigin.GAP_NOTE


@pytest.mark.rule("INPUT-4")
@pytest.mark.rule("COMPACT-3")
@given(done)
def test_an_edit_finds_the_thread_as_it_was_before_what_was_cut_out(steps: Done) -> None:
    model = Remembered()
    for what, how in steps:
        if what == "grow":
            model.grow(how)  # type: ignore[arg-type]
        elif what == "compact":
            model.compact(how)  # type: ignore[arg-type]
        elif sent := model.sent():
            message = sent[how % len(sent)]  # type: ignore[operator]
            there = any(found.id == message for found in model.messages)
            assert there or was_removed(model.session, message)
            expected = model.restored(message)
            restored, _ = outcome(restore_for(drafted(model.session), message))
            assert list(restored.thread) == expected
            model.session, _ = outcome(cut_from(drafted(model.session), message))
            place = [found.id for found in expected].index(message)
            assert model.messages == expected[:place]
            assert model.session.size == rewritten(sum(map(characters_of, model.messages)))
            assert model.session.compactions.removals.size == len(model.copies)


@pytest.mark.rule("INPUT-4")
@pytest.mark.rule("COMPACT-3")
def test_what_a_cut_within_a_turn_has_taken_out_comes_back_on_both_sides_of_what_it_kept() -> None:
    """Of two turns the last two messages stay, and the message that opened the second, in front of them."""
    model = Remembered()
    model.grow([(SAID, [(1, None)]), (SAID, [(1, None)])])
    before = model.messages
    model.compact(Compaction(strategy=WINDOW, keep_turns=None, keep_messages=2, trigger_ratio=None))
    assert [found.id for found in model.messages if not is_note(found)] == [4, 5, 6]
    restored, _ = outcome(restore_for(drafted(model.session), MessageId(1)))
    assert list(restored.thread) == before


@pytest.mark.rule("INPUT-4")
def test_a_message_that_stands_where_it_was_brings_nothing_back() -> None:
    compacted, _ = outcome(take_summary(drafted(TOO_LARGE), compacted_by(TOO_LARGE).cut, "so far"))  # type: ignore[union-attr]
    assert outcome(restore_for(drafted(compacted), MessageId(4))) == (compacted, ())
    assert not was_removed(compacted, MessageId(4))
    assert not was_removed(compacted, MessageId(2))  # the model's
    assert was_removed(compacted, MessageId(1))
    restored, effects = outcome(restore_for(drafted(compacted), MessageId(1)))
    assert ids(restored) == [1, 2, 3, 4, 5, 6]
    assert effects == (ThreadRewritten(tuple(TWO_TURNS)),)
    assert restored.compactions == NO_COMPACTIONS


@pytest.mark.rule("INFER-10")
@pytest.mark.rule("INPUT-4")
def test_what_a_guardrail_redacts_reads_so_also_where_a_compaction_has_taken_it_out() -> None:
    messages = thread_of([(SAID, [(1, None)] * 3)])
    opened = compacted_by(holding(messages, always()))
    assert opened is not None
    once, _ = outcome(take_summary(drafted(opened.session), Cut(messages.size - 4), "so far"))
    again = take_summary(drafted(once), Cut(3), "so far, again")  # which takes out nothing that a user has said
    twice = again.session
    for compacted in (once, twice):
        redacted, effects = outcome(redact_input(drafted(compacted), Redaction(user_text="hidden")))
        assert effects == ()
        assert redacted.thread == compacted.thread
        restored, _ = outcome(restore_for(drafted(redacted), MessageId(1)))
        first = restored.thread.messages[0]
        assert isinstance(first, UserMessage)
        assert first.content == text("hidden")
    assert outcome(redact_input(drafted(holding(Vector(), None)), Redaction(user_text="hidden")))[1] == ()


@pytest.mark.rule("COMPACT-5")
@pytest.mark.rule("INPUT-4")
def test_an_edited_thread_may_be_compacted_again() -> None:
    opened = compacted_by(TOO_LARGE)
    assert opened is not None
    useless, _ = outcome(take_summary(drafted(TOO_LARGE), opened.cut, "x" * 10_000))
    assert useless.compactions.useless_at is not None
    edited, _ = outcome(cut_from(drafted(useless), MessageId(4)))
    assert edited.compactions.useless_at is None

"""Input that waits: the queue, the steers and the keys, against a plain list that does the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.events import Dequeued, Discarded, InputSettled, MessageAdded, Queued, Refused, Steered
from loopkernel.data.ids import QueueNumber
from loopkernel.data.messages import UserMessage, UserOrigin
from loopkernel.data.policy import Policy
from loopkernel.data.sessions import Session
from loopkernel.data.user_deltas import Discard
from loopkernel.data.words import InputFate, RefusalReason, UserAction
from loopkernel.loop.turn.inbox import (
    discard,
    hand_back,
    inject_steers,
    is_full,
    queue_input,
    requeue_steers,
    seen_before,
    steer_input,
    take_oldest,
    take_receipt,
)

from tests.kernel.building import at_rest, enqueue, of_kind, say, steer, text
from tests.kernel.drafts import drafted, outcome

EMPTY: Session = at_rest().session
words = st.lists(st.sampled_from("abcdef"), max_size=5)


def queued(*contents: str, session: Session = EMPTY) -> Session:
    for content in contents:
        session, _ = outcome(queue_input(drafted(session), text(content), None))
    return session


def steered(*contents: str, session: Session = EMPTY) -> Session:
    for content in contents:
        session, _ = outcome(steer_input(drafted(session), text(content), None))
    return session


def waiting(session: Session) -> list[tuple[int, str]]:
    """The queue by its numbers and texts."""
    return [
        (item.number, "".join(getattr(block, "text", "") for block in item.content)) for item in session.inbox.queue
    ]


@pytest.mark.rule("INPUT-2")
@pytest.mark.rule("DELTA-6")
@given(words)
def test_the_queue_keeps_order_and_gives_a_number_and_a_receipt_for_life(contents: list[str]) -> None:
    session = queued(*contents)
    assert waiting(session) == list(enumerate(contents, 1))
    for number, content in enumerate(contents, 1):
        draft, oldest = take_oldest(drafted(session))
        session = draft.session
        assert (oldest.number, oldest.receipt, oldest.content) == (number, number, text(content))
    assert session.inbox.queue == ()


@pytest.mark.rule("INPUT-2")
@pytest.mark.rule("DELTA-6")
def test_what_is_queued_says_so_with_its_key() -> None:
    session, effects = outcome(queue_input(drafted(EMPTY), text("a"), "k"))
    assert effects == (InputSettled(session.inbox.queue[0].receipt, InputFate.QUEUED, "k"), Queued(QueueNumber(1)))
    assert [seen_before(session, delta) for delta in (say("x", "k"), steer("x", "k"), enqueue("x", "l"))] == [
        True,
        True,
        False,
    ]
    assert not seen_before(session, say("x"))


@pytest.mark.rule("INPUT-1")
@pytest.mark.parametrize(("held", "limit", "full"), [(0, 0, True), (1, 2, False), (2, 2, True), (2, 1, True)])
def test_the_queue_is_bounded(held: int, limit: int, full: bool) -> None:
    session = at_rest(Policy(queue_limit=limit)).session
    assert is_full(queued(*"ab"[:held], session=session)) is full


@pytest.mark.rule("DELTA-6")
@given(st.lists(st.none() | st.sampled_from("kl"), max_size=5))
def test_every_receipt_is_another_and_every_key_is_remembered(keys: list[str | None]) -> None:
    session, receipts = EMPTY, []
    for key in keys:
        draft, receipt = take_receipt(drafted(session), key)
        session = draft.session
        receipts.append(receipt)
    assert receipts == list(range(1, len(keys) + 1))
    assert set(session.inbox.keys) == {key for key in keys if key is not None}


@pytest.mark.rule("INPUT-3")
@pytest.mark.rule("DELTA-6")
@given(words)
def test_steers_go_into_the_thread_oldest_first_and_are_counted(contents: list[str]) -> None:
    session, effects = outcome(inject_steers(drafted(steered(*contents))))
    assert session.inbox.steers == ()
    added = [effect.message for effect in of_kind(MessageAdded, effects)]
    assert [(item.content, item.origin, item.receipt) for item in added if isinstance(item, UserMessage)] == [
        (text(content), UserOrigin.STEERED, number) for number, content in enumerate(contents, 1)
    ]
    assert list(session.thread) == added
    assert [effect.number for effect in of_kind(Steered, effects)] == list(range(1, len(contents) + 1))
    settled = [InputSettled(item.receipt, InputFate.IN_THREAD) for item in steered(*contents).inbox.steers]
    assert of_kind(InputSettled, effects) == settled


@pytest.mark.rule("INPUT-3")
def test_a_waiting_steer_says_so() -> None:
    session, effects = outcome(steer_input(drafted(EMPTY), text("a"), "k"))
    (steer_waiting,) = session.inbox.steers
    assert effects == (InputSettled(steer_waiting.receipt, InputFate.WAITING_AS_STEER, "k"),)
    assert seen_before(session, say("x", "k"))


@pytest.mark.rule("INPUT-3")
@pytest.mark.rule("INPUT-2")
@given(words, words)
def test_steers_that_did_not_go_in_become_the_head_of_the_queue(first: list[str], then: list[str]) -> None:
    before = steered(*then, session=queued(*first))
    session, effects = outcome(requeue_steers(drafted(before)))
    numbers = range(len(first) + 1, len(first) + len(then) + 1)
    assert waiting(session) == [*zip(numbers, then, strict=True), *enumerate(first, 1)]
    assert [effect.number for effect in of_kind(Queued, effects)] == list(numbers)
    assert of_kind(InputSettled, effects) == [
        InputSettled(item.receipt, InputFate.QUEUED) for item in before.inbox.steers
    ]
    assert session.inbox.steers == ()


@pytest.mark.rule("INPUT-2")
@pytest.mark.rule("DELTA-6")
@given(words.filter(bool), st.data())
def test_discarding_takes_one_or_all_out_and_says_which(contents: list[str], data: st.DataObject) -> None:
    number = data.draw(st.none() | st.integers(1, len(contents)).map(QueueNumber))
    session, effects = outcome(discard(drafted(queued(*contents)), Discard(number)), queued(*contents))
    gone = [n for n in range(1, len(contents) + 1) if number is None or n == number]
    assert waiting(session) == [item for item in enumerate(contents, 1) if item[0] not in gone]
    assert [effect.number for effect in of_kind(Discarded, effects)] == gone
    assert [effect.fate for effect in of_kind(InputSettled, effects)] == [InputFate.DISCARDED] * len(gone)


@pytest.mark.rule("DELTA-2")
@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (None, RefusalReason.NOT_NOW),
        (QueueNumber(1), RefusalReason.STALE),
        (QueueNumber(2), RefusalReason.UNKNOWN),
        (QueueNumber(0), RefusalReason.UNKNOWN),
    ],
)
def test_discarding_what_is_not_queued_is_refused(number: QueueNumber | None, reason: RefusalReason) -> None:
    draft, _ = take_oldest(drafted(queued("a")))
    assert discard(draft, Discard(number)) == Refused(UserAction.DISCARD, reason)


@pytest.mark.rule("STATE-8")
@pytest.mark.rule("INFER-6")
@given(words)
def test_what_a_task_hands_back_is_settled_and_gone(contents: list[str]) -> None:
    session, effects = outcome(hand_back(drafted(queued(*contents))))
    assert session.inbox.queue == ()
    assert [effect.receipt for effect in of_kind(InputSettled, effects)] == list(range(1, len(contents) + 1))
    assert {effect.fate for effect in of_kind(InputSettled, effects)} <= {InputFate.HANDED_BACK}
    assert of_kind(Dequeued, effects) == []

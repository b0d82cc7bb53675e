"""What the user wants, at rest and while busy: which fate each input has, and when it interrupts."""

import pytest
from attrs import evolve
from loopkernel.data.choices import OnBusy
from loopkernel.data.events import Dequeued, InputSettled, Queued, Refused
from loopkernel.data.ids import MessageId, QueueNumber, ReceiptId
from loopkernel.data.ledgers import Ledger
from loopkernel.data.policy import Policy
from loopkernel.data.sessions import Session
from loopkernel.data.user_deltas import (
    CancelAll,
    CompactNow,
    DismissError,
    EditMessage,
    Enqueue,
    RetryNow,
    Say,
    StartHandoff,
    Steer,
)
from loopkernel.data.words import NATURAL_ENDS, InputFate, RefusalReason, RequestReason, TurnEndReason, UserAction
from loopkernel.loop.turn.input import input_at_rest, input_while_busy, open_queued_turn

from tests.kernel.building import ONE, a, after, asked, at_rest, enqueue, named, say, session_of, steer, text
from tests.kernel.drafts import drafted, outcome

QUEUED, STEERED = InputFate.QUEUED, InputFate.WAITING_AS_STEER


def busy(on_busy: OnBusy = OnBusy.QUEUE, limit: int = 100) -> Session:
    return asked(Policy(on_busy=on_busy, queue_limit=limit)).session


# --- while busy -------------------------------------------------------------------------------------------


@pytest.mark.rule("INPUT-1")
@pytest.mark.rule("INPUT-2")
@pytest.mark.rule("INPUT-3")
@pytest.mark.rule("DELTA-6")
@pytest.mark.parametrize("on_busy", OnBusy)
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("used", [False, True])
@pytest.mark.parametrize("delta", [say("a", "k"), enqueue("a", "k"), steer("a", "k")], ids=lambda d: type(d).__name__)
def test_the_fate_of_what_is_said_while_busy(
    delta: Say | Enqueue | Steer, on_busy: OnBusy, full: bool, used: bool
) -> None:
    session = busy(on_busy, limit=0 if full else 1)
    if used:
        session = evolve(session, inbox=evolve(session.inbox, keys=session.inbox.keys.add("k")))
    following, effects = outcome(input_while_busy(drafted(session), delta), session)
    action = {Say: UserAction.SAY, Enqueue: UserAction.ENQUEUE, Steer: UserAction.STEER}[type(delta)]
    reason: RefusalReason | None = None
    if used:
        reason = RefusalReason.DUPLICATE
    elif isinstance(delta, Say) and on_busy is not OnBusy.QUEUE:
        reason = RefusalReason.NOT_NOW
    elif full and not isinstance(delta, Steer):
        reason = RefusalReason.FULL
    if reason is not None:
        assert (following, effects) == (session, (Refused(action, reason, "k"),))
    elif isinstance(delta, Steer):
        assert effects == (InputSettled(ReceiptId(2), STEERED, "k"),)
        assert [waiting.content for waiting in following.inbox.steers] == [text("a")]
    else:
        assert effects == (InputSettled(ReceiptId(2), QUEUED, "k"), Queued(QueueNumber(1)))
        assert [waiting.content for waiting in following.inbox.queue] == [text("a")]


@pytest.mark.rule("DELTA-2")
@pytest.mark.parametrize(
    "delta",
    [RetryNow(), CompactNow(), StartHandoff("g"), DismissError()],
    ids=lambda delta: type(delta).__name__,
)
def test_what_does_not_apply_is_refused_both_at_rest_and_while_busy(
    delta: RetryNow | CompactNow | StartHandoff | DismissError,
) -> None:
    session = busy()
    following, effects = outcome(input_while_busy(drafted(session, ledger=Ledger(reply=ONE)), delta), session)
    assert following == session
    assert [effect.reason for effect in effects if isinstance(effect, Refused)] == [RefusalReason.NOT_NOW]
    rest = at_rest().session
    assert (input_at_rest(drafted(rest), delta),) == effects


# --- at rest ----------------------------------------------------------------------------------------------


@pytest.mark.rule("INPUT-2")
@pytest.mark.rule("RETRY-5")
@pytest.mark.parametrize("end", [None, *TurnEndReason])
def test_a_retry_follows_any_end_that_was_not_natural(end: TurnEndReason | None) -> None:
    session = evolve(at_rest().session, last_end=end)
    taken = input_at_rest(drafted(session, 3), RetryNow())
    natural = ("model_stop", "stop_sequence", "output", "tool_final")
    if end is None or end.value in natural:
        assert taken == Refused(UserAction.RETRY, RefusalReason.NOT_NOW)
    else:
        assert not isinstance(taken, Refused)
        draft, turn = taken
        assert turn is not None
        assert (turn.reason, turn.opened_ms, draft.effects) == (RequestReason.ERROR_RETRY, 3, ())


@pytest.mark.rule("INPUT-2")
def test_the_natural_ends_are_four() -> None:
    assert {end.value for end in NATURAL_ENDS} == {"model_stop", "stop_sequence", "output", "tool_final"}


@pytest.mark.rule("INPUT-2")
def test_the_oldest_of_the_queue_opens_a_turn() -> None:
    session = session_of(after(asked(), enqueue("a"), enqueue("b")))
    draft, turn = open_queued_turn(drafted(session, 9))
    following, effects = outcome(draft)
    assert effects[0] == Dequeued(QueueNumber(1))
    assert named(effects) == ["Dequeued", "InputSettled", "MessageAdded"]
    assert a(InputSettled, effects[1]).receipt == session.inbox.queue[0].receipt
    assert (turn.number, turn.opened_ms) == (2, 9)
    assert following.inbox.queue == session.inbox.queue[1:]


@pytest.mark.rule("INPUT-4")
@pytest.mark.rule("DELTA-6")
@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("key", [None, "new", "used"])
def test_an_edit_at_rest_starts_a_turn_from_the_message_it_replaces(number: int, key: str | None) -> None:
    rest = session_of(after(asked(), steer("x", "used"), CancelAll()))
    edit = EditMessage(message=MessageId(number), content=text("rather"), key=key)
    taken = input_at_rest(drafted(rest, 9), edit)
    if key == "used" or number == 2:
        reason = RefusalReason.DUPLICATE if key == "used" else RefusalReason.UNKNOWN
        assert taken == Refused(UserAction.EDIT, reason, key)
        assert input_while_busy(drafted(rest, 9), edit) == taken
    else:
        assert not isinstance(taken, Refused)
        draft, turn = taken
        following, effects = outcome(draft)
        assert turn is not None
        assert (turn.number, turn.opened_ms, turn.reason) == (2, 9, RequestReason.USER)
        assert named(effects) == ["InputSettled", "Edited", "ThreadCut", "InputSettled", "MessageAdded"]
        assert ("new" in following.inbox.keys) is (key == "new")


@pytest.mark.rule("RETRY-5")
@pytest.mark.rule("INPUT-2")
@pytest.mark.parametrize("end", [end for end in TurnEndReason if end not in NATURAL_ENDS])
def test_the_users_retry_leaves_the_queue_where_it_is(end: TurnEndReason) -> None:
    rest = evolve(session_of(after(asked(), enqueue("later"), CancelAll())), last_end=end)
    taken = input_at_rest(drafted(rest, 3), RetryNow())
    assert not isinstance(taken, Refused)
    following, turn = taken[0].session, taken[1]
    assert turn is not None
    assert (following.inbox, following.thread) == (rest.inbox, rest.thread)

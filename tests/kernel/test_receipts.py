"""Receipts: a fold of the events alone says where each input is, as the state does (rule DELTA-6)."""

import pytest
from hypothesis import given
from loopkernel.data.blocks import TextBlock
from loopkernel.data.events import InputSettled, Refused
from loopkernel.data.ids import ReceiptId
from loopkernel.data.messages import UserMessage
from loopkernel.data.steps import Context
from loopkernel.data.thread_deltas import Acquired, Created
from loopkernel.data.user_deltas import EditMessage, Enqueue, Say, Steer
from loopkernel.data.words import InputFate, RefusalReason, UserAction
from loopkernel.loop.transition import transition
from loopkernel.replaying import LogRecord, fold
from loopkernel.views.receipts import Receipt, Receipts

from tests.kernel.played import logs

HELLO = (TextBlock("hello"),)


@pytest.mark.rule("DELTA-6")
@given(logs)
def test_the_receipts_say_where_each_input_is(log: list[LogRecord]) -> None:
    receipts = Receipts()
    for step in fold(log):
        receipts = receipts.after(step.effects)
        session = step.after.session
        if session is None:
            continue
        fates = {receipt.id: receipt.fate for receipt in receipts.accepted}
        assert list(fates) == list(range(1, session.counters.receipts + 1))
        waiting = {queued.receipt: InputFate.QUEUED for queued in session.inbox.queue}
        waiting.update((steer.receipt, InputFate.WAITING_AS_STEER) for steer in session.inbox.steers)
        messages = (message for message in session.thread if isinstance(message, UserMessage))
        here = {message.receipt: InputFate.IN_THREAD for message in messages if message.receipt is not None}
        gone = (InputFate.SUPERSEDED, InputFate.HANDED_BACK, InputFate.DISCARDED)
        assert {**waiting, **here} == {receipt: fate for receipt, fate in fates.items() if fate not in gone}


@pytest.mark.rule("DELTA-6")
def test_an_input_is_found_by_the_callers_key_wherever_it_goes() -> None:
    deltas = (
        Created(session_id="s"),
        Acquired(),
        Say(content=HELLO, key="first"),
        Enqueue(content=HELLO, key="later"),
        Steer(content=HELLO, key="aside"),
        Say(content=HELLO, key="first"),
    )
    state, receipts = None, Receipts()
    for step in fold([LogRecord(delta, 0) for delta in deltas]):
        state, receipts = step.after, receipts.after(step.effects)
    assert receipts.of_key("first") == Receipt(ReceiptId(1), InputFate.IN_THREAD, "first")
    assert receipts.of_key("later") == Receipt(ReceiptId(2), InputFate.QUEUED, "later")
    assert receipts.of_key("aside") == Receipt(ReceiptId(3), InputFate.WAITING_AS_STEER, "aside")
    assert receipts.of_key("nobody") is None
    assert state is not None and state.session is not None
    first = next(message.id for message in state.session.thread)
    edited = transition(state, Context(EditMessage(message=first, content=HELLO, key="better"), 0))
    receipts = receipts.after(edited.effects)
    assert receipts.of_key("first") == Receipt(ReceiptId(1), InputFate.SUPERSEDED, "first")
    assert receipts.of_key("better") == Receipt(ReceiptId(4), InputFate.IN_THREAD, "better")
    assert receipts.of_key("aside") == Receipt(ReceiptId(3), InputFate.QUEUED, "aside")


@pytest.mark.rule("DELTA-6")
def test_a_refused_input_is_told_until_it_is_accepted() -> None:
    refused = Receipts().after([Refused(UserAction.SAY, RefusalReason.FULL, "k")])
    assert refused.of_key("k") is RefusalReason.FULL
    again = refused.after([Refused(UserAction.SAY, RefusalReason.NOT_NOW, "k")])
    again = again.after([Refused(UserAction.CANCEL, RefusalReason.STALE)])
    assert again.refused == (("k", RefusalReason.NOT_NOW),)
    accepted = again.after([InputSettled(ReceiptId(1), InputFate.QUEUED, "k")])
    assert accepted.of_key("k") == Receipt(ReceiptId(1), InputFate.QUEUED, "k")
    assert accepted.refused == ()
    duplicate = accepted.after([Refused(UserAction.SAY, RefusalReason.DUPLICATE, "k")])
    assert duplicate == accepted

"""The thread as a region: each function appends one message under the next id, and says so."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.blocks import OpaqueBlock, TextBlock, ToolResult
from loopkernel.data.effects import Effect
from loopkernel.data.events import InputSettled, MessageAdded
from loopkernel.data.ids import MessageId, ReceiptId
from loopkernel.data.messages import AssistantMessage, ReplyState, ResultMessage, UserMessage, UserOrigin
from loopkernel.data.sessions import OpenReply, Session
from loopkernel.data.usage import Usage
from loopkernel.data.words import CallStatus, InputFate, StopReason
from loopkernel.loop.history.thread import add_foreign_input, add_input, add_note, add_reply, add_results

from tests.kernel.building import NOTHING, ONE, at_rest, call_id, text
from tests.kernel.drafts import drafted, outcome

EMPTY = at_rest().session
RESULT = ToolResult(call=call_id(1), provider_id="p", tool="read", status=CallStatus.DONE)


def input_from_user(session: Session) -> tuple[Session, tuple[Effect, ...]]:
    return outcome(add_input(drafted(session), text("a"), UserOrigin.QUEUED, ReceiptId(3), "k"))


def recorded_input(session: Session) -> tuple[Session, tuple[Effect, ...]]:
    return outcome(add_foreign_input(drafted(session), text("b")))


def note(session: Session) -> tuple[Session, tuple[Effect, ...]]:
    return outcome(add_note(drafted(session), "c", UserOrigin.NUDGE))


def whole_reply(session: Session) -> tuple[Session, tuple[Effect, ...]]:
    return outcome(add_reply(drafted(session), OpenReply(ONE, "m", Usage(input=1)), text("d"), StopReason.END_TURN))


def cut_reply(session: Session) -> tuple[Session, tuple[Effect, ...]]:
    return outcome(add_reply(drafted(session), OpenReply(ONE, "m"), (), None))


def answers(session: Session) -> tuple[Session, tuple[Effect, ...]]:
    return outcome(add_results(drafted(session), ONE, (RESULT,)))


WAYS = {
    "input": input_from_user,
    "recorded input": recorded_input,
    "note": note,
    "reply": whole_reply,
    "cut reply": cut_reply,
    "results": answers,
}


@pytest.mark.rule("INFER-2")
@given(st.lists(st.sampled_from(sorted(WAYS)), max_size=6))
def test_the_thread_only_grows_by_what_is_said(ways: list[str]) -> None:
    session, added = EMPTY, []
    for way in ways:
        before = list(session.thread)
        session, effects = WAYS[way](session)
        (message,) = [effect.message for effect in effects if isinstance(effect, MessageAdded)]
        added.append(message)
        assert list(session.thread) == [*before, message]
    assert [message.id for message in added] == list(range(1, len(ways) + 1))
    assert session.counters.messages == len(ways)


@pytest.mark.rule("DELTA-6")
def test_input_is_settled_before_it_is_added() -> None:
    _, (settled, added) = input_from_user(EMPTY)
    assert settled == InputSettled(ReceiptId(3), InputFate.IN_THREAD, "k")
    message = UserMessage(id=MessageId(1), content=text("a"), origin=UserOrigin.QUEUED, receipt=ReceiptId(3))
    assert added == MessageAdded(message)


def test_input_from_elsewhere_has_no_receipt() -> None:
    _, effects = recorded_input(EMPTY)
    assert [type(effect) for effect in effects] == [MessageAdded]


@pytest.mark.rule("INFER-13")
def test_a_note_says_why_it_is_there() -> None:
    session, _ = note(EMPTY)
    message = session.thread.messages[0]
    assert isinstance(message, UserMessage)
    assert (message.content, message.origin, message.receipt) == (text("c"), UserOrigin.NUDGE, None)


@pytest.mark.rule("INPUT-5")
def test_a_reply_is_whole_or_cut() -> None:
    whole = whole_reply(EMPTY)[0].thread.messages[0]
    cut = cut_reply(EMPTY)[0].thread.messages[0]
    assert isinstance(whole, AssistantMessage)
    assert isinstance(cut, AssistantMessage)
    assert (whole.state, whole.stop, whole.content, whole.usage, whole.model) == (
        ReplyState.COMPLETE,
        StopReason.END_TURN,
        (TextBlock("d"),),
        Usage(input=1),
        "m",
    )
    assert (cut.state, cut.stop) == (ReplyState.CANCELLED, None)


@pytest.mark.rule("TOOL-8")
def test_the_answers_of_a_reply_are_one_message() -> None:
    message = answers(EMPTY)[0].thread.messages[0]
    assert isinstance(message, ResultMessage)
    assert (message.reply, message.results) == (ONE, (RESULT,))


@pytest.mark.rule("INFER-15")
def test_the_thread_knows_which_models_left_opaque_blocks_in_it() -> None:
    session = EMPTY
    for model in ("m", "n", "m"):
        session, _ = outcome(
            add_reply(drafted(session), OpenReply(ONE, model), (OpaqueBlock(model, NOTHING),), StopReason.END_TURN)
        )
    assert session.thread.opaque_models == ("m", "n")
    assert whole_reply(EMPTY)[0].thread.opaque_models == ()

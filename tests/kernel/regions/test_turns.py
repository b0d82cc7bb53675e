"""The beginning of turns and of requests."""

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.effects import CallModel
from loopkernel.data.events import InputSettled, MessageAdded, OpaqueDropped
from loopkernel.data.ids import OperationKind, ReceiptId
from loopkernel.data.messages import UserMessage, UserOrigin
from loopkernel.data.policy import Policy
from loopkernel.data.sessions import Session, Turn
from loopkernel.data.threads import Thread
from loopkernel.data.words import InputFate, RequestReason
from loopkernel.regions.turns import begin_request, open_turn, open_turn_with

from tests.kernel.building import ASKING_NOBODY, a, asked, at_rest, made_call, named, of_kind, text, working

TURN = Turn(number=1, opened_ms=0)
EMPTY = at_rest().session
MODELS = ("default", "other", "third")


@given(st.lists(st.sampled_from(RequestReason), max_size=4))
def test_turns_are_numbered_and_start_from_nothing(reasons: list[RequestReason]) -> None:
    session, numbers = EMPTY, []
    for reason in reasons:
        session, turn = open_turn(session, 7, reason)
        assert turn == Turn(number=turn.number, opened_ms=7, reason=reason)
        numbers.append(turn.number)
    assert numbers == list(range(1, len(reasons) + 1))


@pytest.mark.rule("DELTA-6")
def test_a_turn_begins_with_what_the_user_sent() -> None:
    session, turn, effects = open_turn_with(EMPTY, 5, text("a"), ReceiptId(2), origin=UserOrigin.QUEUED, key="k")
    assert turn == Turn(number=1, opened_ms=5, reason=RequestReason.USER)
    settled, added = effects
    assert settled == InputSettled(ReceiptId(2), InputFate.IN_THREAD, "k")
    assert isinstance(added, MessageAdded)
    assert a(UserMessage, added.message).origin is UserOrigin.QUEUED
    assert list(session.thread) == [added.message]


@pytest.mark.rule("INFER-1")
@pytest.mark.rule("DELTA-3")
def test_the_ledger_of_a_request_counts_checks_and_runs_from_what_is_minted() -> None:
    session = working(made_call(), made_call(verdict=None)).session
    session, reply, ledger, effects = begin_request(session, TURN)
    (call,) = of_kind(CallModel, effects)
    assert call.operation == reply.operation == ledger.reply == session.operations.minted[OperationKind.MODEL] == 2
    assert (ledger.first_check, ledger.first_run) == (2, 2)


@pytest.mark.rule("INFER-15")
@given(
    st.none() | st.sampled_from(MODELS),
    st.sampled_from(MODELS),
    st.lists(st.sampled_from(MODELS), unique=True).map(tuple),
)
def test_opaque_blocks_are_told_to_be_left_out_when_another_model_is_asked(
    last: str | None, model: str, left: tuple[str, ...]
) -> None:
    session = at_rest(Policy(model=model)).session
    session = evolve(session, last_model=last, thread=Thread(opaque_models=left))
    asking, reply, _, effects = begin_request(session, TURN)
    foreign = tuple(name for name in left if name != model)
    told = [OpaqueDropped(reply.operation, foreign)] if foreign and last != model else []
    assert of_kind(OpaqueDropped, effects) == told
    assert named(effects)[-1] == "CallModel"
    assert (asking.last_model, reply.model) == (model, model)


@pytest.mark.rule("INFER-14")
@pytest.mark.parametrize("limit", [None, 1, 32_000])
def test_the_output_limit_is_that_of_the_policy(limit: int | None) -> None:
    session: Session = at_rest(Policy(max_output_tokens=limit)).session
    (call,) = of_kind(CallModel, begin_request(session, TURN)[3])
    assert (call.request.max_output_tokens, call.request.forced_tool) == (limit, None)


@pytest.mark.rule("INFER-14")
def test_the_output_limit_is_32000_by_default() -> None:
    assert asked(ASKING_NOBODY).session.settings.policy.max_output_tokens == 32_000

"""The beginning of turns and of requests."""

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.effects import CallModel
from loopkernel.data.events import InputSettled, MessageAdded, OpaqueDropped
from loopkernel.data.ids import OperationKind, ReceiptId
from loopkernel.data.messages import UserMessage, UserOrigin
from loopkernel.data.policy import Policy, Truncation
from loopkernel.data.sessions import Recovery, Session, Turn
from loopkernel.data.threads import Thread
from loopkernel.data.timers import Timer
from loopkernel.data.watches import DisabledTool, Watch
from loopkernel.data.words import InputFate, RequestReason, TimerPurpose
from loopkernel.loop.turn.request import begin_request, open_turn, open_turn_with, output_limit, watch_silence

from tests.kernel.building import (
    ALL_TOOLS,
    ASKING_NOBODY,
    a,
    asked,
    at_rest,
    made_call,
    named,
    of_kind,
    text,
    timer,
    working,
)
from tests.kernel.drafts import drafted

TURN = Turn(number=1, opened_ms=0)
EMPTY = at_rest().session
MODELS = ("default", "other", "third")


@given(st.lists(st.sampled_from(RequestReason), max_size=4))
def test_turns_are_numbered_and_start_from_nothing(reasons: list[RequestReason]) -> None:
    session, numbers = EMPTY, []
    for reason in reasons:
        draft, turn = open_turn(drafted(session, 7), reason)
        session = draft.session
        assert turn == Turn(number=turn.number, opened_ms=7, reason=reason)
        numbers.append(turn.number)
    assert numbers == list(range(1, len(reasons) + 1))


@pytest.mark.rule("DELTA-6")
def test_a_turn_begins_with_what_the_user_sent() -> None:
    draft, turn = open_turn_with(drafted(EMPTY, 5), text("a"), ReceiptId(2), origin=UserOrigin.QUEUED, key="k")
    assert turn == Turn(number=1, opened_ms=5, reason=RequestReason.USER)
    settled, added = draft.effects
    assert settled == InputSettled(ReceiptId(2), InputFate.IN_THREAD, "k")
    assert isinstance(added, MessageAdded)
    assert a(UserMessage, added.message).origin is UserOrigin.QUEUED
    assert list(draft.session.thread) == [added.message]


@pytest.mark.rule("INFER-1")
@pytest.mark.rule("DELTA-3")
def test_the_ledger_of_a_request_counts_checks_and_runs_from_what_is_minted() -> None:
    session = working(made_call(), made_call(verdict=None)).session
    begun = begin_request(drafted(session), TURN)
    (call,) = of_kind(CallModel, begun.effects)
    minted = begun.session.operations.minted[OperationKind.MODEL]
    assert call.operation == begun.reply.operation == begun.ledger.reply == minted == 2
    assert (begun.ledger.first_check, begun.ledger.first_run) == (2, 2)


@pytest.mark.rule("DELTA-3")
@pytest.mark.parametrize("kind", [OperationKind.CHECK, OperationKind.RUN, OperationKind.TIMER, OperationKind.HOOK])
def test_the_ledger_of_a_request_knows_the_first_number_of_each_kind(kind: OperationKind) -> None:
    session = evolve(EMPTY, operations=evolve(EMPTY.operations, minted=tuple(range(10, 10 + len(OperationKind)))))
    policy = evolve(session.settings.policy, silence_ms=None, max_wall_ms=None)
    session = evolve(session, settings=evolve(session.settings, policy=policy))
    ledger = begin_request(drafted(session), TURN).ledger
    first = {
        OperationKind.CHECK: ledger.first_check,
        OperationKind.RUN: ledger.first_run,
        OperationKind.TIMER: ledger.first_timer,
        OperationKind.HOOK: ledger.first_hook,
    }
    assert first[kind] == session.operations.minted[kind] + 1


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
    begun = begin_request(drafted(session), TURN)
    foreign = tuple(name for name in left if name != model)
    told = [OpaqueDropped(begun.reply.operation, foreign)] if foreign and last != model else []
    assert of_kind(OpaqueDropped, begun.effects) == told
    assert named(begun.effects)[-2:] == ["CallModel", "StartTimer"]
    assert (begun.session.last_model, begun.reply.model) == (model, model)


@pytest.mark.rule("INFER-14")
@pytest.mark.parametrize("limit", [None, 1, 32_000])
def test_the_output_limit_is_that_of_the_policy(limit: int | None) -> None:
    session: Session = at_rest(Policy(max_output_tokens=limit)).session
    (call,) = of_kind(CallModel, begin_request(drafted(session), TURN).effects)
    assert (call.request.max_output_tokens, call.request.forced_tool) == (limit, None)


@pytest.mark.rule("INFER-14")
def test_the_output_limit_is_32000_by_default() -> None:
    assert asked(ASKING_NOBODY).session.settings.policy.max_output_tokens == 32_000


@pytest.mark.rule("INFER-7")
@given(st.none() | st.integers(1, 9), st.lists(st.integers(1, 9), max_size=3).map(tuple), st.integers(0, 5))
def test_the_output_limit_is_the_highest_that_truncated_replies_have_led_to(
    limit: int | None, escalate: tuple[int, ...], raised: int
) -> None:
    policy = Policy(max_output_tokens=limit, on_truncation=Truncation(escalate_to=escalate))
    turn = evolve(TURN, recovery=Recovery(raised=raised))
    raised = min(raised, len(escalate))  # policy may have changed since
    assert output_limit(policy, turn) == (escalate[raised - 1] if raised else limit)
    (call,) = of_kind(CallModel, begin_request(drafted(at_rest(policy).session), turn).effects)
    assert call.request.max_output_tokens == output_limit(policy, turn)


@pytest.mark.rule("INFER-11")
@given(st.none() | st.integers(1, 200_000), st.integers(0, 1_000))
def test_the_silence_of_a_stream_is_looked_at_when_it_may_be_over(silence_ms: int | None, heard_ms: int) -> None:
    policy = Policy(silence_ms=silence_ms)
    begun = begin_request(drafted(at_rest(policy).session, heard_ms), TURN)
    if silence_ms is None:
        assert (begun.silence, named(begun.effects)) == (None, ["CallModel"])
    else:
        assert begun.silence == Timer(timer(1), TimerPurpose.SILENCE, heard_ms + silence_ms)
        assert named(begun.effects) == ["CallModel", "StartTimer"]
    draft, found = watch_silence(drafted(at_rest(policy).session), heard_ms)
    assert (found, draft.effects) == (begun.silence, begun.effects[1:])
    assert draft.session.operations.minted[OperationKind.TIMER] == (0 if silence_ms is None else 1)


@pytest.mark.rule("LIMIT-3")
@given(st.sets(st.sampled_from([tool.name for tool in ALL_TOOLS])))
def test_a_tool_that_is_disabled_is_not_offered(disabled: set[str]) -> None:
    watch = Watch(disabled=tuple(DisabledTool(name, 1) for name in sorted(disabled)))
    session = evolve(at_rest(tools=ALL_TOOLS).session, watch=watch)
    (call,) = of_kind(CallModel, begin_request(drafted(session), TURN).effects)
    assert call.request.tools == tuple(tool for tool in ALL_TOOLS if tool.name not in disabled)


@pytest.mark.rule("RETRY-6")
@pytest.mark.parametrize("place", range(4))
def test_the_model_that_was_fallen_back_on_is_asked(place: int) -> None:
    policy = Policy(model="large", fallback_models=("middle", "small"))
    begun = begin_request(drafted(at_rest(policy).session), evolve(TURN, recovery=Recovery(model=place)))
    (call,) = of_kind(CallModel, begun.effects)
    model = ("large", "middle", "small", "small")[place]  # policy may have changed since
    assert (call.request.model, begun.reply.model, begun.session.last_model) == (model, model, model)


@pytest.mark.rule("CALL-5")
@pytest.mark.parametrize("forcing", [False, True])
def test_the_output_is_forced_while_it_is_owed(forcing: bool) -> None:
    session = at_rest(Policy(output_tool="finish", output_required=True)).session
    (call,) = of_kind(CallModel, begin_request(drafted(session), evolve(TURN, demanded=True, forcing=forcing)).effects)
    assert call.request.forced_tool == ("finish" if forcing else None)

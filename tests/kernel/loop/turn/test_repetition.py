"""A model that repeats itself: what is watched, and what is done about it before the next request."""

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.blocks import RawInput
from loopkernel.data.choices import RunCalls
from loopkernel.data.effects import CallModel, Effect
from loopkernel.data.events import LimitReached, LoopNoted, LoopStopped, ToolDisabled, TurnEnded
from loopkernel.data.ids import ModelOperation
from loopkernel.data.json_text import Json
from loopkernel.data.messages import UserMessage, UserOrigin
from loopkernel.data.model_deltas import ModelText
from loopkernel.data.policy import LoopTiers
from loopkernel.data.states import Executing, Idle, State, Streaming
from loopkernel.data.tools import EffectClass, Tool, ToolProfile
from loopkernel.data.user_deltas import RetryNow
from loopkernel.data.watches import Watch, WatchedCall
from loopkernel.data.words import CallStatus, StopReason, TurnEndReason
from loopkernel.loop.algorithms.wording import disabled_text, repetition_text
from loopkernel.loop.turn.limits import check_repetition, watch_calls

from tests.kernel.building import (
    ASKING_NOBODY,
    TOOLS,
    a,
    after,
    asked,
    at_rest,
    completed,
    failed,
    made_call,
    named,
    of_kind,
    results_of,
    say,
    session_of,
    steer,
    step,
    succeeded,
    text,
)
from tests.kernel.drafts import drafted

TIERS = LoopTiers(note=2, disable=3, disable_turns=2, stop=5, window=24)
POLICY = evolve(ASKING_NOBODY, loop=TIERS)
READ_AGAIN = Json.of({"path": "a", "deep": True})

Stepped = tuple[State, tuple[Effect, ...]]


def rounds(state: State, times: int, given: Json | RawInput = READ_AGAIN, tool: str = "read") -> State:
    """The model calls the tool so many times, each in a reply of its own, and gets an answer."""
    for _ in range(times):
        state = one_round(state, given, tool)[0]
    return state


def one_round(state: State, given: Json | RawInput = READ_AGAIN, tool: str = "read") -> Stepped:
    """One more such reply, and what its last delta causes."""
    reply = a(Streaming, state).reply.operation
    calls = (made_call(tool, reply=reply, call_input=given), completed(StopReason.TOOL_USE, reply=reply))
    following, effects = step(after(state, calls[0]), calls[1])
    if isinstance(following, Executing):
        (entry,) = following.ledger.entries
        assert entry.operation is not None
        following, effects = step(following, succeeded(entry.operation))
    return following, effects


def told(effects: tuple[Effect, ...]) -> list[Effect]:
    """What was found of repetition."""
    return [effect for effect in effects if isinstance(effect, LoopNoted | ToolDisabled | LoopStopped)]


def offered_in(effects: tuple[Effect, ...]) -> list[str]:
    """The tools of the one request."""
    (call,) = of_kind(CallModel, effects)
    return [tool.name for tool in call.request.tools]


# --- the tiers --------------------------------------------------------------------------------------------


@pytest.mark.rule("LIMIT-3")
def test_the_tiers_note_disable_and_stop() -> None:
    state, effects = one_round(asked(POLICY))
    assert (told(effects), "read" in offered_in(effects)) == ([], True)
    state, effects = one_round(state)  # the second
    assert told(effects) == [LoopNoted("read")]
    assert named(effects)[-4:] == ["MessageAdded", "LoopNoted", "MessageAdded", "CallModel"]
    *_, note = session_of(state).thread
    assert (a(UserMessage, note).origin, a(UserMessage, note).content) == (
        UserOrigin.LOOP_NOTE,
        text(repetition_text("read")),
    )
    state, effects = one_round(state)  # the third
    assert (told(effects), offered_in(effects)) == ([ToolDisabled("read")], ["write", "bare"])
    assert of_kind(LoopNoted, effects) == []
    state, effects = one_round(state)  # a call while it is disabled counts, and is answered with an error
    assert (told(effects), offered_in(effects)) == ([], ["write", "bare"])
    (result,) = results_of(state)
    assert (result.status, result.ran, result.content) == (CallStatus.ERROR, False, text(disabled_text("read")))
    state, effects = one_round(state)  # the fifth
    assert told(effects) == [LoopStopped("read")]
    assert of_kind(CallModel, effects) == []
    assert [ended.reason for ended in of_kind(TurnEnded, effects)] == [TurnEndReason.LOOP_DETECTED]
    assert isinstance(state, Idle)


@pytest.mark.rule("LIMIT-3")
def test_when_the_disable_has_run_out_the_tool_is_offered_and_its_calls_are_forgotten() -> None:
    state = rounds(asked(POLICY), 3)
    state, effects = one_round(state, Json.of({"n": 1}), "write")
    assert "read" not in offered_in(effects)
    state, effects = one_round(state, Json.of({"n": 2}), "write")
    assert "read" in offered_in(effects)
    watch = session_of(state).watch
    assert [call.tool for call in watch.calls] == ["write", "write"]
    assert (watch.disabled, watch.noted) == ((), ())
    assert told(one_round(state)[1]) == []


@pytest.mark.rule("LIMIT-3")
def test_the_count_starts_again_at_a_user_message() -> None:
    state = rounds(asked(POLICY), 1)
    reply = a(Streaming, state).reply.operation
    said = after(state, ModelText(reply, "well"), completed(reply=reply), say("again"))
    steered = rounds(after(state, steer("again")), 1)  # it goes in behind the second call
    for following in (said, steered):
        following, effects = one_round(following)
        assert told(effects) == []
        assert told(one_round(following)[1]) == [LoopNoted("read")]


@pytest.mark.rule("LIMIT-3")
def test_a_disabled_tool_stays_so_over_a_user_message() -> None:
    state = rounds(asked(POLICY), 3)
    reply = a(Streaming, state).reply.operation
    rest = after(state, ModelText(reply, "well"), completed(reply=reply))
    assert session_of(rest).watch.calls != ()
    following, effects = step(rest, say("go on"))
    assert "read" not in offered_in(effects)
    assert session_of(following).watch.calls == ()


@pytest.mark.rule("LIMIT-3")
def test_neither_polling_nor_what_does_not_parse_nor_paging_is_repetition() -> None:
    polls = Tool(name="poll", profile=ToolProfile(effect=EffectClass.READ_ONLY, polling=True))
    state: State = asked(POLICY, tools=(*TOOLS, polls))
    assert session_of(rounds(state, 4, tool="poll")).watch.noted == ()
    assert session_of(rounds(state, 4, RawInput("{"))).watch.noted == ()
    for page in range(4):
        state = rounds(state, 1, Json.of({"path": "a", "page": page}))
    assert session_of(state).watch.noted == ()


@pytest.mark.rule("LIMIT-3")
def test_without_tiers_nothing_is_watched() -> None:
    state = rounds(asked(evolve(ASKING_NOBODY, loop=None)), 9)
    assert session_of(state).watch == Watch()


@pytest.mark.rule("LIMIT-3")
@pytest.mark.rule("RETRY-4")
def test_a_request_that_is_made_again_is_not_looked_at_again() -> None:
    state = rounds(asked(POLICY), 3)
    reply = a(Streaming, state).reply.operation
    before = session_of(state).watch
    again = after(state, failed(reply=reply), RetryNow())
    assert session_of(again).watch == before
    _, effects = step(after(state, failed(reply=reply)), RetryNow())
    assert (told(effects), offered_in(effects)) == ([], ["write", "bare"])


@pytest.mark.rule("LIMIT-3")
@pytest.mark.rule("LIMIT-2")
def test_the_limits_come_before_the_check() -> None:
    state = rounds(asked(evolve(POLICY, max_turns=2)), 1)
    _, effects = one_round(state)
    assert (told(effects), len(of_kind(LimitReached, effects))) == ([], 1)


# --- what is watched --------------------------------------------------------------------------------------


@pytest.mark.rule("LIMIT-3")
@given(st.lists(st.sampled_from(("read", "write")), max_size=8), st.integers(2, 5))
def test_the_last_calls_are_remembered_in_their_order(tools: list[str], window: int) -> None:
    policy = evolve(ASKING_NOBODY, loop=evolve(TIERS, window=window))
    calls = [made_call(tool, call_input=Json.of({"n": number})) for number, tool in enumerate(tools)]
    state = asked(policy, *calls)
    found = watch_calls(state.session, state.ledger)
    wanted = [WatchedCall(tool, Json.of({"n": number})) for number, tool in enumerate(tools)]
    assert list(found.calls) == wanted[-window:]


@pytest.mark.rule("LIMIT-3")
@pytest.mark.rule("TOOL-9")
def test_the_calls_of_a_reply_that_is_discarded_are_not_watched() -> None:
    state = rounds(asked(POLICY), 1)
    reply = a(Streaming, state).reply.operation
    failing = after(state, made_call(reply=reply, call_input=READ_AGAIN), failed(reply=reply), RetryNow())
    assert told(one_round(failing)[1]) == [LoopNoted("read")]


@pytest.mark.rule("LIMIT-3")
@pytest.mark.rule("INFER-5")
def test_calls_that_were_made_and_did_not_run_count() -> None:
    policy = evolve(POLICY, run_calls=RunCalls.STOP_REASON)
    calls = (made_call(call_input=READ_AGAIN), made_call(call_input=READ_AGAIN))
    rest = after(asked(policy, *calls), completed(StopReason.END_TURN))
    assert len(session_of(a(Idle, rest)).watch.calls) == 2


@pytest.mark.rule("LIMIT-3")
def test_a_session_without_calls_is_left_alone() -> None:
    session = at_rest(POLICY).session
    draft = drafted(session)
    assert check_repetition(draft) == (draft, False)


@pytest.mark.rule("LIMIT-3")
def test_a_reply_without_calls_leaves_nothing_to_be_looked_at() -> None:
    state = asked(POLICY, ModelText(ModelOperation(1), "done"))
    assert watch_calls(state.session, state.ledger) == Watch()
    assert session_of(after(state, completed())).watch == Watch()

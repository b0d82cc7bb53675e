"""A restart in mid-turn: what may be repeated runs again under its own key, and what may not is answered."""

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.blocks import RawInput
from loopkernel.data.choices import RestartDangerous, RestartSafe
from loopkernel.data.effects import CallModel, CheckCall, StartTool
from loopkernel.data.events import Refused, ReplyRetracted, SessionResumed, ToolEnded
from loopkernel.data.ids import CheckOperation, RunOperation
from loopkernel.data.ledgers import LedgerEntry
from loopkernel.data.model_deltas import ModelCompleted, ModelText
from loopkernel.data.policy import OnRestart, Policy
from loopkernel.data.states import Executing, Streaming
from loopkernel.data.thread_deltas import Resumed
from loopkernel.data.tool_deltas import ToolChecked, ToolSucceeded
from loopkernel.data.tools import EffectClass, Tool, ToolProfile
from loopkernel.data.usage import Usage
from loopkernel.data.vector import Vector
from loopkernel.data.words import CallStatus, CancelReason, RefusalReason, RequestReason, StopReason, UserAction
from loopkernel.regions.restart import restart_calls

from tests.kernel.building import (
    ASKING_NOBODY,
    FREE,
    ONE,
    TWO,
    a,
    after,
    asked,
    call_id,
    effects_of,
    enqueue,
    grid,
    made_call,
    named,
    of_kind,
    recorded_call,
    session_of,
    steer,
    step,
    working,
)

TOOLS = (
    *(Tool(name=effect.value, profile=ToolProfile(effect=effect)) for effect in EffectClass),
    Tool(name="bare"),
)
DANGER = ("dangerous", "bare")  # a tool without a profile counts as dangerous

ANSWERS = {RestartSafe.RERUN: None, RestartSafe.CANCEL: CallStatus.CANCELLED, RestartSafe.ERROR: CallStatus.ERROR}
restarts = st.builds(
    OnRestart,
    read_only=st.sampled_from(RestartSafe),
    idempotent=st.sampled_from(RestartSafe),
    dangerous=st.sampled_from(RestartDangerous),
)


def answer_by_policy(tool: str, policy: OnRestart) -> CallStatus | None:
    """How a run in flight is answered; None if it is repeated."""
    if tool in DANGER:
        return CallStatus.UNKNOWN if policy.dangerous is RestartDangerous.UNKNOWN else CallStatus.CANCELLED
    choice = policy.read_only if tool == "read_only" else policy.idempotent
    return ANSWERS[choice]


@pytest.mark.rule("RESUME-3")
@pytest.mark.rule("TOOL-1")
@given(restarts, st.sampled_from([tool.name for tool in TOOLS]))
def test_a_run_in_flight_is_repeated_or_answered_by_its_class(policy: OnRestart, tool: str) -> None:
    state = working(made_call(tool), policy=evolve(ASKING_NOBODY, on_restart=policy), tools=TOOLS)
    following, effects = step(state, Resumed())
    status = answer_by_policy(tool, policy)
    assert effects[0] == SessionResumed()
    if status is None:
        (start,) = of_kind(StartTool, effects)
        (before,) = of_kind(StartTool, effects_of(asked(ASKING_NOBODY, made_call(tool), tools=TOOLS), completion()))
        assert (start.operation, start.run, start.key) == (2, 2, before.key)
        assert (start.call, start.tool, start.input) == (before.call, before.tool, before.input)
        assert a(Executing, following).ledger.running == a(Executing, following).ledger.unanswered == 1
    else:
        (ended,) = of_kind(ToolEnded, effects)
        assert (ended.result.status, ended.result.reason, ended.result.ran) == (status, CancelReason.SAFETY, True)
        assert of_kind(StartTool, effects) == []
        assert isinstance(following, Streaming)  # the loop just goes on
    late = effects_of(following, ToolSucceeded(RunOperation(1)))
    assert late == (Refused(UserAction.REPORT, RefusalReason.STALE),)


def completion() -> ModelCompleted:
    return ModelCompleted(ONE, StopReason.TOOL_USE)


@pytest.mark.rule("RESUME-3")
@pytest.mark.rule("TOOL-18")
def test_what_was_being_checked_is_checked_again_and_what_waited_still_waits() -> None:
    state = working(made_call("read_only"), made_call("read_only", None), made_call("read_only"), tools=TOOLS)
    following, effects = step(state, Resumed())
    assert named(effects) == ["SessionResumed", "StartTool", "CheckCall"]
    (check,) = of_kind(CheckCall, effects)
    assert (check.operation, check.call) == (2, call_id(2))
    assert grid(following, 1)["ToolChecked"] == "refused stale"
    went_on = effects_of(following, ToolChecked(CheckOperation(2), FREE))
    assert [start.call for start in of_kind(StartTool, went_on)] == [call_id(2), call_id(3)]


@pytest.mark.rule("RESUME-3")
def test_answered_calls_stay_answered_and_the_results_go_on() -> None:
    calls = (made_call("read_only"), made_call("read_only"))
    state = after(working(*calls, tools=TOOLS), ToolSucceeded(RunOperation(1)), Resumed())
    entries = a(Executing, state).ledger.entries
    assert [(entry.status, entry.runs) for entry in entries] == [(CallStatus.DONE, 1), (CallStatus.IN_PROGRESS, 2)]
    assert isinstance(after(state, ToolSucceeded(RunOperation(3))), Streaming)


@pytest.mark.rule("RESUME-3")
@pytest.mark.rule("TOOL-4")
def test_a_call_that_was_answered_before_the_first_is_not_run_again() -> None:
    calls = (made_call("read_only"), made_call("read_only"))
    effects = effects_of(working(*calls, tools=TOOLS), ToolSucceeded(RunOperation(2)), Resumed())
    assert [start.call for start in of_kind(StartTool, effects)] == [call_id(1)]


@pytest.mark.rule("RESUME-3")
@given(st.integers(0, 3))
def test_every_restart_repeats_under_another_operation_and_the_same_key(times: int) -> None:
    state = after(working(made_call("read_only"), tools=TOOLS), *[Resumed()] * times)
    (entry,) = a(Executing, state).ledger.entries
    assert (entry.operation, entry.runs) == (times + 1, times + 1)
    (start,) = of_kind(StartTool, effects_of(state, Resumed()))
    assert (start.operation, start.run, start.key) == (times + 2, times + 2, "s/1/1.1")


def test_arguments_that_do_not_parse_are_neither_checked_nor_run() -> None:
    call = recorded_call(call_input=RawInput("{"))
    entries = (
        LedgerEntry(call=call, check=CheckOperation(1)),
        LedgerEntry(call=call, status=CallStatus.IN_PROGRESS, operation=RunOperation(1), runs=1),
    )
    state = working(made_call())
    ledger = evolve(state.ledger, entries=Vector.of(entries))
    restarted = restart_calls(ledger, state.session.operations, state.session.settings)
    assert (restarted.ledger, restarted.effects) == (ledger, ())


# --- a reply in flight ------------------------------------------------------------------------------------


@pytest.mark.rule("RESUME-3")
@pytest.mark.rule("INFER-12")
@pytest.mark.rule("INFER-3")
def test_a_partial_reply_is_dropped_and_asked_for_again() -> None:
    state = evolve_usage(asked(Policy(), ModelText(ONE, "so"), made_call(verdict=None)), Usage(output=2))
    following, effects = step(state, Resumed())
    assert effects[:2] == (SessionResumed(), ReplyRetracted(ONE))
    (call,) = of_kind(CallModel, effects)
    assert (call.operation, call.request.reason) == (TWO, RequestReason.RESUME)
    assert call.request.thread == state.session.thread
    streaming = a(Streaming, following)
    assert (len(streaming.pieces), streaming.turn.number, streaming.session.usage) == (0, 1, Usage(output=2))
    late = grid(following, 1)
    assert (late["ModelText"], late["ToolChecked"]) == ("refused stale", "refused stale")


def evolve_usage(state: Streaming, usage: Usage) -> Streaming:
    return evolve(state, reply=evolve(state.reply, usage=usage))


@pytest.mark.rule("RESUME-3")
def test_a_reply_that_had_not_begun_is_asked_for_again_without_a_word() -> None:
    assert named(effects_of(asked(), Resumed())) == ["SessionResumed", "CallModel"]


@pytest.mark.rule("RESUME-3")
@pytest.mark.rule("INPUT-2")
@pytest.mark.rule("INPUT-3")
def test_what_was_queued_stays_queued_and_a_steer_goes_in() -> None:
    following, effects = step(after(asked(), enqueue("later"), steer("left")), Resumed())
    assert [queued.number for queued in session_of(following).inbox.queue] == [1]
    assert named(effects) == ["SessionResumed", "InputSettled", "MessageAdded", "Steered", "CallModel"]

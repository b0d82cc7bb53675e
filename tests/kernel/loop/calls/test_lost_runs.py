"""Runs of which nobody will ever say how they have ended (rule TOOL-16)."""

import pytest
from attrs import evolve
from loopkernel.data.blocks import text_of
from loopkernel.data.choices import OnToolFailure
from loopkernel.data.effects import AbortTool, AskHook, CancelTimer
from loopkernel.data.events import Refused, ToolEnded
from loopkernel.data.policy import Hook
from loopkernel.data.states import Streaming
from loopkernel.data.tools import EffectClass, Tool, ToolProfile
from loopkernel.data.words import CallStatus, HookPoint, RefusalReason, UserAction
from loopkernel.loop.algorithms.wording import LOST

from tests.kernel.building import (
    ALL_TOOLS,
    ASKING_NOBODY,
    after,
    call_id,
    effects_of,
    ends,
    lost,
    made_call,
    of_kind,
    reads,
    results_of,
    session_of,
    starts,
    statuses,
    step,
    stopped,
    succeeded,
    text,
    timer,
    working,
    writes,
)

RUNNING, ERROR = CallStatus.IN_PROGRESS, CallStatus.ERROR
SIBLINGS = evolve(ASKING_NOBODY, on_tool_failure=OnToolFailure.CANCEL_SIBLINGS)
TWO = working(made_call(), made_call())
REFUSED_AGAIN = (Refused(UserAction.REPORT, RefusalReason.DUPLICATE),)


@pytest.mark.rule("TOOL-16")
@pytest.mark.rule("TOOL-4")
def test_a_run_of_which_nobody_will_say_how_it_ended_is_answered_as_lost() -> None:
    following, effects = step(TWO, lost(1))
    (result,) = [ended.result for ended in of_kind(ToolEnded, effects)]
    assert (result.status, result.reason, result.content, result.ran) == (CallStatus.LOST, None, text(LOST), True)
    assert (result.final, result.stops_loop) == (False, False)
    assert statuses(following) == [CallStatus.LOST, RUNNING]
    assert of_kind(AbortTool, effects) == []
    assert [effects_of(following, report) for report in (lost(1), succeeded(1), stopped(1))] == [REFUSED_AGAIN] * 3


@pytest.mark.rule("TOOL-16")
@pytest.mark.rule("TOOL-17")
def test_a_lost_run_holds_nothing_and_has_no_time_left() -> None:
    first = Tool(name="timed", profile=ToolProfile(effect=EffectClass.IDEMPOTENT, timeout_ms=9))
    state = working(made_call("timed", writes("a")), made_call("write", writes("a")), tools=(*ALL_TOOLS, first))
    following, effects = step(state, lost(1))
    assert starts(effects) == [call_id(2)]
    assert of_kind(CancelTimer, effects) == [CancelTimer(timer(1))]
    assert session_of(following).held == ()


@pytest.mark.rule("TOOL-16")
@pytest.mark.rule("TOOL-6")
def test_a_lost_run_is_no_failure_of_its_tool_and_cancels_nobody() -> None:
    depends = made_call("read", reads("b"), needs=("p",))
    state = working(made_call(), made_call(provider_id="q"), depends, policy=SIBLINGS)
    _, effects = step(state, lost(1))
    assert ends(effects) == [(1, CallStatus.LOST, None), (3, ERROR, None)]
    assert "ended as lost" in text_of(of_kind(ToolEnded, effects)[1].result.content)


@pytest.mark.rule("TOOL-16")
def test_no_hook_looks_at_a_run_without_an_end() -> None:
    hooked = evolve(ASKING_NOBODY, hooks=(Hook(point=HookPoint.AFTER_TOOL, name="h", gated=True),))
    state = working(made_call(), made_call(), policy=hooked)
    assert of_kind(AskHook, effects_of(state, succeeded(1))) != []
    effects = effects_of(state, lost(1))
    assert (of_kind(AskHook, effects), len(of_kind(ToolEnded, effects))) == ([], 1)


@pytest.mark.rule("TOOL-16")
@pytest.mark.rule("CALL-1")
@pytest.mark.rule("INFER-2")
def test_the_loop_goes_on_behind_a_lost_run() -> None:
    following = after(working(made_call()), lost(1))
    assert isinstance(following, Streaming)
    (result,) = results_of(following)
    assert (result.status, result.content) == (CallStatus.LOST, text(LOST))

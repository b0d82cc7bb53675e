"""Sub-agents under the laws: one that is resumed goes on with its run; one that starts early has its share."""

import pytest
from attrs import evolve
from loopkernel.data.choices import EarlyStart, Schedule
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import Effect, StartChild
from loopkernel.data.model_deltas import ModelUsage
from loopkernel.data.policy import Policy
from loopkernel.data.thread_deltas import Acquired, Resumed
from loopkernel.data.tools import Decision, EffectClass, Tool, ToolProfile, ValidCall
from loopkernel.data.usage import Usage
from loopkernel.data.user_deltas import ChangePolicy, ChangeTools
from loopkernel.data.words import StopReason
from loopkernel.judging import check_step, check_trace
from loopkernel.replaying import LogRecord, StepRecord, fold

from tests.kernel.building import ONE, completed, created, made_call, say

ALL = Policy(schedule=Schedule.ALL)
HELPER = Tool(name="helper", profile=ToolProfile(child=True))


def restarted_under(policy: Policy) -> tuple[StepRecord, ...]:
    """Two sub-agents that use all there is run side by side; the policy changes, and then the process dies."""
    calls = [made_call("helper", ValidCall(None), provider_id=name) for name in ("a", "b")]
    begin: list[Delta] = [created(ALL, (HELPER,)), Acquired(), say(), *calls, completed(StopReason.TOOL_USE)]
    return tuple(fold([LogRecord(delta, 0) for delta in (*begin, ChangePolicy(policy), Resumed())]))


def as_new(effect: Effect) -> Effect:
    return evolve(effect, resumed=False) if isinstance(effect, StartChild) else effect


@pytest.mark.rule("RESUME-3")
@pytest.mark.parametrize("policy", [*(Policy(schedule=one) for one in Schedule), evolve(ALL, max_parallel=1)])
def test_sub_agents_that_ran_side_by_side_are_all_resumed_whatever_the_policy_is_by_then(policy: Policy) -> None:
    steps = restarted_under(policy)
    assert [effect.resumed for effect in steps[-1].effects if isinstance(effect, StartChild)] == [True, True]
    assert [str(breach) for breach in check_trace(steps).breaches] == []


@pytest.mark.rule("RESUME-3")
@pytest.mark.parametrize(
    ("policy", "law"), [(Policy(schedule=Schedule.SERIAL), "NO-CONFLICT"), (evolve(ALL, max_parallel=1), "PARALLEL")]
)
def test_sub_agents_that_begin_anew_are_held_to_the_schedule(policy: Policy, law: str) -> None:
    last = restarted_under(policy)[-1]
    anew = evolve(last, effects=tuple(as_new(effect) for effect in last.effects))
    assert law in {breach.law for breach in check_step(anew)}


@pytest.mark.rule("RESUME-3")
@pytest.mark.rule("ASK-1")
def test_a_sub_agent_goes_on_whose_tool_would_ask_by_then_and_what_begins_anew_does_not() -> None:
    calls = [made_call("helper", ValidCall(None))]
    begin: list[Delta] = [created(ALL, (HELPER,)), Acquired(), say(), *calls, completed(StopReason.TOOL_USE)]
    asks = evolve(HELPER, profile=ToolProfile(child=True, approval=Decision.ASK))
    steps = tuple(fold([LogRecord(delta, 0) for delta in (*begin, ChangeTools((asks,)), Resumed())]))
    assert [effect.resumed for effect in steps[-1].effects if isinstance(effect, StartChild)] == [True]
    assert [str(breach) for breach in check_trace(steps).breaches] == []
    anew = evolve(steps[-1], effects=tuple(as_new(effect) for effect in steps[-1].effects))
    assert "ASKED" in {breach.law for breach in check_trace((*steps[:-1], anew)).breaches}


@pytest.mark.rule("LIMIT-2")
def test_the_share_of_a_sub_agent_that_starts_early_is_of_what_is_left_without_the_reply_in_flight() -> None:
    early = evolve(HELPER, profile=ToolProfile(effect=EffectClass.READ_ONLY, child=True, early=True))
    policy = evolve(ALL, max_total_tokens=100, early_start=EarlyStart.GATED)
    begin: list[Delta] = [created(policy, (early,)), Acquired(), say(), ModelUsage(ONE, Usage(input=7))]
    last = made_call("helper", ValidCall(None))
    steps = tuple(fold([LogRecord(delta, 0) for delta in (*begin, last)]))
    assert [
        effect.created.policy.max_total_tokens for effect in steps[-1].effects if isinstance(effect, StartChild)
    ] == [100]
    assert [str(breach) for breach in check_trace(steps).breaches] == []

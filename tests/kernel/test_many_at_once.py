"""What a reply of many calls costs the kernel, whatever else there is much of: counted, and not timed."""

from collections.abc import Callable

import pytest
from attrs import evolve
from loopkernel.data.blocks import TextBlock
from loopkernel.data.choices import ApprovalMode, EarlyStart, OnToolFailure, Schedule
from loopkernel.data.deltas import Delta
from loopkernel.data.ids import ModelOperation, RunOperation
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import ModelCall, ModelCompleted
from loopkernel.data.outside_deltas import ChildEnded
from loopkernel.data.policy import Policy, Prices
from loopkernel.data.thread_deltas import Acquired, Created
from loopkernel.data.tool_deltas import ToolSucceeded
from loopkernel.data.tools import AccessMode, Claim, EffectClass, Tool, ToolProfile, ValidCall
from loopkernel.data.user_deltas import Say
from loopkernel.data.words import StopReason, TurnEndReason
from loopkernel.replaying import LogRecord, replay
from loopkernel.views.waits import waits_of

from tests.kernel.counting import python_calls, python_lines

FEW, MANY = 100, 200
MOST_GROWTH = 2.2
REPLY = ModelOperation(1)
POLICY = Policy(approval_mode=ApprovalMode.BYPASS, max_parallel=None, loop=None, tool_timeout_ms=None)
READS = ToolProfile(effect=EffectClass.READ_ONLY)
DELEGATES = ToolProfile(effect=EffectClass.READ_ONLY, child=True)


def begun(policy: Policy, tools: tuple[Tool, ...], calls: tuple[ModelCall, ...]) -> tuple[Delta, ...]:
    """A session with these tools, in which the model makes these calls."""
    said = Say(content=(TextBlock("go"),))
    created = Created(session_id="s", policy=policy, tools=tools)
    return (created, Acquired(), said, *calls, ModelCompleted(REPLY, StopReason.TOOL_USE))


def call(number: int, tool: str, *claims: Claim) -> ModelCall:
    given = Json.of({"prompt": f"part {number}"})
    return ModelCall(REPLY, provider_id=f"c{number}", tool=tool, input=given, verdict=ValidCall(claims))


def other_tools(count: int) -> tuple[Delta, ...]:
    """As many tools as calls."""
    names = [f"tool_{number}" for number in range(count)]
    tools = tuple(Tool(name=name, profile=READS) for name in names)
    calls = tuple(call(number, name) for number, name in enumerate(names))
    ends = (ToolSucceeded(RunOperation(number)) for number in range(1, count + 1))
    return (*begun(POLICY, tools, calls), *ends)


def sub_agents(count: int, policy: Policy = POLICY) -> tuple[Delta, ...]:
    """As many sub-agents as calls."""
    calls = tuple(call(number, "delegate") for number in range(count))
    ended = (
        ChildEnded(operation=RunOperation(number), reason=TurnEndReason.MODEL_STOP, text="done")
        for number in range(1, count + 1)
    )
    return (*begun(policy, (Tool(name="delegate", profile=DELEGATES),), calls), *ended)


def sub_agents_that_share(count: int) -> tuple[Delta, ...]:
    """As many sub-agents as calls, which have shares of three budgets."""
    limits = evolve(POLICY, max_total_tokens=1_000_000, max_tool_calls=1_000_000)
    budgets = evolve(limits, max_cost_usd=10.0, prices=Prices(output=1.0))
    return sub_agents(count, budgets)


def reads_of(policy: Policy, count: int) -> tuple[Delta, ...]:
    """As many reads, which may start while the reply streams."""
    calls = tuple(call(number, "read") for number in range(count))
    ends = (ToolSucceeded(RunOperation(number)) for number in range(1, count + 1))
    return (*begun(policy, (Tool(name="read", profile=evolve(READS, early=True)),), calls), *ends)


def one_for_all(count: int) -> tuple[Delta, ...]:
    """Calls of which a failure would have cancelled all."""
    early = evolve(POLICY, early_start=EarlyStart.GATED, on_tool_failure=OnToolFailure.CANCEL_SIBLINGS)
    return reads_of(early, count)


def with_output(count: int) -> tuple[Delta, ...]:
    """Calls beside which there might be one that gives the output."""
    return reads_of(evolve(POLICY, output_tool="say"), count)


def play(deltas: tuple[Delta, ...]) -> None:
    replay(LogRecord(delta, 0) for delta in deltas)


@pytest.mark.parametrize("reply", [other_tools, sub_agents, sub_agents_that_share, one_for_all, with_output])
def test_a_call_costs_the_same_however_many_there_are(reply: Callable[[int], tuple[Delta, ...]]) -> None:
    few, many = (python_lines(play, reply(count)) for count in (FEW, MANY))
    assert many < MOST_GROWTH * few


def test_what_a_call_waits_for_is_told_without_a_reason_for_each_of_them() -> None:
    def told(count: int) -> int:
        tool = Tool(name="write", profile=ToolProfile(effect=EffectClass.IDEMPOTENT))
        calls = tuple(call(number, "write", Claim("a", AccessMode.WRITE)) for number in range(count))
        deltas = begun(evolve(POLICY, schedule=Schedule.GRAPH), (tool,), calls)
        return python_calls(waits_of, replay(LogRecord(delta, 0) for delta in deltas))

    assert told(MANY) < MOST_GROWTH * told(FEW)

"""Calls that wait for approval: the driver rests, and goes on with the answer, whatever it is."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.choices import ApprovalMode
from loopkernel.data.effects import CheckCall, StartTool
from loopkernel.data.events import ApprovalAsked, ApprovalRemembered, EditRefused, Refused
from loopkernel.data.json_text import Json
from loopkernel.data.policy import Policy
from loopkernel.data.states import Cancelled, Executing, Idle
from loopkernel.data.tools import InvalidCall, ToolOutput, ToolProfile, ValidCall, Verdict
from loopkernel.data.user_deltas import (
    Approve,
    CancelAll,
    CancelCall,
    Correct,
    Reject,
    RememberTool,
    Swap,
    UserDelta,
)
from loopkernel.data.words import RefusalReason
from loopkernel.replaying import replay
from loopkernel_adapters.ports import RunContext
from loopkernel_adapters.providers.scripted import call_reply, text_reply
from typing_extensions import override

from tests.adapters.driver.driver_world import ASKS, NO_INPUT, FunctionTools, World, echo, said, say
from tests.adapters.driver.people_world import a_world, asked, the_call, waiting


@pytest.mark.rule("ASK-2")
def test_it_rests_while_a_call_waits_and_goes_on_with_the_approval() -> None:
    async def run() -> None:
        world = a_world("echo")
        async with await world.open() as driver:
            await asked(driver)
            assert [entry.call.id for entry in waiting(driver)] == [the_call()]
            assert world.seen(ApprovalAsked) == [ApprovalAsked(the_call())]
            assert world.tools.started == []
            assert len(asyncio.all_tasks()) == 1  # nothing is under way
            await driver.send(Approve(call=the_call()))
            await driver.rest()
            assert isinstance(driver.state, Idle)
        assert world.results() == [("done", "{}")]
        assert len(world.tools.started) == 1

    asyncio.run(run())


@pytest.mark.parametrize(
    ("answer", "status", "started"),
    [
        (Reject(call=the_call(), why="too late"), "rejected-by-user", []),
        (Correct(call=the_call(), input=Json.of({"a": 1})), "done", ["echo"]),
        (Swap(call=the_call(), tool="other", input=NO_INPUT), "done", ["other"]),
        (Approve(call=the_call(), remember=RememberTool()), "done", ["echo"]),
        (CancelCall(the_call()), "cancelled", []),
        (CancelAll(), "cancelled", []),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.rule("ASK-3")
def test_every_answer_ends_the_wait(answer: UserDelta, status: str, started: list[str]) -> None:
    async def run() -> None:
        world = a_world("echo", tools=FunctionTools(ASKS, echo=echo, other=echo))
        async with await world.open() as driver:
            await asked(driver)
            await driver.send(answer)
            await driver.rest()
            assert isinstance(driver.state, Idle | Cancelled)
        assert [status for status, _ in world.results()] == [status]
        assert [command.tool for command in world.tools.started] == started
        assert not world.seen(Refused)
        assert replay(world.noted.load()) == driver.state

    asyncio.run(run())


@given(approvals=st.permutations([1, 2, 3]))
@pytest.mark.rule("ASK-2")
def test_several_wait_at_once_and_are_answered_in_any_order(approvals: list[int]) -> None:
    async def run() -> None:
        world = a_world("echo", "echo", "echo", tools=FunctionTools(ToolProfile(approval=ASKS.approval), echo=echo))
        async with await world.open() as driver:
            await asked(driver)
            assert len(waiting(driver)) == 3
            for position in approvals:
                await driver.send(Approve(call=the_call(position)))
                await driver.rest()
            assert isinstance(driver.state, Idle)
        assert [command.call.position for command in world.tools.started] == approvals

    asyncio.run(run())


@pytest.mark.rule("ASK-3")
def test_a_remembered_approval_lets_the_next_call_run_unasked() -> None:
    async def run() -> None:
        calls = call_reply(("echo", NO_INPUT))
        world = World([calls, calls, text_reply("b")], tools=FunctionTools(ASKS, echo=echo))
        async with await world.open() as driver:
            await asked(driver)
            await driver.send(Approve(call=the_call(), remember=RememberTool()))
            await driver.rest()
            assert isinstance(driver.state, Idle)
        assert world.results() == [("done", "{}")] * 2
        assert len(world.seen(ApprovalAsked)) == 1
        assert len(world.seen(ApprovalRemembered)) == 1

    asyncio.run(run())


@pytest.mark.rule("ASK-3")
def test_an_edit_that_the_tool_does_not_take_is_refused_and_the_call_keeps_waiting() -> None:
    class Strict(FunctionTools):
        @override
        def check(self, command: CheckCall) -> Verdict:
            return InvalidCall("it is bad") if command.input == Json.of("bad") else ValidCall()

    async def run() -> None:
        world = a_world("echo", tools=Strict(ASKS, echo=echo))
        async with await world.open() as driver:
            await asked(driver)
            await driver.send(Correct(call=the_call(), input=Json.of("bad")))
            await driver.rest()
            assert [event.reason for event in world.seen(EditRefused) if isinstance(event, EditRefused)] == [
                RefusalReason.INVALID
            ]
            assert [entry.call.id for entry in waiting(driver)] == [the_call()]
            assert world.tools.started == []

    asyncio.run(run())


def test_rest_waits_for_a_run_beside_a_call_that_waits() -> None:
    async def run() -> None:
        may_end = asyncio.Event()

        async def waits(command: StartTool, context: RunContext) -> ToolOutput:
            await may_end.wait()
            return said("ok")

        tools = FunctionTools(echo=echo, waits=waits)
        tools.profiles["echo"] = ASKS
        world = a_world("echo", "waits", tools=tools)
        async with await world.open() as driver:
            await driver.send(say("go"))
            resting = asyncio.ensure_future(driver.rest())
            await world.until(ApprovalAsked)
            for _ in range(5):
                await asyncio.sleep(0)
            assert isinstance(driver.state, Executing)
            assert not resting.done()
            may_end.set()
            await resting
            assert [entry.call.tool for entry in waiting(driver)] == ["echo"]

    asyncio.run(run())


@pytest.mark.rule("ASK-6")
def test_a_wait_that_lasts_too_long_is_a_rejection() -> None:
    async def run() -> None:
        world = a_world("echo", policy=Policy(approval_timeout_ms=300_000))
        async with await world.open() as driver:
            await asked(driver)  # a timer runs, and yet it is a person's turn
            assert world.clock.pending == 1
            world.clock.advance(300_000)
            await driver.rest()
            assert isinstance(driver.state, Idle)
            assert world.clock.pending == 0
        assert [status for status, _ in world.results()] == ["rejected-by-user"]
        assert world.tools.started == []

    asyncio.run(run())


@pytest.mark.rule("ASK-1")
def test_without_a_person_nothing_waits() -> None:
    async def run() -> None:
        for mode, status in ((ApprovalMode.HEADLESS, "error"), (ApprovalMode.BYPASS, "done")):
            world = a_world("echo", policy=Policy(approval_mode=mode))
            async with await world.open() as driver:
                await driver.send(say("go"))
                await driver.rest()
                assert isinstance(driver.state, Idle)
            assert [found for found, _ in world.results()] == [status]

    asyncio.run(run())

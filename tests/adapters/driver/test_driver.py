"""The driver carries out each command once, tells of every event, and rests when nothing is under way."""

import asyncio

import pytest
from loopkernel.data.choices import Lifetime
from loopkernel.data.effects import CheckCall, StartTool
from loopkernel.data.events import InputSettled, MessageAdded, Refused, ReplyGrew, ToolProgressed
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import ModelText
from loopkernel.data.policy import Policy
from loopkernel.data.states import Done, Idle, Initial
from loopkernel.data.thread_deltas import Disposed
from loopkernel.data.tool_deltas import ToolProgress
from loopkernel.data.tools import InvalidCall, ToolOutput, Verdict
from loopkernel.data.user_deltas import ChangeInstructions, Enqueue
from loopkernel.data.words import CallStatus, TurnEndReason
from loopkernel_adapters.ports import RunContext
from loopkernel_adapters.providers.scripted import ANY, call_reply, text_reply
from typing_extensions import override

from tests.adapters.driver.driver_world import NO_INPUT, FunctionTools, World, echo, one_turn, said, say


async def talks(command: StartTool, context: RunContext) -> ToolOutput:
    for step in ("half", "nearly"):
        await context.report_progress(step)
    return said("all of it")


def some_tools() -> FunctionTools:
    return FunctionTools(talks=talks)


@pytest.mark.rule("TOOL-8")
def test_results_come_back_in_any_order() -> None:
    async def run() -> None:
        first_may_end = asyncio.Event()

        async def waits(command: StartTool, context: RunContext) -> ToolOutput:
            if command.call.position == 1:
                await first_may_end.wait()
            else:
                first_may_end.set()
            return said(str(command.call.position))

        world = World([call_reply(*[("waits", NO_INPUT)] * 2), text_reply("b")], tools=FunctionTools(waits=waits))
        assert isinstance(await one_turn(world), Idle)
        assert world.results() == [("done", "2"), ("done", "1")]

    asyncio.run(run())


@pytest.mark.in_place
def test_a_run_with_one_effect_at_a_time_needs_one_task() -> None:
    async def run() -> None:
        tasks: set[asyncio.Task[object] | None] = set()

        async def notes_task(command: StartTool, context: RunContext) -> ToolOutput:
            tasks.add(asyncio.current_task())
            return said("ok")

        world = World(
            [*[call_reply(("notes_task", NO_INPUT))] * 5, text_reply("b")], tools=FunctionTools(notes_task=notes_task)
        )
        async with await world.open() as driver:
            await driver.send(say("go"))
            await driver.rest()
            assert len(asyncio.all_tasks()) == 1  # at rest the driver owns none
        assert len(world.tools.started) == 5
        assert len(tasks) == 1

    asyncio.run(run())


def test_others_get_their_turn_even_if_nothing_ever_waits() -> None:
    async def run() -> None:
        endless = [call_reply(("echo", NO_INPUT))] * 1_000
        world = World(endless, policy=Policy(max_turns=None))
        async with await world.open() as driver:
            await driver.send(say("go"))
            for _ in range(10):
                await asyncio.sleep(0)
            assert 1 <= len(world.scripted.requests) < 20

        async def chatters(command: StartTool, context: RunContext) -> ToolOutput:
            for _ in range(1_000):
                await context.report_progress("still here")
            return said("ok")

        world = World([call_reply(("chatters", NO_INPUT))], tools=FunctionTools(chatters=chatters))
        async with await world.open() as driver:
            await driver.send(say("go"))
            await world.until(ToolProgressed)
            assert len(world.seen(ToolProgressed)) < 1_000

        many = (ModelText(ANY, "a"),) * 1_000
        world = World([(*many, *text_reply("b"))])
        async with await world.open() as driver:
            await driver.send(say("go"))
            await asyncio.sleep(0)
            assert 1 <= len(world.seen(ReplyGrew)) < 1_000

    asyncio.run(run())


def test_progress_is_recorded_before_the_tool_goes_on() -> None:
    async def run() -> None:
        world = World([call_reply(("talks", NO_INPUT)), text_reply("b")], tools=some_tools())
        await one_turn(world)
        progress = [r.delta.text for r in world.noted.load() if isinstance(r.delta, ToolProgress)]
        assert progress == ["half", "nearly"]

    asyncio.run(run())


def test_a_tool_may_speak_to_its_own_session() -> None:
    async def run() -> None:
        async def enqueues(command: StartTool, context: RunContext) -> ToolOutput:
            await driver.send(Enqueue(content=say("and then").content))
            return said("ok")

        world = World(
            [call_reply(("enqueues", NO_INPUT)), text_reply("b"), text_reply("c")],
            tools=FunctionTools(enqueues=enqueues),
        )
        async with await world.open() as driver:
            await driver.send(say("go"))
            await driver.rest()
        assert world.endings() == [TurnEndReason.MODEL_STOP] * 2
        assert len(world.scripted.requests) == 3

    asyncio.run(run())


@pytest.mark.in_place
def test_send_returns_when_the_input_is_durable() -> None:
    async def run() -> None:
        world = World([text_reply("b")])
        async with await world.open() as driver:
            message = say("go")
            await driver.send(message)
            assert world.noted.durable[-1].delta == message
            assert world.seen(InputSettled)
            assert world.scripted.requests == []  # and the model is asked only then
            await driver.rest()

    asyncio.run(run())


def test_input_is_durable_even_if_nothing_comes_of_it() -> None:
    async def run() -> None:
        world = World()
        async with await world.open() as driver:
            change = ChangeInstructions("be brief")
            await driver.send(change)
            assert len(world.events) == 1  # the session's own beginning
            assert world.noted.durable[-1].delta == change

    asyncio.run(run())


@pytest.mark.rule("STATE-8")
def test_rest_ends_with_the_task_and_later_input_is_refused() -> None:
    async def run() -> None:
        world = World([text_reply("b")], policy=Policy(lifetime=Lifetime.TASK))
        async with await world.open() as driver:
            await driver.send(say("go"))
            await asyncio.gather(driver.rest(), driver.rest())
            assert isinstance(driver.state, Done)
            await driver.send(say("more"))
            assert isinstance(world.events[-1], Refused)
            await driver.rest()

    asyncio.run(run())


def test_a_session_can_be_released() -> None:
    async def run() -> None:
        world = World()
        async with await world.open() as driver:
            await driver.send(Disposed())
            assert isinstance(driver.state, Initial)
            await driver.rest()

    asyncio.run(run())


def test_a_check_that_says_no_reaches_the_model() -> None:
    async def run() -> None:
        class StrictTools(FunctionTools):
            @override
            def check(self, command: CheckCall) -> Verdict:
                return InvalidCall("path is missing")

        world = World(
            [call_reply(("echo", NO_INPUT), ("echo", Json.of({"a": 1}))), text_reply("b")], tools=StrictTools(echo=echo)
        )
        await one_turn(world)
        assert [status for status, _ in world.results()] == [CallStatus.ERROR.value] * 2
        assert all("path is missing" in text for _, text in world.results())
        assert world.tools.started == []
        assert world.seen(MessageAdded)

    asyncio.run(run())


def test_stamps_come_from_the_clock() -> None:
    async def run() -> None:
        world = World([text_reply("b")])
        async with await world.open() as driver:
            world.clock.advance(500)
            await driver.send(say("go"))
            await driver.rest()
        assert [record.now_ms for record in world.noted.load()][:3] == [1_000, 1_000, 1_500]

    asyncio.run(run())

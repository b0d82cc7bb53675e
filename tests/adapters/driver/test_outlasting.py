"""Runs that outlast the answer to their call: in the background, or aborted and not stopped yet."""

import asyncio

import pytest
from loopkernel.data.blocks import text_of
from loopkernel.data.effects import CheckCall, StartTool
from loopkernel.data.events import LeaseBroken, MessageAdded, Refused, ToolEnded
from loopkernel.data.messages import UserMessage
from loopkernel.data.states import Executing, Idle
from loopkernel.data.tool_deltas import ToolFailed, ToolProgress, ToolStopped, ToolSucceeded
from loopkernel.data.tools import AccessMode, Claim, ToolOutput, ValidCall, Verdict
from loopkernel.data.user_deltas import CancelAll, CancelCall, UserDelta
from loopkernel.replaying import replay
from loopkernel_adapters.ports import RunContext, ToolError
from loopkernel_adapters.providers.scripted import call_reply, text_reply
from typing_extensions import override

from tests.adapters.driver.driver_world import NO_INPUT, FunctionTools, World, echo, said, say
from tests.adapters.driver.people_world import a_world, the_call


class Background:
    """A tool that goes on in the background until it may end."""

    def __init__(self, fails: bool = False, handle: str = "job 1") -> None:
        self.may_end = asyncio.Event()
        self.stopped = False
        self._fails = fails
        self._handle = handle

    async def __call__(self, command: StartTool, context: RunContext) -> ToolOutput:
        await context.go_on_in_background(self._handle)
        try:
            await self.may_end.wait()
        except asyncio.CancelledError:
            self.stopped = True
            raise
        if self._fails:
            raise ToolError("it went wrong")
        return said("the outcome")


def user_texts(world: World) -> list[str]:
    added = [event.message for event in world.events if isinstance(event, MessageAdded)]
    return [text_of(message.content) for message in added if isinstance(message, UserMessage)]


# --- background ---


@pytest.mark.parametrize(("fails", "told"), [(False, "the outcome"), (True, "it went wrong")])
@pytest.mark.rule("TOOL-20")
def test_a_run_in_the_background_is_answered_at_once_and_its_end_is_told_in_the_next_request(
    fails: bool, told: str
) -> None:
    async def run() -> None:
        background = Background(fails)
        replies = [call_reply(("background", NO_INPUT)), text_reply("started"), text_reply("so it ended")]
        world = World(replies, tools=FunctionTools(background=background))
        async with await world.open() as driver:
            await driver.send(say("go"))
            await driver.rest()
            assert isinstance(driver.state, Idle)
            assert world.results() == [("done", "job 1")]
            background.may_end.set()
            while len(asyncio.all_tasks()) > 1:
                await asyncio.sleep(0)
            assert isinstance(driver.state, Idle)  # its end starts nothing
            assert len(world.scripted.requests) == 2
            last = world.noted.durable[-1].delta
            assert isinstance(last, ToolFailed if fails else ToolSucceeded)
            await driver.send(say("next"))
            await driver.rest()
            assert any(told in text for text in user_texts(world))
        assert world.results() == [("done", "job 1")]
        assert not world.seen(Refused)
        assert replay(world.noted.load()) == driver.state

    asyncio.run(run())


def test_without_a_handle_the_kernel_says_what_goes_on() -> None:
    async def run() -> None:
        world = a_world("background", tools=FunctionTools(background=Background(handle=" ")))
        async with await world.open() as driver:
            await driver.send(say("go"))
            await driver.rest()
        ((status, text),) = world.results()
        assert status == "done"
        assert "background" in text

    asyncio.run(run())


@pytest.mark.in_place
@pytest.mark.parametrize("stop", [CancelAll(), CancelCall(the_call())], ids=lambda value: type(value).__name__)
@pytest.mark.rule("TOOL-20")
def test_a_cancel_stops_a_run_in_the_background(stop: UserDelta) -> None:
    async def run() -> None:
        background = Background()
        replies = [call_reply(("background", NO_INPUT)), (asyncio.Event(),)]
        world = World(replies, tools=FunctionTools(background=background))
        async with await world.open() as driver:
            await driver.send(say("go"))
            await world.until(ToolEnded)
            await asyncio.sleep(0)
            await driver.send(stop)
            while not background.stopped:
                await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert world.noted.durable[-1].delta == ToolStopped(world.tools.started[0].operation)
        assert world.results() == [("done", "job 1")]
        assert not world.seen(LeaseBroken)

    asyncio.run(run())


def test_close_stops_a_run_in_the_background() -> None:
    async def run() -> None:
        background = Background()
        world = a_world("background", tools=FunctionTools(background=background))
        async with await world.open() as driver:
            await driver.send(say("go"))
            await driver.rest()
        assert background.stopped
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(run())


def test_a_run_in_the_background_cannot_ask_but_tells_how_far_it_is() -> None:
    async def run() -> None:
        answers: list[object] = []

        async def background(command: StartTool, context: RunContext) -> ToolOutput:
            await context.go_on_in_background("job 1")
            answers.append(await context.ask("sure?"))
            await context.report_progress("half")
            with pytest.raises(RuntimeError, match="in the background already"):
                await context.go_on_in_background("job 2")
            return said("ok")

        world = a_world("background", tools=FunctionTools(background=background))
        async with await world.open() as driver:
            await driver.send(say("go"))
            await driver.rest()
            while len(asyncio.all_tasks()) > 1:
                await asyncio.sleep(0)
        assert answers == [None]
        assert any(isinstance(record.delta, ToolProgress) for record in world.noted.load())
        assert isinstance(driver.state, Idle)

    asyncio.run(run())


def test_a_tool_that_only_claims_to_go_on_has_failed() -> None:
    async def run() -> None:
        async def claims(command: StartTool, context: RunContext) -> ToolOutput:
            return ToolOutput(background=True)

        world = a_world("claims", tools=FunctionTools(claims=claims))
        async with await world.open() as driver:
            await driver.send(say("go"))
            await driver.rest()
        ((status, text),) = world.results()
        assert status == "error"
        assert "go_on_in_background" in text

    asyncio.run(run())


# --- aborted ---


class OneResource(FunctionTools):
    """Every call writes the same resource."""

    @override
    def check(self, command: CheckCall) -> Verdict:
        return ValidCall((Claim("file", AccessMode.WRITE),))


class Stubborn:
    """A tool that ends when it may, and not when it is told to."""

    def __init__(self, heeds: bool) -> None:
        self.begun = asyncio.Event()
        self.may_end = asyncio.Event()
        self._heeds = heeds

    async def __call__(self, command: StartTool, context: RunContext) -> ToolOutput:
        self.begun.set()
        while not self.may_end.is_set():
            try:
                await self.may_end.wait()
            except asyncio.CancelledError:
                if self._heeds:
                    raise
        return said("too late")


@pytest.mark.parametrize("ending", ["heeds", "reports late", "outlasts its grace"])
@pytest.mark.rule("TOOL-17")
def test_what_an_aborted_run_holds_is_free_when_it_has_stopped_or_its_time_is_over(ending: str) -> None:
    async def run() -> None:
        stubborn = Stubborn(heeds=ending == "heeds")
        world = a_world("stubborn", "echo", tools=OneResource(stubborn=stubborn, echo=echo))
        async with await world.open() as driver:
            await driver.send(say("go"))
            await stubborn.begun.wait()
            await driver.send(CancelCall(the_call()))
            if ending == "reports late":
                await asyncio.sleep(0)
                assert isinstance(driver.state, Executing)
                assert len(world.tools.started) == 1
                stubborn.may_end.set()
            elif ending == "outlasts its grace":
                resting = asyncio.ensure_future(driver.rest())
                await asyncio.sleep(0)
                assert not resting.done()  # the next call starts by itself, when the time is over
                assert len(world.tools.started) == 1
                world.clock.advance(world.policy.grace_ms)
                await resting
                assert world.seen(LeaseBroken) == [LeaseBroken(the_call())]
                stubborn.may_end.set()
            await driver.rest()
            assert isinstance(driver.state, Idle)
            while len(asyncio.all_tasks()) > 1:
                await asyncio.sleep(0)
        assert [status for status, _ in world.results()] == ["cancelled", "done"]
        assert bool(world.seen(Refused)) == (ending != "heeds")
        assert world.clock.pending == 0

    asyncio.run(run())


@pytest.mark.rule("TOOL-10")
def test_a_tool_that_takes_too_long_is_aborted_and_answered() -> None:
    async def run() -> None:
        stubborn = Stubborn(heeds=True)
        world = a_world("stubborn", tools=FunctionTools(stubborn=stubborn))
        async with await world.open() as driver:
            await driver.send(say("go"))
            await stubborn.begun.wait()
            assert world.policy.tool_timeout_ms is not None
            world.clock.advance(world.policy.tool_timeout_ms)
            await driver.rest()
            assert isinstance(driver.state, Idle)
            await asyncio.sleep(0)
        assert [status for status, _ in world.results()] == ["error"]
        assert ToolStopped(world.tools.started[0].operation) in [record.delta for record in world.noted.load()]
        assert world.clock.pending == 0

    asyncio.run(run())

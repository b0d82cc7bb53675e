"""What bounds a driver: queues, slices, groups, timers, and calls of those who would wait for themselves."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from loopkernel.data.blocks import text_of
from loopkernel.data.effects import StartTool
from loopkernel.data.events import Event, InputSettled, Refused, ReplyGrew, ToolEnded
from loopkernel.data.ids import ModelOperation
from loopkernel.data.model_deltas import ModelCompleted, ModelDelta, ModelText
from loopkernel.data.states import Cancelled
from loopkernel.data.tools import ToolOutput
from loopkernel.data.user_deltas import CancelAll, ChangeInstructions
from loopkernel.data.words import StopReason, TurnEndReason
from loopkernel_adapters.driver import clocks
from loopkernel_adapters.driver.asyncio_driver import MOST_POSTS, Driver
from loopkernel_adapters.driver.clocks import WallClock
from loopkernel_adapters.driver.pacing import MOST_TOGETHER
from loopkernel_adapters.ports import RunContext
from loopkernel_adapters.providers.scripted import call_reply, text_reply
from typing_extensions import override

from tests.adapters.driver.children_world import a_family, dispatches, tools_with_agents
from tests.adapters.driver.driver_world import (
    NO_INPUT,
    FunctionProvider,
    FunctionTools,
    World,
    said,
    say,
)

Waits = Callable[[Driver], Awaitable[None]]


async def in_a_task_of_its_own(driver: Driver) -> None:
    await asyncio.ensure_future(driver.rest())


# --- those who would wait for themselves ---


@pytest.mark.parametrize("waits", [Driver.rest, Driver.over, Driver.stopped, in_a_task_of_its_own])
def test_a_tool_that_would_wait_for_its_own_end_is_told_so(waits: Waits) -> None:
    async def run() -> None:
        async def waits_for_itself(command: StartTool, context: RunContext) -> ToolOutput:
            await waits(driver)
            return said("ok")

        tools = FunctionTools(waits_for_itself=waits_for_itself)
        world = World([call_reply(("waits_for_itself", NO_INPUT)), text_reply("b")], tools=tools)
        async with await world.open() as driver:
            await driver.send(say("go"))
            await driver.rest()
        ((status, text),) = world.results()
        assert status == "error"
        assert "RUN 1 is under way, and would wait for its own end here" in text
        assert world.endings() == [TurnEndReason.MODEL_STOP]

    asyncio.run(run())


def test_a_run_in_the_background_may_wait_for_the_session() -> None:
    async def run() -> None:
        rested = asyncio.Event()

        async def outlasts(command: StartTool, context: RunContext) -> ToolOutput:
            await context.go_on_in_background("later")
            await driver.rest()
            rested.set()
            return said("ok")

        tools = FunctionTools(outlasts=outlasts)
        world = World([call_reply(("outlasts", NO_INPUT)), text_reply("b")], tools=tools)
        async with await world.open() as driver:
            await driver.send(say("go"))
            await rested.wait()

    asyncio.run(run())


def test_a_tool_of_a_sub_agent_that_would_wait_for_its_parent_is_told_so() -> None:
    async def run() -> None:
        async def waits_for_its_parent(command: StartTool, context: RunContext) -> ToolOutput:
            await driver.rest()
            return said("ok")

        own = call_reply(("waits_for_its_parent", NO_INPUT))
        world, _ = a_family(
            [dispatches(), own, text_reply("the child is done"), text_reply("b")],
            tools=tools_with_agents(waits_for_its_parent=waits_for_its_parent),
        )
        async with await world.open() as driver:
            await driver.send(say("go"))
            await driver.rest()
        texts = [text_of(event.result.content) for _, event in world.events_of_children if isinstance(event, ToolEnded)]
        assert len(texts) == 1
        assert "would wait for its own end here" in texts[0]
        assert world.results() == [("done", "the child is done")]

    asyncio.run(run())


def test_a_driver_within_a_tool_may_be_waited_for_there() -> None:
    async def run() -> None:
        async def nests(command: StartTool, context: RunContext) -> ToolOutput:
            inner = World([text_reply("inner")])
            async with await inner.open() as driver:
                await driver.send(say("go"))
                await driver.rest()
            return said(inner.endings()[0].value)

        world = World([call_reply(("nests", NO_INPUT)), text_reply("b")], tools=FunctionTools(nests=nests))
        async with await world.open() as driver:
            await driver.send(say("go"))
            await driver.rest()
        assert world.results() == [("done", "model_stop")]

    asyncio.run(run())


@pytest.mark.rule("CANCEL-2")
def test_a_tool_may_cancel_its_own_turn() -> None:
    async def run() -> None:
        async def cancels(command: StartTool, context: RunContext) -> ToolOutput:
            await driver.send(CancelAll())
            await asyncio.Event().wait()
            return said("never")

        world = World([call_reply(("cancels", NO_INPUT))], tools=FunctionTools(cancels=cancels))
        async with await world.open() as driver:
            await driver.send(say("go"))
            await driver.rest()
            assert isinstance(driver.state, Cancelled)
            await driver.stopped()

    asyncio.run(run())


# --- what grows ---


def test_what_is_posted_within_one_step_is_bounded() -> None:
    async def run() -> None:
        refusals: list[str] = []

        def floods(event: Event) -> None:
            if isinstance(event, InputSettled):
                try:
                    while True:
                        driver.post(ChangeInstructions("again"))
                except RuntimeError as error:
                    refusals.append(str(error))

        world = World([text_reply("b")])
        async with await world.open(floods) as driver:
            await driver.send(say("go"))
            await driver.rest()
        assert refusals == [f"{MOST_POSTS} inputs were posted within one step already; post the rest when it is over"]

    asyncio.run(run())


def test_an_observer_that_answers_itself_for_ever_leaves_others_their_turn() -> None:
    async def run() -> None:
        def goes_on(event: Event) -> None:
            if isinstance(event, Refused):
                driver.post(CancelAll())

        world = World()
        async with await world.open(goes_on) as driver:
            driver.post(CancelAll())  # refused, since nothing is under way
            for _ in range(3):
                await asyncio.sleep(0)
            assert len(world.seen(Refused)) < 1_000

    asyncio.run(run())


@pytest.mark.parametrize(("waits", "most_ahead"), [(True, 2), (False, MOST_TOGETHER)])
def test_a_stream_is_read_no_faster_than_it_is_applied(waits: bool, most_ahead: int) -> None:
    async def run() -> None:
        given = 0
        ahead: list[int] = []

        async def streams(operation: ModelOperation) -> AsyncIterator[ModelDelta]:
            nonlocal given
            for _ in range(500):
                given += 1
                yield ModelText(operation, "a")
                if waits:
                    await asyncio.sleep(0)
            yield ModelCompleted(operation, StopReason.END_TURN)

        def counts(event: Event) -> None:
            if isinstance(event, ReplyGrew):
                ahead.append(given - len(ahead))

        world = World(provider=FunctionProvider(streams))
        async with await world.open(counts) as driver:
            await driver.send(say("go"))
            await driver.rest()
        assert len(ahead) == 500
        assert max(ahead) <= most_ahead
        assert max(size for size, _ in world.noted.appends) <= 64

    asyncio.run(run())


class HandMadeStream:
    """A stream that is not a generator: nobody but the driver closes it."""

    def __init__(self, operation: ModelOperation, waits: bool) -> None:
        self.closed = 0
        self._operation = operation
        self._waits = waits

    def __aiter__(self) -> "HandMadeStream":
        return self

    async def __anext__(self) -> ModelDelta:
        if self._waits:
            await asyncio.Event().wait()
        return ModelCompleted(self._operation, StopReason.REFUSAL)

    async def aclose(self) -> None:
        self.closed += 1


@pytest.mark.parametrize("cancelled", [False, True])
def test_a_stream_is_closed_also_if_it_is_no_generator(cancelled: bool) -> None:
    async def run() -> None:
        streams: list[HandMadeStream] = []

        def opens(operation: ModelOperation) -> HandMadeStream:
            streams.append(HandMadeStream(operation, waits=cancelled))
            return streams[-1]

        async with await World(provider=FunctionProvider(opens)).open() as driver:
            await driver.send(say("go"))
            while not streams:
                await asyncio.sleep(0)
            if cancelled:
                await driver.send(CancelAll())
            await driver.stopped()
        assert [stream.closed for stream in streams] == [1]

    asyncio.run(run())


def test_whoever_gives_up_waiting_is_forgotten() -> None:
    async def run() -> None:
        world = World([(asyncio.Event(),)])
        async with await world.open() as driver:
            await driver.send(say("go"))
            for _ in range(100):
                waiting = asyncio.ensure_future(driver.rest())
                await asyncio.sleep(0)
                waiting.cancel()
                await asyncio.wait({waiting})
            assert not driver._waiters.waiting

    asyncio.run(run())


# --- timers ---


def test_a_timer_that_no_event_loop_could_keep_is_set_anew_until_it_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(WallClock):
        def __init__(self) -> None:
            super().__init__()
            self.looks = 0

        @override
        def now_ms(self) -> int:
            self.looks += 1
            return 5 * self.looks  # a step of time at each look

    async def run() -> None:
        clock, rung = Slow(), asyncio.Event()
        monkeypatch.setattr(clocks, "LONGEST_WAIT_MS", 0)
        clock.call_at(100, rung.set)
        await rung.wait()
        assert clock.now_ms() >= 100
        never = clock.call_at(10**400, lambda: pytest.fail("rang"))
        await asyncio.sleep(0)
        never()

    asyncio.run(run())


# --- closing ---


class Stubborn:
    """A tool that heeds its abort the fourth time."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.cancelled = 0

    async def __call__(self, command: StartTool, context: RunContext) -> ToolOutput:
        self.begun.set()
        while self.cancelled < 3:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cancelled += 1
        return said("at last")


def test_a_close_that_is_cancelled_ends_all_the_same_and_then_says_so() -> None:
    async def run() -> None:
        stubborn = Stubborn()
        world = World([call_reply(("stubborn", NO_INPUT))], tools=FunctionTools(stubborn=stubborn))
        driver = await world.open()
        await driver.__aenter__()
        await driver.send(say("go"))
        await stubborn.begun.wait()
        closing = asyncio.ensure_future(driver.close(stop_seconds=0.05))
        second = asyncio.ensure_future(driver.close())
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        assert world.noted.closed  # the cancellation has waited for it
        await second
        assert stubborn.cancelled == 3
        assert world.noted.closed
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(run())


def test_a_tool_may_close_its_own_driver_while_others_run() -> None:
    async def run() -> None:
        ended: list[str] = []

        async def hangs(command: StartTool, context: RunContext) -> ToolOutput:
            try:
                await asyncio.Event().wait()
            finally:
                ended.append("hangs")
            return said("never")

        async def closes(command: StartTool, context: RunContext) -> ToolOutput:
            try:
                await driver.close()
            finally:
                ended.append("closes")
            return said("never")

        tools = FunctionTools(hangs=hangs, closes=closes)
        world = World([call_reply(("hangs", NO_INPUT), ("closes", NO_INPUT))], tools=tools)
        async with await world.open() as driver:
            await driver.send(say("go"))
            while len(ended) < 2:
                await asyncio.sleep(0)
        assert sorted(ended) == ["closes", "hangs"]
        assert world.noted.closed
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(run())

"""Aborts and close: what is stopped stops, and nothing is left behind."""

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.effects import (
    StartTool,
)
from loopkernel.data.events import Refused, ReplyEnded, ReplyGrew
from loopkernel.data.ids import (
    CallId,
    ModelOperation,
    RunOperation,
)
from loopkernel.data.model_deltas import ModelDelta, ModelText
from loopkernel.data.states import Cancelled, Idle
from loopkernel.data.tool_deltas import ToolStopped, ToolSucceeded
from loopkernel.data.tools import ToolOutput
from loopkernel.data.user_deltas import CancelAll, CancelCall
from loopkernel.data.words import TurnEndReason
from loopkernel.replaying import replay
from loopkernel_adapters.ports import RunContext
from loopkernel_adapters.providers.scripted import call_reply, text_reply
from loopkernel_adapters.stores.in_place import InPlaceStore
from loopkernel_adapters.stores.jsonl import JsonlStore, read_log
from loopkernel_adapters.stores.threaded import asynchronous

from tests.adapters.driver.driver_world import (
    NO_INPUT,
    FunctionProvider,
    FunctionTools,
    World,
    complaints_of,
    descriptors,
    said,
    say,
)


class Waiting:
    """A tool that waits for ever, and what became of it."""

    def __init__(self, swallows: int = 0) -> None:
        self.begun = asyncio.Event()
        self.cancelled = 0
        self._swallows = swallows  # how many cancellations it survives

    async def __call__(self, command: StartTool, context: RunContext) -> ToolOutput:
        self.begun.set()
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cancelled += 1
                if self.cancelled > self._swallows:
                    raise


# --- aborts ---


@pytest.mark.rule("CANCEL-2")
def test_a_cancel_stops_a_reply_in_its_stream() -> None:
    async def run() -> None:
        closed: list[str] = []

        async def streams(operation: ModelOperation) -> AsyncIterator[ModelDelta]:
            try:
                yield ModelText(operation, "a")
                await asyncio.Event().wait()
            finally:
                closed.append("closed")

        world = World(provider=FunctionProvider(streams))
        async with await world.open() as driver:
            await driver.send(say("go"))
            await world.until(ReplyGrew)
            await driver.send(CancelAll())
            await driver.rest()
            assert isinstance(driver.state, Cancelled)
            assert world.endings() == [TurnEndReason.USER_ABORT]
            await asyncio.sleep(0)
            assert closed == ["closed"]
            assert len(asyncio.all_tasks()) == 1

    asyncio.run(run())


def test_a_cancel_stops_a_stream_that_never_waits() -> None:
    async def run() -> None:
        async def endless(operation: ModelOperation) -> AsyncIterator[ModelDelta]:
            while True:
                yield ModelText(operation, "a")

        world = World(provider=FunctionProvider(endless))
        async with await world.open() as driver:
            await driver.send(say("go"))
            await world.until(ReplyGrew)
            await driver.send(CancelAll())
            await driver.rest()
            shown = len(world.events)
            await asyncio.sleep(0)
            assert len(world.events) == shown

    asyncio.run(run())


@pytest.mark.rule("CANCEL-2")
def test_a_cancelled_tool_reports_that_it_has_stopped() -> None:
    async def run() -> None:
        waiting = Waiting()
        world = World([call_reply(("waiting", NO_INPUT))], tools=FunctionTools(waiting=waiting))
        async with await world.open() as driver:
            await driver.send(say("go"))
            await waiting.begun.wait()
            await driver.send(CancelAll())
            assert ToolStopped(RunOperation(1)) not in [r.delta for r in world.noted.load()]
            await driver.rest()
            await asyncio.sleep(0)
            assert waiting.cancelled == 1
            assert world.noted.durable[-1].delta == ToolStopped(RunOperation(1))
            assert replay(world.noted.load()) == driver.state
            assert len(asyncio.all_tasks()) == 1

    asyncio.run(run())


@pytest.mark.rule("CANCEL-3")
def test_a_tool_that_ignores_its_abort_holds_nothing_up_and_its_report_is_late() -> None:
    async def run() -> None:
        begun, may_end = asyncio.Event(), asyncio.Event()

        async def stubborn(command: StartTool, context: RunContext) -> ToolOutput:
            begun.set()
            while not may_end.is_set():
                try:
                    await may_end.wait()
                except asyncio.CancelledError:
                    continue
            return said("done after all")

        world = World([call_reply(("stubborn", NO_INPUT)), text_reply("b")], tools=FunctionTools(stubborn=stubborn))
        async with await world.open() as driver:
            await driver.send(say("go"))
            await begun.wait()
            await driver.send(CancelAll())
            await driver.rest()
            assert isinstance(driver.state, Cancelled)
            answered = world.results()
            await driver.send(say("next"))  # a new turn while the old run goes on
            await driver.rest()
            assert world.endings() == [TurnEndReason.USER_ABORT, TurnEndReason.MODEL_STOP]
            may_end.set()
            while len(asyncio.all_tasks()) > 1:
                await asyncio.sleep(0)
            assert world.noted.durable[-1].delta == ToolSucceeded(RunOperation(1), said("done after all"))
            assert isinstance(world.events[-1], Refused)
            assert world.results() == answered

    asyncio.run(run())


@pytest.mark.in_place
@pytest.mark.parametrize("calls", [1, 2, 3])
def test_a_run_that_is_aborted_before_it_begins_never_does(calls: int) -> None:
    async def run() -> None:
        world = World([call_reply(*[("echo", NO_INPUT)] * calls)])
        async with await world.open() as driver:
            await driver.send(say("go"))
            await world.until(ReplyEnded)  # in this step the runs were started, but no task had its turn yet
            await driver.send(CancelAll())
            await driver.rest()
            while len(asyncio.all_tasks()) > 1:
                await asyncio.sleep(0)
            assert world.tools.started == []
            assert [status for status, _ in world.results()] == ["cancelled"] * calls
            stopped = [r.delta.operation for r in world.noted.durable if isinstance(r.delta, ToolStopped)]
            assert stopped == list(range(1, calls + 1))

    asyncio.run(run())


@pytest.mark.rule("CANCEL-5")
def test_one_call_is_cancelled_and_the_other_goes_on() -> None:
    async def run() -> None:
        waiting = Waiting()
        may_end = asyncio.Event()

        async def waits(command: StartTool, context: RunContext) -> ToolOutput:
            await may_end.wait()
            return said("ok")

        tools = FunctionTools(waiting=waiting, waits=waits)
        world = World([call_reply(("waiting", NO_INPUT), ("waits", NO_INPUT))], tools=tools)
        async with await world.open() as driver:
            await driver.send(say("go"))
            await waiting.begun.wait()
            await driver.send(CancelCall(CallId(ModelOperation(1), 1)))
            may_end.set()
            await driver.rest()
            assert isinstance(driver.state, Idle)
            assert [status for status, _ in world.results()] == ["cancelled", "done"]

    asyncio.run(run())


def test_rest_waits_for_reports_that_are_not_applied_yet() -> None:
    async def run() -> None:
        stubborn, may_end = Waiting(swallows=1), asyncio.Event()

        async def waits(command: StartTool, context: RunContext) -> ToolOutput:
            await may_end.wait()
            return said("ok")

        tools = FunctionTools(stubborn=stubborn, waits=waits)
        world = World([call_reply(("stubborn", NO_INPUT), ("waits", NO_INPUT))], tools=tools)
        async with await world.open() as driver:
            await driver.send(say("go"))
            await stubborn.begun.wait()
            await asyncio.sleep(0)
            await driver.send(CancelCall(CallId(ModelOperation(1), 1)))
            may_end.set()
            await asyncio.sleep(0)  # the run has ended, its report waits, and nothing else is under way
            assert world.results() == [("cancelled", world.results()[0][1])]
            await driver.rest()
            assert isinstance(driver.state, Idle)
            assert [status for status, _ in world.results()] == ["cancelled", "done"]

    asyncio.run(run())


# --- close ---


def leftovers() -> tuple[int, int, int]:
    return len(asyncio.all_tasks()), descriptors(), threading.active_count()


@given(moment=st.integers(0, 25), in_place=st.booleans())
def test_close_leaves_nothing_whenever_it_comes(
    tmp_path_factory: pytest.TempPathFactory, moment: int, in_place: bool
) -> None:
    path = tmp_path_factory.mktemp("log") / "log.jsonl"

    async def run() -> None:
        async def slow(command: StartTool, context: RunContext) -> ToolOutput:
            for _ in range(3):
                await context.report_progress("a bit")
            return said("ok")

        calls = call_reply(*[("slow", NO_INPUT)] * 3)
        before = leftovers()
        around = InPlaceStore if in_place else asynchronous
        tools = FunctionTools(slow=slow)
        world = World([calls, calls, text_reply("b")], tools=tools, store=JsonlStore(path), around=around)
        async with await world.open() as driver:
            await driver.send(say("go"))
            for _ in range(moment):
                await asyncio.sleep(0)
            live = driver.state
        assert all(after <= first for after, first in zip(leftovers(), before, strict=True))
        assert driver.state == replay(read_log(path).records)
        assert driver.state == live or not in_place  # a write that was under way has been waited for
        await driver.close()
        with pytest.raises(RuntimeError, match="this driver is closed"):
            await driver.send(say("more"))
        with pytest.raises(RuntimeError, match="this driver is closed"):
            await driver.rest()

    asyncio.run(run())


def test_whoever_gives_up_waiting_for_rest_harms_nobody() -> None:
    async def run() -> None:
        gate = asyncio.Event()
        world = World([(gate, *text_reply("b"))])
        async with await world.open() as driver:
            await driver.send(say("go"))
            impatient, patient = asyncio.ensure_future(driver.rest()), asyncio.ensure_future(driver.rest())
            await asyncio.sleep(0)
            impatient.cancel()
            gate.set()
            await patient
            assert impatient.cancelled()
            assert isinstance(driver.state, Idle)

    asyncio.run(run())


def test_close_wakes_those_who_wait_for_rest() -> None:
    async def run() -> None:
        world = World([(asyncio.Event(),)])
        async with await world.open() as driver:
            await driver.send(say("go"))
            resting = asyncio.ensure_future(driver.rest())
            await asyncio.sleep(0)
            assert not resting.done()
        with pytest.raises(RuntimeError, match="closed"):
            await resting

    asyncio.run(run())


def test_a_tool_that_needs_telling_more_than_once_is_told_so() -> None:
    async def run() -> None:
        waiting = Waiting(swallows=3)
        world = World([call_reply(("waiting", NO_INPUT))], tools=FunctionTools(waiting=waiting))
        driver = await world.open()
        async with driver:
            await driver.send(say("go"))
            await waiting.begun.wait()
            await driver.close(stop_seconds=0)
        assert waiting.cancelled == 4
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(run())


def test_a_tool_that_will_not_stop_is_named() -> None:
    async def run() -> None:
        complaints = complaints_of(asyncio.get_running_loop())
        waiting = Waiting(swallows=20)
        world = World([call_reply(("waiting", NO_INPUT))], tools=FunctionTools(waiting=waiting))
        driver = await world.open()
        async with driver:
            await driver.send(say("go"))
            await waiting.begun.wait()
            await driver.close(stop_seconds=0)
        assert complaints == ["RUN 1 does not stop: its task is left behind: RUN 1"]
        assert world.noted.closed
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            while not task.done():
                task.cancel()
                await asyncio.sleep(0)

    asyncio.run(run())


def test_a_tool_may_close_its_own_driver() -> None:
    async def run() -> None:
        closed = asyncio.Event()

        async def closes(command: StartTool, context: RunContext) -> ToolOutput:
            try:
                await driver.close()
            finally:
                closed.set()
            return said("ok")

        world = World([call_reply(("closes", NO_INPUT))], tools=FunctionTools(closes=closes))
        async with await world.open() as driver:
            await driver.send(say("go"))
            await closed.wait()
        assert world.noted.closed

    asyncio.run(run())


def test_a_task_that_others_cancel_is_a_failed_tool() -> None:
    async def run() -> None:
        waiting = Waiting()
        world = World([call_reply(("waiting", NO_INPUT)), text_reply("b")], tools=FunctionTools(waiting=waiting))
        async with await world.open() as driver:
            await driver.send(say("go"))
            await waiting.begun.wait()
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()
            await driver.rest()
        assert world.results() == [("error", "waiting failed: CancelledError")]
        assert world.endings() == [TurnEndReason.MODEL_STOP]

    asyncio.run(run())

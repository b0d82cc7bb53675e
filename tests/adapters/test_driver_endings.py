"""Aborts, timers, close and sudden death: what is stopped stops, and nothing is left behind."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.effects import (
    AbortOther,
    AnswerTool,
    AskHook,
    CancelTimer,
    CheckCorrection,
    Effect,
    HandOff,
    StartChild,
    StartTimer,
    StartTool,
    Summarise,
)
from loopkernel.data.events import Event, Refused, ReplyGrew, WorkCancelled
from loopkernel.data.ids import (
    CallId,
    CorrectionOperation,
    HandoffOperation,
    HookOperation,
    ModelOperation,
    OperationKind,
    RunOperation,
    SummaryOperation,
    TimerOperation,
)
from loopkernel.data.model_deltas import ModelDelta, ModelText
from loopkernel.data.outside_deltas import (
    ChildEnded,
    CorrectionAnswered,
    HandoffFailed,
    HookAnswered,
    HookFault,
    SummaryFailed,
    TimerFired,
)
from loopkernel.data.states import Cancelled, Idle, State
from loopkernel.data.steps import Context, Step
from loopkernel.data.threads import Thread
from loopkernel.data.tool_deltas import ToolStopped, ToolSucceeded
from loopkernel.data.tools import ToolOutput
from loopkernel.data.user_deltas import CancelAll, CancelCall, Enqueue, Say
from loopkernel.data.words import HookPoint, TimerPurpose, TurnEndReason
from loopkernel.replay import replay
from loopkernel_adapters.driver import asyncio_driver
from loopkernel_adapters.driver.clocks import ManualClock, WallClock
from loopkernel_adapters.ports import ProgressReport
from loopkernel_adapters.providers.scripted import call_reply, text_reply
from loopkernel_adapters.stores.jsonl import JsonlStore, read_log

from tests.adapters.driver_world import (
    NO_INPUT,
    FunctionTools,
    World,
    descriptors,
    said,
    say,
)
from tests.adapters.test_driver_failures import FunctionProvider, complaints_of


class Waiting:
    """A tool that waits for ever, and what became of it."""

    def __init__(self, swallows: int = 0) -> None:
        self.begun = asyncio.Event()
        self.cancelled = 0
        self._swallows = swallows  # how many cancellations it survives

    async def __call__(self, command: StartTool, report_progress: ProgressReport) -> ToolOutput:
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
        async with world.open() as driver:
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
        async with world.open() as driver:
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
        async with world.open() as driver:
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

        async def stubborn(command: StartTool, report_progress: ProgressReport) -> ToolOutput:
            begun.set()
            while not may_end.is_set():
                try:
                    await may_end.wait()
                except asyncio.CancelledError:
                    continue
            return said("done after all")

        world = World([call_reply(("stubborn", NO_INPUT)), text_reply("b")], tools=FunctionTools(stubborn=stubborn))
        async with world.open() as driver:
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


def test_a_call_that_is_cancelled_before_it_begins_never_runs() -> None:
    async def run() -> None:
        world = World([call_reply(("echo", NO_INPUT), ("echo", NO_INPUT)), text_reply("b")])

        def cancels(event: Event) -> None:
            if isinstance(event, WorkCancelled):
                assert world.tools.started == []

        async with world.open(cancels) as driver:
            await driver.send(say("go"))
            while not any(isinstance(r.delta, Enqueue) for r in world.noted.load()):
                if driver.state.session is not None and len(world.scripted.requests) == 1:
                    break
                await asyncio.sleep(0)
            await driver.send(CancelAll())
            await driver.rest()
            assert isinstance(driver.state, Cancelled)

    asyncio.run(run())


@pytest.mark.rule("CANCEL-5")
def test_one_call_is_cancelled_and_the_other_goes_on() -> None:
    async def run() -> None:
        waiting = Waiting()
        may_end = asyncio.Event()

        async def waits(command: StartTool, report_progress: ProgressReport) -> ToolOutput:
            await may_end.wait()
            return said("ok")

        tools = FunctionTools(waiting=waiting, waits=waits)
        world = World([call_reply(("waiting", NO_INPUT), ("waits", NO_INPUT))], tools=tools)
        async with world.open() as driver:
            await driver.send(say("go"))
            await waiting.begun.wait()
            await driver.send(CancelCall(CallId(ModelOperation(1), 1)))
            may_end.set()
            await driver.rest()
            assert isinstance(driver.state, Idle)
            assert [status for status, _ in world.results()] == ["cancelled", "done"]

    asyncio.run(run())


# --- close ---


def leftovers() -> tuple[int, int, int]:
    return len(asyncio.all_tasks()), descriptors(), threading.active_count()


@given(moment=st.integers(0, 25))
def test_close_leaves_nothing_whenever_it_comes(tmp_path_factory: pytest.TempPathFactory, moment: int) -> None:
    path = tmp_path_factory.mktemp("log") / "log.jsonl"

    async def run() -> None:
        async def slow(command: StartTool, report_progress: ProgressReport) -> ToolOutput:
            for _ in range(3):
                await report_progress("a bit")
            return said("ok")

        calls = call_reply(*[("slow", NO_INPUT)] * 3)
        before = leftovers()
        world = World([calls, calls, text_reply("b")], tools=FunctionTools(slow=slow), store=JsonlStore(path))
        async with world.open() as driver:
            await driver.send(say("go"))
            for _ in range(moment):
                await asyncio.sleep(0)
            live = driver.state
        assert leftovers() == before
        assert driver.state == live == replay(read_log(path).records)
        await driver.close()
        with pytest.raises(RuntimeError, match="this driver is closed"):
            await driver.send(say("more"))
        with pytest.raises(RuntimeError, match="this driver is closed"):
            await driver.rest()

    asyncio.run(run())


def test_close_wakes_those_who_wait_for_rest() -> None:
    async def run() -> None:
        world = World([(asyncio.Event(),)])
        async with world.open() as driver:
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
        driver = world.open()
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
        driver = world.open()
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

        async def closes(command: StartTool, report_progress: ProgressReport) -> ToolOutput:
            try:
                await driver.close()
            finally:
                closed.set()
            return said("ok")

        world = World([call_reply(("closes", NO_INPUT))], tools=FunctionTools(closes=closes))
        async with world.open() as driver:
            await driver.send(say("go"))
            await closed.wait()
        assert world.noted.closed

    asyncio.run(run())


def test_a_task_that_others_cancel_is_a_failed_tool() -> None:
    async def run() -> None:
        waiting = Waiting()
        world = World([call_reply(("waiting", NO_INPUT)), text_reply("b")], tools=FunctionTools(waiting=waiting))
        async with world.open() as driver:
            await driver.send(say("go"))
            await waiting.begun.wait()
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()
            await driver.rest()
        assert world.results() == [("error", "waiting failed: CancelledError")]
        assert world.endings() == [TurnEndReason.MODEL_STOP]

    asyncio.run(run())


# --- timers and absent ports, which the kernel does not use yet: a transition of the test's own asks for them ---


def scripted_effects(monkeypatch: pytest.MonkeyPatch, effects: list[tuple[Effect, ...]]) -> list[Any]:
    """From now on each delta gives the next of these effects; returns the list of the deltas seen."""
    deltas: list[Any] = []  # Any: compared with deltas of every family

    def transition(state: State, ctx: Context) -> Step[State]:
        deltas.append(ctx.delta)
        return Step(state, effects.pop(0) if effects else ())

    monkeypatch.setattr(asyncio_driver, "transition", transition)
    return deltas


def a_timer(number: int, deadline_ms: int) -> StartTimer:
    return StartTimer(operation=TimerOperation(number), purpose=TimerPurpose.RETRY, deadline_ms=deadline_ms)


def test_timers_fire_in_time_unless_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        clock = ManualClock()
        world = World(clock=clock)
        async with world.open() as driver:
            started = (a_timer(1, 300), a_timer(2, 100), a_timer(3, 200), a_timer(4, 9_000))
            forgotten = (CancelTimer(TimerOperation(3)), CancelTimer(TimerOperation(2)))
            deltas = scripted_effects(monkeypatch, [started, (), forgotten])
            await driver.send(say("go"))
            clock.advance(99)
            assert deltas == [say("go")]
            clock.advance(1)
            assert deltas == [say("go"), TimerFired(TimerOperation(2))]
            await driver.send(say("more"))  # forgets one that waits, and one that has fired
            clock.advance(1_000)
            assert deltas[3:] == [TimerFired(TimerOperation(1))]
            assert clock.pending == 1
        assert clock.pending == 0

    asyncio.run(run())


def test_a_timer_that_fires_within_a_step_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        clock = ManualClock()
        world = World(clock=clock)
        order: list[str] = []

        def advances(event: Event) -> None:
            order.append("begin")
            clock.advance(10)
            order.append("end")

        async with world.open(advances) as driver:
            order.clear()
            deltas = scripted_effects(monkeypatch, [(a_timer(1, 5), WorkCancelled.__new__(WorkCancelled)), ()])
            await driver.send(say("go"))
            assert order == ["begin", "end"]
            assert deltas == [say("go"), TimerFired(TimerOperation(1))]

    asyncio.run(run())


def test_what_has_no_port_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        thread = Thread()
        call = CallId(ModelOperation(1), 1)
        asked = (
            AskHook(operation=HookOperation(1), point=HookPoint.STOP, name="lint"),
            CheckCorrection(CorrectionOperation(2), thread),
            Summarise(operation=SummaryOperation(3), thread=thread, until=1),
            StartChild(
                operation=RunOperation(4),
                call=call,
                tool="task",
                input=NO_INPUT,
                max_turns=1,
                max_output_tokens=1,
                timeout_ms=1,
            ),
            HandOff(operation=HandoffOperation(5), goal="", thread=thread),
            AnswerTool(operation=RunOperation(6), value=None),
            AbortOther(OperationKind.HOOK, 7),
        )
        world = World()
        async with world.open() as driver:
            deltas = scripted_effects(monkeypatch, [asked])
            await driver.send(say("go"))
            assert [type(delta) for delta in deltas[1:]] == [
                HookAnswered,
                CorrectionAnswered,
                SummaryFailed,
                ChildEnded,
                HandoffFailed,
            ]
            assert [delta.operation for delta in deltas[1:]] == [1, 2, 3, 4, 5]
            assert deltas[1].answer == HookFault("this driver has no hook lint")

    asyncio.run(run())


def test_the_wall_clock_never_calls_early(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        clock = WallClock()
        fired = asyncio.get_running_loop().create_future()
        deadline = clock.now_ms() + 3
        clock.call_at(deadline, lambda: fired.set_result(clock.now_ms()))
        clock.call_at(deadline - 1, lambda: pytest.fail("this timer was forgotten"))()
        assert await fired >= deadline

    asyncio.run(run())


# --- sudden death ---

CHILD = """
import asyncio, pathlib, sys
from loopkernel.data.events import InputSettled, ToolEnded
from loopkernel_adapters.providers.scripted import call_reply, text_reply
from loopkernel_adapters.stores.jsonl import JsonlStore
from tests.adapters.driver_world import NO_INPUT, World, say

def tell(event):
    if isinstance(event, InputSettled | ToolEnded):
        print(type(event).__name__, flush=True)

async def main():
    store = JsonlStore(pathlib.Path(sys.argv[1]))
    world = World([call_reply(*[("echo", NO_INPUT)] * 3), text_reply("b")] * 500, store=store)
    async with world.open(tell) as driver:
        while True:
            await driver.send(say("go"))
            await driver.rest()

asyncio.run(main())
"""


@pytest.mark.rule("RESUME-2")
def test_what_was_told_before_a_kill_is_in_the_log_after_it(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    for told in (1, 7, 40):
        begun = len(read_log(path).records) if path.exists() else 0
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, path], stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]
        )
        assert child.stdout is not None
        acknowledged = [child.stdout.readline() for _ in range(told)]
        child.kill()
        acknowledged += child.stdout.readlines()
        child.stdout.close()
        assert child.wait() == -9
        found = read_log(path)
        inputs = sum(isinstance(record.delta, Say) for record in found.records[begun:])
        ended = sum(isinstance(record.delta, ToolSucceeded) for record in found.records[begun:])
        assert sum(line == "InputSettled\n" for line in acknowledged) <= inputs
        assert sum(line == "ToolEnded\n" for line in acknowledged) <= ended
        assert len(found.records) >= begun + 3

        async def come_to_rest() -> None:
            world = World([text_reply("b")], store=JsonlStore(path))
            async with world.open() as driver:
                await driver.rest()
                await driver.send(CancelAll())
                await driver.send(say("go on"))
                await driver.rest()
                assert isinstance(driver.state, Idle | Cancelled)
                assert replay(world.store.load()) == driver.state

        asyncio.run(come_to_rest())

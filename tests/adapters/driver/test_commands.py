"""Timers, one by one: a transition of the test's own asks for them. And the clocks behind them."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.effects import (
    AbortModel,
    CancelTimer,
    StartTimer,
)
from loopkernel.data.events import ErrorCleared, Event
from loopkernel.data.ids import (
    ModelOperation,
    TimerOperation,
)
from loopkernel.data.model_deltas import ModelText
from loopkernel.data.outside_deltas import (
    TimerFired,
)
from loopkernel.data.policy import Policy
from loopkernel.data.words import TimerPurpose
from loopkernel_adapters.driver.clocks import ManualClock, WallClock
from loopkernel_adapters.providers.scripted import ANY

from tests.adapters.driver.commands_world import scripted_effects
from tests.adapters.driver.driver_world import World, say


def a_timer(number: int, deadline_ms: int) -> StartTimer:
    return StartTimer(operation=TimerOperation(number), purpose=TimerPurpose.RETRY, deadline_ms=deadline_ms)


def test_timers_fire_in_time_unless_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        clock = ManualClock()
        world = World(clock=clock)
        async with await world.open() as driver:
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


def test_a_timer_that_waits_keeps_nobody_from_resting_at_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        world = World()
        async with await world.open() as driver:
            scripted_effects(monkeypatch, [(a_timer(1, 9_000),)])
            await driver.send(say("go"))
            await driver.rest()
            assert world.clock.pending == 1

    asyncio.run(run())


@pytest.mark.in_place
def test_a_timer_that_waits_will_end_a_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        world = World([(asyncio.Event(),)], policy=Policy(silence_ms=None))
        async with await world.open() as driver:
            await driver.send(say("go"))
            scripted_effects(monkeypatch, [(AbortModel(ModelOperation(1)), a_timer(1, 9_000)), ()])
            await driver.send(say("more"))
            resting = asyncio.ensure_future(driver.rest())
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert not resting.done()
            world.clock.advance(9_000)
            await resting  # the state is not at rest, but nothing is under way that could change it

    asyncio.run(run())


@pytest.mark.in_place
@pytest.mark.rule("RESUME-2")
def test_an_increment_that_causes_a_command_is_durable_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        world = World([(ModelText(ANY, "a"), asyncio.Event())], policy=Policy(silence_ms=None))
        async with await world.open() as driver:
            await driver.send(say("go"))
            scripted_effects(monkeypatch, [(a_timer(1, 9_000),)])
            while world.clock.pending == 0:
                await asyncio.sleep(0)
            assert world.noted.durable[-1].delta == ModelText(ModelOperation(1), "a")

    asyncio.run(run())


@pytest.mark.in_place
def test_a_timer_that_fires_within_a_step_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        clock = ManualClock()
        world = World(clock=clock)
        order: list[str] = []

        def advances(event: Event) -> None:
            order.append("begin")
            clock.advance(10)
            order.append("end")

        async with await world.open(advances) as driver:
            order.clear()
            deltas = scripted_effects(monkeypatch, [(a_timer(1, 5), ErrorCleared()), (ErrorCleared(),)])
            await driver.send(say("go"))
            assert order == ["begin", "end"] * 2
            assert deltas == [say("go"), TimerFired(TimerOperation(1))]

    asyncio.run(run())


@given(deadlines=st.lists(st.integers(-5, 20), max_size=6), steps=st.lists(st.integers(0, 9), max_size=6))
def test_the_manual_clock_calls_what_is_due_in_order(deadlines: list[int], steps: list[int]) -> None:
    clock = ManualClock()
    called: list[tuple[int, int]] = []
    for number, deadline in enumerate(deadlines):

        def call(number: int = number, deadline: int = deadline) -> None:
            assert clock.now_ms() >= deadline
            called.append((deadline, number))

        clock.call_at(deadline, call)
    assert called == []
    for step in steps:
        clock.advance(step)
    due = [(deadline, number) for number, deadline in enumerate(deadlines) if deadline <= sum(steps)]
    assert sorted(called) == sorted(due if steps else [])
    assert [deadline for deadline, _ in called] == sorted(deadline for deadline, _ in called)
    assert clock.now_ms() == sum(steps)
    assert clock.pending == len(deadlines) - len(called)


def test_the_wall_clock_never_calls_early(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        clock = WallClock()
        fired = asyncio.get_running_loop().create_future()
        deadline = clock.now_ms() + 3
        clock.call_at(deadline, lambda: fired.set_result(clock.now_ms()))
        clock.call_at(deadline - 1, lambda: pytest.fail("this timer was forgotten"))()
        assert await fired >= deadline

    asyncio.run(run())

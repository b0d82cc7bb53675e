"""Delays go by the time that passes, whatever the date is set to; and that it was set is told."""

import asyncio
import weakref
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import pytest
from attrs import define
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.events import ClockJumped, SessionResumed
from loopkernel.data.model_deltas import ModelFailed
from loopkernel.data.policy import Policy, Retry
from loopkernel.data.states import Backoff, Idle
from loopkernel.data.thread_deltas import Resumed
from loopkernel.data.words import ErrorClass
from loopkernel_adapters.driver.clocks import LONGEST_WAIT_MS, NS_PER_MS, LaterClock, ManualClock, WallClock
from loopkernel_adapters.providers.scripted import ANY, Reply, text_reply
from loopkernel_adapters.stores.memory import MemoryStore
from loopkernel_adapters.testing.virtual_loop import VirtualLoop
from typing_extensions import override

from tests.adapters.driver.driver_world import World, say

YEAR_MS = 365 * 86_400_000
WAIT_MS = 10_000
FAILED = (ModelFailed(ANY, error=ErrorClass.SERVER),)
POLICY = Policy(silence_ms=None, retry=Retry(base_ms=WAIT_MS, factor=1, retries=9))


@define
class Machine:
    """A machine in virtual time: its date can be set, and it can be suspended, which its event loop does not see."""

    loop: VirtualLoop
    set_by_ms: int = 1_700_000_000_000
    asleep_ms: int = 0

    def passed_ms(self) -> int:
        return round(self.loop.time() * 1000) + self.asleep_ms

    def clock(self) -> WallClock:
        """The clock of a process that begins now."""
        return WallClock(lambda: (self.passed_ms() + self.set_by_ms) * NS_PER_MS, lambda: self.passed_ms() * NS_PER_MS)


def played(test: Callable[[Machine], Coroutine[Any, Any, None]]) -> None:
    loop = VirtualLoop()
    loop.play(test(Machine(loop)))


def a_world(clock: WallClock, store: MemoryStore, *replies: Reply) -> World:
    """A world with a clock of that machine, which nobody moves by hand."""
    world = World(replies, store=store, policy=POLICY)
    world.clock = clock  # type: ignore[assignment]  # a driver asks no more of it
    return world


class Kept(MemoryStore):
    """A store that outlives the driver that closes it."""

    @override
    def close(self) -> None:
        pass


@pytest.mark.rule("DELTA-7")
@pytest.mark.rule("RETRY-4")
@given(
    before=st.lists(st.integers(-YEAR_MS, YEAR_MS), max_size=3),
    after_ms=st.integers(0, WAIT_MS - 1),
    down_by_ms=st.integers(-YEAR_MS, 0),
    within=st.lists(st.integers(-YEAR_MS, YEAR_MS), max_size=3),
)
def test_a_retry_comes_when_its_delay_has_passed(
    before: list[int], after_ms: int, down_by_ms: int, within: list[int]
) -> None:
    """The date is set in the first process, between the two, and in the second.

    Between them it is set back: the wait goes on from the last record, since no log says what has passed behind it.
    """

    async def test(machine: Machine) -> None:
        store = Kept()
        async with await a_world(machine.clock(), store, FAILED).open() as driver:
            await driver.send(say("go"))
            while not isinstance(driver.state, Backoff):
                await asyncio.sleep(0)
            failed_ms = machine.passed_ms()
            for by_ms in before:
                machine.set_by_ms += by_ms
            await asyncio.sleep(after_ms / 1000)
            assert isinstance(driver.state, Backoff)
        machine.set_by_ms += down_by_ms - sum(before)
        world = a_world(machine.clock(), store, text_reply("there"))
        async with await world.open() as driver:
            for by_ms in within:
                machine.set_by_ms += by_ms
            await driver.rest()
            assert isinstance(driver.state, Idle)
            waited_ms = machine.passed_ms() - failed_ms
            assert WAIT_MS - 2 <= waited_ms <= WAIT_MS + after_ms + 2

    played(test)


@pytest.mark.rule("DELTA-7")
def test_behind_a_clock_that_ran_ahead_a_session_goes_on_and_says_so() -> None:
    async def test(machine: Machine) -> None:
        store = Kept()
        machine.set_by_ms += YEAR_MS
        async with await a_world(machine.clock(), store, FAILED).open() as driver:
            await driver.send(say("go"))
            while not isinstance(driver.state, Backoff):
                await asyncio.sleep(0)
        last_ms = store.load()[-1].now_ms
        machine.set_by_ms -= YEAR_MS
        world = a_world(machine.clock(), store, text_reply("there"))
        began_ms = machine.passed_ms()
        async with await world.open() as driver:
            await driver.rest()
            assert isinstance(driver.state, Idle)
        assert machine.passed_ms() - began_ms == pytest.approx(WAIT_MS, abs=2)
        resumed = next(record for record in store.load() if isinstance(record.delta, Resumed))
        assert (resumed.delta, resumed.now_ms) == (Resumed(clock_behind_ms=YEAR_MS), last_ms)
        assert world.events[:2] == [ClockJumped(-YEAR_MS), SessionResumed()]
        times = [record.now_ms for record in store.load()]
        assert times == sorted(times)

    played(test)


@pytest.mark.rule("DELTA-7")
def test_a_date_that_is_set_meanwhile_is_told_once_and_a_little_is_not_told() -> None:
    async def test(machine: Machine) -> None:
        world = a_world(machine.clock(), Kept(), text_reply("one"), text_reply("two"), text_reply("three"))
        async with await world.open() as driver:
            for by_ms in (YEAR_MS, -1_500, -3_600_000):
                machine.set_by_ms += by_ms
                await asyncio.sleep(0.001)  # the date is looked at once a millisecond at most
                await driver.send(say("go"))
                await driver.rest()
        assert [event for event in world.events if isinstance(event, ClockJumped)] == [
            ClockJumped(YEAR_MS),
            ClockJumped(-3_601_500),
        ]
        assert not any(record.now_ms > 1_700_000_001_000 for record in world.store.load())

    played(test)


def test_a_log_that_begins_after_the_date_was_set_begins_with_the_date() -> None:
    async def test(machine: Machine) -> None:
        clock = machine.clock()
        machine.set_by_ms -= YEAR_MS
        world = a_world(clock, Kept(), text_reply("one"))
        async with await world.open():
            pass
        assert world.store.load()[0].now_ms == machine.set_by_ms
        assert not any(isinstance(event, ClockJumped) for event in world.events)

    played(test)


def test_what_fell_due_while_the_machine_was_suspended_is_called_soon_after() -> None:
    async def test(machine: Machine) -> None:
        clock, rung = machine.clock(), asyncio.Event()
        clock.call_at(clock.now_ms() + 600_000, rung.set)
        await asyncio.sleep(60)
        assert not rung.is_set()
        machine.asleep_ms += 3_600_000
        await asyncio.sleep(LONGEST_WAIT_MS / 1000 + 1)
        assert rung.is_set()
        assert clock.ahead_ms() == 0  # a sleep sets no date

    played(test)


def test_a_later_clock_calls_as_much_later() -> None:
    manual = ManualClock(100)
    later, rung = LaterClock(manual, 1_000), []
    forgotten = later.call_at(1_105, lambda: pytest.fail("it was forgotten"))
    later.call_at(1_110, lambda: rung.append(later.now_ms()))
    forgotten()
    manual.advance(9)
    assert rung == []
    manual.advance(1)
    assert rung == [1_110]


@given(st.lists(st.tuples(st.integers(0, 3 * LONGEST_WAIT_MS), st.booleans()), max_size=12))
def test_each_deadline_that_is_not_forgotten_is_told_in_its_time(asked: list[tuple[int, bool]]) -> None:
    """All of them share one timer of the loop."""

    async def test(machine: Machine) -> None:
        clock = machine.clock()
        began_ms = clock.now_ms()
        told: list[tuple[int, int]] = []

        def tell(number: int, deadline_ms: int) -> None:
            late_ms = clock.now_ms() - deadline_ms
            assert 0 <= late_ms <= 2
            told.append((deadline_ms, number))

        forget = []
        for number, (after_ms, forgotten) in enumerate(asked):
            deadline_ms = began_ms + after_ms
            cancel = clock.call_at(deadline_ms, partial(tell, number, deadline_ms))
            if forgotten:
                forget.append(cancel)
        for cancel in forget:
            cancel()
            cancel()
        await asyncio.sleep(4 * LONGEST_WAIT_MS / 1000)
        wanted = [(began_ms + after_ms, number) for number, (after_ms, gone) in enumerate(asked) if not gone]
        assert told == sorted(wanted)
        assert not machine.loop.complaints

    played(test)


def test_what_one_callback_raises_reaches_no_other() -> None:
    async def test(machine: Machine) -> None:
        clock, told = machine.clock(), list[int]()

        def fails() -> None:
            raise ValueError("a callback")

        clock.call_at(clock.now_ms() + 10, fails)
        clock.call_at(clock.now_ms() + 10, lambda: told.append(1))
        clock.call_at(clock.now_ms() + 20, lambda: told.append(2))
        await asyncio.sleep(1)
        assert told == [1, 2]
        assert [str(complaint["exception"]) for complaint in machine.loop.complaints] == ["a callback"]

    played(test)


def test_forgotten_deadlines_are_not_kept() -> None:
    async def test(machine: Machine) -> None:
        clock, kept = machine.clock(), list["weakref.ref[Tellable]"]()

        def ask_and_forget() -> None:
            tellable = Tellable()
            kept.append(weakref.ref(tellable))
            clock.call_at(clock.now_ms() + WAIT_MS, tellable.tell)()

        for _ in range(1_000):
            ask_and_forget()
        assert not any(reference() for reference in kept)

    played(test)


class Tellable:
    """Has a callback, and can be seen to be gone."""

    def tell(self) -> None:
        raise AssertionError("it was forgotten")

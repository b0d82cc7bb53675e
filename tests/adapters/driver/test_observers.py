"""Whoever looks on stops nothing and hides nothing, whatever it raises."""

import asyncio

import pytest
from loopkernel.data.events import Event, InputSettled, ReplyGrew
from loopkernel.data.states import Idle
from loopkernel.data.thread_deltas import Created
from loopkernel.data.words import TurnEndReason
from loopkernel_adapters.driver.asyncio_driver import Driver
from loopkernel_adapters.providers.scripted import text_reply

from tests.adapters.driver.driver_world import (
    World,
    complaints_of,
    say,
)


@pytest.mark.parametrize("error", [ValueError("no"), asyncio.CancelledError("no")])
def test_an_observer_that_fails_stops_nothing_and_hides_nothing(error: BaseException) -> None:
    async def run() -> None:
        complaints = complaints_of(asyncio.get_running_loop())

        def fails(event: Event) -> None:
            raise error

        world = World([text_reply("b")])
        async with await world.open(fails) as driver:
            await driver.send(say("go"))
            await driver.rest()
        assert len(complaints) == len(world.events) > 5
        assert complaints[-1] == "an observer failed at TurnEnded; it stays subscribed: no"

    asyncio.run(run())


def test_an_observer_may_come_and_go_and_one_that_was_there_from_the_start_stays() -> None:
    async def run() -> None:
        first: list[Event] = []
        later: list[Event] = []
        world = World([text_reply("a"), text_reply("b"), text_reply("c")])
        async with await world.open(first.append) as driver:
            for observer in (first.append, later.append):
                driver.subscribe(observer)
            await driver.send(say("go"))
            await driver.rest()
            seen = [event for event in world.events if event in later]
            assert later == seen != []
            assert len(first) == len(world.events) + len(later)  # it was shown these twice
            for observer in (first.append, later.append):
                driver.unsubscribe(observer)
            before, shown = len(later), len(first)
            await driver.send(say("again"))
            await driver.rest()
            assert len(later) == before
            assert len(first) > shown
            driver.unsubscribe(first.append)  # not subscribed, so it stays
            shown = len(first)
            await driver.send(say("and again"))
            await driver.rest()
            assert len(first) > shown

    asyncio.run(run())


@pytest.mark.in_place
def test_an_exit_of_the_program_within_a_step_stops_the_driver_for_good() -> None:
    async def run() -> None:
        def exits(event: Event) -> None:
            if isinstance(event, InputSettled):
                raise SystemExit(3)

        world = World([text_reply("b")])
        async with await world.open(exits) as driver:
            with pytest.raises(SystemExit):
                await driver.send(say("go"))
            with pytest.raises(RuntimeError, match="interrupted in the midst of a step \\(SystemExit\\)"):
                await driver.rest()
        assert world.scripted.requests == []
        assert world.noted.closed

    asyncio.run(run())


def test_whoever_watches_the_steps_stops_nothing() -> None:
    async def run() -> None:
        complaints = complaints_of(asyncio.get_running_loop())
        looks = 0

        def watch() -> None:
            nonlocal looks
            looks += 1
            raise ValueError("no")

        world = World([text_reply("b")])
        driver = await Driver.open(
            store=world.store,
            created=Created(session_id="s"),
            provider=world.provider,
            tools=world.tools,
            clock=world.clock,
            watch=watch,
        )
        async with driver:
            await driver.send(say("go"))
            await driver.rest()
            assert isinstance(driver.state, Idle)
        assert looks == len(complaints) > 3

    asyncio.run(run())


def test_an_observer_that_breaks_stops_nothing_and_is_heard_of() -> None:
    async def run() -> None:
        complaints = complaints_of(asyncio.get_running_loop())

        def breaks(event: Event) -> None:
            if isinstance(event, ReplyGrew):
                raise ValueError("screen is gone")

        world = World([text_reply("a")])
        async with await world.open(breaks) as driver:
            await driver.send(say("go"))
            await driver.rest()
        assert world.endings() == [TurnEndReason.MODEL_STOP]
        assert complaints == ["an observer failed at ReplyGrew; it stays subscribed: screen is gone"]

    asyncio.run(run())

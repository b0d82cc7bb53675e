"""Handoffs on real asyncio: done, failed, cancelled, and cut by the end of the process."""

import asyncio

import pytest
from loopkernel.data.effects import HandOff
from loopkernel.data.events import HandoffEnded, HandoffStarted
from loopkernel.data.outside_deltas import HandoffFailed
from loopkernel.data.states import Cancelled, Done, HandingOff, Idle
from loopkernel.data.user_deltas import CancelAll, StartHandoff
from loopkernel.data.words import TurnEndReason
from loopkernel_adapters.optional_ports import Handoffs, OptionalPorts
from loopkernel_adapters.providers.scripted import text_reply
from typing_extensions import override

from tests.adapters.driver.driver_world import World, say
from tests.adapters.driver.failure_world import settled
from tests.adapters.driver.lawful import judged_sessions

__all__ = ["judged_sessions"]  # a fixture
pytestmark = pytest.mark.usefixtures("judged_sessions")


class Carrying(Handoffs):
    """Carries the work over to the session `next`, once it may; or fails."""

    def __init__(self, fails: bool = False) -> None:
        self.may_end = asyncio.Event()
        self.asked: list[HandOff] = []
        self.cancelled = False
        self._fails = fails

    @override
    async def hand_off(self, command: HandOff) -> str:
        self.asked.append(command)
        try:
            await self.may_end.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        if self._fails:
            raise OSError("nowhere to go")
        return "next"


def a_world(carrying: Carrying | None) -> World:
    return World([text_reply("one"), text_reply("two")], optional=OptionalPorts(handoffs=carrying))


@pytest.mark.rule("HANDOFF-1")
def test_a_handoff_ends_the_run_in_the_old_session() -> None:
    async def run() -> None:
        carrying = Carrying()
        world = a_world(carrying)
        async with await world.open() as driver:
            await driver.send(say("first"))
            await driver.rest()
            await driver.send(StartHandoff("finish the tests"))
            await settled(driver)
            assert isinstance(driver.state, HandingOff)
            carrying.may_end.set()
            await driver.rest()
            assert isinstance(driver.state, Done)
            assert driver.state.reason is TurnEndReason.HANDED_OFF
        (asked,) = carrying.asked
        assert (asked.goal, len(asked.thread)) == ("finish the tests", 2)
        assert world.seen(HandoffStarted)
        assert world.seen(HandoffEnded) == [HandoffEnded("next")]
        assert world.endings() == [TurnEndReason.MODEL_STOP]

    asyncio.run(run())


@pytest.mark.parametrize("how", ["fails", "absent"])
@pytest.mark.rule("HANDOFF-1")
def test_after_a_handoff_that_fails_the_session_goes_on(how: str) -> None:
    async def run() -> None:
        carrying = Carrying(fails=True)
        carrying.may_end.set()
        world = a_world(carrying if how == "fails" else None)
        async with await world.open() as driver:
            await driver.send(say("first"))
            await driver.rest()
            await driver.send(StartHandoff("finish the tests"))
            await driver.rest()
            assert isinstance(driver.state, Idle)
            await driver.send(say("second"))
            await driver.rest()
        (failed,) = [record.delta for record in world.noted.load() if isinstance(record.delta, HandoffFailed)]
        assert failed.why == ("OSError: nowhere to go" if how == "fails" else "this driver hands nothing over")
        assert world.seen(HandoffEnded) == [HandoffEnded(None)]
        assert len(world.endings()) == 2

    asyncio.run(run())


@pytest.mark.rule("HANDOFF-1")
def test_a_cancel_stops_a_handoff() -> None:
    async def run() -> None:
        carrying = Carrying()
        world = a_world(carrying)
        async with await world.open() as driver:
            await driver.send(say("first"))
            await driver.rest()
            await driver.send(StartHandoff("finish the tests"))
            await settled(driver)
            await driver.send(CancelAll())
            await driver.rest()
            assert isinstance(driver.state, Cancelled)
            await settled(driver)
            assert len(asyncio.all_tasks()) == 1
        assert carrying.cancelled
        assert world.seen(HandoffEnded) == [HandoffEnded(None)]

    asyncio.run(run())


@pytest.mark.rule("HANDOFF-1")
def test_a_handoff_that_the_end_of_the_process_cut_has_failed() -> None:
    async def run() -> None:
        carrying = Carrying()
        world = a_world(carrying)
        async with await world.open() as driver:
            await driver.send(say("first"))
            await driver.rest()
            await driver.send(StartHandoff("finish the tests"))
            await settled(driver)
        again = a_world(carrying)
        again.noted.append(world.noted.load(), durable=True)
        async with await again.open() as driver:
            await driver.rest()
            assert isinstance(driver.state, Idle)
        assert again.seen(HandoffEnded) == [HandoffEnded(None)]
        assert len(carrying.asked) == 1

    asyncio.run(run())

"""The check of drivers: this one passes, and for each duty a driver that breaks it is caught."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
from attrs import evolve
from loopkernel.data.deltas import Delta
from loopkernel.data.thread_deltas import ThreadDelta
from loopkernel.data.user_deltas import UserDelta
from loopkernel_adapters.driver.asyncio_driver import Driver
from loopkernel_adapters.optional_ports import Address
from loopkernel_adapters.testing import driver_check as checks
from loopkernel_adapters.testing import driver_trial
from loopkernel_adapters.testing.driver_check import DriverFactory, check_driver
from typing_extensions import override

from tests.adapters.driver.broken_drivers import (
    Amnesiac,
    Deaf,
    Deferring,
    Discarding,
    Forgetful,
    Lazy,
    LazyAtInput,
    LeavingTasks,
    Merciless,
    NeverRinging,
    ReportingTwice,
    RunningTwice,
    Swaps,
    opened_as,
    with_ports,
)
from tests.adapters.driver.careless_drivers import CARELESS

BRIEF = 0.5  # seconds, for drivers that hang
ENOUGH = 60.0  # for those that do not, on a machine that has much to do
HANGING = (  # what is told of drivers that hang
    "nothing more happened",
    "never",
    "holds its turn up",
    "is not in the log",
    "in the log 0 times",
    "were aborted",
)

pytestmark = pytest.mark.in_place


def test_this_driver_has_all_duties() -> None:
    check_driver(opened_as(Driver))


class Roundabout(Driver):
    """Has all it is told, and all that its jobs report, come by way of a thread: odd, slow, and right."""

    _coming = 0
    _thread: ThreadPoolExecutor

    @override
    def _report(self, outcome: Delta | None) -> None:
        def arrive(arrived: asyncio.Future[int]) -> None:
            self._coming -= 1
            super(Roundabout, self)._report(outcome)
            self._wake_waiters()

        self._coming += 1
        asyncio.get_running_loop().run_in_executor(self._thread, int).add_done_callback(arrive)

    @override
    def _rests(self) -> bool:
        return self._coming == 0 and super()._rests()

    @override
    async def send(self, delta: UserDelta | ThreadDelta, within: Address = (), taken: int | None = None) -> None:
        await asyncio.to_thread(int)
        await super().send(delta, within)


def test_a_driver_that_is_odd_and_right_has_all_duties() -> None:
    with ThreadPoolExecutor(max_workers=1) as Roundabout._thread:
        check_driver(opened_as(Roundabout))


BROKEN: list[tuple[int, str, DriverFactory]] = [
    (1, "the pieces of a reply are in the log as", opened_as(Swaps)),
    (3, "CallModel 1 was begun before", with_ports(lambda ports: evolve(ports, store=Lazy(ports.store)))),
    (3, "CallModel 1 was begun before", with_ports(lambda ports: evolve(ports, store=LazyAtInput(ports.store)))),
    (4, "send returned before", opened_as(Deferring)),
    (5, "StartTool 1 was begun twice", with_ports(lambda ports: evolve(ports, tools=RunningTwice(ports.tools)))),
    (5, "StartTool 1 was reported 2 times", opened_as(ReportingTwice)),
    (5, "nothing more happened", opened_as(Forgetful)),
    (6, "after the log had failed", with_ports(lambda ports: evolve(ports, store=Deaf(ports.store)))),
    (8, "left after close", opened_as(LeavingTasks)),
    (9, "does not go on with resumed", with_ports(lambda ports: evolve(ports, store=Amnesiac(ports.store)))),
    (11, "nothing more happened", opened_as(NeverRinging)),
    (16, "of 3 runs that were aborted", opened_as(Merciless)),
    (17, "the late report of a run is in the log 0 times", opened_as(Discarding)),
    (17, "the late report of a run is in the log 2 times", opened_as(ReportingTwice)),
    *CARELESS,
]


@pytest.mark.parametrize(("duty", "seen", "factory"), BROKEN)
def test_a_driver_that_breaks_a_duty_is_caught(
    duty: int, seen: str, factory: DriverFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    if any(told in seen for told in HANGING):
        monkeypatch.setattr(driver_trial, "HANGING_SECONDS", BRIEF)
    with pytest.raises(AssertionError, match=f"driver {duty}: .*({seen})(.*\n)*    Due is .driver {duty} in specs"):
        check_driver(factory, (duty,), BRIEF if "nothing more" in seen else ENOUGH)


def test_every_duty_has_a_driver_that_breaks_it() -> None:
    assert {duty for duty, _, _ in BROKEN} == {duty for duty, _ in checks.DUTIES}

"""The check of drivers: this one passes, and for each duty a driver that breaks it is caught."""

import pytest
from attrs import evolve
from loopkernel_adapters.driver.asyncio_driver import Driver
from loopkernel_adapters.testing import check_driver as checks
from loopkernel_adapters.testing import driver_duties
from loopkernel_adapters.testing.check_driver import DriverFactory, check_driver

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

PATIENCE = 0.5  # seconds, for drivers that hang


def test_this_driver_has_all_duties() -> None:
    check_driver(opened_as(Driver))


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
    (16, "", opened_as(Merciless)),
    (17, "the late report of a run is in the log 0 times", opened_as(Discarding)),
    (17, "the late report of a run is in the log 2 times", opened_as(ReportingTwice)),
    *CARELESS,
]


@pytest.mark.parametrize(("duty", "seen", "factory"), BROKEN)
def test_a_driver_that_breaks_a_duty_is_caught(
    duty: int, seen: str, factory: DriverFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_duties, "HANGING_SECONDS", 0.1)
    with pytest.raises(AssertionError, match=f"driver {duty}: .*({seen})(.*\n)*    Due is .driver {duty} in specs"):
        check_driver(factory, (duty,), PATIENCE)


def test_every_duty_has_a_driver_that_breaks_it() -> None:
    assert {duty for duty, _, _ in BROKEN} == {duty for duty, _ in checks.DUTIES}

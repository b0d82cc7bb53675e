"""The state machine over a driver: those that are right pass; one with a planted mistake is told with its rule.

Slow: each run is judged step by step and as a whole.
"""

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from loopkernel_adapters.driver.asyncio_driver import Driver
from loopkernel_adapters.testing import DriverMachine, Synchronous, Trio
from loopkernel_adapters.testing.driver_trial import DriverFactory

from examples.drivers.blocking_driver import BlockingDriver
from examples.drivers.trio_driver import TrioDriver
from tests.adapters.driver.broken_drivers import ReportingTwice, opened_as
from tests.adapters.testing.test_fuzzing import Repeating, RunsTwice, Silent

pytestmark = pytest.mark.slow


def run(opened: DriverFactory, examples: int) -> None:
    machine = type("Machine", (DriverMachine,), {"opened": staticmethod(opened)})
    few = settings(
        max_examples=examples,
        stateful_step_count=25,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(machine, settings=few)


@pytest.mark.parametrize("opened", [Synchronous(BlockingDriver), Trio(TrioDriver.open), opened_as(Driver)])
def test_a_driver_that_is_right_passes(opened: DriverFactory) -> None:
    run(opened, 5)


PLANTED: list[tuple[DriverFactory, str]] = [
    (Synchronous(RunsTwice), "driver 5: tool [0-9]+ was begun twice"),
    (Synchronous(Silent), "driver 2: "),
    (Trio(Repeating.open), "is-closed"),
    (opened_as(ReportingTwice), "is-closed"),
]


@pytest.mark.parametrize(("opened", "told"), PLANTED)
def test_a_mistake_is_told(opened: DriverFactory, told: str) -> None:
    with pytest.raises(AssertionError, match=told):
        run(opened, 200)

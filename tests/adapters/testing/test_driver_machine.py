"""The state machine over a driver that is right passes.

Slow: each run is judged step by step and as a whole.
"""

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from loopkernel_adapters.testing import DriverMachine, Synchronous
from loopkernel_adapters.testing.driver_trial import DriverFactory

from examples.drivers.blocking_driver import BlockingDriver

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


@pytest.mark.parametrize("opened", [Synchronous(BlockingDriver)])
def test_a_driver_that_is_right_passes(opened: DriverFactory) -> None:
    run(opened, 5)

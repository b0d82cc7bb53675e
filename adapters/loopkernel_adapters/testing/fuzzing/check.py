"""Plays drawn scenarios on any driver, and judges what it does. Needs the extra `testing`, and no test framework.

    fuzz_driver(opened)    # as for check_driver: a driver of asyncio, or Synchronous, Trio or DriverProcess

Raises AssertionError: the rule that is broken, what was seen, the seed, and the smallest scenario found that shows it,
which `python -m loopkernel.testing.scenarios` plays on the kernel alone. Every seed gives the same world each time.
"""

from collections.abc import Iterable
from functools import partial

from loopkernel.laws.catalogue import LAWS
from loopkernel.testing.scenarios.data.scenario import Scenario
from loopkernel.testing.scenarios.format.writer import write_scenarios

from loopkernel_adapters.testing.driver_trial import DriverFactory
from loopkernel_adapters.testing.fuzzing.drawing import drawn
from loopkernel_adapters.testing.fuzzing.playing import play
from loopkernel_adapters.testing.fuzzing.shrinking import shrunk
from loopkernel_adapters.testing.watched_checks import StandsStill, due, raising, watched

PATIENCE_SECONDS = 10.0  # of real time, for one scenario: nothing in it waits for anything real
STATEMENTS = {f"law {law.id}": law.statement for law in LAWS}

Fault = tuple[str, str]


def fuzz_driver(
    opened: DriverFactory,
    seeds: Iterable[int] = range(100),
    patience_seconds: float = PATIENCE_SECONDS,
) -> None:
    """Play the scenario of each seed. Raises AssertionError at the first in which the driver breaks a rule."""
    for seed in seeds:
        scenario = drawn(seed)
        fault = _fault(scenario, opened, patience_seconds)
        if fault is not None:
            small = shrunk(scenario, partial(_breaks, fault[0], opened, patience_seconds))
            raise AssertionError(_told(_fault(small, opened, patience_seconds) or fault, seed, small))


def _fault(scenario: Scenario, opened: DriverFactory, patience_seconds: float) -> Fault | None:
    """The first rule that is broken in the scenario, and what was seen."""
    try:
        world = watched(partial(play, scenario, opened), patience_seconds)
    except StandsStill as error:
        return "driver 7", str(error)
    except AssertionError as error:  # it is told by what stands between driver and world
        rule, seen, words = str(error).partition(": ")
        return (rule, words) if seen and rule.startswith("driver ") else ("driver 7", raising(error))
    except Exception as error:
        return "driver 7", raising(error)
    return world.faults[0] if world.faults else None


def _breaks(rule: str, opened: DriverFactory, patience_seconds: float, scenario: Scenario) -> bool:
    fault = _fault(scenario, opened, patience_seconds)
    return fault is not None and fault[0] == rule


def _told(fault: Fault, seed: int, small: Scenario) -> str:
    rule, seen = fault
    told = due(f"{rule}: {seen}")
    if rule in STATEMENTS:
        told += f"\n    Due is ({rule} in specs/laws.md): {STATEMENTS[rule]}"
    again = f"Seen with seed {seed}: fuzz_driver(opened, seeds=[{seed}]). Enough to see it is"
    return f"{told}\n{again}\n{write_scenarios([small])}"

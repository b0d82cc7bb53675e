"""Plays scenarios on the real driver: `python -m loopkernel_adapters.testing.scenario_driver FILE ID`.

The scenario's world sits behind the ports, time is virtual, and what the driver has written is judged as a run of the
pure kernel is, but for the laws: those are judged where the same scenario is played on the kernel alone.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from loopkernel.testing.effective_policy import effective_policy
from loopkernel.testing.judge import unmet_expectations
from loopkernel.testing.scenario_data import Scenario
from loopkernel.testing.scenario_document import read_scenario_file

from loopkernel_adapters.testing.scenario_driver_player import Played, ScenarioDriver
from loopkernel_adapters.testing.simulation.virtual_loop import VirtualLoop


def play(scenario: Scenario) -> Played:
    """Play the scenario on a driver of its own. Raises PolicyError where its policy cannot hold."""
    loop = VirtualLoop()
    return loop.play(ScenarioDriver(scenario, effective_policy(scenario.policy), loop).run())


def differences_of(scenario: Scenario, played: Played) -> tuple[str, ...]:
    """Everything in which the run differs from what is expected, then what the driver itself did wrong."""
    return (*unmet_expectations(scenario, played.run), *played.faults)


def main(arguments: Sequence[str] | None = None) -> int:
    """Play scenarios of a file, or those of the ids that are named; 1 where one is not as expected."""
    parser = argparse.ArgumentParser(prog="python -m loopkernel_adapters.testing.scenario_driver")
    parser.add_argument("file", type=Path, help="a scenario file")
    parser.add_argument("ids", nargs="*", metavar="ID", help="scenarios of it; none: all")
    options = parser.parse_args(arguments)
    failed = 0
    for scenario in read_scenario_file(options.file):
        if options.ids and scenario.id not in options.ids:
            continue
        played = play(scenario)
        wrong = differences_of(scenario, played)
        failed += bool(wrong)
        print(f"{'fail' if wrong else 'pass'} {scenario.id}")
        for one in _told(played, wrong, verbose=bool(options.ids)):
            print(f"     {one}")
    return 1 if failed else 0


def _told(played: Played, wrong: Sequence[str], verbose: bool) -> Iterator[str]:
    yield from wrong
    if verbose:
        yield from (f"{line.at_ms:>7} ms  {line.text}" for line in played.run.lines)


if __name__ == "__main__":
    sys.exit(main())

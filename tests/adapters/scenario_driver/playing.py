"""Plays scenarios on the real driver: `python -m tests.adapters.scenario_driver FILE ID`.

The scenario's world sits behind the ports, time is virtual, and what the driver has written is judged as a run of the
pure kernel is, but for the laws: those are judged where the same scenario is played on the kernel alone.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from loopkernel.data.errors import CodecError, PolicyError
from loopkernel.testing.scenarios.data.scenario import Scenario
from loopkernel.testing.scenarios.format.document import read_scenario_file
from loopkernel.testing.scenarios.format.nodes import ScenarioError
from loopkernel.testing.scenarios.judge import unmet_expectations
from loopkernel.testing.scenarios.player.effective_policy import effective_policy
from loopkernel.testing.scenarios.player.recording import TraceLine
from loopkernel_adapters.testing.virtual_loop import VirtualLoop

from tests.adapters.scenario_driver.player import ScenarioDriver
from tests.adapters.scenario_driver.scenario_player import Played


def play(scenario: Scenario) -> Played:
    """Play the scenario on a driver of its own. Raises PolicyError where its policy cannot hold."""
    policy = effective_policy(scenario.policy)
    loop = VirtualLoop()
    return loop.play(ScenarioDriver(scenario, policy, loop).run())


def differences_of(scenario: Scenario, played: Played) -> tuple[str, ...]:
    """Everything in which the run differs from what is expected, then what the driver itself did wrong."""
    return (*unmet_expectations(scenario, played.run), *played.faults)


def main(arguments: Sequence[str] | None = None) -> int:
    """Play scenarios of a file, or those of the ids that are named.

    The exit status: 0; 1 where one is not as expected or the file cannot be read; 2 for an id that the file has not.
    """
    parser = argparse.ArgumentParser(
        prog="python -m tests.adapters.scenario_driver",
        description="Play scenarios on the real driver in virtual time, and say what became of each.",
    )
    parser.add_argument("file", type=Path, help="a scenario file")
    parser.add_argument("ids", nargs="*", metavar="ID", help="scenarios of it, told with all that happened; none: all")
    options = parser.parse_args(arguments)
    try:
        scenarios = read_scenario_file(options.file)
    except ScenarioError as error:
        print("fail", *map(str, error.faults), sep="\n     ")
        return 1
    unknown = [name for name in options.ids if name not in {scenario.id for scenario in scenarios}]
    if unknown:
        parser.error(f"{options.file} has no scenario {', '.join(unknown)}: check the id")
    named = [scenario for scenario in scenarios if not options.ids or scenario.id in options.ids]
    return max([_play_and_tell(scenario, verbose=bool(options.ids)) for scenario in named], default=0)


def _play_and_tell(scenario: Scenario, *, verbose: bool) -> int:
    """Play one, print what became of it; 1 where it is not as expected."""
    lines: tuple[TraceLine, ...] = ()
    try:
        played = play(scenario)
        wrong, lines = differences_of(scenario, played), played.run.lines
    except PolicyError as error:
        wrong = (f"the policy cannot hold: {'; '.join(map(str, error.faults))}",)
    except CodecError as error:
        wrong = (f"the scenario has a value that is not JSON: {'; '.join(map(str, error.faults))}",)
    print(f"{'fail' if wrong else 'pass'} {scenario.id}")
    for one in (*wrong, *(f"{line.at_ms:>7} ms  {line.text}" for line in lines if verbose)):
        print(f"     {one}")
    return 1 if wrong else 0

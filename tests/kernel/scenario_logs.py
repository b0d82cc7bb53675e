"""The scenarios in specs/scenarios, and their logs: real runs of every kind, to restart and fork anywhere."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from loopkernel.loop.transition import transition
from loopkernel.replaying import LogRecord
from loopkernel.testing.scenarios.data.scenario import Scenario
from loopkernel.testing.scenarios.format.document import read_scenario_file
from loopkernel.testing.scenarios.player.drive import Drive
from loopkernel.testing.scenarios.player.effective_policy import effective_policy

FOLDER = Path(__file__).resolve().parents[2] / "specs" / "scenarios"
FILES = sorted(FOLDER.glob("*.yaml"))


@cache
def scenarios_of(file: Path) -> tuple[Scenario, ...]:
    """The scenarios of the file."""
    return tuple(read_scenario_file(file))


@cache
def logs_of(file: Path) -> Mapping[str, tuple[LogRecord, ...]]:
    """The log of each scenario of the file."""
    logs: dict[str, tuple[LogRecord, ...]] = {}
    for scenario in scenarios_of(file):
        policy = effective_policy(scenario.policy)
        logs[scenario.id] = Drive(scenario, policy, transition).run().log
    return logs

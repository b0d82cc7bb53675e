"""Scenarios hold in Temporal too, on a real server, and their logs are those of the process."""

import asyncio
import os
from collections import Counter
from pathlib import Path

import pytest
from loopkernel.judging import check_trace
from loopkernel.replaying import fold
from loopkernel.testing.scenarios.data.scenario import Scenario
from loopkernel.testing.scenarios.format.document import read_scenario_file

from tests.adapters.scenario_driver.playing import differences_of, play
from tests.adapters.simulation.test_scenarios_on_the_driver import likeness
from tests.homes.temporal.scenario_play import Outcome, play_all, unplayable
from tests.homes.temporal.server import MISSING, PROGRAM

FOLDER = Path(__file__).resolve().parents[3] / "specs" / "scenarios"
EVERY = int(os.environ.get("EVERY", "3"))  # of those that can be played there; 1 plays all
LEAST = 500


def chosen() -> list[Scenario]:
    """Every so many of those that can be played; why others are left out is told."""
    every = [one for file in sorted(FOLDER.glob("*.yaml")) for one in read_scenario_file(file)]
    reasons = Counter(unplayable(one) or "can be played" for one in every)
    _tell("scenarios", reasons)
    return [one for one in every if unplayable(one) is None][::EVERY]


def _tell(what: str, counted: Counter[str]) -> None:
    print(f"\n{what}:", *(f"{count:6} {each}" for each, count in counted.most_common()), sep="\n")


def faults_of(outcome: Outcome) -> tuple[str, ...]:
    """What is not as expected of it, in its log, or in a law."""
    scenario, played = outcome.scenario, outcome.played
    alike = likeness(played.log, play(scenario).log)
    breaches = check_trace(fold(played.log)).breaches
    return (*differences_of(scenario, played), *(() if alike in ("same", "like") else (alike,)), *map(str, breaches))


@pytest.mark.skipif(not PROGRAM.exists(), reason=MISSING)
def test_scenarios_hold_in_temporal_with_the_logs_of_the_process() -> None:
    outcomes = asyncio.run(play_all(chosen()))
    _tell("of those that were tried", Counter(outcome.unplayable or "played" for outcome in outcomes))
    played = [outcome for outcome in outcomes if outcome.unplayable is None]
    found = {f"{one.scenario.source} {one.scenario.id}": faults_of(one) for one in played}
    wrong = [f"{name}: {faults[0]}" for name, faults in found.items() if faults]
    assert not wrong, "\n".join([f"{len(wrong)} are not as they should be:", *wrong])
    assert len(played) >= LEAST or EVERY > 3

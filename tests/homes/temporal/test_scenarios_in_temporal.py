"""Scenarios hold in Temporal too, on a server that skips time, and their logs are those of the process."""

import asyncio
from collections import Counter
from pathlib import Path

import pytest
from loopkernel.judging import check_trace
from loopkernel.replaying import fold
from loopkernel.testing.scenarios.data.scenario import Scenario
from loopkernel.testing.scenarios.format.document import read_scenario_file

from tests.adapters.scenario_driver.playing import play
from tests.adapters.simulation.test_scenarios_on_the_driver import likeness
from tests.homes.temporal.scenario_play import SERVER, play_all, unplayable

FOLDER = Path(__file__).resolve().parents[3] / "specs" / "scenarios"
EVERY = 40  # of those that can be played: all of them take an hour on two busy cores
# A deadline that the verdict of a check, or the end of an aborted activity, meets to the millisecond.
OTHERWISE_HERE = {
    "budget-crossed-and-then-a-retry-at-rest",
    "budget-ends-a-task",
    "budget-of-time-found-over-while-the-reply-streams",
    "budget-of-time-reached-to-the-millisecond",
    "two-calls-that-wait-for-each-other",
}


def chosen() -> list[Scenario]:
    """A sample of every file, and why the others are left out."""
    every = [one for file in sorted(FOLDER.glob("*.yaml")) for one in read_scenario_file(file)]
    reasons = Counter(unplayable(one) for one in every)
    playable = [one for one in every if unplayable(one) is None and one.id not in OTHERWISE_HERE]
    print("\n" + "\n".join(f"{count:5} {why or 'can be played'}" for why, count in reasons.most_common()))
    return playable[::EVERY]


@pytest.mark.skipif(not SERVER.exists(), reason="there is no Temporal test server here: install it with `make servers`")
def test_scenarios_hold_in_temporal_with_the_logs_of_the_process() -> None:
    wrong = []
    for scenario, played, found in asyncio.run(play_all(chosen())):
        alike = likeness(played.log, play(scenario).log)
        breaches = check_trace(fold(played.log)).breaches
        faults = [*found, *(() if alike in ("same", "like") else (alike,)), *map(str, breaches)]
        if faults:
            wrong.append(f"{scenario.source} {scenario.id}: {faults[0]}")
    assert not wrong, "\n".join(wrong)

"""Scenarios hold in Temporal too, on a server that skips time, and their logs are those of the process."""

import asyncio
import os
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
FILES = ("backoff", "cancel", "cancels", "compaction", "corrections", "crossings")  # of these a sample is played
EVERY = int(os.environ.get("EVERY", "9"))  # of those that can be played there; 1 plays all


def chosen() -> list[Scenario]:
    """A sample, and why others are left out."""
    every = [one for file in sorted(FOLDER.glob("*.yaml")) for one in read_scenario_file(file)]
    reasons = Counter(unplayable(one) for one in every)
    playable = [one for one in every if unplayable(one) is None and Path(one.source).stem in FILES]
    print("\n" + "\n".join(f"{count:5} {why or 'can be played'}" for why, count in reasons.most_common()))
    return playable[::EVERY]


@pytest.mark.skipif(
    "EVERY" not in os.environ, reason="not yet sound: a timer may not come back; EVERY=9 plays a sample"
)
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

"""The judges of frameworks judge themselves: our own agent holds every law, and with a planted bug the law is named.

The frameworks are judged where they can be had: each must still break what docs/conformance/frameworks.md says, and no
more. Slow: hundreds of scenarios are played, most of them in processes of their own.
"""

import re
from pathlib import Path

import pytest
from loopkernel.loop.transition import transition
from loopkernel_adapters.conform.catalogue import scenario_named
from loopkernel_adapters.conform.record import Record
from loopkernel_adapters.conform.scenario import End, Scenario
from loopkernel_adapters.conform.scorecard import Weight
from loopkernel_adapters.conform.script import Cut, Reply
from loopkernel_adapters.driver import asyncio_driver

from tests.adapters.conform.planted_outside import PLANTED_OUTSIDE, Outside
from tests.differential.environments import NotHad, Playing
from tests.differential.frameworks.catalogue import SCENARIOS, generated, why_not
from tests.differential.frameworks.judging import faults_of, play_all
from tests.differential.frameworks.known import FRAMEWORKS, STREAMING, WITHOUT_WAITS
from tests.differential.frameworks.play_loopkernel import play
from tests.differential.frameworks.port import record_of, script_of

pytestmark = pytest.mark.slow

PAGE = Path(__file__).resolve().parents[3] / "docs" / "conformance" / "frameworks.md"
PLAYED = [scenario for scenario in SCENARIOS if not why_not(scenario, streams=True)]
SEEDS = range(60)


def played(scenario: Scenario) -> Record:
    """What our own agent makes of it, in this process."""
    return record_of(scenario, play(script_of(scenario)))


@pytest.mark.parametrize("scenario", PLAYED, ids=lambda scenario: scenario.name)
def test_our_own_agent_breaks_no_law(scenario: Scenario) -> None:
    record = played(scenario)
    assert record.exchanges
    assert faults_of(record) == {}


def test_our_own_agent_breaks_no_law_in_generated_scenarios() -> None:
    assert {seed: faults for seed in SEEDS if (faults := faults_of(played(generated(seed))))} == {}


def _is_seen_here(bug: Outside) -> bool:
    return not why_not(scenario_named(bug.scenario), streams=True)


@pytest.mark.parametrize("bug", [bug for bug in PLANTED_OUTSIDE if _is_seen_here(bug)], ids=lambda bug: bug.name)
def test_a_planted_bug_is_caught_by_its_law(bug: Outside, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(vars(asyncio_driver), "transition", bug.plant(transition))
    assert bug.law in {law for law, _ in faults_of(played(scenario_named(bug.scenario)))}


def test_what_is_not_played_is_told_with_its_reason() -> None:
    assert {scenario.name for scenario in SCENARIOS if why_not(scenario, streams=True)} == {
        scenario.name
        for scenario in SCENARIOS
        if any(life.end is End.KILLED for life in scenario.lives)
        or any(isinstance(answer, Reply) and answer.cut is Cut.SILENCE for answer in scenario.answers)
    }


def told_of(name: str) -> set[tuple[str, Weight]]:
    """What the page says that the framework breaks."""
    section = PAGE.read_text(encoding="utf-8").partition(f"\n## {name} ")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([A-Z-]+) \| (must|should|noted) \|", section, re.MULTILINE)
    return {(law, Weight(weight)) for law, weight in rows}


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_framework_breaks_what_the_page_says(name: str) -> None:
    try:
        with Playing(FRAMEWORKS[name]) as playing:
            found = play_all(
                lambda scenario: record_of(scenario, playing.play(script_of(scenario))),
                again="",
                streams=name in STREAMING,
                waits=name not in WITHOUT_WAITS,
            )
    except NotHad as missing:
        pytest.skip(str(missing))
    assert {(breach.law, breach.weight) for breach in found.breaches} == told_of(FRAMEWORKS[name].package)

"""Each preset can be told from each of the others: by scenarios that do not hold when only its name is exchanged.

A file presets_X.yaml holds the scenarios of preset X. The comment `# Not as: A, B.` behind the first line of each names
the presets under which what it expects is not met. That they hold under X itself is judged with all other scenarios.
"""

import re
from functools import cache
from pathlib import Path

import pytest
from attrs import evolve
from loopkernel.loop.transition import transition
from loopkernel.presets import PRESET_NAMES
from loopkernel.testing.scenarios.data.scenario import PolicyChoice, Scenario
from loopkernel.testing.scenarios.format.document import read_scenario_file
from loopkernel.testing.scenarios.judge import unmet_expectations
from loopkernel.testing.scenarios.player.drive import Drive
from loopkernel.testing.scenarios.player.effective_policy import effective_policy

FOLDER = Path(__file__).resolve().parents[2] / "specs" / "scenarios"
AT_LEAST = 12  # scenarios of each preset that hold under no other
APART_BY = 3  # scenarios of each preset, at least, that do not hold under a given other one

_CLAIM = re.compile(r"^scenario: (?P<id>\S+)\n# Not as: (?P<others>.+)\.$", re.MULTILINE)


def file_of(name: str) -> Path:
    """The scenarios of a preset."""
    return FOLDER / f"presets_{name}.yaml"


@cache
def scenarios_of(name: str) -> tuple[Scenario, ...]:
    return read_scenario_file(file_of(name))


def claims_of(name: str) -> dict[str, list[str]]:
    """By scenario, the presets under which its comment says that it does not hold."""
    text = file_of(name).read_text(encoding="utf-8")
    return {found["id"]: found["others"].split(", ") for found in _CLAIM.finditer(text)}


def holds(scenario: Scenario, name: str) -> bool:
    """Whether what the scenario expects is met when nothing but its preset's name is exchanged; laws aside."""
    policy = PolicyChoice(preset=name)
    run = Drive(evolve(scenario, policy=policy), effective_policy(policy), transition).run()
    return not any(unmet_expectations(scenario, run))


@pytest.mark.parametrize("name", PRESET_NAMES)
def test_a_file_is_about_its_preset_alone(name: str) -> None:
    scenarios = scenarios_of(name)
    assert [scenario.id for scenario in scenarios if not scenario.id.startswith(f"{name}-")] == []
    assert [scenario.id for scenario in scenarios if scenario.policy != PolicyChoice(preset=name)] == []


@pytest.mark.parametrize("name", PRESET_NAMES)
def test_each_scenario_says_which_presets_it_tells_apart(name: str) -> None:
    claims = claims_of(name)
    assert claims.keys() == {scenario.id for scenario in scenarios_of(name)}
    others = set(PRESET_NAMES) - {name}
    assert {scenario: told for scenario, told in claims.items() if not told or not others.issuperset(told)} == {}


@pytest.mark.parametrize("name", PRESET_NAMES)
def test_no_scenario_holds_under_a_preset_from_which_it_tells_its_own(name: str) -> None:
    claims = claims_of(name)
    wrong = {
        scenario.id: [other for other in claims[scenario.id] if holds(scenario, other)]
        for scenario in scenarios_of(name)
    }
    assert {scenario: others for scenario, others in wrong.items() if others} == {}


@pytest.mark.parametrize("name", PRESET_NAMES)
def test_enough_scenarios_of_a_preset_hold_under_no_other(name: str) -> None:
    others = set(PRESET_NAMES) - {name}
    alone = [scenario for scenario, told in claims_of(name).items() if others.issubset(told)]
    assert len(alone) >= AT_LEAST


@pytest.mark.parametrize("name", PRESET_NAMES)
def test_each_other_preset_is_told_apart_more_than_once(name: str) -> None:
    told = [other for others in claims_of(name).values() for other in others]
    assert {other: told.count(other) for other in PRESET_NAMES if other != name and told.count(other) < APART_BY} == {}


def test_a_scenario_holds_under_its_own_preset_and_one_that_tells_nothing_holds_under_all() -> None:
    telling = scenarios_of("amodal")[0]
    silent = evolve(telling, model=(), model_rest=None, user=(), tools={}, expect=type(telling.expect)())
    assert holds(telling, "amodal")
    assert all(holds(silent, name) for name in PRESET_NAMES)

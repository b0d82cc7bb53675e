"""Every scenario of specs/scenarios passes, none is passed over, and what the scenarios expect fails broken kernels."""

from pathlib import Path

import pytest
from loopkernel.testing.drive import Drive
from loopkernel.testing.effective_policy import effective_policy
from loopkernel.testing.judge import run_scenario, unmet_expectations
from loopkernel.testing.planted import PLANTED
from loopkernel.testing.planting import PlantedBug
from loopkernel.testing.scenario_data import Scenario
from loopkernel.testing.scenario_document import read_scenario_file
from loopkernel.testing.scenario_rules import first_unbuilt
from loopkernel.transition import transition

FOLDER = Path(__file__).resolve().parents[2] / "specs" / "scenarios"
SCENARIOS: tuple[Scenario, ...] = tuple(
    scenario for file in sorted(FOLDER.glob("*.yaml")) for scenario in read_scenario_file(file)
)

# The planted bugs that can be seen from outside, without a law: by the trace, the requests, the results or the rest.
SEEN = (
    "last-result-dropped",
    "results-reversed",
    "conflicts-ignored",
    "one-at-a-time",
    "invalid-call-passes",
    "ends-twice",
    "end-untold",
    "queue-lost-at-cancel",
    "queue-reversed",
    "abort-forgotten",
    "cancel-ends-as-error",
    "started-twice",
    "check-unasked",
    "siblings-aborted",
    "beyond-max-turns",
    "natural-end-as-limit",
    "billed-twice",
    "nudged-without-end",
    "continued-without-end",
    "first-message-cut",
    "first-run-answered",
    "repair-untold",
    "error-untold",
    "rejected-call-unanswered",
    "decided-calls-last",
    "background-end-answers-again",
    "abort-is-stop",
    "batches-as-graph",
    "read-runs-as-graph",
    "writers-overlap",
    "graph-as-batches",
    "rejected-call-starts",
    "correction-dropped",
    "silence-is-consent",
    "remembers-the-tool",
    "first-waiting-rejected",
    "siblings-spared",
    "reference-to-the-status",
    "background-goes-on",
    "question-survives-cancel",
)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=[scenario.id for scenario in SCENARIOS])
def test_the_kernel_does_what_the_scenario_says(scenario: Scenario) -> None:
    judgement = run_scenario(scenario)
    assert judgement.outcome.value == "pass", judgement.difference


def test_no_two_scenarios_have_one_id() -> None:
    ids = [scenario.id for scenario in SCENARIOS]
    assert sorted(set(ids)) == sorted(ids)


def test_every_scenario_names_rules_and_only_built_ones() -> None:
    assert [scenario.id for scenario in SCENARIOS if not scenario.rules] == []
    assert [scenario.id for scenario in SCENARIOS if first_unbuilt(scenario.rules) is not None] == []


def fails(scenario: Scenario, bug: PlantedBug) -> bool:
    """Whether what the scenario expects, laws aside, is not met by the kernel with the bug."""
    run = Drive(scenario, effective_policy(scenario.policy), bug.plant(transition)).run()
    return any(unmet_expectations(scenario, run))


@pytest.mark.parametrize("name", SEEN)
def test_a_broken_kernel_fails_what_a_scenario_expects(name: str) -> None:
    (bug,) = (bug for bug in PLANTED if bug.name == name)
    assert any(fails(scenario, bug) for scenario in SCENARIOS)

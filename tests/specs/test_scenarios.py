"""Every scenario of specs/scenarios passes, none is passed over, and what the scenarios expect fails broken kernels."""

import os
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from loopkernel.loop.transition import transition
from loopkernel.testing.planted.planting import PlantedBug
from loopkernel.testing.scenarios.data.scenario import Scenario
from loopkernel.testing.scenarios.judge import run_scenario, unmet_expectations
from loopkernel.testing.scenarios.player.drive import Drive
from loopkernel.testing.scenarios.player.effective_policy import effective_policy

from tests.kernel.planted.bugs import PLANTED
from tests.kernel.scenario_logs import FILES, scenarios_of

# One scenario in so many has its run taken once more, for the pair laws and the replay; under another Python, each.
SHARE = 4 if os.environ.get("HYPOTHESIS_PROFILE", "quick") in ("quick", "again") else 1

# The planted bugs that can be seen from outside, without a law, and a scenario that does not hold with each of them.
SEEN = {
    "last-result-dropped": "a-profile-allows-asks-or-denies",
    "results-reversed": "a-profile-allows-asks-or-denies",
    "conflicts-ignored": "without-a-profile-the-policy-asks",
    "one-at-a-time": "a-rule-that-asks-beats-rules-that-allow",
    "invalid-call-passes": "an-invalid-correction-leaves-the-call-waiting",
    "ends-twice": "a-profile-allows-asks-or-denies",
    "end-untold": "a-profile-allows-asks-or-denies",
    "queue-lost-at-cancel": "nothing-starts-after-a-cancel",
    "queue-reversed": "a-full-queue-refuses-an-enqueue-too",
    "abort-forgotten": "a-cancel-of-everything-comes-before-unreachable",
    "cancel-ends-as-error": "a-cancel-of-everything-comes-before-unreachable",
    "started-twice": "a-profile-allows-asks-or-denies",
    "check-unasked": "a-profile-allows-asks-or-denies",
    "siblings-aborted": "unreachable-calls-are-answered-at-once-at-any-remove",
    "beyond-max-turns": "the-turn-limit-counts-completed-replies",
    "natural-end-as-limit": "a-profile-allows-asks-or-denies",
    "billed-twice": "a-repeated-reply-at-rest-is-a-duplicate",
    "nudged-without-end": "a-second-empty-reply-is-stuck",
    "continued-without-end": "an-eleventh-pause-in-a-row-is-stuck",
    "first-message-cut": "cancel-while-text-and-one-call-have-streamed",
    "first-run-answered": "after-a-rejection-the-others-go-on",
    "repair-untold": "a-broken-thread-is-repaired-once",
    "error-untold": "a-required-output-that-never-comes",
    "rejected-call-unanswered": "two-calls-wait-and-are-answered-in-the-other-order",
    "decided-calls-last": "a-profile-allows-asks-or-denies",
    "background-end-answers-again": "a-run-in-the-background-holds-what-a-waiting-call-needs",
    "abort-is-stop": "two-cancels-leave-two-leases",
    "batches-as-graph": "a-lease-holds-back-a-later-batch",
    "read-runs-as-graph": "the-amodal-preset-waits-five-minutes-and-skips-the-rest",
    "writers-overlap": "a-corrected-call-frees-what-it-held-back",
    "graph-as-batches": "a-corrected-call-frees-what-it-held-back",
    "let-through-for-good": "what-is-taken-back-is-asked-about-again",
    "rejected-call-starts": "a-rule-that-allows-beats-a-profile-that-asks",
    "correction-dropped": "a-corrected-call-runs-with-the-edited-input",
    "silence-is-consent": "an-approval-that-times-out-is-a-rejection",
    "remembers-the-tool": "a-remembered-call-is-the-exact-input-whatever-the-order-of-its-keys",
    "first-waiting-rejected": "a-remembered-approval-lets-what-waits-start",
    "siblings-spared": "an-unreachable-call-is-an-error-before-siblings-are-cancelled",
    "reference-to-the-status": "a-reference-becomes-the-output-of-its-source",
    "background-goes-on": "a-cancel-of-everything-aborts-a-background-run",
    "question-survives-cancel": "the-cancel-of-one-call-that-asks",
}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_kernel_does_what_the_scenario_says(file: Path) -> None:
    unmet: dict[str, list[str]] = {}
    for scenario in scenarios_of(file):
        run = Drive(scenario, effective_policy(scenario.policy), transition).run()
        unmet[scenario.id] = list(unmet_expectations(scenario, run))
    assert {name: found for name, found in unmet.items() if found} == {}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_law_holds_in_the_scenario(file: Path) -> None:
    for scenario in scenarios_of(file):
        judgement = run_scenario(scenario, again=zlib.crc32(scenario.id.encode()) % SHARE == 0)
        assert judgement.outcome.value == "pass", f"{scenario.id}: {judgement.difference}"


def every_scenario() -> Iterator[Scenario]:
    for file in FILES:
        yield from scenarios_of(file)


def test_no_two_scenarios_have_one_id() -> None:
    ids = [scenario.id for scenario in every_scenario()]
    assert sorted(set(ids)) == sorted(ids)


def test_every_scenario_names_rules() -> None:
    assert [scenario.id for scenario in every_scenario() if not scenario.rules] == []


def fails(scenario: Scenario, bug: PlantedBug) -> bool:
    """Whether what the scenario expects, laws aside, is not met by the kernel with the bug."""
    run = Drive(scenario, effective_policy(scenario.policy), bug.plant(transition)).run()
    return any(unmet_expectations(scenario, run))


@pytest.mark.parametrize("name", SEEN)
def test_a_broken_kernel_fails_what_a_scenario_expects(name: str) -> None:
    (bug,) = (bug for bug in PLANTED if bug.name == name)
    (scenario,) = (scenario for scenario in every_scenario() if scenario.id == SEEN[name])
    assert fails(scenario, bug)

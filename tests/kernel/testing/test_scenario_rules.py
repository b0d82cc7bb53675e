"""Which scenarios need a rule that is not built: by what they name."""

import pytest
from loopkernel.testing.judge import ScenarioOutcome, run_scenario
from loopkernel.testing.scenario_document import read_scenarios
from loopkernel.testing.scenario_rules import BUILT_RULES, first_unbuilt

from tests.specs.rule_documents import RuleStatus, rules


def test_the_built_rules_are_those_that_the_specification_says_are_built() -> None:
    assert {rule.id for rule in rules().values() if rule.status is not RuleStatus.NOT_BUILT} == BUILT_RULES


def test_the_first_rule_or_law_that_is_not_built_is_named() -> None:
    assert first_unbuilt(["TOOL-7", "PAIR", "ONE-END", "LINEAR"]) is None
    assert first_unbuilt(["TOOL-7", "NO-SUCH-LAW", "NO-9"]) == "NO-SUCH-LAW"


def outcome(text: str) -> tuple[ScenarioOutcome, str | None]:
    (scenario,) = read_scenarios(f"scenario: a\n{text}", "some.yaml")
    judgement = run_scenario(scenario)
    return judgement.outcome, judgement.difference


PLAIN = "model: [{text: Hello.}]\nuser: [{at: 0, say: hi}]\n"


def test_a_scenario_that_names_an_unbuilt_rule_is_not_judged() -> None:
    for expect in ("{requests: 1}", "{requests: 2}"):
        assert outcome(f"rules: [TOOL-7, NO-9]\n{PLAIN}expect: {expect}") == (ScenarioOutcome.NOT_BUILT, "needs NO-9")


def test_a_scenario_of_built_rules_passes_or_fails() -> None:
    assert outcome(f"rules: [TOOL-7]\n{PLAIN}expect: {{requests: 1}}") == (ScenarioOutcome.PASS, None)
    assert outcome(f"rules: [TOOL-7]\n{PLAIN}expect: {{requests: 2}}") == (
        ScenarioOutcome.FAIL,
        "`requests`: expected 2, saw 1",
    )


@pytest.mark.parametrize(
    "text",
    [
        "user: [{at: 0, enqueue: a}, {at: 0, discard: all}]\nmodel: [{text: a}]",
        "tools: {read: {effect: dangerous, ignores_abort: true, approval: deny}}",
        "policy: {on_busy: interrupt, loop: none, silence_ms: none}\nmodel: [{hangs: true}]\nuser: [{at: 0, say: hi}]",
        "model: [{fails: auth}]\nuser: [{at: 0, say: hi}]",
        "policy: {hooks: {stop: gated}}\nmodel: [{text: a}]\nuser: [{at: 0, say: hi}]",
        "user: [{at: 0, handoff: goal}]",
    ],
)
def test_a_failure_is_a_failure_whatever_the_scenario_uses(text: str) -> None:
    assert outcome(f"{text}\nexpect: {{requests: 77}}")[0] is ScenarioOutcome.FAIL

"""Which scenarios need a rule that is not built: by what they name, and by what they use when they fail."""

import pytest
from loopkernel.testing.judge import ScenarioOutcome, run_scenario
from loopkernel.testing.scenario_document import read_scenarios
from loopkernel.testing.scenario_rules import BUILT_RULES, first_unbuilt

from tests.specs.rule_documents import RuleStatus, rules


def test_the_built_rules_are_those_that_the_specification_says_are_built() -> None:
    assert {rule.id for rule in rules().values() if rule.status is not RuleStatus.NOT_BUILT} == BUILT_RULES


def test_the_first_rule_or_law_that_is_not_built_is_named() -> None:
    assert first_unbuilt(["TOOL-7", "PAIR", "ONE-END"]) is None
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


# What a scenario may use, beside the message and the reply of PLAIN, and the rule behind it.
USED = [
    ("user: [{at: 0, edit: {message: 1, text: no}}]", "INPUT-4"),
    ("user: [{at: 0, approve: c1}]", "ASK-3"),
    ("user: [{at: 0, fork: {}}]", "RESUME-6"),
    ("user: [{at: 0, crash: {}}]", "RESUME-3"),
    ("user: [{at: 0, handoff: goal}]", "HANDOFF-1"),
    ("start: [{role: user, text: hi}]", "RESUME-5"),
    ("children: {c1: {model: []}}", "CHILD-1"),
    ("policy: {hooks: {stop: gated}}", "HOOK-1"),
    ("policy: {schedule: all}\nmodel: [{calls: [{id: c1, tool: a}, {id: c2, tool: a}]}]", "TOOL-3"),
    ("policy: {max_total_tokens: 5}", "LIMIT-2"),
    ("policy: {output_tool: answer}", "CALL-5"),
    ("tools: {read: {approval: ask}}", "ASK-1"),
    ("tools: {read: {asks: {question: which}}}", "TOOL-19"),
    ("tools: {read: {background: true}}", "TOOL-20"),
    ("tools: {read: {takes_ms: 120000}}", "TOOL-10"),
    ("model: [{fails: overloaded}]\nuser: [{at: 0, say: hi}]", "RETRY-1"),
    ("model: [{hangs: true}]\nuser: [{at: 0, say: hi}]", "INFER-11"),
    ("model: [{text: a, stop: max_tokens}]\nuser: [{at: 0, say: hi}]", "INFER-7"),
    ("model: [{calls: [{id: c1, tool: a, input: {x: {$result: c0}}}]}]", "CALL-1"),
]


@pytest.mark.parametrize(("text", "rule"), [(text, rule) for text, rule in USED if rule not in BUILT_RULES])
def test_a_failure_beside_an_unbuilt_feature_needs_its_rule(text: str, rule: str) -> None:
    assert outcome(f"{text}\nexpect: {{requests: 77}}") == (ScenarioOutcome.NOT_BUILT, f"needs {rule}")


@pytest.mark.parametrize(
    "text",
    [
        "user: [{at: 0, enqueue: a}, {at: 0, discard: all}]\nmodel: [{text: a}]",
        "tools: {read: {effect: dangerous, ignores_abort: true, approval: deny}}",
        "policy: {on_busy: interrupt, loop: none, silence_ms: none}\nmodel: [{hangs: true}]\nuser: [{at: 0, say: hi}]",
        "model: [{fails: auth}]\nuser: [{at: 0, say: hi}]",
    ],
)
def test_a_failure_beside_built_features_is_a_failure(text: str) -> None:
    assert outcome(f"{text}\nexpect: {{requests: 77}}")[0] is ScenarioOutcome.FAIL

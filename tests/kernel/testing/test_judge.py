"""What becomes of a scenario: it passes or fails, whatever rules it names and whatever it uses."""

import pytest
from loopkernel.testing.scenarios.format.document import read_scenarios
from loopkernel.testing.scenarios.judge import ScenarioOutcome, run_scenario


def outcome(text: str) -> tuple[ScenarioOutcome, str | None]:
    (scenario,) = read_scenarios(f"scenario: a\n{text}", "some.yaml")
    judgement = run_scenario(scenario)
    return judgement.outcome, judgement.difference


PLAIN = "model: [{text: Hello.}]\nuser: [{at: 0, say: hi}]\n"


@pytest.mark.parametrize("named", ["[TOOL-7]", "[PAIR, LINEAR]", "[]", "[NO-9, presets, 11]", "[the table of Amp]"])
def test_a_scenario_is_judged_whatever_rules_it_names(named: str) -> None:
    assert outcome(f"rules: {named}\n{PLAIN}expect: {{requests: 1}}") == (ScenarioOutcome.PASS, None)
    assert outcome(f"rules: {named}\n{PLAIN}expect: {{requests: 2}}") == (
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

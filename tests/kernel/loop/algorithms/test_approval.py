"""The decision of a call: a table over mode, rules, profile and memory, and patterns against regular expressions."""

import re
from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from loopkernel.data.choices import ApprovalMode, NoProfileApproval
from loopkernel.data.json_text import Json, JsonValue
from loopkernel.data.policy import ApprovalRule, FieldPattern, Policy
from loopkernel.data.remembered import Remembered, RememberedCall, RememberedPattern, RememberedTool
from loopkernel.data.tools import Decision, EffectClass, Tool, ToolProfile
from loopkernel.loop.algorithms.approval import CheckedCall, decide, same_input
from loopkernel.loop.algorithms.patterns import glob_matches

from tests.kernel.building import NOTHING

ALLOW, ASK, DENY = Decision.ALLOW, Decision.ASK, Decision.DENY
profiles = st.none() | st.builds(ToolProfile, effect=st.sampled_from(EffectClass), approval=st.sampled_from(Decision))
rules = st.lists(st.builds(ApprovalRule, decision=st.sampled_from(Decision), tool=st.sampled_from(("*", "other"))))


def by_the_table(
    mode: ApprovalMode,
    matching: list[Decision],
    remembered: bool,
    profile: ToolProfile | None,
    bare: NoProfileApproval,
) -> Iterator[Decision]:
    """The lines of the table that apply, in their order; the first decides."""
    if DENY in matching or (profile and profile.approval is DENY):
        yield DENY
    if mode is ApprovalMode.PLAN and (profile is None or profile.effect is not EffectClass.READ_ONLY):
        yield DENY
    if remembered:
        yield ALLOW
    if matching:
        yield ASK if ASK in matching else ALLOW
    yield profile.approval if profile else Decision(bare.value)


MADE_OF_ASK = {
    ApprovalMode.DEFAULT: ASK,
    ApprovalMode.PLAN: ASK,
    ApprovalMode.BYPASS: ALLOW,
    ApprovalMode.HEADLESS: DENY,
}


@pytest.mark.rule("ASK-1")
@given(st.sampled_from(ApprovalMode), rules, st.booleans(), profiles, st.sampled_from(NoProfileApproval))
def test_the_first_line_that_applies_decides_and_then_the_mode(
    mode: ApprovalMode,
    approval_rules: list[ApprovalRule],
    remembered: bool,
    profile: ToolProfile | None,
    bare: NoProfileApproval,
) -> None:
    policy = Policy(approval_mode=mode, approval_rules=tuple(approval_rules), no_profile_approval=bare)
    memory = [RememberedTool("read" if remembered else "other")]
    matching = [rule.decision for rule in approval_rules if rule.tool == "*"]
    expected = next(by_the_table(mode, matching, remembered, profile, bare))
    if expected is ASK and mode is ApprovalMode.ACCEPT_EDITS:
        expected = ALLOW if profile and profile.effect is EffectClass.IDEMPOTENT else ASK
    elif expected is ASK:
        expected = MADE_OF_ASK[mode]
    assert decide(policy, memory, Tool(name="read", profile=profile), NOTHING) is expected


@pytest.mark.rule("ASK-1")
@pytest.mark.parametrize("mode", ApprovalMode)
@pytest.mark.parametrize("effect", EffectClass)
def test_what_each_mode_makes_of_an_ask(mode: ApprovalMode, effect: EffectClass) -> None:
    tool = Tool(name="read", profile=ToolProfile(effect=effect, approval=ASK))
    expected = {
        ApprovalMode.DEFAULT: ASK,
        ApprovalMode.PLAN: ASK if effect is EffectClass.READ_ONLY else DENY,
        ApprovalMode.ACCEPT_EDITS: ALLOW if effect is EffectClass.IDEMPOTENT else ASK,
        ApprovalMode.BYPASS: ALLOW,
        ApprovalMode.HEADLESS: DENY,
    }
    assert decide(Policy(approval_mode=mode), (), tool, NOTHING) is expected[mode]


@pytest.mark.rule("ASK-4")
@pytest.mark.rule("ASK-1")
@given(st.sampled_from(ApprovalMode), rules, profiles, st.sampled_from(NoProfileApproval))
def test_what_a_person_has_approved_is_not_asked_about_in_any_mode_and_may_be_denied_by_rule(
    mode: ApprovalMode, approval_rules: list[ApprovalRule], profile: ToolProfile | None, bare: NoProfileApproval
) -> None:
    policy = Policy(approval_mode=mode, approval_rules=tuple(approval_rules), no_profile_approval=bare)
    matching = [rule.decision for rule in approval_rules if rule.tool == "*"]
    expected = next(by_the_table(mode, matching, False, profile, bare))
    found = decide(policy, (), Tool(name="read", profile=profile), NOTHING, approved=True)
    assert found is (DENY if expected is DENY else ALLOW)


# --- remembered approvals -------------------------------------------------------------------------------

PATH_A = Json.of({"path": "a", "mode": "w"})
inputs = st.dictionaries(st.sampled_from("abc"), st.integers(0, 1) | st.booleans() | st.lists(st.just("x")), max_size=3)


@pytest.mark.rule("ASK-3")
@given(inputs, st.randoms(use_true_random=False))
def test_the_order_of_keys_makes_no_other_input(value: dict[str, JsonValue], random: Random) -> None:
    keys = list(value)
    random.shuffle(keys)
    assert same_input(Json.of(value), Json.of({key: value[key] for key in keys}))
    assert same_input(Json.of([{"in": value}]), Json.of([{"in": {key: value[key] for key in keys}}]))


@pytest.mark.rule("ASK-3")
@pytest.mark.rule("ASK-4")
@given(inputs, inputs)
def test_any_other_difference_makes_another_input(one: dict[str, JsonValue], other: dict[str, JsonValue]) -> None:
    typed = [sorted((key, repr(part)) for key, part in value.items()) for value in (one, other)]
    assert same_input(Json.of(one), Json.of(other)) == (typed[0] == typed[1])


@pytest.mark.rule("ASK-3")
@pytest.mark.parametrize(
    ("approval", "covered"),
    [
        (RememberedCall("write", Json.of({"mode": "w", "path": "a"})), True),
        (RememberedCall("write", Json.of({"path": "a"})), False),
        (RememberedCall("writ*", PATH_A), False),
        (RememberedTool("write"), True),
        (RememberedTool("*"), False),
        (RememberedPattern("write", (FieldPattern("path", "*"), FieldPattern("mode", "w"))), True),
        (RememberedPattern("write", (FieldPattern("path", "*"), FieldPattern("mode", "r"))), False),
        (RememberedPattern("write", (FieldPattern("name", "*"),)), False),
        (RememberedPattern("write", ()), True),
        (RememberedPattern("*", ()), False),
    ],
    ids=repr,
)
def test_what_is_remembered_holds_for_exactly_what_it_names(approval: Remembered, covered: bool) -> None:
    assert not CheckedCall.of(Tool(name="read"), PATH_A, (), ()).is_covered_by(approval)
    tool = Tool(name="write", profile=ToolProfile(approval=ASK))
    assert decide(Policy(), (approval,), tool, PATH_A) is (ALLOW if covered else ASK)


# --- patterns -------------------------------------------------------------------------------------------

words = st.text("ab\n", max_size=6)
patterns = st.text("ab*\n", max_size=6)


@pytest.mark.rule("ASK-1")
@given(patterns, words)
@example("*a*", "a")
@example("*a*a", "a")
@example("a*a", "a")
def test_a_pattern_matches_as_a_regular_expression_of_the_whole_would(pattern: str, text: str) -> None:
    expression = ".*".join(map(re.escape, pattern.split("*")))
    assert glob_matches(pattern, text) == (re.fullmatch(expression, text, re.DOTALL) is not None)


@pytest.mark.rule("ASK-1")
@given(st.lists(words, min_size=1, max_size=4), st.lists(words, min_size=4, max_size=4))
def test_whatever_stands_for_a_star_matches(parts: list[str], fillings: list[str]) -> None:
    text = parts[0] + "".join(filling + part for filling, part in zip(fillings, parts[1:], strict=False))
    assert glob_matches("*".join(parts), text)


def is_about(rule: ApprovalRule, tool: str, value: JsonValue) -> bool:
    return CheckedCall.of(Tool(name=tool), Json.of(value), (), ()).meets(rule)


@pytest.mark.rule("ASK-1")
@pytest.mark.parametrize(
    ("value", "pattern", "matches"),
    [
        ("src/a", "src/*", True),
        ("src", "src/*", False),
        (12, "12", True),
        (12, "1", False),
        (True, "true", True),
        (None, "null", True),
        (["a"], '["a"]', True),
    ],
)
def test_a_field_is_matched_by_its_whole_value(value: JsonValue, pattern: str, matches: bool) -> None:
    rule = ApprovalRule(decision=DENY, input=(FieldPattern("path", pattern),))
    assert is_about(rule, "read", {"path": value}) is matches


@pytest.mark.rule("ASK-1")
def test_every_named_field_must_be_there_and_match() -> None:
    rule = ApprovalRule(decision=ASK, tool="re*", input=(FieldPattern("path", "*"), FieldPattern("mode", "w")))
    assert is_about(rule, "read", {"path": "a", "mode": "w"})
    assert not is_about(rule, "read", {"path": "a", "mode": "r"})
    assert not is_about(rule, "read", {"mode": "w"})
    assert not is_about(rule, "read", ["path", "mode"])
    assert not is_about(rule, "write", {"path": "a", "mode": "w"})

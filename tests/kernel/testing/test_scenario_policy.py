"""The policy of a scenario: each option of the table, as it may and as it may not be written."""

import enum
from collections.abc import Iterator
from types import UnionType
from typing import Any, get_args

import pytest
from attrs import fields
from loopkernel.data.policy import Policy
from loopkernel.testing.scenarios.data.scenario import PolicyChoice
from loopkernel.testing.scenarios.data.world import JsonValue
from loopkernel.testing.scenarios.format.document import read_scenarios
from loopkernel.testing.scenarios.format.nodes import ScenarioError
from loopkernel.testing.scenarios.format.policy import OPTIONS, PRESETS


def read_policy(written: str) -> PolicyChoice:
    (scenario,) = read_scenarios(f"scenario: a\npolicy: {written}", "some.yaml")
    return scenario.policy


COMPACTION = (
    "{strategy: window, window_tokens: 1_000, trigger_ratio: 0.85, trigger_tokens: none, keep_turns: 2, "
    "keep_messages: 40, keep_ratio: 0.3, when: turn_start, failures: 1, cooldown_ms: 5, shorten_results: 9}"
)


def plain_values(name: str, annotation: Any) -> Iterator[tuple[str, str, JsonValue]]:  # Any: a type or a union of types
    """Each kind of value that an option may have by its type: its words, yes and no, a number, `none`."""
    for kind in get_args(annotation) if isinstance(annotation, UnionType) else (annotation,):
        if kind is type(None):
            yield name, "none", None
        elif kind in (bool, int, float, str):
            yield from ((name, written, meant) for written, meant in PLAIN[kind].items())
        elif isinstance(kind, type) and issubclass(kind, enum.Enum):
            yield from ((name, word.value, word.value) for word in kind)


PLAIN: dict[type, dict[str, JsonValue]] = {
    bool: {"true": True, "false": False},
    int: {"7": 7, "300_000": 300_000},
    float: {"0.25": 0.25},
    str: {"finish": "finish"},
}

# Each value of each option, as it is written and as it is read: those that its type tells, and of the parts some.
VALUES: list[tuple[str, str, JsonValue]] = [
    *(value for option in fields(Policy) if option.name in OPTIONS for value in plain_values(option.name, option.type)),
    ("retry", "{unstreamed: [server]}", {"unstreamed": ["server"]}),
    ("prices", "{input: 3, output: 15.5}", {"input": 3, "output": 15.5}),
    ("on_truncation", "{escalate_to: [65536], continuations: 3, then: stop, calls: note}",
     {"escalate_to": [65536], "continuations": 3, "then": "stop", "calls": "note"}),
    ("on_truncation", "{escalate_to: [], then: natural}", {"escalate_to": [], "then": "natural"}),
    ("on_truncation", "{then: fail, calls: error}", {"then": "fail", "calls": "error"}),
    ("on_truncation", "{calls: run}", {"calls": "run"}),
    ("retry", "{base_ms: 1, factor: 1.5, cap_ms: 3, retries: 4, jitter_ms: 5, classes: [server, network]}",
     {"base_ms": 1, "factor": 1.5, "cap_ms": 3, "retries": 4, "jitter_ms": 5, "classes": ["server", "network"]}),
    ("fallback_models", "[small, smaller]", ["small", "smaller"]),
    ("loop", "{note: 3, disable: none, disable_turns: 2, stop: none, window: 24}",
     {"note": 3, "disable": None, "disable_turns": 2, "stop": None, "window": 24}),
    ("compaction", COMPACTION,
     {"strategy": "window", "window_tokens": 1000, "trigger_ratio": 0.85, "trigger_tokens": None, "keep_turns": 2,
      "keep_messages": 40, "keep_ratio": 0.3, "when": "turn_start", "failures": 1, "cooldown_ms": 5,
      "shorten_results": 9}),
    ("compaction", "{strategy: clear, when: any}", {"strategy": "clear", "when": "any"}),
    ("compaction", "{strategy: summarise}", {"strategy": "summarise"}),
    ("clear_results", "{above: 15, keep: 5, when: each_request}", {"above": 15, "keep": 5, "when": "each_request"}),
    ("clear_results", "{when: on_pressure}", {"when": "on_pressure"}),
    ("result_limit", "{chars: 9, head: 2, tail: 3}", {"chars": 9, "head": 2, "tail": 3}),
    ("result_limit", "{chars: 2_000, oversize: spill, preview: 3}", {"chars": 2000, "oversize": "spill", "preview": 3}),
    ("approval_rules", "[{decision: deny, tool: 'sh*', input: {cmd: rm *}}, {decision: ask}]",
     [{"decision": "deny", "tool": "sh*", "input": {"cmd": "rm *"}}, {"decision": "ask"}]),
    ("hooks", "{before_invocation: off, after_invocation: observed, before_model: gated, after_model: off, "
     "before_tool: [{name: lint, gated: true}, {name: watch}], after_tool: gated, message_added: observed, stop: off}",
     {"before_invocation": "off", "after_invocation": "observed", "before_model": "gated", "after_model": "off",
      "before_tool": [{"name": "lint", "gated": True}, {"name": "watch"}], "after_tool": "gated",
      "message_added": "observed", "stop": "off"}),
    ("course_correction", "{after_calls: 2, after_writes: 0}", {"after_calls": 2, "after_writes": 0}),
    ("child", "{max_turns: 3, max_output_tokens: none, timeout_ms: 9, depth: 2}",
     {"max_turns": 3, "max_output_tokens": None, "timeout_ms": 9, "depth": 2}),
    ("on_restart", "{read_only: rerun, idempotent: error, dangerous: unknown}",
     {"read_only": "rerun", "idempotent": "error", "dangerous": "unknown"}),
    ("on_restart", "{dangerous: ask, child: cancel}", {"dangerous": "ask", "child": "cancel"}),
]  # fmt: skip


@pytest.mark.parametrize(("option", "written", "meant"), VALUES)
def test_an_option_is_read(option: str, written: str, meant: JsonValue) -> None:
    assert read_policy(f"{{preset: amp, {option}: {written}}}") == PolicyChoice(preset="amp", options={option: meant})


def test_every_option_has_a_value_above_and_a_field_in_the_kernel() -> None:
    assert {option for option, _, _ in VALUES} == set(OPTIONS)
    assert set(OPTIONS) == {option.name for option in fields(Policy)} - {
        "model",
        "grace_ms",
        "seed",
    }  # which are not a scenario's to choose


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_stands_alone_or_with_options(preset: str) -> None:
    assert read_policy(preset) == PolicyChoice(preset=preset)
    assert read_policy(f"{{preset: {preset}}}") == PolicyChoice(preset=preset)


def test_options_without_a_preset_change_the_default_one() -> None:
    assert read_policy("{lifetime: task}") == PolicyChoice(preset="default", options={"lifetime": "task"})


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("written", ["[[1]]", "{no_such_key: 1}", "-1", "{? a b : 1}"])
def test_no_option_takes_any_value(option: str, written: str) -> None:
    if (option, written) in {("output_tool", "-1"), ("fallback_models", "-1")}:  # any word names a tool or model
        return
    with pytest.raises(ScenarioError) as raised:
        read_policy(f"{{{option}: {written}}}")
    assert all(fault.where.startswith(f"policy.{option}") for fault in raised.value.faults)


NESTED = {option: meant for option, _, meant in VALUES if isinstance(meant, dict)}


@pytest.mark.parametrize(("option", "key"), [(option, key) for option in NESTED for key in NESTED[option]])
def test_no_nested_key_takes_any_value(option: str, key: str) -> None:
    with pytest.raises(ScenarioError) as raised:
        read_policy(f"{{{option}: {{{key}: {{x: 1}}}}}}")
    assert all(fault.where.startswith(f"policy.{option}.{key}") for fault in raised.value.faults)


@pytest.mark.parametrize(
    ("written", "where"),
    [
        ("{approval_rules: [{tool: a}]}", "policy.approval_rules[1]"),
        ("{approval_rules: [{decision: maybe}]}", "policy.approval_rules[1].decision"),
        ("{hooks: {stop: [{gated: true}]}}", "policy.hooks.stop[1]"),
        ("{hooks: {stop: [{name: a, gated: out}]}}", "policy.hooks.stop[1].gated"),
        ("{hooks: {stop: {name: a, gate: on}}}", "policy.hooks.stop"),
        ("{retry: {classes: [max_tokens]}}", "policy.retry.classes[1]"),
        ("{on_truncation: none}", "policy.on_truncation"),
    ],
)
def test_the_fault_of_an_option_names_its_place(written: str, where: str) -> None:
    with pytest.raises(ScenarioError) as raised:
        read_policy(written)
    assert [fault.where for fault in raised.value.faults] == [where]

"""The policy of a scenario: a preset, whose parts the options replace as a whole."""

import attrs
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from loopkernel.data import choices
from loopkernel.data.errors import PolicyError
from loopkernel.data.policy import (
    ApprovalRule,
    ChildLimits,
    ClearResults,
    Compaction,
    CourseCorrection,
    FieldPattern,
    Hook,
    LoopTiers,
    OnRestart,
    Policy,
    Prices,
    ResultLimit,
    Retry,
    Truncation,
)
from loopkernel.data.tools import Decision
from loopkernel.data.words import ErrorClass, HookPoint
from loopkernel.presets import PRESET_NAMES, preset
from loopkernel.testing.scenarios.data.scenario import Scenario
from loopkernel.testing.scenarios.format.document import read_scenarios
from loopkernel.testing.scenarios.format.writer import write_scenarios
from loopkernel.testing.scenarios.player.effective_policy import choice_for, effective_policy
from loopkernel.testing.strategies.policies import OPTIONS as STRATEGIES
from loopkernel.testing.strategies.policies import policies


def of(text: str) -> Policy:
    (scenario,) = read_scenarios(f"scenario: a\npolicy: {text}", "some.yaml")
    return effective_policy(scenario.policy)


@given(st.sampled_from(PRESET_NAMES))
def test_a_preset_is_itself_but_for_tools_without_a_profile(name: str) -> None:
    allowed = attrs.evolve(preset(name), no_profile_approval=choices.NoProfileApproval.ALLOW)
    assert of(name) == of(f"{{preset: {name}}}") == allowed


# Options, and what they make of the policy.
OPTIONS: list[tuple[str, dict[str, object]]] = [
    ("lifetime: task", {"lifetime": choices.Lifetime.TASK}),
    ("max_turns: 3", {"max_turns": 3}),
    ("max_turns: none", {"max_turns": None}),
    ("max_total_tokens: 5, max_tool_calls: 0, max_wall_ms: 9",
     {"max_total_tokens": 5, "max_tool_calls": 0, "max_wall_ms": 9}),
    ("turn_limit_counts: tool_replies", {"turn_limit_counts": choices.TurnLimitCounts.TOOL_REPLIES}),
    ("max_cost_usd: 1, prices: {output: 3}", {"max_cost_usd": 1.0, "prices": Prices(output=3.0)}),
    ("schedule: serial, max_parallel: none", {"schedule": choices.Schedule.SERIAL, "max_parallel": None}),
    ("early_start: never", {"early_start": choices.EarlyStart.NEVER}),
    ("no_profile: no_conflict", {"no_profile": choices.NoProfile.NO_CONFLICT}),
    ("no_profile_approval: ask", {"no_profile_approval": choices.NoProfileApproval.ASK}),
    ("write_conflict: last_write", {"write_conflict": choices.WriteConflict.LAST_WRITE}),
    ("run_calls: either", {"run_calls": choices.RunCalls.EITHER}),
    ("on_reject: halt", {"on_reject": choices.OnReject.HALT}),
    ("on_tool_failure: cancel_siblings", {"on_tool_failure": choices.OnToolFailure.CANCEL_SIBLINGS}),
    ("on_busy: interrupt, queue_limit: 2", {"on_busy": choices.OnBusy.INTERRUPT, "queue_limit": 2}),
    ("max_output_tokens: none", {"max_output_tokens": None}),
    ("max_reply_chars: 12", {"max_reply_chars": 12}),
    ("max_reply_chars: none", {"max_reply_chars": None}),
    ("on_truncation: {escalate_to: [], then: stop}",
     {"on_truncation": Truncation(escalate_to=(), then=choices.TruncationEnd.STOP)}),
    ("on_truncation: {escalate_to: [65536], continuations: 0, calls: note}",
     {"on_truncation": Truncation(escalate_to=(65536,), continuations=0, calls=choices.TruncatedCalls.NOTE)}),
    ("retry: none, retry_after_cap_ms: 7", {"retry": None, "retry_after_cap_ms": 7}),
    ("retry: {factor: 3, classes: [server]}", {"retry": Retry(factor=3.0, classes=(ErrorClass.SERVER,))}),
    ("fallback_models: [a, b]", {"fallback_models": ("a", "b")}),
    ("errors: shown, on_error: feed_back",
     {"errors": choices.ErrorDisplay.SHOWN, "on_error": choices.OnError.FEED_BACK}),
    ("silence_ms: none, tool_timeout_ms: 1, approval_timeout_ms: 2, hook_timeout_ms: 3",
     {"silence_ms": None, "tool_timeout_ms": 1, "approval_timeout_ms": 2, "hook_timeout_ms": 3}),
    ("loop: none", {"loop": None}),
    ("loop: {note: none, stop: 4}", {"loop": LoopTiers(note=None, stop=4)}),
    ("compaction: none, clear_results: none, result_limit: none",
     {"compaction": None, "clear_results": None, "result_limit": None}),
    ("compaction: {strategy: window, trigger_ratio: 1, keep_messages: 4}",
     {"compaction": Compaction(strategy=choices.CompactionStrategy.WINDOW, trigger_ratio=1.0, keep_turns=None,
                               keep_messages=4)}),
    ("compaction: {keep_ratio: 0.5}", {"compaction": Compaction(keep_turns=None, keep_ratio=0.5)}),
    ("compaction: {strategy: window, when: turn_end, shorten_results: 9}",
     {"compaction": Compaction(strategy=choices.CompactionStrategy.WINDOW, when=choices.CompactionMoment.TURN_END,
                               shorten_results=9)}),
    ("compaction: {when: turn_start}", {"compaction": Compaction(when=choices.CompactionMoment.TURN_START)}),
    ("clear_results: {above: 3, when: each_request}",
     {"clear_results": ClearResults(above=3, when=choices.ClearMoment.EACH_REQUEST)}),
    ("result_limit: {chars: 9, head: 4, tail: 5}", {"result_limit": ResultLimit(chars=9, head=4, tail=5)}),
    ("result_limit: {oversize: spill, preview: 7}",
     {"result_limit": ResultLimit(oversize=choices.Oversize.SPILL, preview=7)}),
    ("approval_mode: plan", {"approval_mode": choices.ApprovalMode.PLAN}),
    ("approval_rules: [{decision: deny, tool: rm, input: {path: '/*'}}, {decision: ask}]",
     {"approval_rules": (ApprovalRule(decision=Decision.DENY, tool="rm", input=(FieldPattern("path", "/*"),)),
                         ApprovalRule(decision=Decision.ASK))}),
    ("output_tool: answer, output_calls: skip, output_required: true",
     {"output_tool": "answer", "output_calls": choices.OutputCalls.SKIP, "output_required": True}),
    ("output_demand: until_given, redacts: last_message",
     {"output_demand": choices.OutputDemand.UNTIL_GIVEN, "redacts": choices.Redacts.LAST_MESSAGE}),
    ("on_pause: end", {"on_pause": choices.OnPause.END}),
    ("on_broken_stream: keep, retry: {unstreamed: [server]}",
     {"on_broken_stream": choices.OnBrokenStream.KEEP, "retry": Retry(unstreamed=(ErrorClass.SERVER,))}),
    ("missing_call_retries: 2, refusal_notes: 1, nudges_count: round",
     {"missing_call_retries": 2, "refusal_notes": 1, "nudges_count": choices.NudgesCount.ROUND}),
    ("empty_reply_nudges: 0, still_empty: natural",
     {"empty_reply_nudges": 0, "still_empty": choices.StillEmpty.NATURAL}),
    ("hooks: {before_tool: gated, stop: observed, after_tool: off, after_model: [{name: a, gated: true}, {name: b}]}",
     {"hooks": (Hook(point=HookPoint.AFTER_MODEL, name="a", gated=True),
                Hook(point=HookPoint.AFTER_MODEL, name="b"),
                Hook(point=HookPoint.BEFORE_TOOL, name="before_tool", gated=True),
                Hook(point=HookPoint.STOP, name="stop"))}),
    ("hook_failure: closed, stop_hook_limit: 2", {"hook_failure": choices.HookFailure.CLOSED, "stop_hook_limit": 2}),
    ("course_correction: {after_calls: 2}", {"course_correction": CourseCorrection(after_calls=2)}),
    ("course_correction: none", {"course_correction": None}),
    ("child: {max_turns: none, depth: 2}", {"child": ChildLimits(max_turns=None, depth=2)}),
    ("on_restart: {read_only: error, child: cancel}",
     {"on_restart": OnRestart(read_only=choices.RestartSafe.ERROR, child=choices.RestartChild.CANCEL)}),
]  # fmt: skip


@pytest.mark.parametrize("name", PRESET_NAMES)
@pytest.mark.parametrize(("option", "changes"), OPTIONS)
def test_an_option_replaces_its_part_and_no_other(name: str, option: str, changes: dict[str, object]) -> None:
    wanted = attrs.evolve(of(name), **changes)  # type: ignore[arg-type]  # each value has the type of its own option
    assert of(f"{{preset: {name}, {option}}}") == wanted


# What a scenario does not choose, what is drawn with texts that no YAML has, and what is written otherwise.
LEFT_OUT = ("model", "grace_ms", "seed", "approval_rules", "output_tool", "output_required", "hooks")
WRITTEN = tuple(name for name in STRATEGIES if name not in LEFT_OUT)


@given(policies(WRITTEN, most=len(WRITTEN)))
def test_a_policy_that_is_written_as_options_is_read_back(policy: Policy) -> None:
    retried = () if policy.retry is None else (*policy.retry.classes, *policy.retry.unstreamed)
    assume(ErrorClass.MAX_TOKENS not in retried)  # which a scenario tells by its stop reason alone
    (scenario,) = read_scenarios(write_scenarios([Scenario(id="a", policy=choice_for(policy))]), "some.yaml")
    assert effective_policy(scenario.policy) == policy


def test_a_policy_that_cannot_hold_is_refused_by_its_faults() -> None:
    with pytest.raises(PolicyError, match="keep_turns"):
        of("{compaction: {keep_turns: 2, keep_ratio: 0.5}}")
    with pytest.raises(PolicyError, match="output_tool"):
        of("{output_required: true}")

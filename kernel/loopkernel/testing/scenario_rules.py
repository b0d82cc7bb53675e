"""Which rules are built, and which rules a scenario needs: those it names, and those behind what it uses.

What it uses matters only when a scenario fails that names built rules alone. So `rules_used` lists just those features
that the kernel answers otherwise than the rule says, as long as the rule is not built.
"""

from collections.abc import Iterable, Iterator

from loopkernel.data.choices import (
    EarlyStart,
    NoProfileApproval,
    OnError,
    OnToolFailure,
    RestartDangerous,
    Schedule,
    WriteConflict,
)
from loopkernel.data.json_text import Json
from loopkernel.data.policy import Policy
from loopkernel.data.tools import Decision
from loopkernel.data.words import ErrorClass, StopReason
from loopkernel.laws import LAWS
from loopkernel.testing import scenario_actions as actions
from loopkernel.testing.scenario_data import Scenario
from loopkernel.testing.scenario_world import (
    CallPiece,
    ModelCompletes,
    ModelEndsEarly,
    ModelEntry,
    ModelFails,
    ModelHangs,
    ScriptedCall,
    ToolHangs,
    ToolScript,
)

# The rules whose status in specs/rules is `built` or `built in part`; a test compares the two.
_BUILT = {
    "STATE": range(1, 10),
    "DELTA": range(1, 9),
    "INFER": (1, 2, 3, 4, 5, 6, 10, 12, 13, 14, 15),
    "TOOL": (1, 2, 3, 4, 5, 6, 7, 8, 13, 14, 15, 16, 18),
    "ASK": (1,),
    "INPUT": (1, 2, 3, 5, 6),
    "CANCEL": range(1, 6),
    "RETRY": (5,),
    "LIMIT": (1,),
    "RESUME": (1, 2, 3, 5),
}
BUILT_RULES = frozenset(f"{topic}-{number}" for topic, numbers in _BUILT.items() for number in numbers)


def first_unbuilt(rules: Iterable[str]) -> str | None:
    """The first of the rules and laws that is not built; None if all are."""
    laws = {law.id for law in LAWS if law.not_yet is None}
    return next((rule for rule in rules if rule not in BUILT_RULES and rule not in laws), None)


def rules_used(scenario: Scenario, policy: Policy, *, hung: bool) -> Iterator[str]:
    """The rules behind what the scenario uses and the kernel does not do yet, of rules built in part too.

    `hung`: the run was still waiting for the model or for a tool at its end, where a timeout might have acted.
    """
    entries = [*scenario.model, *([] if scenario.model_rest is None else [scenario.model_rest])]
    for timed in scenario.user:
        yield from _rules_of_action(timed.action)
    for entry in entries:
        yield from _rules_of_entry(entry, policy, hung)
    for tool in scenario.tools.values():
        yield from _rules_of_tool(tool, policy, hung)
    if any(entry.ending == ModelCompletes(StopReason.REFUSAL) for entry in entries) and any(
        isinstance(timed.action, actions.RetryNow) for timed in scenario.user
    ):
        yield "INFER-10"
    yield from _rules_of_calls(scenario, entries, policy)
    yield from _rules_of_policy(policy)
    if policy.on_restart.dangerous is RestartDangerous.ASK and any(
        isinstance(timed.action, actions.Crash) for timed in scenario.user
    ):
        yield "RESUME-3"
    yield from _rules_of_options(scenario)
    for used, rule in (
        (scenario.hooks, "HOOK-1"),
        (scenario.summaries, "COMPACT-2"),
        (scenario.corrections, "HOOK-3"),
        (scenario.handoffs, "HANDOFF-1"),
        (scenario.children, "CHILD-1"),
    ):
        if used:
            yield rule


_RULE_OF_ACTION: dict[type[actions.UserAction], str] = {
    actions.Edit: "INPUT-4",
    actions.Approve: "ASK-3",
    actions.Reject: "ASK-3",
    actions.Correct: "ASK-3",
    actions.Swap: "ASK-3",
    actions.Answer: "TOOL-19",
    actions.AfterCrash: "RESUME-3",
    actions.CompactNow: "COMPACT-1",
    actions.StartHandoff: "HANDOFF-1",
    actions.Fork: "RESUME-6",
}


def _rules_of_action(action: actions.UserAction) -> Iterator[str]:
    rule = _RULE_OF_ACTION.get(type(action))
    if rule is not None:
        yield rule


def _rules_of_entry(entry: ModelEntry, policy: Policy, hung: bool) -> Iterator[str]:
    """What a reply needs that is more than text, calls and a plain stop."""
    match entry.ending:
        case ModelFails(ErrorClass.PROMPT_TOO_LONG):
            yield "INFER-8"
        case ModelFails(error):
            if policy.retry is not None and error in policy.retry.classes:
                yield "RETRY-1"
            if policy.on_error is not OnError.REST:
                yield "RETRY-7"
        case ModelEndsEarly():
            yield "INFER-11"
        case ModelHangs():
            if hung and policy.silence_ms is not None:
                yield "INFER-11"
        case ModelCompletes(StopReason.MAX_TOKENS):
            yield "INFER-7"
        case ModelCompletes():
            pass


def _rules_of_tool(tool: ToolScript, policy: Policy, hung: bool) -> Iterator[str]:
    limit = policy.tool_timeout_ms
    if tool.profile is not None:
        if tool.profile.approval is Decision.ASK:
            yield "ASK-1"
        if tool.profile.child:
            yield "CHILD-1"
        if tool.profile.timeout_ms is not None:
            limit = tool.profile.timeout_ms
    for behaviour in (tool.behaviour, *tool.runs, *tool.calls.values()):
        endless = hung and isinstance(behaviour.outcome, ToolHangs)
        for used, rule in (
            (behaviour.asks is not None, "TOOL-19"),
            (behaviour.background, "TOOL-20"),
            (limit is not None and (endless or behaviour.takes_ms >= limit), "TOOL-10"),
        ):
            if used:
                yield rule


def _rules_of_calls(scenario: Scenario, entries: Iterable[ModelEntry], policy: Policy) -> Iterator[str]:
    """What calls need that depend on each other, conflict, or repeat."""
    made: list[str] = []
    for entry in entries:
        made += [call.tool for call in entry.calls]
        if any(map(_depends, entry.calls)):
            yield "CALL-1"
        if len(entry.calls) > 1 and policy.schedule not in (Schedule.SERIAL, Schedule.GRAPH):
            yield "TOOL-3"
        if len(entry.calls) > 1 and policy.write_conflict is WriteConflict.LAST_WRITE:
            yield "CALL-6"
    bare = any(tool.profile is None for tool in scenario.tools.values())
    if bare and policy.no_profile_approval is NoProfileApproval.ASK:
        yield "ASK-1"
    early = any(tool.profile is not None and tool.profile.early for tool in scenario.tools.values())
    streamed = any(isinstance(piece, CallPiece) for entry in entries for piece in entry.pieces)
    if early and streamed and policy.early_start is EarlyStart.GATED:
        yield "TOOL-9"
    correction = policy.course_correction
    if correction is not None and len(made) >= correction.after_calls:
        yield "HOOK-3"
    if policy.loop is not None and any(made.count(tool) >= (policy.loop.note or 3) for tool in set(made)):
        yield "LIMIT-3"


def _depends(call: ScriptedCall) -> bool:
    return bool(call.after) or (call.raw is None and '"$result"' in Json.of(call.input).text)


def _rules_of_policy(policy: Policy) -> Iterator[str]:
    """What the policy asks for, of a preset too, that a plain run does not."""
    for used, rule in (
        (policy.max_total_tokens is not None, "LIMIT-2"),
        (policy.max_tool_calls is not None, "LIMIT-2"),
        (policy.max_wall_ms is not None, "LIMIT-2"),
        (policy.max_cost_usd is not None, "LIMIT-2"),
        (policy.on_tool_failure is OnToolFailure.CANCEL_SIBLINGS, "TOOL-6"),
        (any(rule.decision is Decision.ASK for rule in policy.approval_rules), "ASK-1"),
        (policy.output_tool is not None, "CALL-5"),
        (policy.hooks, "HOOK-1"),
        (policy.fallback_models, "RETRY-6"),
    ):
        if used:
            yield rule


_RULE_OF_OPTION = {
    "compaction": "COMPACT-1",
    "clear_results": "TOOL-11",
    "result_limit": "TOOL-11",
}


def _rules_of_options(scenario: Scenario) -> Iterator[str]:
    """What the scenario itself says about its policy, beyond its preset."""
    for option, rule in _RULE_OF_OPTION.items():
        if scenario.policy.options.get(option) is not None:
            yield rule

"""Which rules are built, and which rules a scenario needs: those it names, and those behind what it uses.

What it uses matters only when a scenario fails that names built rules alone. So `rules_used` lists just those features
that the kernel answers otherwise than the rule says, as long as the rule is not built.
"""

from collections.abc import Iterable, Iterator

from loopkernel.data.choices import ClearMoment, OnError
from loopkernel.data.policy import Policy
from loopkernel.data.words import ErrorClass, StopReason
from loopkernel.laws import LAWS
from loopkernel.testing import scenario_actions as actions
from loopkernel.testing.scenario_data import Scenario
from loopkernel.testing.scenario_world import (
    ModelCompletes,
    ModelEndsEarly,
    ModelEntry,
    ModelFails,
    ModelHangs,
)

# The rules whose status in specs/rules is `built` or `built in part`; a test compares the two.
_BUILT = {
    "STATE": range(1, 10),
    "DELTA": range(1, 9),
    "INFER": (1, 2, 3, 4, 5, 6, 10, 12, 13, 14, 15),
    "TOOL": range(1, 21),
    "ASK": range(1, 8),
    "CALL": range(1, 7),
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

    `hung`: the run was still waiting for the model at its end, where a timeout might have acted.
    """
    entries = [*scenario.model, *([] if scenario.model_rest is None else [scenario.model_rest])]
    for timed in scenario.user:
        rule = _RULE_OF_ACTION.get(type(timed.action))
        if rule is not None:
            yield rule
    for entry in entries:
        yield from _rules_of_entry(entry, policy, hung)
    if any(tool.profile is not None and tool.profile.child for tool in scenario.tools.values()):
        yield "CHILD-1"
    if any(entry.ending == ModelCompletes(StopReason.REFUSAL) for entry in entries) and any(
        isinstance(timed.action, actions.RetryNow) for timed in scenario.user
    ):
        yield "INFER-10"
    yield from _rules_of_calls(entries, policy)
    yield from _rules_of_policy(policy)
    yield from _rules_of_options(scenario, policy)
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
    actions.CompactNow: "COMPACT-1",
    actions.StartHandoff: "HANDOFF-1",
    actions.Fork: "RESUME-6",
}


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


def _rules_of_calls(entries: Iterable[ModelEntry], policy: Policy) -> Iterator[str]:
    """What calls need that are many, or repeat."""
    made = [call.tool for entry in entries for call in entry.calls]
    correction = policy.course_correction
    if correction is not None and len(made) >= correction.after_calls:
        yield "HOOK-3"
    if policy.loop is not None and any(made.count(tool) >= (policy.loop.note or 3) for tool in set(made)):
        yield "LIMIT-3"


def _rules_of_policy(policy: Policy) -> Iterator[str]:
    """What the policy asks for, of a preset too, that a plain run does not."""
    for used, rule in (
        (policy.max_total_tokens is not None, "LIMIT-2"),
        (policy.max_tool_calls is not None, "LIMIT-2"),
        (policy.max_wall_ms is not None, "LIMIT-2"),
        (policy.max_cost_usd is not None, "LIMIT-2"),
        (policy.hooks, "HOOK-1"),
        (policy.fallback_models, "RETRY-6"),
    ):
        if used:
            yield rule


def _rules_of_options(scenario: Scenario, policy: Policy) -> Iterator[str]:
    """What the scenario itself says about its policy, beyond its preset."""
    options = scenario.policy.options
    if options.get("compaction") is not None:
        yield "COMPACT-1"
    clearing = policy.clear_results
    if options.get("clear_results") is not None and clearing is not None and clearing.when is ClearMoment.ON_PRESSURE:
        yield "INFER-8"

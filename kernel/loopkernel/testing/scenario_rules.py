"""Which rules are built, and which rules a scenario needs: those it names, and those behind what it uses.

What it uses matters only when a scenario fails that names built rules alone. So `rules_used` lists just those features
that the kernel answers otherwise than the rule says, as long as the rule is not built.
"""

from collections.abc import Iterable, Iterator

from loopkernel.data.policy import Policy
from loopkernel.data.words import ErrorClass
from loopkernel.laws import LAWS
from loopkernel.testing import scenario_actions as actions
from loopkernel.testing.scenario_data import Scenario
from loopkernel.testing.scenario_world import ModelFails

# The rules whose status in specs/rules is `built` or `built in part`; a test compares the two.
_BUILT = {
    "STATE": range(1, 10),
    "DELTA": range(1, 9),
    "INFER": range(1, 16),
    "TOOL": range(1, 21),
    "ASK": range(1, 8),
    "CALL": range(1, 7),
    "INPUT": range(1, 7),
    "CANCEL": range(1, 6),
    "RETRY": range(1, 8),
    "LIMIT": range(1, 4),
    "RESUME": range(1, 7),
}
BUILT_RULES = frozenset(f"{topic}-{number}" for topic, numbers in _BUILT.items() for number in numbers)


def first_unbuilt(rules: Iterable[str]) -> str | None:
    """The first of the rules and laws that is not built; None if all are."""
    laws = {law.id for law in LAWS if law.not_yet is None}
    return next((rule for rule in rules if rule not in BUILT_RULES and rule not in laws), None)


def rules_used(scenario: Scenario, policy: Policy) -> Iterator[str]:
    """The rules behind what the scenario uses and the kernel does not do yet, of rules built in part too."""
    entries = [*scenario.model, *([] if scenario.model_rest is None else [scenario.model_rest])]
    for timed in scenario.user:
        rule = _RULE_OF_ACTION.get(type(timed.action))
        if rule is not None:
            yield rule
    too_long = any(entry.ending == ModelFails(ErrorClass.PROMPT_TOO_LONG) for entry in entries)
    if policy.compaction is not None and (too_long or scenario.policy.options.get("compaction") is not None):
        yield "COMPACT-1"
    if any(tool.profile is not None and tool.profile.child for tool in scenario.tools.values()):
        yield "CHILD-1"
    calls = sum(len(entry.calls) for entry in entries)
    if policy.course_correction is not None and calls >= policy.course_correction.after_calls:
        yield "HOOK-3"
    if policy.hooks:
        yield "HOOK-1"
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
    actions.CompactNow: "COMPACT-1",
    actions.StartHandoff: "HANDOFF-1",
}

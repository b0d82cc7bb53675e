"""Whether a call may run (rule ASK-1), from rules, profile and mode alone."""

import json
from collections.abc import Iterable
from typing import assert_never

from loopkernel.data.choices import ApprovalMode, NoProfileApproval
from loopkernel.data.json_text import Json
from loopkernel.data.policy import ApprovalRule, FieldPattern, Policy
from loopkernel.data.remembered import Remembered, RememberedCall, RememberedPattern, RememberedTool
from loopkernel.data.tools import Decision, EffectClass, Tool, ToolProfile


def decide(
    policy: Policy,
    remembered: Iterable[Remembered],
    tool: Tool,
    call_input: Json,
    *,
    approved: bool = False,
    doubted: bool = False,
) -> Decision:
    """Allow, ask or deny a call of an offered tool; the first that applies, then the mode.

    `approved`: a person has approved exactly this call, so that nobody is asked, in any mode (rule ASK-4). `doubted`:
    the call is of a log that nobody vouches for, so that it is asked about whatever would allow it (rule RESUME-8).
    """
    profile = tool.profile
    matching = [rule.decision for rule in policy.approval_rules if applies(rule, tool.name, call_input)]
    if Decision.DENY in matching or (profile is not None and profile.approval is Decision.DENY):
        return Decision.DENY
    read_only = profile is not None and profile.effect is EffectClass.READ_ONLY
    if policy.approval_mode is ApprovalMode.PLAN and not read_only:
        return Decision.DENY
    doubted = doubted and not approved
    if not doubted and any(covers(approval, tool.name, call_input) for approval in remembered):
        return Decision.ALLOW
    decision = Decision.ASK if doubted else _before_mode(policy, matching, profile)
    if approved and decision is Decision.ASK:
        return Decision.ALLOW
    return _by_mode(policy.approval_mode, decision, profile)


def _before_mode(policy: Policy, matching: list[Decision], profile: ToolProfile | None) -> Decision:
    if Decision.ASK in matching:
        return Decision.ASK
    if Decision.ALLOW in matching:
        return Decision.ALLOW
    if profile is not None:
        return profile.approval
    return Decision.ASK if policy.no_profile_approval is NoProfileApproval.ASK else Decision.ALLOW


def _by_mode(mode: ApprovalMode, decision: Decision, profile: ToolProfile | None) -> Decision:
    """What the mode makes of a decision to ask."""
    if decision is not Decision.ASK:
        return decision
    match mode:
        case ApprovalMode.DEFAULT | ApprovalMode.PLAN:
            return Decision.ASK
        case ApprovalMode.ACCEPT_EDITS:
            edit = profile is not None and profile.effect is EffectClass.IDEMPOTENT
            return Decision.ALLOW if edit else Decision.ASK
        case ApprovalMode.BYPASS:
            return Decision.ALLOW
        case ApprovalMode.HEADLESS:
            return Decision.DENY
        case _:
            assert_never(mode)


def covers(approval: Remembered, tool: str, call_input: Json) -> bool:
    """Whether a remembered approval is about this call (rule ASK-3)."""
    match approval:
        case RememberedCall():
            return approval.tool == tool and same_input(approval.input, call_input)
        case RememberedTool():
            return approval.tool == tool
        case RememberedPattern():
            return approval.tool == tool and all(_field_matches(part, call_input) for part in approval.fields)
        case _:
            assert_never(approval)


def same_input(one: Json, other: Json) -> bool:
    """Whether two inputs say the same; the order of their keys does not count."""
    return one == other or _sorted_text(one) == _sorted_text(other)


def _sorted_text(value: Json) -> str:
    return json.dumps(value.value(), sort_keys=True)


def applies(rule: ApprovalRule, tool: str, call_input: Json) -> bool:
    """Whether the rule's patterns match the tool's name and each named input field."""
    return glob_matches(rule.tool, tool) and all(_field_matches(part, call_input) for part in rule.input)


def _field_matches(part: FieldPattern, call_input: Json) -> bool:
    value = call_input.value()
    if not isinstance(value, dict) or part.field not in value:
        return False
    found = value[part.field]
    return glob_matches(part.pattern, found if isinstance(found, str) else Json.of(found).text)


def glob_matches(pattern: str, text: str) -> bool:
    """Whether the pattern matches the whole text; `*` stands for any characters. Linear in the text."""
    first, *middle = pattern.split("*")
    if not middle:
        return pattern == text
    last = middle.pop()
    if not text.startswith(first) or not text.endswith(last) or len(text) < len(first) + len(last):
        return False
    place, end = len(first), len(text) - len(last)
    for part in middle:
        found = text.find(part, place, end)
        if found < 0:
            return False
        place = found + len(part)
    return True

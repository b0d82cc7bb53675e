"""Whether a call may run (rule ASK-1), from rules, profile, mode, and what a check has found that it uses.

A rule that denies or asks holds for whatever reaches what it names; one that allows, for what surely stays within.
"""

import json
from collections.abc import Collection, Iterable
from typing import assert_never, final

from loopkernel.data.choices import ApprovalMode, NoProfileApproval
from loopkernel.data.json_text import Json
from loopkernel.data.policy import ApprovalRule, FieldPattern, Policy, ResourcePattern
from loopkernel.data.remembered import Remembered, RememberedCall, RememberedPattern, RememberedTool
from loopkernel.data.tools import (
    AccessMode,
    Claim,
    Decision,
    EffectClass,
    FieldResource,
    FixedResource,
    ResourceRule,
    Tool,
    ToolProfile,
)
from loopkernel.data.value_classes import frozen
from loopkernel.loop.algorithms.commands import command_matches
from loopkernel.loop.algorithms.patterns import glob_matches
from loopkernel.loop.algorithms.reach import canonical, lies_within, reaches

Claims = tuple[Claim, ...] | None


def decide(
    policy: Policy,
    remembered: Collection[Remembered],
    tool: Tool,
    call_input: Json,
    *,
    approved: bool = False,
    doubted: bool = False,
    claims: Claims = None,
    tools: tuple[Tool, ...] = (),
) -> Decision:
    """Allow, ask or deny a call of an offered tool; the first that applies, then the mode.

    `approved`: a person has approved exactly this call, so that nobody is asked, in any mode (rule ASK-4). `doubted`:
    the call is of a log that nobody vouches for, so that it is asked about whatever would allow it (rule RESUME-8).
    `claims` are those of the checked call, None where they are not known; `tools` are all that are offered.
    """
    profile, rules = tool.profile, policy.approval_rules
    call = CheckedCall.of(tool, call_input, claims, tools) if rules or remembered else None
    matching = [rule.decision for rule in rules if call.meets(rule)] if call is not None else []
    if Decision.DENY in matching or (profile is not None and profile.approval is Decision.DENY):
        return Decision.DENY
    read_only = profile is not None and profile.effect is EffectClass.READ_ONLY
    if policy.approval_mode is ApprovalMode.PLAN and not read_only:
        return Decision.DENY
    doubted = doubted and not approved
    covering: list[Remembered] = []
    if call is not None and not doubted:
        covering = [approval for approval in remembered if call.is_covered_by(approval)]
    if call is not None and call.may_meet_a_denial(rules):
        agreed = approved or any(isinstance(approval, RememberedCall) for approval in covering)
        return Decision.ALLOW if agreed else _unseen(policy.approval_mode)
    if covering:
        return Decision.ALLOW
    decision = Decision.ASK if doubted else _before_mode(policy, matching, profile)
    if approved and decision is Decision.ASK:
        return Decision.ALLOW
    return _by_mode(policy.approval_mode, decision, None if doubted else profile)


def resource_in_the_way(
    policy: Policy, tool: Tool, call_input: Json, *, claims: Claims = None, tools: tuple[Tool, ...] = ()
) -> str | None:
    """The pattern of a rule that denies the call only since it reaches further than it has to; None for others."""
    call = CheckedCall.of(tool, call_input, claims, tools)
    denying = (rule for rule in policy.approval_rules if rule.decision is Decision.DENY and call.meets(rule))
    patterns = [call.could_be_narrower(rule) for rule in denying]
    return patterns[0] if patterns and None not in patterns else None


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


def _unseen(mode: ApprovalMode) -> Decision:
    """On a call that may reach what a rule denies: no mode lets it pass unseen."""
    return Decision.DENY if mode is ApprovalMode.HEADLESS else Decision.ASK


@final
@frozen
class CheckedCall:
    """A call of an offered tool, as rules look at it. `claims` is None where it may use what nobody knows."""

    tool: Tool
    input: Json
    claims: Claims
    tools: tuple[Tool, ...]

    @staticmethod
    def of(tool: Tool, call_input: Json, claims: Claims, tools: tuple[Tool, ...]) -> "CheckedCall":
        """Of a tool that may reach more than it claims, nothing is known."""
        return CheckedCall(tool, call_input, claims if _names_all(tool) else None, tools)

    def _is_resource(self, field: str) -> bool:
        """Whether the input field names a resource, for any of the tools."""
        return any(_has_resource(tool, field) for tool in (self.tool, *self.tools))

    # --- rules ---

    def meets(self, rule: ApprovalRule) -> bool:
        """Whether the rule surely is about this call."""
        if not glob_matches(rule.tool, self.tool.name):
            return False
        if rule.decision is Decision.ALLOW:
            return self._stays_within(rule.input) and self._uses_only(rule.resources)
        surely = rule.decision is Decision.DENY
        return all(self._touches(part, surely=surely) for part in rule.input) and self._uses(
            rule.resources, surely=surely
        )

    def may_meet_a_denial(self, rules: Iterable[ApprovalRule]) -> bool:
        """Whether a rule denies what the call may reach, for all that is known of it."""
        return self.claims is None and any(
            rule.decision is Decision.DENY
            and glob_matches(rule.tool, self.tool.name)
            and all(self._touches(part, surely=False) for part in rule.input)
            and self._uses(rule.resources, surely=False)
            for rule in rules
        )

    def _touches(self, part: FieldPattern, *, surely: bool) -> bool:
        """Whether the field matches, or the call reaches what the pattern names, if the field is about resources."""
        if field_matches(part, self.input):
            return True
        return self._is_resource(part.field) and self._reaches(part.pattern, None, surely=surely)

    def _uses(self, patterns: tuple[ResourcePattern, ...], *, surely: bool) -> bool:
        return not patterns or any(self._reaches(one.pattern, one.mode, surely=surely) for one in patterns)

    def _reaches(self, pattern: str, mode: AccessMode | None, *, surely: bool) -> bool:
        """Whether the call uses something that is named; of one whose claims are not known, nobody is sure.

        One that leaves out a field which names a resource could have named it, and is taken for one that does.
        """
        if self.claims is None:
            return not surely or self._leaves_out()
        return any(_is_used(claim, mode) and reaches(claim, pattern) for claim in self.claims)

    def _leaves_out(self) -> bool:
        value = self.input.value()
        given = value if isinstance(value, dict) else {}
        named = [rule.field for rule in _resources(self.tool) if isinstance(rule, FieldResource)]
        return _names_all(self.tool) and any(given.get(field) is None for field in named)

    def _uses_only(self, patterns: tuple[ResourcePattern, ...]) -> bool:
        """Whether the claims are known, and each lies within one of the patterns."""
        if not patterns:
            return True
        return bool(self.claims) and all(
            any(pattern.mode in (None, claim.mode) and lies_within(claim, pattern.pattern) for pattern in patterns)
            for claim in self.claims or ()
        )

    def _stays_within(self, parts: tuple[FieldPattern, ...]) -> bool:
        """Whether the fields match, and the call uses no more than those of them that are about resources say."""
        if not all(self._is_within(part) for part in parts):
            return False
        patterns = [part.pattern for part in parts if _has_resource(self.tool, part.field)]
        if not patterns or self.claims is None:
            return not patterns
        fixed = {canonical(rule.key) for rule in _resources(self.tool) if isinstance(rule, FixedResource)}
        named = [claim for claim in self.claims if canonical(claim.key) not in fixed]  # every call uses those
        return bool(named) and all(any(lies_within(claim, pattern) for pattern in patterns) for claim in named)

    def _is_within(self, part: FieldPattern) -> bool:
        profile, given = self.tool.profile, self.input.value()
        found = given.get(part.field) if isinstance(given, dict) else None
        if profile is not None and part.field in profile.commands and "*" in part.pattern:
            return isinstance(found, str) and command_matches(part.pattern, found)
        if not part.pattern or not isinstance(found, str) or not self._is_resource(part.field):
            return field_matches(part, self.input)
        path, pattern = canonical(found), canonical(part.pattern)
        return glob_matches(pattern, path) or (part.pattern.endswith("/") and path.startswith(f"{pattern}/"))

    def could_be_narrower(self, rule: ApprovalRule) -> str | None:
        """What the rule names that this call only reaches since it reaches further."""
        about = [part for part in rule.input if self._is_resource(part.field)]
        patterns = (*(part.pattern for part in about), *(one.pattern for one in rule.resources))
        if not patterns or any(field_matches(part, self.input) for part in about):
            return None
        within = (lies_within(claim, pattern) for claim in self.claims or () for pattern in patterns)
        return None if any(within) else patterns[0]

    # --- remembered approvals ---

    def is_covered_by(self, approval: Remembered) -> bool:
        """Whether a remembered approval is about this call (rule ASK-3)."""
        if approval.tool != self.tool.name:
            return False
        match approval:
            case RememberedCall():
                return same_input(approval.input, self.input)
            case RememberedTool():
                return True
            case RememberedPattern():
                return self._stays_within(approval.fields)
            case _:
                assert_never(approval)


def _is_used(claim: Claim, mode: AccessMode | None) -> bool:
    """Whether a rule that denies or asks about this mode is about the claim; what writes may read as well."""
    return mode is not AccessMode.WRITE or claim.mode is AccessMode.WRITE


def _names_all(tool: Tool) -> bool:
    """Whether calls of the tool use what they claim, and nothing else."""
    profile = tool.profile
    return profile is not None and not profile.unbounded and not profile.commands


def _resources(tool: Tool) -> tuple[ResourceRule, ...]:
    return () if tool.profile is None else tool.profile.resources


def _has_resource(tool: Tool, field: str) -> bool:
    return any(isinstance(rule, FieldResource) and rule.field == field for rule in _resources(tool))


def same_input(one: Json, other: Json) -> bool:
    """Whether two inputs say the same; the order of their keys does not count."""
    return one == other or _sorted_text(one) == _sorted_text(other)


def _sorted_text(value: Json) -> str:
    return json.dumps(value.value(), sort_keys=True)


def field_matches(part: FieldPattern, call_input: Json) -> bool:
    """Whether the input has the field, and its whole value matches: a text as it is, anything else as its JSON."""
    value = call_input.value()
    if not isinstance(value, dict) or part.field not in value:
        return False
    found = value[part.field]
    return glob_matches(part.pattern, found if isinstance(found, str) else Json.of(found).text)

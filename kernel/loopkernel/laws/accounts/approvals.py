"""Whether a call may run, slow and obvious: an account of rule ASK-1 by which the laws judge, to be checked by eye.

A rule that denies or asks is met where a call uses some of what it names, one that allows where it uses nothing else.
"""

import enum
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import final

from attrs import frozen

from loopkernel.data.choices import ApprovalMode, NoProfileApproval
from loopkernel.data.json_text import Json, JsonValue
from loopkernel.data.policy import ApprovalRule, FieldPattern, Policy
from loopkernel.data.remembered import Remembered, RememberedCall, RememberedTool
from loopkernel.data.tools import (
    AccessMode,
    Claim,
    Decision,
    EffectClass,
    FieldResource,
    FixedResource,
    Tool,
)
from loopkernel.laws.accounts.reach import is_like_command, like, spelled, uses_only, uses_some

Claims = tuple[Claim, ...] | None


def decided(
    policy: Policy,
    remembered: Sequence[Remembered],
    tool: Tool,
    given: Json,
    *,
    approved: bool = False,
    doubted: bool = False,
    claims: Claims = None,
    tools: Iterable[Tool] = (),
) -> Decision:
    """On a call of the tool with that input; `approved`: a person has let exactly this call run.

    `doubted`: nobody vouches for the log that it is of. `claims` are what its last check has found; None where that
    was not everything.
    """
    parts = given.value() if policy.approval_rules or remembered else None
    call = CallInQuestion(tool, given, claims, tuple(tools), parts if isinstance(parts, dict) else {})
    mode, profile = policy.approval_mode, tool.profile
    said, in_doubt = _said(policy.approval_rules, call)
    if profile is not None:
        said_by_profile = profile.approval
    elif policy.no_profile_approval is NoProfileApproval.ASK:
        said_by_profile = Decision.ASK
    else:
        said_by_profile = Decision.ALLOW
    effect = EffectClass.DANGEROUS if profile is None else profile.effect
    if Decision.DENY in said or said_by_profile is Decision.DENY:
        return Decision.DENY
    if mode is ApprovalMode.PLAN and effect is not EffectClass.READ_ONLY:
        return Decision.DENY
    if approved:
        return Decision.ALLOW
    covered = [] if doubted else [approval for approval in remembered if _covered(approval, call)]
    if any(isinstance(approval, RememberedCall) for approval in covered):
        return Decision.ALLOW
    if in_doubt:
        return Decision.DENY if mode is ApprovalMode.HEADLESS else Decision.ASK
    if covered:
        return Decision.ALLOW
    asks = doubted or Decision.ASK in said or (Decision.ALLOW not in said and said_by_profile is Decision.ASK)
    if not asks or mode is ApprovalMode.BYPASS:
        return Decision.ALLOW
    if mode is ApprovalMode.ACCEPT_EDITS and effect is EffectClass.IDEMPOTENT and not doubted:
        return Decision.ALLOW
    return Decision.DENY if mode is ApprovalMode.HEADLESS else Decision.ASK


def _said(rules: Iterable[ApprovalRule], call: "CallInQuestion") -> tuple[set[Decision], bool]:
    """What the rules say of the call, and whether one that denies may be about it, for all that is known."""
    said: set[Decision] = set()
    in_doubt = False
    for rule in rules:
        if not like(rule.tool, call.tool.name):
            continue
        met = call.meets(rule)
        if met is Met.YES or (met is Met.PERHAPS and rule.decision is Decision.ASK):
            said.add(rule.decision)
        in_doubt = in_doubt or (met is Met.PERHAPS and rule.decision is Decision.DENY)
    return said, in_doubt


class Met(enum.Enum):
    """Whether a rule is about a call."""

    YES = "yes"
    PERHAPS = "perhaps"
    NO = "no"


@final
@frozen
class CallInQuestion:
    """A call, what is known of what it uses, and the fields of its input."""

    tool: Tool
    given: Json
    claims: Claims
    tools: tuple[Tool, ...]
    fields: Mapping[str, JsonValue]

    def known(self) -> tuple[Claim, ...] | None:
        """All that the call uses, where nothing else can be."""
        profile = self.tool.profile
        if profile is None or profile.commands or profile.unbounded:
            return None
        return self.claims

    def meets(self, rule: ApprovalRule) -> Met:
        """How sure it is that the rule is about the call; one that allows is, or is not."""
        if rule.decision is Decision.ALLOW:
            return Met.YES if self.keeps_to(rule) else Met.NO
        found: list[Met] = []
        for part in rule.input:
            if _text_is_like(part, self.fields):
                found.append(Met.YES)
            elif any(part.field in _resource_fields(tool) for tool in (*self.tools, self.tool)):
                found.append(self._meets(part.pattern, writes=False))
            else:
                found.append(Met.NO)
        if rule.resources:
            each = [self._meets(one.pattern, writes=one.mode is AccessMode.WRITE) for one in rule.resources]
            found.append(Met.YES if Met.YES in each else Met.PERHAPS if Met.PERHAPS in each else Met.NO)
        return Met.NO if Met.NO in found else Met.PERHAPS if Met.PERHAPS in found else Met.YES

    def _meets(self, pattern: str, *, writes: bool) -> Met:
        known = self.known()
        if known is not None:
            used = [claim for claim in known if claim.mode is AccessMode.WRITE or not writes]
            return Met.YES if any(uses_some(claim, pattern) for claim in used) else Met.NO
        profile = self.tool.profile
        if profile is None or profile.commands or profile.unbounded:
            return Met.PERHAPS
        missing = [field for field in _resource_fields(self.tool) if self.fields.get(field) is None]
        return Met.YES if missing else Met.PERHAPS  # it was for the call to name what it uses

    def keeps_to(self, rule: ApprovalRule) -> bool:
        """For a rule that allows."""
        if rule.resources:
            known = self.known()
            if not known:
                return False
            for claim in known:
                fitting = [one for one in rule.resources if one.mode is None or one.mode is claim.mode]
                if not any(uses_only(claim, one.pattern) for one in fitting):
                    return False
        return self.keeps_within(rule.input)

    def keeps_within(self, parts: tuple[FieldPattern, ...]) -> bool:
        """Whether the fields are like their patterns, and the call uses nothing beyond those that name resources."""
        if not all(self._is_like(part) for part in parts):
            return False
        own = _resource_fields(self.tool)
        patterns = [part.pattern for part in parts if part.field in own]
        if not patterns:
            return True
        profile = self.tool.profile
        rules = profile.resources if profile is not None else ()
        always = [spelled(rule.key) for rule in rules if isinstance(rule, FixedResource)]
        named = [claim for claim in self.known() or () if spelled(claim.key) not in always]
        return named != [] and all(any(uses_only(claim, pattern) for pattern in patterns) for claim in named)

    def _is_like(self, part: FieldPattern) -> bool:
        found = self.fields.get(part.field)
        profile = self.tool.profile
        if profile is not None and part.field in profile.commands and "*" in part.pattern:
            return isinstance(found, str) and is_like_command(part.pattern, found)
        is_path = any(part.field in _resource_fields(tool) for tool in (*self.tools, self.tool))
        if is_path and isinstance(found, str) and part.pattern != "":
            if part.pattern[-1] == "/" and spelled(found).startswith(spelled(part.pattern) + "/"):
                return True
            return like(spelled(part.pattern), spelled(found))
        return _text_is_like(part, self.fields)


def _resource_fields(tool: Tool) -> list[str]:
    rules = tool.profile.resources if tool.profile is not None else ()
    return [rule.field for rule in rules if isinstance(rule, FieldResource)]


def _covered(approval: Remembered, call: CallInQuestion) -> bool:
    """Whether an approval that is remembered is about the call."""
    if approval.tool != call.tool.name:
        return False
    if isinstance(approval, RememberedTool):
        return True
    if isinstance(approval, RememberedCall):
        return json.dumps(approval.input.value(), sort_keys=True) == json.dumps(call.given.value(), sort_keys=True)
    return call.keeps_within(approval.fields)


def _text_is_like(part: FieldPattern, fields: Mapping[str, JsonValue]) -> bool:
    """Whether the field is there, and is like its pattern."""
    if part.field not in fields:
        return False
    found = fields[part.field]
    return like(part.pattern, found if isinstance(found, str) else Json.of(found).text)

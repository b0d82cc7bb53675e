"""Whether a call may run, slow and obvious: a second opinion on rule ASK-1, to be checked against it by eye.

No code is shared with the kernel.
"""

import enum
import json
import re
from collections.abc import Mapping

from attrs import Factory, define, evolve

from loopkernel.data.choices import ApprovalMode, NoProfileApproval
from loopkernel.data.deltas import Delta
from loopkernel.data.json_text import Json, JsonValue
from loopkernel.data.policy import ApprovalRule, FieldPattern, Policy
from loopkernel.data.remembered import Remembered, RememberedCall, RememberedPattern, RememberedTool
from loopkernel.data.thread_deltas import Created, Resumed
from loopkernel.data.tools import (
    AccessMode,
    Claim,
    Decision,
    EffectClass,
    FieldResource,
    FixedResource,
    Tool,
)
from loopkernel.data.user_deltas import (
    ChangeMode,
    ChangePolicy,
    ChangeTools,
    Forget,
    Permit,
    Remember,
    RememberCall,
    RememberTool,
    Remembrance,
)
from loopkernel.testing.slow_reach import is_like_command, spelled, uses_only, uses_some

Claims = tuple[Claim, ...] | None


@define
class SlowApprovals:
    """The settings that a decision depends on, as they were changed so far."""

    policy: Policy = Policy()
    tools: tuple[Tool, ...] = ()
    remembered: list[Remembered] = Factory(list)

    def change(self, delta: Delta) -> None:
        """The delta was accepted."""
        if isinstance(delta, Created):
            self.policy, self.tools = delta.policy, delta.tools
        elif isinstance(delta, Resumed):
            before = SlowApprovals() if delta.doubted else self
            self.policy = before.policy if delta.policy is None else delta.policy
            self.tools = before.tools if delta.tools is None else delta.tools
            if delta.doubted or delta.remembered is not None:
                self.remembered = list(delta.remembered or ())
        elif isinstance(delta, ChangePolicy):
            self.policy = delta.policy
        elif isinstance(delta, ChangeTools):
            self.tools = delta.tools
        elif isinstance(delta, ChangeMode):
            self.policy = evolve(self.policy, approval_mode=delta.mode)
        elif isinstance(delta, Permit):
            self.policy = evolve(self.policy, approval_rules=(*self.policy.approval_rules, delta.rule))
        elif isinstance(delta, Remember):
            self.remembered.append(delta.remembered)
        elif isinstance(delta, Forget) and delta.remembered is None:
            self.remembered = []
        elif isinstance(delta, Forget):
            self.remembered = [kept for kept in self.remembered if kept != delta.remembered]

    def remember(self, how: Remembrance, tool: str, given: Json) -> None:
        """A call of the tool with that input was approved, and its approval is to be remembered so."""
        if isinstance(how, RememberTool):
            self.remembered.append(RememberedTool(tool))
        elif isinstance(how, RememberCall):
            self.remembered.append(RememberedCall(tool, given))
        else:
            self.remembered.append(RememberedPattern(tool, how.fields))

    def offered(self, name: str) -> Tool | None:
        """The tool of that name, as it is offered now."""
        return next((tool for tool in self.tools if tool.name == name), None)

    def is_dangerous(self, name: str) -> bool:
        """Whether running the tool twice may do harm, for all that is known of it."""
        return self._effect(name) is EffectClass.DANGEROUS

    def decision(self, name: str, given: Json, claims: Claims, *, approved: bool = False) -> Decision:
        """On a call of the tool with that input; `approved`: a person has let exactly this call run.

        `claims` are what its last check has found; None where that was not everything.
        """
        tool = self.offered(name)
        if tool is None:
            return Decision.DENY
        call = CallInQuestion(tool, given, claims, self.tools)
        rules = [rule for rule in self.policy.approval_rules if _like(rule.tool, name)]
        allowing = [rule for rule in rules if rule.decision is Decision.ALLOW]
        strict = [rule for rule in rules if rule.decision is not Decision.ALLOW]
        said = [rule.decision for rule in allowing if call.keeps_to(rule)]
        met = {id(rule): call.meets(rule) for rule in strict}
        said += [rule.decision for rule in strict if met[id(rule)] is Met.YES]
        said += [Decision.ASK for rule in strict if rule.decision is Decision.ASK and met[id(rule)] is Met.PERHAPS]
        in_doubt = any(rule.decision is Decision.DENY and met[id(rule)] is Met.PERHAPS for rule in strict)
        if tool.profile is not None:
            said_by_profile = tool.profile.approval
        elif self.policy.no_profile_approval is NoProfileApproval.ASK:
            said_by_profile = Decision.ASK
        else:
            said_by_profile = Decision.ALLOW
        mode = self.policy.approval_mode
        if Decision.DENY in said or said_by_profile is Decision.DENY:
            return Decision.DENY
        if mode is ApprovalMode.PLAN and self._effect(name) is not EffectClass.READ_ONLY:
            return Decision.DENY
        covered = [approval for approval in self.remembered if _covered(approval, call)]
        if approved or any(isinstance(approval, RememberedCall) for approval in covered):
            return Decision.ALLOW
        if in_doubt:
            return Decision.DENY if mode is ApprovalMode.HEADLESS else Decision.ASK
        if covered:
            return Decision.ALLOW
        asks = Decision.ASK in said or (Decision.ALLOW not in said and said_by_profile is Decision.ASK)
        if not asks or mode is ApprovalMode.BYPASS:
            return Decision.ALLOW
        if mode is ApprovalMode.ACCEPT_EDITS and self._effect(name) is EffectClass.IDEMPOTENT:
            return Decision.ALLOW
        return Decision.DENY if mode is ApprovalMode.HEADLESS else Decision.ASK

    def _effect(self, name: str) -> EffectClass:
        tool = self.offered(name)
        return EffectClass.DANGEROUS if tool is None or tool.profile is None else tool.profile.effect


class Met(enum.Enum):
    """Whether a rule is about a call."""

    YES = "yes"
    PERHAPS = "perhaps"
    NO = "no"


@define
class CallInQuestion:
    """A call, and what is known of what it uses."""

    tool: Tool
    given: Json
    claims: Claims
    tools: tuple[Tool, ...]

    def fields(self) -> dict[str, JsonValue]:
        """The fields of the input."""
        value = self.given.value()
        return value if isinstance(value, dict) else {}

    def known(self) -> tuple[Claim, ...] | None:
        """All that the call uses, where nothing else can be."""
        profile = self.tool.profile
        if profile is None or profile.commands or profile.unbounded:
            return None
        return self.claims

    def meets(self, rule: ApprovalRule) -> Met:
        """For a rule that denies or asks."""
        found: list[Met] = []
        for part in rule.input:
            if _text_is_like(part, self.fields()):
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
        missing = [field for field in _resource_fields(self.tool) if self.fields().get(field) is None]
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
        found = self.fields().get(part.field)
        profile = self.tool.profile
        if profile is not None and part.field in profile.commands and "*" in part.pattern:
            return isinstance(found, str) and is_like_command(part.pattern, found)
        is_path = any(part.field in _resource_fields(tool) for tool in (*self.tools, self.tool))
        if is_path and isinstance(found, str) and part.pattern != "":
            if part.pattern[-1] == "/" and spelled(found).startswith(spelled(part.pattern) + "/"):
                return True
            return _like(spelled(part.pattern), spelled(found))
        return _text_is_like(part, self.fields())


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
    return _like(part.pattern, found if isinstance(found, str) else Json.of(found).text)


def _like(pattern: str, text: str) -> bool:
    """Whether the whole text is like the pattern, where `*` is any characters."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text, re.DOTALL) is not None

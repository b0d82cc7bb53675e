"""Whether a call may run, slow and obvious: a second opinion on rule ASK-1, to be checked against it by eye.

No code is shared with the kernel.
"""

import json
import re

from attrs import Factory, define, evolve

from loopkernel.data.choices import ApprovalMode, NoProfileApproval
from loopkernel.data.deltas import Delta
from loopkernel.data.json_text import Json
from loopkernel.data.policy import FieldPattern, Policy
from loopkernel.data.remembered import Remembered, RememberedCall, RememberedPattern, RememberedTool
from loopkernel.data.thread_deltas import Created, Resumed
from loopkernel.data.tools import Decision, EffectClass, Tool
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

    def decision(self, name: str, given: Json, *, approved: bool = False) -> Decision:
        """On a call of the tool with that input; `approved`: a person has let exactly this call run."""
        tool = self.offered(name)
        if tool is None:
            return Decision.DENY
        said = [
            rule.decision for rule in self.policy.approval_rules if _like(rule.tool, name) and _all(rule.input, given)
        ]
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
        if approved or any(_covered(approval, name, given) for approval in self.remembered):
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


def _covered(approval: Remembered, name: str, given: Json) -> bool:
    """Whether an approval that is remembered is about the call."""
    if approval.tool != name:
        return False
    if isinstance(approval, RememberedTool):
        return True
    if isinstance(approval, RememberedCall):
        return json.dumps(approval.input.value(), sort_keys=True) == json.dumps(given.value(), sort_keys=True)
    return _all(approval.fields, given)


def _all(parts: tuple[FieldPattern, ...], given: Json) -> bool:
    """Whether every field that is named is there, and is like its pattern."""
    value = given.value()
    fields = value if isinstance(value, dict) else {}
    for part in parts:
        if part.field not in fields:
            return False
        found = fields[part.field]
        if not _like(part.pattern, found if isinstance(found, str) else Json.of(found).text):
            return False
    return True


def _like(pattern: str, text: str) -> bool:
    """Whether the whole text is like the pattern, where `*` is any characters."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text, re.DOTALL) is not None

"""Whether a call may run, slow and obvious: a second opinion on rule ASK-1, to be checked against it by eye.

No code is shared with the kernel.
"""

from attrs import Factory, define, evolve

from loopkernel.data.deltas import Delta
from loopkernel.data.json_text import Json
from loopkernel.data.policy import Policy
from loopkernel.data.remembered import Remembered, RememberedCall, RememberedPattern, RememberedTool
from loopkernel.data.thread_deltas import Created, Resumed
from loopkernel.data.tools import (
    Decision,
    EffectClass,
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
from loopkernel.laws.accounts.approvals import Claims, decided


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

    def decision(
        self, name: str, given: Json, claims: Claims, *, approved: bool = False, doubted: bool = False
    ) -> Decision:
        """On a call of the tool with that input; one that is not offered cannot run."""
        tool = self.offered(name)
        if tool is None:
            return Decision.DENY
        return decided(
            self.policy,
            self.remembered,
            tool,
            given,
            claims=claims,
            tools=self.tools,
            approved=approved,
            doubted=doubted,
        )

    def _effect(self, name: str) -> EffectClass:
        tool = self.offered(name)
        return EffectClass.DANGEROUS if tool is None or tool.profile is None else tool.profile.effect

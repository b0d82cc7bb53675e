"""What runs unasked, listed for a person: the approvals that are remembered, and the rules of the policy that allow."""

from collections.abc import Sequence

from loopkernel.data.policy import ApprovalRule, Policy
from loopkernel.data.sessions import Settings
from loopkernel.data.tools import Decision

from loopkernel_adapters.cli.approval_words import approval_told, rule_told
from loopkernel_adapters.cli.screen import Screen
from loopkernel_adapters.cli.trace import in_words
from loopkernel_adapters.cli.words import counted
from loopkernel_adapters.standing_approvals import StandingApproval

NONE = "no approval is remembered, so what asks asks each time"


def allowing_rules(policy: Policy) -> tuple[ApprovalRule, ...]:
    """The rules by which calls run unasked."""
    return tuple(rule for rule in policy.approval_rules if rule.decision is Decision.ALLOW)


def standing_lines(approvals: Sequence[StandingApproval], policy: Policy) -> tuple[str, ...]:
    """Each with its number, then the rules that allow."""
    numbered = [f"{number}  {_told(each)}" for number, each in enumerate(approvals, start=1)]
    return (*numbered, *(f"by a rule of the policy: {rule_told(rule)}" for rule in allowing_rules(policy)))


def _told(approval: StandingApproval) -> str:
    told = approval_told(approval.remembered)
    return f"{told} (in the sub-agent of call {in_words(approval.within)})" if approval.within else told


def tell_allowed(settings: Settings, screen: Screen) -> None:
    """What runs unasked in a session that is gone on with; nothing where nothing does."""
    approvals, rules = tuple(dict.fromkeys(settings.remembered)), len(allowing_rules(settings.policy))
    for approval in approvals:
        screen.labelled("unasked", approval_told(approval))
    if rules:
        screen.labelled("unasked", f"what {counted(rules, 'rule')} of the policy {'allows' if rules == 1 else 'allow'}")
    if approvals or rules:
        screen.labelled("", "/approvals lists it" + (", and takes it back" if approvals else ""))

"""Whether a turn may make another request (rule LIMIT-1)."""

from loopkernel.data.choices import TurnLimitCounts
from loopkernel.data.policy import Policy


def counts_as_reply(policy: Policy, calls: bool) -> bool:
    """Whether a completed reply, with or without calls, counts towards `max_turns`."""
    return calls or policy.turn_limit_counts is TurnLimitCounts.REPLIES


def turn_limit_reached(policy: Policy, replies: int) -> bool:
    """Whether so many counted replies leave no room for another request."""
    return policy.max_turns is not None and replies >= policy.max_turns

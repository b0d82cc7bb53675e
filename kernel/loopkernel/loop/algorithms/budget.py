"""What a run may still spend: rounds, tokens, money, calls, time, and how long a reply may be (LIMIT-1, 2, 4)."""

from fractions import Fraction

from loopkernel.data.choices import TurnLimitCounts
from loopkernel.data.policy import Policy, Prices
from loopkernel.data.usage import Usage
from loopkernel.data.words import LimitName

_TOKENS_A_PRICE = 1_000_000  # prices are USD per million tokens


def counts_as_reply(policy: Policy, calls: bool) -> bool:
    """Whether a completed reply, with or without calls, counts towards `max_turns`."""
    return calls or policy.turn_limit_counts is TurnLimitCounts.REPLIES


def turn_limit_reached(policy: Policy, replies: int) -> bool:
    """Whether so many counted replies leave no room for another request."""
    return policy.max_turns is not None and replies >= policy.max_turns


def cost_usd(usage: Usage, prices: Prices) -> Fraction:
    """What the usage costs, in USD, exactly as the prices are written.

    Tokens of a cache are priced as input: no less than what they cost.
    """
    read = usage.input + usage.cache_read + usage.cache_write
    return (read * exact(prices.input) + usage.output * exact(prices.output)) / _TOKENS_A_PRICE


def exact(number: float) -> Fraction:
    """The number that its shortest decimal says: 0.1 is a tenth, not the nearest binary fraction."""
    return Fraction(repr(number))


def budget_reached(policy: Policy, usage: Usage, turn_ms: int) -> LimitName | None:
    """The first budget that is spent, by what the run has used and the milliseconds that its turn has taken."""
    if policy.max_total_tokens is not None and usage.total >= policy.max_total_tokens:
        return LimitName.TOKENS
    if policy.max_cost_usd is not None and cost_usd(usage, policy.prices) >= exact(policy.max_cost_usd):
        return LimitName.COST
    if policy.max_wall_ms is not None and turn_ms >= policy.max_wall_ms:
        return LimitName.WALL_TIME
    return None


def reply_too_long(policy: Policy, chars: int) -> bool:
    """Whether a reply that has brought so many characters has passed its limit (rule LIMIT-4)."""
    return policy.max_reply_chars is not None and chars > policy.max_reply_chars


def may_call(policy: Policy, started: int) -> bool:
    """Whether one more tool call may start, where so many have."""
    return policy.max_tool_calls is None or started < policy.max_tool_calls

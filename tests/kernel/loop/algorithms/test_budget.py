"""The limits: which replies count, what is spent, and when there is no room for more."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.choices import TurnLimitCounts
from loopkernel.data.policy import Policy, Prices
from loopkernel.data.usage import Usage
from loopkernel.data.words import LimitName
from loopkernel.loop.algorithms.budget import budget_reached, cost_usd, counts_as_reply, may_call, turn_limit_reached
from loopkernel.testing.strategies.values import usages


@pytest.mark.rule("LIMIT-1")
@pytest.mark.parametrize(
    ("counts", "calls", "counted"),
    [
        (TurnLimitCounts.REPLIES, False, True),
        (TurnLimitCounts.REPLIES, True, True),
        (TurnLimitCounts.TOOL_REPLIES, False, False),
        (TurnLimitCounts.TOOL_REPLIES, True, True),
    ],
)
def test_by_policy_only_replies_with_calls_count(counts: TurnLimitCounts, calls: bool, counted: bool) -> None:
    assert counts_as_reply(Policy(turn_limit_counts=counts), calls) is counted


@pytest.mark.rule("LIMIT-1")
@given(st.integers(1, 9), st.integers(0, 12))
def test_a_limit_leaves_room_for_so_many_replies(limit: int, replies: int) -> None:
    assert turn_limit_reached(Policy(max_turns=limit), replies) is (replies >= limit)
    assert not turn_limit_reached(Policy(max_turns=None), replies)


# --- money, tokens, time and calls --------------------------------------------------------------------------

prices = st.builds(Prices, input=st.integers(0, 50).map(float), output=st.integers(0, 50).map(float))


@pytest.mark.rule("LIMIT-2")
@given(usages, usages, prices)
def test_the_cost_adds_up_over_replies_and_prices_the_cache_as_input(one: Usage, two: Usage, given: Prices) -> None:
    whole = cost_usd(one.plus(two), given)
    assert whole == pytest.approx(cost_usd(one, given) + cost_usd(two, given))
    assert cost_usd(Usage(input=one.input + one.cache_read + one.cache_write, output=one.output), given) == cost_usd(
        one, given
    )
    assert cost_usd(Usage(input=1_000_000), given) == given.input
    assert cost_usd(Usage(output=1_000_000), given) == given.output


@pytest.mark.rule("LIMIT-2")
@given(
    usages,
    st.integers(0, 100),
    st.none() | st.integers(1, 1_000),
    st.none() | st.integers(0, 10).map(float),
    st.none() | st.integers(1, 100),
)
def test_a_budget_is_hit_when_what_is_spent_reaches_it(
    usage: Usage, turn_ms: int, tokens: int | None, cost: float | None, wall_ms: int | None
) -> None:
    policy = Policy(
        max_total_tokens=tokens, max_cost_usd=cost, max_wall_ms=wall_ms, prices=Prices(input=2_000.0, output=8_000.0)
    )
    hit = [
        name
        for name, spent, limit in (
            (LimitName.TOKENS, usage.input + usage.output + usage.cache_read + usage.cache_write, tokens),
            (LimitName.COST, cost_usd(usage, policy.prices), cost),
            (LimitName.WALL_TIME, turn_ms, wall_ms),
        )
        if limit is not None and spent >= limit
    ]
    assert budget_reached(policy, usage, turn_ms) is (hit[0] if hit else None)


@pytest.mark.rule("LIMIT-2")
@given(st.none() | st.integers(0, 5), st.integers(0, 8))
def test_a_call_may_start_as_long_as_it_does_not_pass_the_limit(most: int | None, started: int) -> None:
    assert may_call(Policy(max_tool_calls=most), started) is (most is None or started + 1 <= most)

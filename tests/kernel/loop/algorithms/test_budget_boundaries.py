"""A limit is reached by exactly what it says, and not by one less: tokens, money, time, rounds and calls."""

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.policy import Policy, Prices
from loopkernel.data.usage import Usage
from loopkernel.data.words import LimitName
from loopkernel.loop.algorithms.budget import budget_reached, may_call, turn_limit_reached

counts = st.integers(0, 1_000)
usages = st.builds(Usage, input=st.integers(1, 1_000), output=counts, cache_read=counts, cache_write=counts)


@pytest.mark.rule("LIMIT-2")
@given(usages)
def test_tokens_are_spent_with_the_last_of_them(usage: Usage) -> None:
    policy = Policy(max_total_tokens=usage.total)
    assert budget_reached(policy, usage, 0) is LimitName.TOKENS
    assert budget_reached(evolve(policy, max_total_tokens=usage.total + 1), usage, 0) is None


@pytest.mark.rule("LIMIT-2")
@given(st.integers(1, 1_000), st.integers(1, 1_000))
def test_money_is_spent_with_the_last_cent(read: int, written: int) -> None:
    policy = Policy(prices=Prices(input=10_000.0, output=10_000.0), max_cost_usd=(read + written) / 100)
    assert budget_reached(policy, Usage(input=read, output=written), 0) is LimitName.COST
    assert budget_reached(policy, Usage(input=read, output=written - 1), 0) is None


@pytest.mark.rule("LIMIT-2")
@given(st.integers(1, 10**9))
def test_time_is_over_with_its_last_millisecond(turn_ms: int) -> None:
    policy = Policy(max_wall_ms=turn_ms)
    assert budget_reached(policy, Usage(), turn_ms) is LimitName.WALL_TIME
    assert budget_reached(policy, Usage(), turn_ms - 1) is None


@pytest.mark.rule("LIMIT-1")
@given(st.integers(1, 1_000))
def test_rounds_and_calls_are_used_up_by_the_last(limit: int) -> None:
    policy = Policy(max_turns=limit, max_tool_calls=limit)
    assert (turn_limit_reached(policy, limit - 1), turn_limit_reached(policy, limit)) == (False, True)
    assert (may_call(policy, limit - 1), may_call(policy, limit)) == (True, False)

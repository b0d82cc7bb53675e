"""The turn limit: which replies count, and when there is no room for another request."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.choices import TurnLimitCounts
from loopkernel.data.policy import Policy
from loopkernel.planning.budget import counts_as_reply, turn_limit_reached


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

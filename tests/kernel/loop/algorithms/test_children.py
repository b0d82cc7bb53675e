"""What a sub-agent is given: never more than is left, in sum over all; less depth; and its task."""

from fractions import Fraction
from functools import reduce

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.children import Reservation, Taken
from loopkernel.data.choices import Lifetime
from loopkernel.data.json_text import Json
from loopkernel.data.policy import ChildLimits, CourseCorrection, Policy, Prices
from loopkernel.data.usage import Usage
from loopkernel.data.words import CancelReason, TurnEndReason
from loopkernel.loop.algorithms.budget import cost_usd
from loopkernel.loop.algorithms.children import (
    child_policy,
    child_tools,
    end_of,
    share,
    starts_child,
    task_of,
    with_share,
)

from tests.kernel.building import ALL_TOOLS, BARE, CHILD, READ

budgets = st.builds(
    Policy,
    max_total_tokens=st.none() | st.integers(1, 60),
    max_cost_usd=st.none() | st.floats(0.01, 3) | st.sampled_from((0.1, 0.3, 1.0)),
    max_tool_calls=st.none() | st.integers(1, 12),
    prices=st.just(Prices(input=100_000.0)) | st.builds(Prices, input=st.floats(0, 100_000, exclude_min=True)),
)


def exactly(number: float | None) -> Fraction:
    """The number as it is written."""
    return Fraction(repr(number or 0.0))


@pytest.mark.rule("LIMIT-2")
@pytest.mark.rule("CHILD-1")
@given(budgets, st.integers(0, 40), st.integers(0, 6), st.integers(1, 7))
def test_what_is_reserved_never_passes_what_is_left_whatever_the_number(
    policy: Policy, used: int, started: int, children: int
) -> None:
    """Each starts once the calls of those before it are counted, until nothing is left to share."""
    usage = Usage(input=used)
    taken: list[Reservation] = []
    for among in range(children, 0, -1):
        part = share(policy, usage, started + len(taken), reduce(with_share, taken, Taken()), among)
        if part is None:
            break
        taken.append(part)
        assert (part.tokens is None) is (policy.max_total_tokens is None)
        assert (part.cost_usd is None) is (policy.max_cost_usd is None)
        assert (part.tool_calls is None) is (policy.max_tool_calls is None)
        assert part.tokens is None or part.tokens >= 1
        assert part.cost_usd is None or part.cost_usd >= 0
        assert part.tool_calls is None or part.tool_calls >= 0
    if taken and policy.max_total_tokens is not None:
        assert usage.total + sum(part.tokens or 0 for part in taken) <= policy.max_total_tokens
    if taken and policy.max_cost_usd is not None:
        spent = cost_usd(usage, policy.prices) + sum(exactly(part.cost_usd) for part in taken)
        assert spent <= exactly(policy.max_cost_usd)
    if taken and policy.max_tool_calls is not None:
        made = started + len(taken)  # the calls of the sub-agents are calls too
        assert made + sum(part.tool_calls or 0 for part in taken) <= policy.max_tool_calls


@pytest.mark.rule("LIMIT-2")
@pytest.mark.parametrize(
    "policy",
    [
        Policy(max_total_tokens=10),
        Policy(max_cost_usd=1.0, prices=Prices(input=100_000.0)),
        Policy(max_tool_calls=10),
    ],
    ids=["tokens", "cost", "calls"],
)
def test_nothing_is_shared_of_a_budget_that_is_spent(policy: Policy) -> None:
    assert share(policy, Usage(input=10), 10, Taken(), 1) is None
    assert share(policy, Usage(input=9), 9, Taken(), 1) is not None
    assert share(Policy(), Usage(input=10), 10, Taken(), 1) == Reservation()


@pytest.mark.rule("LIMIT-2")
def test_what_is_left_is_shared_equally() -> None:
    policy = Policy(max_total_tokens=100, max_cost_usd=1.0, max_tool_calls=9, prices=Prices(output=1.0))
    part = share(policy, Usage(input=10), 0, Taken(), 3)
    assert part is not None
    assert part == Reservation(tokens=30, cost_usd=part.cost_usd, tool_calls=2)
    assert Fraction(1, 3) - exactly(part.cost_usd) < Fraction(1, 10**12)
    assert share(policy, Usage(input=10), 1, with_share(Taken(), part), 2) == evolve(part, tool_calls=2)


# --- what it is -------------------------------------------------------------------------------------------


@pytest.mark.rule("CHILD-1")
@pytest.mark.parametrize(("depth", "below", "offered"), [(0, 0, False), (1, 0, False), (2, 1, True)])
def test_the_depth_goes_down_and_the_last_one_may_start_no_other(depth: int, below: int, offered: bool) -> None:
    policy = child_policy(Policy(child=ChildLimits(depth=depth)), Reservation())
    tools = child_tools(policy, ALL_TOOLS)
    assert policy.child.depth == below
    assert (CHILD in tools) is offered
    assert [tool for tool in tools if not starts_child(tool)] == [tool for tool in ALL_TOOLS if not starts_child(tool)]


@pytest.mark.rule("CHILD-1")
@pytest.mark.rule("LIMIT-2")
def test_a_sub_agent_is_a_task_within_its_own_limits() -> None:
    policy = Policy(
        max_turns=99,
        max_output_tokens=99,
        max_wall_ms=99,
        max_total_tokens=99,
        output_tool="finish",
        output_required=True,
        course_correction=CourseCorrection(),
        approval_timeout_ms=7,
        prices=Prices(output=1.0),
    )
    child = child_policy(policy, Reservation(tokens=5, cost_usd=0.5, tool_calls=3))
    assert (child.lifetime, child.max_turns, child.max_output_tokens) == (Lifetime.TASK, 10, 8_000)
    assert (child.max_total_tokens, child.max_cost_usd, child.max_tool_calls, child.max_wall_ms) == (5, 0.5, 3, None)
    assert (child.output_tool, child.output_required, child.course_correction) == (None, False, None)
    assert child.approval_timeout_ms == 7
    unpriced = child_policy(evolve(policy, prices=Prices()), Reservation(tokens=5, cost_usd=0.5, tool_calls=3))
    assert (unpriced.max_total_tokens, unpriced.max_cost_usd) == (5, None)  # the prices were taken away meanwhile


@pytest.mark.rule("CHILD-1")
@pytest.mark.parametrize(
    ("given", "task"),
    [
        ({"prompt": "look", "task": "no"}, "look"),
        ({"task": "do it", "other": 1}, "do it"),
        ({"prompt": 1, "task": "do it"}, "do it"),
        ({"prompt": ""}, ""),
        ({"goal": "x"}, '{"goal":"x"}'),
        (["a"], '["a"]'),
        ("words", '"words"'),
    ],
)
def test_the_task_is_what_the_call_names_so_else_its_whole_input(given: object, task: str) -> None:
    assert task_of(Json.of(given)) == task  # type: ignore[arg-type]


@pytest.mark.rule("CHILD-2")
@pytest.mark.parametrize("reason", CancelReason)
def test_a_sub_agent_that_is_cut_short_ends_as_its_parent_was_cut(reason: CancelReason) -> None:
    named = {
        CancelReason.TIMEOUT: TurnEndReason.BUDGET_EXCEEDED,
        CancelReason.USER_INTERRUPTED: TurnEndReason.INTERRUPTED,
        CancelReason.EDITED: TurnEndReason.EDITED,
        CancelReason.DISPOSED: TurnEndReason.DISPOSED,
    }
    assert end_of(reason) is named.get(reason, TurnEndReason.USER_ABORT)


@pytest.mark.rule("CHILD-1")
def test_only_the_profile_makes_a_sub_agent_of_a_tool() -> None:
    assert starts_child(CHILD)
    assert not starts_child(READ)
    assert not starts_child(BARE)

"""Policies: what is valid builds, what is not is refused with all that is wrong."""

import math
from typing import Any

import attrs
import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.choices import Oversize
from loopkernel.data.errors import PolicyError
from loopkernel.data.policy import (
    ChildLimits,
    ClearResults,
    Compaction,
    CourseCorrection,
    Hook,
    LoopTiers,
    Policy,
    Prices,
    ResultLimit,
    Retry,
    Truncation,
)
from loopkernel.data.words import ErrorClass, HookPoint
from loopkernel.testing.strategies.policies import OPTIONS, compactions, policies, result_limits

from tests.specs.policy_bounds import BOUNDS

# The parts, and each number of each with its least value, by the path that a fault names.
PARTS: dict[str, type] = {
    "": Policy,
    "prices": Prices,
    "on_truncation": Truncation,
    "retry": Retry,
    "loop": LoopTiers,
    "compaction": Compaction,
    "clear_results": ClearResults,
    "result_limit": ResultLimit,
    "course_correction": CourseCorrection,
    "child": ChildLimits,
}
APART = ("on_truncation.escalate_to", "compaction.keep_messages", "compaction.keep_ratio")  # have tests of their own
MINIMA: dict[type, tuple[str, dict[str, int]]] = {
    kind: (
        f"{part}." if part else "",
        {
            option.name: BOUNDS[path]
            for option in attrs.fields(kind)
            if (path := f"{part}.{option.name}".lstrip(".")) in BOUNDS and path not in APART
        },
    )
    for part, kind in PARTS.items()
}


# What a part needs beside its least numbers.
BESIDE: dict[type, dict[str, Any]] = {Policy: {"prices": Prices(input=1.0)}}  # Any: as OPTIONS


def faults_of(build: type, values: dict[str, Any]) -> list[str]:  # Any: wrong values are the point
    """The paths that the refusal names."""
    with pytest.raises(PolicyError) as refused:
        build(**values)
    assert all(fault.problem for fault in refused.value.faults)
    return [fault.path for fault in refused.value.faults]


@given(policies(most=len(OPTIONS)))
def test_a_valid_policy_can_be_built_again_from_its_parts(policy: Policy) -> None:
    again = Policy(**{field.name: getattr(policy, field.name) for field in attrs.fields(Policy)})
    assert again == policy
    assert hash(again) == hash(policy)


@pytest.mark.parametrize("build", MINIMA, ids=lambda build: build.__name__)
@given(data=st.data())
def test_every_number_that_is_too_small_is_named_and_no_other(build: type, data: st.DataObject) -> None:
    prefix, minima = MINIMA[build]
    wrong = data.draw(st.lists(st.sampled_from(sorted(minima)), min_size=1, unique=True))
    numbers = {field.name: field.type in (float, float | None) for field in attrs.fields(build)}
    bad = {True: st.sampled_from((-1, math.nan, math.inf, -math.inf)), False: st.sampled_from((-1, -(10**6)))}
    values = {name: data.draw(bad[numbers[name]]) if name in wrong else least for name, least in minima.items()}
    expected = [f"{prefix}{name}" for name in minima if name in wrong]
    found = faults_of(build, {**BESIDE.get(build, {}), **values})
    # A number may have two faults, and the parts together one more.
    named = dict.fromkeys(path for path in found if path.removeprefix(prefix) in minima)
    assert list(named) == expected


@pytest.mark.rule("RETRY-1")
def test_what_may_pass_by_itself_is_tried_again() -> None:
    """Not what the request itself is wrong in, nor what a person has to see to."""
    assert set(Retry().classes) == {
        ErrorClass.OVERLOADED,
        ErrorClass.RATE_LIMITED,
        ErrorClass.SERVER,
        ErrorClass.NETWORK,
        ErrorClass.STALLED,
        ErrorClass.INVALID_OUTPUT,
    }


@pytest.mark.parametrize("build", MINIMA, ids=lambda build: build.__name__)
def test_the_least_values_are_accepted(build: type) -> None:
    minima = MINIMA[build][1]
    built = build(**BESIDE.get(build, {}), **minima)
    assert {name: getattr(built, name) for name in minima} == minima


@given(compactions(), st.data())
def test_a_compaction_keeps_by_exactly_one_measure(valid: Compaction, data: st.DataObject) -> None:
    measures: dict[str, Any] = {"keep_turns": 1, "keep_messages": 1, "keep_ratio": 0.5}  # Any: as OPTIONS
    given_one = [name for name in measures if getattr(valid, name) is not None]
    assert len(given_one) == 1
    others = data.draw(st.lists(st.sampled_from(sorted(measures.keys() - given_one)), min_size=1, unique=True))
    more = {name: measures[name] for name in others}
    none_or_more = data.draw(st.sampled_from([dict.fromkeys(given_one), more]))
    assert faults_of(Compaction, {**attrs.asdict(valid, recurse=False), **none_or_more}) == ["compaction"]


@given(result_limits())
def test_head_and_tail_fit_into_the_limit(limit: ResultLimit) -> None:
    too_small = {"chars": limit.head + limit.tail, "head": limit.head + 1, "tail": limit.tail}
    assert faults_of(ResultLimit, too_small) == ["result_limit"]


@given(result_limits())
def test_a_preview_leaves_room_for_the_words_about_its_file(limit: ResultLimit) -> None:
    wide = evolve(limit, oversize=Oversize.CUT, preview=limit.chars)
    assert faults_of(ResultLimit, {**attrs.asdict(wide, recurse=False), "oversize": Oversize.SPILL}) == ["result_limit"]


def test_ratios_are_at_most_one() -> None:
    wrong = {"trigger_ratio": 1.5, "keep_turns": None, "keep_ratio": 2.0}
    assert faults_of(Compaction, wrong) == ["compaction.trigger_ratio", "compaction.keep_ratio"]


def test_each_higher_limit_is_tested() -> None:
    assert faults_of(Truncation, {"escalate_to": (5, 0, -1)}) == [
        "on_truncation.escalate_to[1]",
        "on_truncation.escalate_to[2]",
    ]


@pytest.mark.rule("LIMIT-2")
@pytest.mark.parametrize("limit", [0.0, 0.5])
def test_a_limit_in_dollars_needs_a_price_that_is_not_nothing(limit: float) -> None:
    assert faults_of(Policy, {"max_cost_usd": limit}) == ["max_cost_usd"]
    assert faults_of(Policy, {"max_cost_usd": limit, "prices": Prices(input=0.0, output=0.0)}) == ["max_cost_usd"]
    for priced in (Prices(input=3.0), Prices(output=15.0)):
        assert Policy(max_cost_usd=limit, prices=priced, fallback_models=("small",)).max_cost_usd == limit
    assert Policy(prices=Prices(input=3.0)).max_cost_usd is None
    told = r"max_cost_usd: needs prices, .* \(prices.input, prices.output\), .* or set no limit"
    with pytest.raises(PolicyError, match=told):
        Policy(max_cost_usd=limit)


def test_a_required_output_needs_its_tool_and_all_is_told_at_once() -> None:
    wrong = {"output_required": True, "max_turns": -1, "queue_limit": -1}
    assert faults_of(Policy, wrong) == ["max_turns", "queue_limit", "output_required"]


@pytest.mark.rule("HOOK-1")
@pytest.mark.parametrize("point", HookPoint)
def test_a_hook_may_be_gated_where_its_point_allows_it(point: HookPoint) -> None:
    hooks = (Hook(point=point, name="a"), Hook(point=point, name="b", gated=True))
    if point.can_be_gated:
        assert Policy(hooks=hooks).hooks == hooks
    else:
        assert faults_of(Policy, {"hooks": hooks}) == ["hooks"]


@pytest.mark.rule("HOOK-1")
def test_where_a_message_is_added_one_can_only_observe() -> None:
    assert not HookPoint.MESSAGE_ADDED.can_be_gated


def test_the_message_tells_where_and_what_to_do() -> None:
    with pytest.raises(PolicyError) as refused:
        Policy(max_turns=-1, output_required=True)
    text = str(refused.value)
    assert "max_turns: must be a finite number of at least 0, and is -1" in text
    assert "name the tool that gives the output" in text

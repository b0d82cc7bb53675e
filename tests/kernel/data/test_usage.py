"""The algebra of usage: reports on one reply merge by maximum, replies add up (rule INFER-3)."""

import pytest
from attrs import asdict
from hypothesis import given
from loopkernel.data.usage import NO_USAGE, Usage
from loopkernel.testing.strategies.values import usages

pytestmark = pytest.mark.rule("INFER-3")


@given(usages, usages, usages)
def test_merging_is_commutative_associative_and_idempotent(one: Usage, two: Usage, three: Usage) -> None:
    assert one.most(two) == two.most(one)
    assert one.most(two).most(three) == one.most(two.most(three))
    assert one.most(one) == one
    assert one.most(NO_USAGE) == one


@given(usages, usages)
def test_merging_takes_the_larger_of_each_field(one: Usage, two: Usage) -> None:
    assert asdict(one.most(two)) == {name: max(asdict(one)[name], asdict(two)[name]) for name in asdict(one)}


@given(usages, usages, usages)
def test_adding_is_commutative_and_associative(one: Usage, two: Usage, three: Usage) -> None:
    assert one.plus(two) == two.plus(one)
    assert one.plus(two).plus(three) == one.plus(two.plus(three))
    assert one.plus(NO_USAGE) == one
    assert one.plus(two).total == one.total + two.total


@given(usages, usages)
def test_counting_what_is_beyond_gives_the_merged_report(counted: Usage, report: Usage) -> None:
    assert counted.plus(report.beyond(counted)) == counted.most(report)
    assert report.beyond(report) == NO_USAGE


@given(usages, usages)
def test_a_report_that_comes_twice_is_counted_once(counted: Usage, report: Usage) -> None:
    merged = counted.most(report)
    assert report.beyond(merged) == NO_USAGE


@pytest.mark.parametrize("name", ["input", "output", "cache_read", "cache_write"])
def test_a_count_below_zero_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        Usage(**{name: -1})

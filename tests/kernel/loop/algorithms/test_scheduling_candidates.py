"""Which calls a plan names to be looked at, and which batch they join: new ones, and none that has ended."""

from collections.abc import Callable

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.choices import Schedule
from loopkernel.data.plans import Plan
from loopkernel.loop.algorithms.scheduling import (
    Claimant,
    add,
    blockers,
    draw,
    end,
    know,
    look,
    next_candidate,
    pass_over,
    start,
    start_all,
    stop,
    wait,
)

from tests.kernel.loop.algorithms.comparing import FREE, WRITES_A, claimants


def plan_of(*calls: Claimant, schedule: Schedule = Schedule.GRAPH) -> Plan:
    """A plan of these calls."""
    plan = Plan(schedule=schedule)
    for call in calls:
        plan = add(plan, call)
    return plan


@pytest.mark.rule("TOOL-3")
@given(
    st.lists(claimants, min_size=1, max_size=6),
    st.sampled_from([Schedule.ALL, Schedule.GRAPH, Schedule.SERIAL, Schedule.READ_RUNS]),
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2), st.booleans()), max_size=8),
)
def test_what_has_ended_is_never_named_again(
    calls: list[Claimant], schedule: Schedule, steps: list[tuple[int, int, bool]]
) -> None:
    plan, ended = plan_of(*calls, schedule=schedule), set[int]()
    for place, slots, stopped in steps:
        plan, started = start_all(plan, slots)
        assert ended.isdisjoint(started)
        assert next_candidate(plan, slot_free=True) not in ended
        if place < len(calls) and place not in ended:
            plan = end(plan, place, stopped=stopped)
            ended.add(place)
    assert ended.isdisjoint(start_all(plan)[1])


def test_a_call_that_only_waits_for_a_slot_when_it_ends_is_not_started() -> None:
    plan, started = start_all(plan_of(FREE, FREE), slots=1)
    plan, may_start = look(plan, 1)
    assert (started, may_start, next_candidate(plan, slot_free=True)) == ((0,), True, 1)
    assert next_candidate(end(plan, 1), slot_free=True) is None


@pytest.mark.rule("TOOL-3")
def test_a_call_that_a_start_has_woken_is_not_woken_again_by_the_end_while_a_person_is_asked() -> None:
    plan = Plan(schedule=Schedule.READ_RUNS)
    for _ in range(2):
        plan = add(plan, FREE, reads=True)
    plan, waits = look(plan, 1)
    plan, asked = look(start(plan, 0), 1)
    assert (waits, asked) == (False, True)
    assert next_candidate(end(wait(plan, 1), 0), slot_free=True) is None


@pytest.mark.rule("TOOL-3")
@pytest.mark.parametrize(
    ("first", "found"), [(None, lambda plan: know(plan, 0, FREE)), (WRITES_A, lambda plan: pass_over(plan, 0))]
)
def test_a_call_that_what_is_found_of_another_has_woken_is_not_woken_again_by_its_end(
    first: Claimant | None, found: Callable[[Plan], Plan]
) -> None:
    plan, waits = look(add(add(Plan(schedule=Schedule.GRAPH), first), WRITES_A), 1)
    plan, asked = look(found(plan), 1)
    assert (waits, asked) == (False, True)
    assert next_candidate(end(wait(wait(plan, 0), 1), 0), slot_free=True) is None


@pytest.mark.rule("RESUME-3")
def test_a_call_that_ends_before_its_run_goes_on_holds_back_nobody() -> None:
    plan = evolve(plan_of(WRITES_A, WRITES_A), restarting=0b10)
    assert blockers(plan, 0) != 0
    assert blockers(end(plan, 1), 0) == 0


@pytest.mark.parametrize("stopped", [True, False])
def test_whoever_watched_a_call_is_woken_by_its_end_and_watches_it_no_more(stopped: bool) -> None:
    plan = start(plan_of(WRITES_A, WRITES_A), 0)
    plan, _ = look(plan, 1)
    assert (plan.watchers[0], next_candidate(plan, slot_free=True)) == (0b10, None)
    over = end(plan, 0, stopped=stopped)
    assert (over.watchers[0], next_candidate(over, slot_free=True)) == (0, 1)


def test_whoever_watched_a_held_call_is_woken_by_its_stop_and_watches_it_no_more() -> None:
    plan = end(start(plan_of(WRITES_A, WRITES_A), 0), 0, stopped=False)
    plan, may_start = look(plan, 1)
    assert (may_start, plan.watchers[0], next_candidate(plan, slot_free=True)) == (False, 0b10, None)
    over = stop(plan, 0)
    assert (over.watchers[0], next_candidate(over, slot_free=True)) == (0, 1)
    assert blockers(over, 1) == 0


@pytest.mark.parametrize("schedule", Schedule)
@pytest.mark.parametrize("claimant", [None, FREE, WRITES_A])
def test_a_new_call_is_looked_at_whether_or_not_it_is_known_what_it_uses(
    schedule: Schedule, claimant: Claimant | None
) -> None:
    assert next_candidate(add(Plan(schedule=schedule), claimant), slot_free=False) == 0


@pytest.mark.rule("TOOL-3")
@pytest.mark.parametrize(("newcomer", "batch"), [(FREE, 0), (WRITES_A, 2)])
def test_a_call_joins_a_batch_that_was_settled_before_unless_it_conflicts_with_a_member(
    newcomer: Claimant, batch: int
) -> None:
    plan = Plan(schedule=Schedule.BATCHES)
    for settled in (FREE, WRITES_A):
        plan = add(plan, settled, batch=0)
    assert draw(add(plan, newcomer), 2).batches[2] == batch


@pytest.mark.rule("TOOL-3")
def test_a_call_waits_for_what_stands_before_the_batch_that_was_settled_for_it() -> None:
    plan = add(add(Plan(schedule=Schedule.BATCHES), FREE, batch=0), FREE, batch=1)
    assert blockers(plan, 1) == 0b01
    assert blockers(end(plan, 0), 1) == 0

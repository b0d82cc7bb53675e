"""Which calls may overlap, and which may start: the plan, and its index, judged by comparing all pairs of calls."""

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DataObject
from loopkernel.data.choices import Schedule
from loopkernel.data.plans import Plan
from loopkernel.data.tools import AccessMode, Claim
from loopkernel.loop.algorithms.scheduling import (
    Claimant,
    add,
    blockers,
    clash_of,
    conflict,
    conflicting_calls,
    containers,
    end,
    first_of,
    know,
    look,
    next_candidate,
    pass_over,
    places_of,
    start,
    start_all,
    unpark,
    wait,
)

from tests.kernel.loop.algorithms.comparing import (
    FREE,
    READ,
    READS_A,
    WRITE,
    WRITES_A,
    claimants,
    clashing,
    conflicting,
    contains,
    keys,
)

# --- two calls --------------------------------------------------------------------------------------------


@pytest.mark.rule("TOOL-2")
@pytest.mark.rule("CALL-6")
@given(claimants, claimants, st.booleans())
def test_calls_conflict_when_they_share_a_resource_that_one_of_them_writes(
    one: Claimant, other: Claimant, last_write: bool
) -> None:
    expected = conflicting(one, other, last_write)
    assert conflict(one, other, last_write=last_write) == conflict(other, one, last_write=last_write) == expected


@pytest.mark.rule("TOOL-2")
@pytest.mark.parametrize(
    ("one", "other", "clash"),
    [
        ("a/b", "a", True),
        ("a", "a", True),
        ("ab", "a", False),
        ("a/b", "a/c", False),
        (".", "a", True),
        ("/", "/a", True),
        ("/", "a", False),
        (".", "/a", False),
    ],
)
@pytest.mark.parametrize("modes", [(mode, other) for mode in AccessMode for other in AccessMode])
def test_a_folder_contains_what_lies_in_it(
    one: str, other: str, clash: bool, modes: tuple[AccessMode, AccessMode]
) -> None:
    mine, theirs = Claimant((Claim(one, modes[0]),)), Claimant((Claim(other, modes[1]),))
    assert conflict(mine, theirs) == (clash and WRITE in modes)
    assert conflict(mine, theirs, last_write=True) == (clash and set(modes) == {READ, WRITE})


@pytest.mark.rule("TOOL-2")
@pytest.mark.rule("TOOL-1")
def test_a_serial_call_and_one_of_unknown_resources_conflict_with_all() -> None:
    free = Claimant(())
    assert not conflict(free, free)
    assert conflict(free, Claimant(None))
    assert conflict(free, Claimant((), serial=True), last_write=True)
    assert [call.alone for call in (free, Claimant(None), Claimant((), serial=True))] == [False, True, True]


@pytest.mark.rule("TOOL-2")
@given(keys, keys)
def test_what_contains_a_key_is_every_folder_it_lies_in(outer: str, inner: str) -> None:
    assert (outer in containers(inner)) == (outer != inner and contains(outer, inner))
    assert all(container and contains(container, inner) for container in containers(inner))


@given(st.text("/a.", max_size=6))
def test_no_key_is_too_strange_to_be_compared(key: str) -> None:
    """A tool may name a resource by any text. Equal texts are one resource."""
    assert key not in containers(key)
    assert conflict(Claimant((Claim(key, READ),)), Claimant((Claim(key, WRITE),)))


@pytest.mark.rule("TOOL-2")
@given(claimants, claimants)
def test_the_clash_is_the_first_claim_that_is_in_the_way(one: Claimant, other: Claimant) -> None:
    theirs = other.claims or ()
    found = [mine for mine in one.claims or () if any(clashing(mine, its) for its in theirs)]
    assert clash_of(one, other) == (found[0] if found else None)


# --- masks ------------------------------------------------------------------------------------------------


@given(st.frozensets(st.integers(0, 200)))
def test_a_mask_is_a_set_of_places(places: frozenset[int]) -> None:
    mask = sum(1 << place for place in places)
    assert list(places_of(mask)) == sorted(places)
    assert first_of(mask) == min(places, default=None)


# --- the index --------------------------------------------------------------------------------------------


@pytest.mark.rule("TOOL-2")
@pytest.mark.rule("CALL-6")
@given(st.lists(st.none() | claimants, max_size=7), st.booleans())
def test_the_index_finds_the_conflicts_that_a_comparison_of_all_pairs_finds(
    calls: list[Claimant | None], last_write: bool
) -> None:
    plan = Plan(schedule=Schedule.GRAPH, last_write=last_write)
    for call in calls:
        plan = add(plan, call)
    for place, call in enumerate(calls):
        if call is not None:
            known = [(other, theirs) for other, theirs in enumerate(calls) if theirs is not None and other != place]
            expected = [other for other, theirs in known if conflicting(call, theirs, last_write)]
            assert list(places_of(conflicting_calls(plan, place))) == expected


@pytest.mark.rule("TOOL-18")
@given(st.lists(claimants, max_size=5), st.data())
def test_it_makes_no_difference_when_it_becomes_known_what_a_call_uses(calls: list[Claimant], data: DataObject) -> None:
    """Nor whether it was first said to use anything, as a call does whose references are open."""
    at_once = later = Plan(schedule=Schedule.GRAPH)
    for call in calls:
        at_once, later = add(at_once, call), add(later, data.draw(st.sampled_from((None, Claimant(None)))))
    for place in data.draw(st.permutations(range(len(calls)))):
        later = know(later, place, calls[place])
    for place in range(len(calls)):
        assert conflicting_calls(later, place) == conflicting_calls(at_once, place)
        assert blockers(later, place) == blockers(at_once, place)


# --- cases ------------------------------------------------------------------------------------------------


def plan_of(schedule: Schedule, *calls: Claimant, reads: bool = False) -> Plan:
    """A plan of these calls."""
    plan = Plan(schedule=schedule)
    for call in calls:
        plan = add(plan, call, reads=reads)
    return plan


@pytest.mark.rule("TOOL-3")
def test_a_run_that_goes_on_holds_back_calls_before_it_too() -> None:
    """It matters after a correction: the call at place 0 stands where another, which conflicted with nothing, stood."""
    plan = start(plan_of(Schedule.GRAPH, READS_A, WRITES_A), 1)
    assert list(places_of(blockers(plan, 0))) == [1]
    assert blockers(end(plan, 1), 0) == 0
    assert list(places_of(blockers(end(plan, 1, stopped=False), 0))) == [1]


@pytest.mark.rule("TOOL-3")
@pytest.mark.parametrize(
    ("schedule", "waits_for"),
    [
        (Schedule.ALL, []),
        (Schedule.GRAPH, [0]),
        (Schedule.BATCHES, [0]),
        (Schedule.READ_RUNS, [0, 1]),
        (Schedule.SERIAL, [0, 1]),
    ],
)
def test_what_a_write_waits_for_behind_a_write_of_the_same_and_a_call_that_touches_nothing(
    schedule: Schedule, waits_for: list[int]
) -> None:
    assert list(places_of(blockers(plan_of(schedule, WRITES_A, FREE, WRITES_A), 2))) == waits_for


@pytest.mark.rule("TOOL-3")
def test_a_read_runs_beside_a_running_read_and_not_beside_one_that_waits() -> None:
    plan = plan_of(Schedule.READ_RUNS, FREE, FREE, reads=True)
    assert list(places_of(blockers(plan, 1))) == [0]
    assert blockers(start(plan, 0), 1) == 0
    assert list(places_of(blockers(evolve(start(plan, 0), reads=0b10), 1))) == [0]
    assert list(places_of(blockers(evolve(start(plan, 0), reads=0b01), 1))) == [0]


@pytest.mark.rule("TOOL-3")
def test_the_start_of_a_read_lets_the_next_read_follow() -> None:
    plan, first = look(plan_of(Schedule.READ_RUNS, FREE, FREE, reads=True), 0)
    plan, second = look(wait(plan, 0), 1)
    assert (first, second) == (True, False)
    assert next_candidate(plan, slot_free=True) is None
    assert next_candidate(start(plan, 0), slot_free=True) == 1


@pytest.mark.rule("CALL-5")
@pytest.mark.parametrize("schedule", Schedule)
def test_a_call_that_never_runs_holds_nothing_back_but_its_dependents(schedule: Schedule) -> None:
    plan = add(Plan(schedule=schedule), None)
    plan = add(add(plan, WRITES_A), FREE, sources=(0,))
    passed = pass_over(know(plan, 0, FREE), 0)
    assert blockers(passed, 1) == 0
    assert 0 in places_of(blockers(passed, 2))


@pytest.mark.rule("RESUME-3")
def test_what_had_started_before_a_restart_goes_before_what_never_did() -> None:
    plan = evolve(plan_of(Schedule.GRAPH, WRITES_A, WRITES_A), restarting=0b10)
    assert list(places_of(blockers(plan, 0))) == [1]
    assert blockers(plan, 1) == 0
    assert start_all(plan)[1] == (1,)


def test_unparking_wakes_nobody_where_nobody_is_parked() -> None:
    plan = plan_of(Schedule.GRAPH, FREE)
    assert unpark(plan) is plan

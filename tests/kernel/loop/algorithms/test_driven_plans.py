"""Batches and runs of reads, and plans that are driven step by step, judged by a comparison of all pairs."""

from collections.abc import Sequence
from itertools import pairwise
from typing import assert_never

import pytest
from attrs import define, evolve
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.strategies import DataObject
from loopkernel.data.choices import Schedule
from loopkernel.data.plans import Plan
from loopkernel.data.tools import Claim
from loopkernel.loop.algorithms.scheduling import (
    Claimant,
    add,
    batches,
    blockers,
    draw,
    end,
    know,
    look,
    look_again,
    next_candidate,
    park,
    pass_over,
    places_of,
    read_runs,
    start,
    start_all,
    stop,
    unpark,
    wait,
)

from tests.kernel.loop.algorithms.comparing import FREE, READ, WRITE, claimants, conflicting

# --- batches and runs of reads ----------------------------------------------------------------------------


def greedy(calls: Sequence[Claimant]) -> list[list[int]]:
    """The batches: a call joins the last one, unless it conflicts with a member of it."""
    found: list[list[int]] = []
    for place, call in enumerate(calls):
        members = found[-1] if found else []
        if not members or any(conflicting(calls[other], call) for other in members):
            found.append([place])
        else:
            members.append(place)
    return found


@pytest.mark.rule("TOOL-3")
@given(st.lists(claimants, max_size=8))
@example([Claimant((Claim("a", READ),)), Claimant((Claim("a", WRITE),)), Claimant((Claim("b", WRITE),))])
def test_batches_are_greedy_and_keep_the_order(calls: list[Claimant]) -> None:
    assert [list(batch) for batch in batches(calls)] == greedy(calls)


@pytest.mark.rule("TOOL-3")
@given(st.lists(claimants, max_size=8), st.data())
def test_a_batch_keeps_its_members_when_they_have_ended(calls: list[Claimant], data: DataObject) -> None:
    plan = Plan(schedule=Schedule.BATCHES)
    starts: list[int] = []
    for place, call in enumerate(calls):
        plan = draw(add(plan, call), place)
        starts.append(plan.batch)
        if data.draw(st.booleans()):
            plan = end(plan, place)
    assert starts == [batch[0] for batch in greedy(calls) for _ in batch]


@pytest.mark.rule("TOOL-3")
def test_a_batch_is_named_by_its_first_member_also_where_calls_before_it_are_passed_over() -> None:
    plan = add(add(add(Plan(schedule=Schedule.BATCHES), FREE, passive=True), FREE), FREE)
    assert list(draw(draw(plan, 1), 2).batches) == [-1, 1, 1]


@pytest.mark.rule("TOOL-3")
@given(st.lists(st.booleans(), max_size=8))
def test_neighbours_that_only_read_run_together_and_every_other_call_alone(reads: list[bool]) -> None:
    runs = read_runs(reads)
    assert [place for run in runs for place in run] == list(range(len(reads)))
    for run in runs:
        assert len(run) == 1 or all(reads[place] for place in run)
    for run, following in pairwise(runs):
        assert not (reads[run[-1]] and reads[following[0]])


# --- a plan that is driven, judged by a comparison of all pairs ------------------------------------------


@define
class Call:
    """A call as the model of the plan sees it, and where it stands."""

    claimant: Claimant
    reads: bool
    sources: frozenset[int]
    batch: int
    asks: bool
    elsewhere: bool
    known: bool = True
    passive: bool = False
    restarting: bool = False
    open: bool = True
    running: bool = False
    held: bool = False
    waiting: bool = False
    approved: bool = False


Start = tuple[str, int]


class Model:
    """The calls of a reply. Each question is answered by looking at all of them."""

    def __init__(self, schedule: Schedule, last_write: bool, slots: int | None) -> None:
        self.schedule, self.last_write, self.slots = schedule, last_write, slots
        self.calls: list[Call] = []
        self.busy_elsewhere = True

    def in_the_way(self, place: int) -> set[int]:
        """The calls that must end or stop before this one may start."""
        mine, calls = self.calls[place], self.calls
        found = {source for source in mine.sources if calls[source].open}
        earlier = {other for other in range(place) if calls[other].open and not calls[other].passive}
        match self.schedule:
            case Schedule.ALL:
                return found
            case Schedule.GRAPH:
                pass
            case Schedule.SERIAL:
                found |= earlier
            case Schedule.READ_RUNS:
                together = {other for other in earlier if mine.reads and calls[other].running and calls[other].reads}
                found |= earlier - together
            case Schedule.BATCHES:
                found |= {other for other in earlier if calls[other].batch < mine.batch}
            case _:
                assert_never(self.schedule)
        using = {other for other, call in enumerate(calls) if call.running or call.held}
        if not mine.restarting:  # what had started before a restart goes before what never did
            using |= earlier | {other for other, call in enumerate(calls) if call.restarting}
        return found | {other for other in using - {place} if self._conflict(mine, calls[other])}

    def _conflict(self, one: Call, other: Call) -> bool:
        unknown = not one.known or not other.known
        return unknown or conflicting(one.claimant, other.claimant, self.last_write)

    def settle(self) -> list[Start]:
        """Every call that may start is asked about, or started if a slot is free, always the first of them."""
        done: list[Start] = []
        while True:
            place = next((place for place in range(len(self.calls)) if self._acts(place)), None)
            if place is None:
                return done
            call = self.calls[place]
            if call.asks and not call.approved:
                call.waiting = True
                done.append(("asked", place))
            else:
                call.running, call.restarting = True, False
                done.append(("started", place))

    def _acts(self, place: int) -> bool:
        call = self.calls[place]
        if not call.open or call.running or call.waiting or call.passive or not call.known or self.in_the_way(place):
            return False
        if call.elsewhere and self.busy_elsewhere:
            return False
        free = self.slots is None or sum(call.running for call in self.calls) < self.slots
        return (call.asks and not call.approved) or free


def settle(plan: Plan, model: Model) -> tuple[Plan, list[Start]]:
    """What the plan lets happen: as the kernel asks it, candidate by candidate."""
    done: list[Start] = []
    running = {place for place, call in enumerate(model.calls) if call.running}
    while True:
        free = model.slots is None or len(running) < model.slots
        place = next_candidate(plan, slot_free=free)
        if place is None:
            return plan, done
        call = model.calls[place]
        if not call.known or call.passive:
            plan = wait(plan, place)
            continue
        may_start = bool(plan.allowed >> place & 1)
        if not may_start:
            plan, may_start = look(plan, place)
        if not may_start:
            continue
        if call.elsewhere and model.busy_elsewhere:
            plan = park(plan, place)
        elif call.asks and not call.approved:
            plan = wait(plan, place)
            done.append(("asked", place))
        elif free:
            plan = start(plan, place)
            running.add(place)
            done.append(("started", place))


def ways(model: Model) -> list[Start]:
    """What can happen next to the calls that are there."""
    found: list[Start] = [("stopped elsewhere", 0)] if model.busy_elsewhere else []
    for place, call in enumerate(model.calls):
        if call.open:
            found += [("end", place)] if call.known else [("end", place), ("know", place), ("pass over", place)]
            found += [("end unstopped", place)] if call.running else []
            found += [("approve", place)] if call.waiting else []
        if call.held:
            found.append(("stop", place))
    return found


def happen(plan: Plan, model: Model, what: str, place: int) -> Plan:
    """The plan after it, with the model brought up to date."""
    if what == "stopped elsewhere":
        model.busy_elsewhere = False
        return unpark(plan)
    call = model.calls[place]
    match what:
        case "know":
            call.known = True
            return know(plan, place, call.claimant)
        case "pass over":
            call.known = call.passive = True
            call.claimant = Claimant(())
            return pass_over(know(plan, place, call.claimant), place)
        case "approve":
            call.waiting, call.approved = False, True
            return look_again(plan, 1 << place)
        case "stop":
            call.held = False
            return stop(plan, place)
        case _:
            call.open = call.running = call.waiting = call.restarting = False
            call.held = what == "end unstopped"
            return end(plan, place, stopped=not call.held)


def added(plan: Plan, model: Model, call: Call) -> Plan:
    """The plan with one more call, which the model has too."""
    model.calls.append(call)
    batch = call.batch if model.schedule is Schedule.BATCHES else None
    claimant = call.claimant if call.known else None
    plan = add(plan, claimant, reads=call.reads, passive=call.passive, sources=call.sources, batch=batch)
    return evolve(plan, restarting=plan.restarting | int(call.restarting) << (len(model.calls) - 1))


def rarely(draw: st.DrawFn) -> bool:
    return draw(st.integers(0, 5)) == 5


@st.composite
def specs(draw: st.DrawFn, schedule: Schedule, restarted: bool) -> list[Call]:
    """The calls of a reply, with their batches where the schedule has them."""
    calls: list[Call] = []
    for place in range(draw(st.integers(1, 7))):
        earlier = st.sets(st.integers(0, place - 1), max_size=2) if place else st.just(set[int]())
        known = schedule is Schedule.BATCHES or not rarely(draw)
        passive = known and rarely(draw)
        calls.append(
            Call(
                claimant=Claimant(()) if passive else draw(claimants),
                reads=draw(st.booleans()) if schedule is not Schedule.READ_RUNS else not rarely(draw),
                sources=frozenset(draw(st.just(set[int]()) | earlier)),
                batch=0,
                asks=rarely(draw),
                elsewhere=rarely(draw),
                known=known,
                passive=passive,
                restarting=restarted and known and not passive and draw(st.booleans()),
            )
        )
    for batch in greedy([call.claimant for call in calls]):
        for place in batch:
            calls[place].batch = batch[0]
    return calls


@pytest.mark.rule("TOOL-3")
@pytest.mark.rule("TOOL-2")
@pytest.mark.rule("TOOL-17")
@pytest.mark.rule("CALL-6")
@given(st.sampled_from(Schedule), st.booleans(), st.sampled_from((None, 1, 2, 3)), st.booleans(), st.data())
def test_a_plan_lets_the_same_calls_start_in_the_same_order_as_a_comparison_of_all(
    schedule: Schedule, last_write: bool, slots: int | None, restarted: bool, data: DataObject
) -> None:
    coming = data.draw(specs(schedule, restarted))
    model = Model(schedule, last_write, slots)
    plan = Plan(schedule=schedule, last_write=last_write)
    while restarted and coming:  # a restart plans all calls at once
        plan = added(plan, model, coming.pop(0))
    for _ in range(40):
        plan, done = settle(plan, model)
        assert done == model.settle()
        for other, call in enumerate(model.calls):
            if call.open and call.known and not call.running:
                assert set(places_of(blockers(plan, other))) == model.in_the_way(other)
        possible = ways(model) + ([("add", 0)] * 3 if coming else [])
        if not possible:
            break
        what, place = data.draw(st.sampled_from(possible))
        plan = added(plan, model, coming.pop(0)) if what == "add" else happen(plan, model, what, place)


@pytest.mark.rule("TOOL-3")
@given(st.sampled_from(Schedule), st.sampled_from((None, 1, 2)), st.data())
def test_every_call_starts_at_last_if_all_that_start_end(
    schedule: Schedule, slots: int | None, data: DataObject
) -> None:
    """No call is forgotten: whoever waits is woken by the end of what it waits for."""
    model = Model(schedule, False, slots)
    plan = Plan(schedule=schedule)
    for call in data.draw(specs(schedule, restarted=False)):
        call.known, call.passive, call.asks, call.elsewhere = True, False, False, False
        plan = added(plan, model, call)
    while any(call.open for call in model.calls):
        running = [place for place, call in enumerate(model.calls) if call.running]
        plan, places = start_all(plan, None if slots is None else slots - len(running))
        assert [("started", place) for place in places] == model.settle()
        running = [place for place, call in enumerate(model.calls) if call.running]
        plan = happen(plan, model, "end", data.draw(st.sampled_from(running)))

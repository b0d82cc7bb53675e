"""What a call waits for, written anew from the table of specs/algorithms/schedule.md, and held against the plan."""

from collections.abc import Sequence

import pytest
from attrs import define, evolve
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from loopkernel.data.choices import Schedule
from loopkernel.data.plans import Plan
from loopkernel.data.tools import AccessMode, Claim
from loopkernel.loop.algorithms.scheduling import Claimant, add, blockers, draw, end, places_of, start

from tests.specs.test_algorithms_as_told import conflict_as_told


@define
class Told:
    """A call as the page speaks of it; what it uses is None before it is known."""

    uses: Claimant | None
    reads: bool
    passive: bool
    sources: tuple[int, ...]
    open: bool = True
    running: bool = False
    stopping: bool = False
    restarted: bool = False
    batch: int = -1


claims = st.lists(st.builds(Claim, st.sampled_from(("a", "a/b", "c")), st.sampled_from(AccessMode)), max_size=2)
claimants = st.one_of(
    st.builds(Claimant, claims.map(tuple), st.just(False)),
    st.builds(Claimant, claims.map(tuple), st.just(False)),
    st.builds(Claimant, claims.map(tuple) | st.none(), st.booleans()),
)


@st.composite
def replies(draw_from: DrawFn) -> tuple[Plan, list[Told]]:
    """A reply some of whose calls have started, ended, or not stopped."""
    plan = Plan(schedule=draw_from(st.sampled_from(Schedule)), last_write=draw_from(st.booleans()))
    calls: list[Told] = []
    for place in range(draw_from(st.integers(1, 6))):
        passive = draw_from(st.sampled_from((False, False, False, True)))
        uses = Claimant(()) if passive else draw_from(st.one_of(claimants, claimants, claimants, st.none()))
        earlier = st.lists(st.integers(0, place - 1), max_size=1) if place else st.just([])
        told = Told(uses, draw_from(st.booleans()), passive, tuple(draw_from(earlier)))
        plan = add(plan, uses, reads=told.reads, passive=passive, sources=told.sources)
        if plan.schedule is Schedule.BATCHES and not passive and plan.batched == place and uses is not None:
            plan = draw(plan, place)
            told.batch = plan.batch
        elif plan.batched == place and passive:
            plan = evolve(plan, batched=place + 1)
        calls.append(told)
    for place, told in enumerate(calls):
        happens = draw_from(st.sampled_from(("", "", "started", "ended", "aborted", "restarted")))
        if told.uses is None and happens in ("started", "aborted", "restarted"):
            happens = ""
        if happens == "started":
            plan, told.running = start(plan, place), True
        elif happens == "restarted":
            plan, told.restarted = evolve(plan, restarting=plan.restarting | 1 << place), True
        elif happens:
            plan = end(plan, place, stopped=happens == "ended")
            told.open, told.stopping = False, happens == "aborted"
    return plan, calls


def clash(one: Told, other: Told, last_write: bool) -> bool:
    if one.uses is None or other.uses is None:
        return False
    if one.passive or other.passive:
        return one.uses.alone or other.uses.alone
    return conflict_as_told(one.uses, other.uses, last_write)


def waits_as_told(calls: Sequence[Told], place: int, schedule: Schedule, last_write: bool) -> set[int]:
    """The rows of the table, from the first to the last."""
    me = calls[place]
    waits = {source for source in me.sources if calls[source].open}
    if schedule is Schedule.ALL:
        return waits
    earlier = [other for other in range(place) if calls[other].open and not calls[other].passive]
    if schedule is Schedule.SERIAL:
        waits |= set(earlier)
    if schedule is Schedule.READ_RUNS:
        waits |= {other for other in earlier if not (me.reads and calls[other].reads and calls[other].running)}
    if schedule is Schedule.BATCHES:
        waits |= {other for other in earlier if other < me.batch}
    in_conflict = {other for other in range(len(calls)) if other != place and clash(me, calls[other], last_write)}
    holding = {other for other, call in enumerate(calls) if call.running or call.stopping}
    if me.restarted:
        return waits | in_conflict & holding
    waits |= {other for other in earlier if calls[other].uses is None}
    restarted = {other for other, call in enumerate(calls) if call.restarted}
    return waits | in_conflict & (set(earlier) | holding | restarted)


@pytest.mark.rule("TOOL-3", "TOOL-2")
@given(replies())
def test_a_call_waits_for_what_the_page_says(reply: tuple[Plan, list[Told]]) -> None:
    plan, calls = reply
    for place, told in enumerate(calls):
        if told.open and not told.running and told.uses is not None and not told.passive:
            wanted = waits_as_told(calls, place, plan.schedule, plan.last_write)
            assert set(places_of(blockers(plan, place))) == wanted

"""What a policy would have made of a recording, in figures: on runs whose figures are known, and by properties."""

from pathlib import Path

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.choices import Schedule
from loopkernel.data.json_text import Json
from loopkernel.data.policy import Policy
from loopkernel.data.records import LogRecord
from loopkernel.data.thread_deltas import Created
from loopkernel.data.tools import ValidCall
from loopkernel.data.user_deltas import Say
from loopkernel.presets import PRESETS
from loopkernel.replaying import fold
from loopkernel_adapters.cli.recording_files import LogSource
from loopkernel_adapters.transcripts.figures import Figures, figures_of
from loopkernel_adapters.transcripts.replaying import AS_RECORDED
from loopkernel_adapters.transcripts.source import Source
from loopkernel_adapters.transcripts.timing import Round, TimedCall, covered_ms, rounds_of, span_ms, together

from tests.adapters.transcripts.recordings_world import EXAMPLES, examples
from tests.adapters.viewing.made_runs import ALLOWED, TOOLS, Making
from tests.adapters.viewing.shown_runs import logs

SERIAL = evolve(ALLOWED, schedule=Schedule.SERIAL)
TWO = evolve(ALLOWED, max_parallel=2)


def made_log() -> list[LogRecord]:
    """One reply with three calls, which ran at once for 270, 590 and 1,210 ms; and one with a call alone, for 270."""
    made = Making(ALLOWED)
    made.send(Say("Look around."), 10)
    made.reply(["I look."], [(tool, Json.of({"path": tool})) for tool in TOOLS])
    made.run_calls(["a", "b", "c"])
    made.reply([], [(TOOLS[0], Json.of({}))])
    made.run_calls(["d"])
    made.reply(["Seen."], [])
    return made.records


def figures(log: list[LogRecord], *policies: Policy) -> tuple[Figures, ...]:
    begun = log[0].delta
    assert isinstance(begun, Created)
    return figures_of(LogSource(Path("log"), tuple(log)), policies, begun.policy, log)


def times(one: Figures) -> tuple[int, int, int]:
    return one.took_ms, one.under_ms, one.least_ms


def test_the_times_of_a_run_are_those_worked_out_by_hand() -> None:
    log = made_log()
    durations = [[call.to_ms - call.from_ms for call in one.calls] for one in rounds_of(fold(log))]
    ((one, two, three), (alone,)) = durations
    at_once, serial, by_two = figures(log, ALLOWED, SERIAL, TWO)
    assert times(at_once) == (three + alone, three + alone, three + alone)
    assert times(serial) == (three + alone, one + two + three + alone, three + alone)
    assert times(by_two) == (three + alone, max(two, one + three) + alone, three + alone)
    assert serial.saved_ms == -(one + two)
    assert (at_once.calls, at_once.replies) == (4, 1)
    assert at_once.is_nothing
    assert not serial.is_nothing


def test_what_the_policy_asks_is_counted() -> None:
    (asking,) = figures(made_log(), Policy(loop=None))
    assert asking.asks == 4
    assert not asking.is_nothing


# --- under its own policy ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", examples())
def test_an_example_under_the_policy_that_it_was_recorded_under_gives_nothing(name: str) -> None:
    (found,) = figures_of(Source(EXAMPLES / name), [AS_RECORDED], AS_RECORDED, None)
    assert found.is_nothing
    assert (found.asks, found.compactions, found.loops, found.limits, found.retries, found.saved_ms) == (0,) * 6


def test_a_scenario_under_its_own_policy_gives_nothing() -> None:
    tried = 0
    for name, records in logs()[::2]:
        if records and isinstance(records[0].delta, Created):
            (found,) = figures([*records], records[0].delta.policy)
            assert found.is_nothing, name
            tried += 1
    assert tried > 20


# --- properties of the times ------------------------------------------------------------------------------


@st.composite
def rounds(draw: st.DrawFn) -> Round:
    """Calls of one reply, each with its time."""
    spans = draw(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=5))
    return Round(
        calls=tuple(
            TimedCall(
                tool="look",
                input=Json.of({"n": place}),
                provider_id=f"c{place}",
                after=(),
                verdict=ValidCall(),
                from_ms=begun,
                to_ms=begun + took,
            )
            for place, (begun, took) in enumerate(spans)
        ),
        tools=(),
    )


@given(rounds())
def test_calls_one_by_one_take_as_long_as_they_took_and_end_as_they_ended(one: Round) -> None:
    serial = one.one_by_one()
    assert sum(call.to_ms - call.from_ms for call in serial.calls) == one.took_ms
    assert [call.to_ms for call in serial.calls] == [call.to_ms for call in one.calls]


@given(rounds(), st.sampled_from([ALLOWED, SERIAL, TWO, *PRESETS.values()]))
def test_no_policy_is_faster_than_all_at_once_or_slower_than_one_by_one(one: Round, policy: Policy) -> None:
    took = [call.to_ms - call.from_ms for call in one.calls]
    assert together(one) == max(took)
    if len(one.calls) > 1:
        assert max(took) <= span_ms(one, policy) <= sum(took)


@given(rounds())
def test_what_is_covered_is_counted_once(one: Round) -> None:
    inside = {at for call in one.calls for at in range(call.from_ms, call.to_ms)}
    assert covered_ms(one.calls) == len(inside)

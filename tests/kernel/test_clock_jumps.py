"""A session goes on behind a clock that was set back: that is told first, and changes nothing else (rule DELTA-7)."""

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.codec import record_from_text, record_to_text
from loopkernel.data.events import ClockJumped, ErrorCleared
from loopkernel.data.model_deltas import ModelText
from loopkernel.data.states import State
from loopkernel.data.steps import Context
from loopkernel.data.thread_deltas import Resumed
from loopkernel.data.words import ErrorClass
from loopkernel.judging import check_step
from loopkernel.loop.transition import transition
from loopkernel.replaying import START, LogRecord, StepRecord
from loopkernel.views.causes import rule_of

from tests.kernel.building import ASKING_NOBODY, ONE, after, asked, at_rest, failed, made_call, say, working

STATES: list[State] = [
    at_rest(),
    asked(ASKING_NOBODY, ModelText(ONE, "so")),
    working(made_call()),
    after(at_rest(), say(), failed()),
    after(at_rest(), say(), failed(ErrorClass.AUTH)),
]


@pytest.mark.rule("DELTA-7")
@given(st.sampled_from(STATES), st.integers(1, 10**12), st.integers(0, 10**6))
def test_a_clock_that_is_behind_is_told_first_and_nothing_else_is_another(
    state: State, behind_ms: int, now_ms: int
) -> None:
    plain = transition(state, Context(Resumed(), now_ms))
    following, effects = transition(state, Context(Resumed(clock_behind_ms=behind_ms), now_ms))
    assert (following, effects) == (plain.next, (ClockJumped(-behind_ms), *plain.effects))
    assert following.stamp.now_ms == max(state.stamp.now_ms, now_ms)
    assert rule_of(effects[0], Resumed())[0] == "DELTA-7"


@pytest.mark.rule("DELTA-7")
@pytest.mark.parametrize("behind_ms", [0, -5])
def test_a_clock_that_is_not_behind_is_not_told(behind_ms: int) -> None:
    effects = transition(STATES[4], Context(Resumed(clock_behind_ms=behind_ms), 0)).effects
    assert effects[0] == ErrorCleared()
    assert not any(isinstance(effect, ClockJumped) for effect in effects)


@pytest.mark.rule("DELTA-2")
def test_where_nothing_goes_on_nothing_is_told() -> None:
    refused = transition(START, Context(Resumed(clock_behind_ms=9), 0))
    assert refused == transition(START, Context(Resumed(), 0))


def test_a_record_that_says_nothing_of_the_clock_is_the_same_as_ever() -> None:
    assert record_to_text(LogRecord(Resumed(), 5)) == '{"delta":{"type":"resumed"},"now_ms":5}'
    behind = LogRecord(Resumed(clock_behind_ms=7), 5)
    assert record_from_text(record_to_text(behind)) == behind


@pytest.mark.rule("DELTA-7")
@pytest.mark.parametrize("told", [(), (ClockJumped(-8),), (ClockJumped(-7), ClockJumped(-7))])
def test_the_law_says_what_is_wrong(told: tuple[ClockJumped, ...]) -> None:
    context = Context(Resumed(clock_behind_ms=7), 0)
    following, effects = transition(at_rest(), context)
    record = StepRecord(at_rest(), context, following, effects)
    assert not check_step(record)
    breaches = check_step(evolve(record, effects=(*told, *effects[1:])))
    assert any("found 7 ms behind the log" in breach.detail for breach in breaches)

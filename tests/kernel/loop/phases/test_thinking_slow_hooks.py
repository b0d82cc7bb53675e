"""Hooks before a request that do not answer in time: the others are asked all the same."""

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.effects import AbortOther, CallModel, CancelTimer, StartTimer
from loopkernel.data.ids import OperationKind
from loopkernel.data.states import BeforeRequest, State, Thinking

from tests.kernel.building import a, at_rest, fired, of_kind, pending_timers, say, step
from tests.kernel.gates import BEFORE_MODEL, asked_of, gated, hooked


@pytest.mark.rule("HOOK-4")
@given(st.integers(1, 4))
def test_after_a_hook_that_is_too_slow_comes_the_next_and_then_the_request(count: int) -> None:
    names = "abcd"[:count]
    policy = evolve(hooked(*(gated(BEFORE_MODEL, name) for name in names)), hook_timeout_ms=30)
    state: State
    state, effects = step(at_rest(policy), say())
    for number, name in enumerate(names, 1):
        assert asked_of(effects) == [(BEFORE_MODEL, name)]
        assert a(Thinking, state).passed is not BeforeRequest.HOOKS  # for one of them is still asked
        (timer,) = pending_timers(state)
        assert [started.operation for started in of_kind(StartTimer, effects)] == [timer.operation]
        state, effects = step(state, fired(timer.operation))
        assert effects[0] == AbortOther(OperationKind.HOOK, number)
        assert of_kind(CancelTimer, effects) == []  # what has fired is not closed
    assert len(of_kind(CallModel, effects)) == 1

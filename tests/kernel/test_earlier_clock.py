"""An input whose clock is behind the last one's: for all that it starts, no time has passed (rule DELTA-7)."""

import pytest
from attrs import evolve
from loopkernel.data.deltas import Delta
from loopkernel.data.model_deltas import ModelText
from loopkernel.data.policy import Policy
from loopkernel.data.states import (
    Backoff,
    Compacting,
    Confirming,
    Dispatching,
    Executing,
    Finishing,
    HandingOff,
    Idle,
    State,
    Streaming,
    Thinking,
)
from loopkernel.data.tool_deltas import ToolAsked
from loopkernel.data.user_deltas import CancelCall, ChangePolicy, CompactNow, StartHandoff
from loopkernel.data.words import HookPoint, StopReason

from tests.kernel.building import (
    ALL_TOOLS,
    ASKING_NOBODY,
    TWO,
    after,
    call_id,
    completed,
    failed,
    made_call,
    run,
    step,
    succeeded,
    working,
    writes,
)
from tests.kernel.gates import AGENT, EARLY_AGENT, agent_call, child_asks, compacting, gated, hooked
from tests.kernel.grids import answers_about, deltas_about

# A run goes on in the background, so that to cancel it gives it a time to stop; and the model is asked again.
BEHIND = after(
    working(made_call("write"), tools=(*ALL_TOOLS, AGENT, EARLY_AGENT)),
    succeeded(1, background=True),
)
ENDED = (ModelText(TWO, "it goes on"), completed(reply=2))
CALLED = completed(StopReason.TOOL_USE, reply=2)


def behind(*deltas: Delta, policy: Policy = ASKING_NOBODY) -> State:
    """What these deltas lead to, under that policy."""
    return after(BEHIND, ChangePolicy(evolve(policy, grace_ms=50, silence_ms=40)), *deltas)


HELD = made_call("write", writes("a"), reply=2)
STATES: dict[type, State] = {
    Idle: behind(*ENDED),
    Thinking: behind(HELD, CALLED, succeeded(2), policy=hooked(gated(HookPoint.BEFORE_MODEL))),
    Streaming: behind(made_call("early_read", reply=2), agent_call("early_agent", reply=2), child_asks(3, 1)),
    Executing: behind(HELD, made_call("read", reply=2), CALLED, ToolAsked(run(2), "which?")),
    Confirming: behind(made_call("asks", reply=2), CALLED),
    Dispatching: behind(agent_call(reply=2), CALLED),
    Compacting: behind(*ENDED, CompactNow(), policy=compacting(tokens=None, messages=1)),
    Backoff: behind(failed(reply=2)),
    Finishing: behind(*ENDED, policy=hooked(gated(HookPoint.STOP))),
    HandingOff: behind(*ENDED, StartHandoff("there")),
}


def calls_about(number: int) -> tuple[Delta, ...]:
    """A word of each class on both calls of the second reply."""
    return (*answers_about(call_id(number, reply=2)), CancelCall(call_id(number, reply=2)))


def test_the_states_are_of_their_phases_with_a_run_behind() -> None:
    for phase, state in STATES.items():
        assert type(state) is phase
        assert state.session is not None
        assert [run.background for run in state.session.held] == [True]


@pytest.mark.rule("DELTA-7")
@pytest.mark.parametrize("phase", STATES, ids=lambda phase: phase.__name__)
def test_an_earlier_clock_counts_as_that_of_the_last_input(phase: type) -> None:
    """Deadlines, leases and time spent are all reckoned from the latest time that the run has seen."""
    state = STATES[phase]
    deltas = (delta for number in (1, 2, 3) for delta in (*deltas_about(number), *calls_about(number)))
    for delta in deltas:
        assert step(state, delta, state.stamp.now_ms - 5) == step(state, delta, state.stamp.now_ms)

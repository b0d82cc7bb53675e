"""Every state with every delta: a step, never an exception, and never a change of what came in."""

from functools import cache
from typing import TypeVar, get_args

import pytest
from attrs import evolve
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from loopkernel.codec import effects_to_text, record_to_text, state_to_text
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import Effect
from loopkernel.data.events import Refused
from loopkernel.data.held_runs import HeldRun
from loopkernel.data.model_deltas import ModelCompleted, ModelFailed, ModelUsage
from loopkernel.data.outside_deltas import ChildEnded, CorrectionAnswered, SummaryFailed, SummaryReady
from loopkernel.data.sessions import Stamp
from loopkernel.data.states import Confirming, Dispatching, Done, Executing, State, Streaming
from loopkernel.data.steps import Context, Step
from loopkernel.data.tool_deltas import ToolFailed, ToolSucceeded
from loopkernel.data.words import RefusalReason
from loopkernel.judging import check_step
from loopkernel.loop.algorithms.interaction import Interaction
from loopkernel.loop.transition import transition
from loopkernel.machine import Machine
from loopkernel.replaying import LogRecord, StepRecord
from loopkernel.testing.run import Run
from loopkernel.testing.strategies.deltas import deltas
from loopkernel.testing.strategies.states import done_states, states
from loopkernel.testing.strategies.values import times_ms
from loopkernel.testing.strategies.walks import aimed_deltas, next_deltas, runs
from loopkernel.views.explain import accepted_inputs, explain, interaction_of

T = TypeVar("T")
SEARCH = settings(
    max_examples=20_000,
    database=None,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
)
BILLING = ModelUsage | ModelCompleted | ModelFailed | ChildEnded | CorrectionAnswered | SummaryReady | SummaryFailed

# Where calls may start once a run that has outlasted its call is known to have stopped: the clock goes on for them.
MAY_START = (Streaming, Executing, Confirming, Dispatching)


def taken(state: State, delta: Delta, now_ms: int) -> Step[State]:
    """The step, after seeing that it is one and that it left its arguments alone."""
    context = Context(delta, now_ms)
    before = (state_to_text(state), hash(state), record_to_text(LogRecord(delta, now_ms)))
    step = transition(state, context)
    assert isinstance(step, Step)
    assert isinstance(step.next, State)
    assert all(isinstance(effect, Effect) for effect in step.effects)
    assert before == (state_to_text(state), hash(state), record_to_text(LogRecord(delta, now_ms)))
    again = transition(state, context)
    assert again == step
    assert effects_to_text(again.effects) == effects_to_text(step.effects)
    assert state_to_text(again.next) == state_to_text(step.next)
    return step


def judge(state: State, delta: Delta, now_ms: int, *laws_left_out: str) -> None:
    """The step laws hold, and the delta is taken, and counted; or it is refused, and changes no more than it may."""
    after, effects = taken(state, delta, now_ms)
    breaches = check_step(StepRecord(state, Context(delta, now_ms), after, effects))
    assert [str(breach) for breach in breaches if breach.law not in laws_left_out] == []
    refusals = [effect for effect in effects if isinstance(effect, Refused)]
    if not refusals:
        assert after.stamp == state.stamp.next(now_ms)
        return
    assert effects[0] is refusals[0]
    assert refusals == [effects[0]]
    stale = refusals[0].reason is RefusalReason.STALE
    lease = lease_of(state, delta) if stale else None
    if lease is not None:
        assert after.session is not None
        assert lease not in after.session.held
        clock_ms = max(state.stamp.now_ms, now_ms) if isinstance(state, MAY_START) else state.stamp.now_ms
        assert after.stamp == Stamp(state.stamp.version, clock_ms)
        return
    assert effects == (refusals[0],)
    if stale and isinstance(delta, BILLING):
        assert state.session is not None
        assert after.session is not None
        assert after.session.usage.most(state.session.usage) == after.session.usage
        counted = after.session
        billed = evolve(state.session, usage=counted.usage, operations=counted.operations, started=counted.started)
        assert after == evolve(state, session=billed)
        assert after.session.operations.minted == state.session.operations.minted
    else:
        assert after == state


def lease_of(state: State, delta: Delta) -> HeldRun | None:
    """The aborted run that has stopped, since it reports its end (rule TOOL-17)."""
    if state.session is None or not isinstance(delta, ToolSucceeded | ToolFailed | ChildEnded):
        return None
    return next((run for run in state.session.held if run.operation == delta.operation and not run.background), None)


# A wait for an approval, in a state built by hand, is what no rule or mode of its policy has asked for.
MADE_UP = ("PARALLEL",)

# --- every class of state with every class of delta -----------------------------------------------------


@cache
def one_of_each(strategy: SearchStrategy[T], union: object) -> dict[type, T]:
    """A value of each class of the union."""
    found: dict[type, T] = {}

    def is_the_last_that_was_missing(value: T) -> bool:
        found.setdefault(type(value), value)
        return len(found) == len(get_args(union))

    find(strategy, is_the_last_that_was_missing, settings=SEARCH)
    return found


def name_of(kind: type) -> str:
    return kind.__name__


@pytest.mark.rule("DELTA-2")
@pytest.mark.parametrize("phase", get_args(State), ids=name_of)
def test_every_phase_takes_or_refuses_every_delta(phase: type) -> None:
    state = one_of_each(states, State)[phase]
    for delta in one_of_each(deltas, Delta).values():
        judge(state, delta, state.stamp.now_ms, *MADE_UP)


# --- any state with any delta ---------------------------------------------------------------------------


@pytest.mark.rule("DELTA-2")
@given(states, deltas, times_ms)
def test_states_built_by_hand_take_or_refuse_any_delta(state: State, delta: Delta, now_ms: int) -> None:
    judge(state, delta, now_ms, *MADE_UP)


@pytest.mark.rule("DELTA-2")
@given(states, st.data(), times_ms)
def test_states_built_by_hand_take_or_refuse_what_is_due(state: State, data: st.DataObject, now_ms: int) -> None:
    judge(state, data.draw(aimed_deltas(state) | next_deltas(state)), now_ms, *MADE_UP)


@pytest.mark.rule("DELTA-2")
@given(runs(), deltas, times_ms)
def test_states_that_a_run_reaches_take_or_refuse_any_delta(run: Run, delta: Delta, now_ms: int) -> None:
    judge(run.state, delta, now_ms)


@pytest.mark.rule("DELTA-2")
@given(runs(), st.data(), times_ms)
def test_states_that_a_run_reaches_take_or_refuse_what_is_due(run: Run, data: st.DataObject, now_ms: int) -> None:
    judge(run.state, data.draw(aimed_deltas(run.state) | next_deltas(run.state)), now_ms)


@pytest.mark.rule("STATE-7")
@given(done_states, deltas, times_ms)
def test_what_is_done_stays_done(state: Done, delta: Delta, now_ms: int) -> None:
    after, effects = taken(state, delta, now_ms)
    assert isinstance(after, Done)
    assert isinstance(effects[0], Refused)


# --- what is told about a step is total, too ------------------------------------------------------------


@given(states | runs().map(lambda run: run.state), deltas)
def test_every_step_can_be_explained(state: State, delta: Delta) -> None:
    explanation = explain(state, Context(delta, 0))
    assert tuple(cause.effect for cause in explanation.causes) == transition(state, Context(delta, 0)).effects


@pytest.mark.rule("STATE-6")
@given(states | runs().map(lambda run: run.state))
def test_what_the_user_can_do_is_known_in_every_state(state: State) -> None:
    assert interaction_of(state) in Interaction
    for delta in accepted_inputs(state):
        effects = transition(state, Context(delta, state.stamp.now_ms)).effects
        assert not any(isinstance(effect, Refused) for effect in effects)


@given(states, deltas, times_ms)
def test_the_machine_takes_any_delta_in_any_state(state: State, delta: Delta, now_ms: int) -> None:
    machine = Machine(state)
    events = machine.deliver(delta, now_ms)
    after, effects = transition(state, Context(delta, now_ms))
    commands = machine.commands()
    assert machine.state == after
    assert [effect for effect in effects if effect in events] == list(events)
    assert len(events) + len(commands) == len(effects)
    assert machine.commands() == ()

"""The machine is `transition` with a memory: same states, same effects, nothing of its own."""

import pytest
from attrs import evolve
from hypothesis import given
from loopkernel.data.effects import CallModel, Command, Effect, StartTimer
from loopkernel.data.events import Event, RunStarted
from loopkernel.data.sessions import Session, Settings, Stamp, Turn
from loopkernel.data.states import Backoff, Initial, State
from loopkernel.data.thread_deltas import Acquired, Created
from loopkernel.data.timers import Timer
from loopkernel.data.user_deltas import CancelCall
from loopkernel.data.words import ErrorClass, TimerPurpose
from loopkernel.machine import Machine
from loopkernel.replaying import LogRecord, fold
from loopkernel.testing.run import Run

from tests.kernel.building import (
    after,
    call_id,
    made_call,
    pending_timers,
    say,
    session_of,
    succeeded,
    timer,
    working,
)
from tests.kernel.played import PLAYED, logs
from tests.kernel.plays import plays


def test_a_new_machine_is_at_the_start_and_wants_nothing() -> None:
    machine = Machine()
    assert (machine.state, machine.commands(), machine.next_deadline()) == (Initial(), (), None)


@given(logs)
def test_a_machine_goes_through_the_steps_of_the_fold(log: list[LogRecord]) -> None:
    machine = Machine()
    for step in fold(log):
        events = machine.deliver(step.context.delta, step.context.now_ms)
        assert machine.state == step.after
        assert merged(step.effects, machine.commands(), events)


def merged(effects: tuple[Effect, ...], commands: tuple[Command, ...], events: tuple[Event, ...]) -> bool:
    """Whether the effects are these commands and events, each kind in its order."""
    return (
        tuple(effect for effect in effects if isinstance(effect, Command)) == commands
        and tuple(effect for effect in effects if isinstance(effect, Event)) == events
    )


def test_a_machine_starts_where_it_is_told() -> None:
    steps = PLAYED["reads"]
    middle = steps[len(steps) // 2]
    machine = Machine(middle.before)
    machine.deliver(middle.context.delta, middle.context.now_ms)
    assert machine.state == middle.after


def test_commands_wait_until_they_are_fetched_and_are_handed_out_once() -> None:
    machine = Machine()
    assert machine.deliver(Created(session_id="s"), 0) == (RunStarted("s"),)
    machine.deliver(Acquired(), 0)
    machine.deliver(say(), 0)
    machine.deliver(say(), 0)
    assert [type(command) for command in machine.commands()] == [CallModel, StartTimer]
    assert machine.commands() == ()


@given(plays() | plays(outside=True))
def test_the_next_deadline_is_that_of_the_first_pending_timer(play: Run) -> None:
    for record in play.steps:
        state = record.after
        timers = [] if state.session is None else pending_timers(state)
        assert Machine(state).next_deadline() == min((timer.deadline_ms for timer in timers), default=None)


def test_a_retry_and_a_run_that_is_to_stop_may_be_pending_at_once() -> None:
    leased = session_of(after(working(made_call()), CancelCall(call_id(1)))).held
    waiting = waiting_for_a_retry(deadline_ms=7_000)
    for grace_ms, first in ((9_000, 7_000), (5_000, 5_000)):
        held = tuple(evolve(run, grace=Timer(timer(1), TimerPurpose.GRACE, grace_ms)) for run in leased)
        both = evolve(waiting, session=evolve(session_of(waiting), held=held))
        assert Machine(both).next_deadline() == first
    assert Machine(waiting).next_deadline() == 7_000


@pytest.mark.rule("TOOL-20")
def test_a_run_in_the_background_has_no_deadline() -> None:
    state = after(working(made_call()), succeeded(1, background=True))
    assert session_of(state).held != ()
    assert Machine(state).next_deadline() is None


def waiting_for_a_retry(deadline_ms: int) -> State:
    """A state that waits for a timer."""
    return Backoff(
        session=Session(settings=Settings(session_id="s")),
        stamp=Stamp(),
        turn=Turn(number=1, opened_ms=0),
        timer=Timer(timer(1), TimerPurpose.RETRY, deadline_ms),
        error=ErrorClass.SERVER,
    )

"""The whole logic of the loop: `transition(state, ctx) -> (next, effects)`, pure and total."""

from typing import assert_never

from attrs import evolve

from loopkernel.data.events import ClockJumped, ErrorCleared
from loopkernel.data.sessions import Session
from loopkernel.data.states import (
    Backoff,
    Cancelled,
    Compacting,
    Confirming,
    Dispatching,
    Done,
    Executing,
    Finishing,
    HandingOff,
    Idle,
    Initial,
    State,
    Streaming,
    Thinking,
)
from loopkernel.data.steps import Context, Step, is_refused
from loopkernel.data.thread_deltas import Resumed
from loopkernel.data.tool_deltas import ToolLost, ToolStopped
from loopkernel.data.user_deltas import DismissError
from loopkernel.loop.phases.at_rest import on_cancelled, on_done, on_idle
from loopkernel.loop.phases.backoff import on_backoff
from loopkernel.loop.phases.compacting import on_compacting
from loopkernel.loop.phases.executing import enter_executing, on_confirming, on_dispatching, on_executing
from loopkernel.loop.phases.finishing import enter_finishing, on_finishing
from loopkernel.loop.phases.handing_off import on_handing_off
from loopkernel.loop.phases.initial import on_initial
from loopkernel.loop.phases.streaming import on_streaming
from loopkernel.loop.phases.thinking import enter_thinking, on_thinking


def transition(state: State, ctx: Context) -> Step[State]:
    """One delta applied: the next state, which waits for something, and all that must happen outside.

    Never raises, whatever the state and the delta. What does not apply changes nothing and says so in a
    `Refused` event; an accepted delta first clears the shown error (rules DELTA-2 and DELTA-5). That an aborted run
    has stopped is not a reason to: it is what the failure itself has caused.
    """
    session, delta = state.session, ctx.delta
    if isinstance(delta, Resumed) and delta.clock_behind_ms > 0:
        return _behind_a_jump(state, delta, ctx.now_ms)
    if session is None or session.error is None or isinstance(ctx.delta, DismissError | ToolStopped | ToolLost):
        return settle(handle(state, ctx))
    return _with_error_cleared(state, session, ctx)


def _behind_a_jump(state: State, delta: Resumed, now_ms: int) -> Step[State]:
    """The session goes on behind a clock that was set back, which is told first."""
    step = transition(state, Context(evolve(delta, clock_behind_ms=0), now_ms))
    if is_refused(step.effects):
        return step
    return Step(step.next, (ClockJumped(-delta.clock_behind_ms), *step.effects))


def _with_error_cleared(state: State, session: Session, ctx: Context) -> Step[State]:
    cleared: State = evolve(state, session=evolve(session, error=None))
    step = handle(cleared, ctx)
    if is_refused(step.effects):
        return settle(handle(state, ctx))
    step = settle(step)
    return Step(step.next, (ErrorCleared(), *step.effects))


def handle(state: State, ctx: Context) -> Step[State]:
    """The step of the state's own handler; arms stand in order of frequency."""
    match state:
        case Streaming():
            return on_streaming(state, ctx)
        case Executing():
            return on_executing(state, ctx)
        case Idle():
            return on_idle(state, ctx)
        case Thinking():
            return on_thinking(state, ctx)
        case Finishing():
            return on_finishing(state, ctx)
        case Cancelled():
            return on_cancelled(state, ctx)
        case Done():
            return on_done(state, ctx)
        case Initial():
            return on_initial(state, ctx)
        case Confirming():
            return on_confirming(state, ctx)
        case Backoff():
            return on_backoff(state, ctx)
        case Dispatching():
            return on_dispatching(state, ctx)
        case Compacting():
            return on_compacting(state, ctx)
        case HandingOff():
            return on_handing_off(state, ctx)
        case _:
            assert_never(state)


def settle(step: Step[State]) -> Step[State]:
    """Pass through the states that wait for nothing, until one waits.

    It ends because each entry leads to a state of a lower rank (see `rank`) or to one that waits.
    """
    while True:
        state, effects = step
        match state:
            case Streaming() | Idle() | Cancelled() | Done() | Initial():
                return step
            case Executing():
                entered: Step[State] = enter_executing(state)
            case Thinking():
                entered = enter_thinking(state)
            case Finishing():
                entered = enter_finishing(state)
            case Confirming() | Dispatching() | Compacting() | Backoff() | HandingOff():
                return step
            case _:
                assert_never(state)
        step = Step(entered.next, (*effects, *entered.effects)) if effects else entered
        if type(entered.next) is type(state):
            return step


def rank(state: State) -> int:
    """What each entry of `settle` lowers: calls, then a turn that may go on, then a request, then an end."""
    match state:
        case Executing():
            return 4
        case Finishing():
            ending = state.ending
            return 3 if ending.natural or ending.gated or ending.then is not None else 1
        case Thinking():
            return 2
        case Streaming() | Idle() | Cancelled() | Done() | Initial():
            return 0
        case Confirming() | Dispatching() | Compacting() | Backoff() | HandingOff():
            return 0
        case _:
            assert_never(state)

"""`Idle`, `Cancelled` and `Done`: nothing is open. The next input starts a turn, but for a run that is over.

Rules STATE-4 and STATE-7.
"""

from typing import TypeVar, assert_never

from loopkernel.data.events import Refused, SessionResumed
from loopkernel.data.model_deltas import FromModel
from loopkernel.data.outside_deltas import FromOutside, TimerFired
from loopkernel.data.states import Cancelled, Compacting, Done, HandingOff, Idle, Initial, Thinking
from loopkernel.data.steps import Context, Step
from loopkernel.data.thread_deltas import Disposed, Forked, FromThread, Resumed
from loopkernel.data.tool_deltas import FromTool
from loopkernel.data.user_deltas import CompactNow, FromUser, StartHandoff
from loopkernel.data.words import CancelReason, RefusalReason
from loopkernel.loop.calls.held_runs import abort_all_in_background
from loopkernel.loop.calls.late_reports import late_report
from loopkernel.loop.gates.refusals import refusal
from loopkernel.loop.life.fork import fork_session
from loopkernel.loop.life.restart import restart_held_runs
from loopkernel.loop.phases.moves import begin, start_at_rest, stay, to_idle, to_initial, to_thinking
from loopkernel.loop.turn.input import input_at_rest

R = TypeVar("R", Idle, Cancelled)


def on_idle(state: Idle, ctx: Context) -> Step[Idle | Thinking | Compacting | HandingOff | Initial]:
    """User input starts a turn or changes settings; reports are late; disposal releases the thread."""
    return _at_rest(state, ctx, None)


def on_cancelled(
    state: Cancelled, ctx: Context
) -> Step[Cancelled | Thinking | Compacting | HandingOff | Idle | Initial]:
    """As in `Idle`."""
    return _at_rest(state, ctx, state.reason)


def on_done(state: Done, ctx: Context) -> Step[Done]:
    """Everything is refused; only usage is billed late (rule DELTA-2)."""
    match ctx.delta:
        case FromUser() | FromThread() as delta:
            return Step(state, (refusal(delta, RefusalReason.NOT_NOW),))
        case FromModel() | FromTool() | TimerFired() | FromOutside() as report:
            return stay(state, late_report(begin(state, ctx), report))
        case _:
            assert_never(ctx.delta)


def _at_rest(
    state: R, ctx: Context, cancel: CancelReason | None
) -> Step[R | Thinking | Compacting | HandingOff | Idle | Initial]:
    draft = begin(state, ctx)
    match ctx.delta:
        case FromUser() as delta:
            if isinstance(delta, CompactNow | StartHandoff):
                return start_at_rest(state, ctx, delta, cancel)
            taken = input_at_rest(draft, delta)
            if isinstance(taken, Refused):
                return stay(state, taken)
            draft, turn = taken
            return stay(state, draft) if turn is None else to_thinking(draft, turn)
        case FromModel() | FromTool() | TimerFired() | FromOutside() as report:
            return stay(state, late_report(draft, report))
        case FromThread() as delta:
            if isinstance(delta, Resumed):
                return stay(state, restart_held_runs(draft.tell(SessionResumed()), delta))
            if isinstance(delta, Disposed):
                return to_initial(abort_all_in_background(draft, CancelReason.DISPOSED))
            if isinstance(delta, Forked):
                return to_idle(fork_session(draft, delta))
            return Step(state, (refusal(delta, RefusalReason.NOT_NOW),))
        case _:
            assert_never(ctx.delta)

"""`Idle`: at rest; the next input starts a turn."""

from typing import assert_never

from loopkernel.data.events import SessionResumed
from loopkernel.data.ids import QueueNumber
from loopkernel.data.model_deltas import FromModel
from loopkernel.data.outside_deltas import FromOutside, TimerFired
from loopkernel.data.states import AtRest, Compacting, HandingOff, Idle, Initial, Thinking
from loopkernel.data.steps import Context, Step, stay
from loopkernel.data.thread_deltas import Disposed, Forked, FromThread, Resumed
from loopkernel.data.tool_deltas import FromTool
from loopkernel.data.user_deltas import CompactNow, FromUser, StartHandoff
from loopkernel.data.words import CancelReason, RefusalReason
from loopkernel.loop.calls.held_runs import abort_all_in_background
from loopkernel.loop.calls.late_reports import late_report
from loopkernel.loop.gates.refusals import refusal
from loopkernel.loop.life.fork import fork_session
from loopkernel.loop.life.restart import restart_held_runs
from loopkernel.loop.phases.rest import started_at_rest
from loopkernel.loop.turn.input import input_at_rest


def on_idle(state: Idle, ctx: Context) -> Step[Idle | Thinking | Compacting | HandingOff | Initial]:
    """User input starts a turn or changes settings; reports are late; disposal releases the thread."""
    match ctx.delta:
        case FromUser() as delta:
            if isinstance(delta, CompactNow | StartHandoff):
                within = AtRest(queued=QueueNumber(state.session.counters.queued))
                return started_at_rest(state, ctx, delta, within)
            session, turn, effects = input_at_rest(state.session, state.stamp.next(ctx.now_ms).now_ms, delta)
            if turn is None:
                return stay(state, ctx, session, effects)
            return Step(Thinking(session=session, stamp=state.stamp.next(ctx.now_ms), turn=turn), effects)
        case FromModel() | FromTool() | TimerFired() | FromOutside() as report:
            late = late_report(state.session, report)
            return stay(state, ctx, late.session, late.effects)
        case FromThread() as delta:
            if isinstance(delta, Resumed):
                session, restarted = restart_held_runs(state.session, delta)
                return stay(state, ctx, session, (SessionResumed(), *restarted))
            if isinstance(delta, Disposed):
                stamp = state.stamp.next(ctx.now_ms)
                session, stopped = abort_all_in_background(state.session, CancelReason.DISPOSED, stamp.now_ms)
                return Step(Initial(session=session, stamp=stamp), stopped)
            if isinstance(delta, Forked):
                session, forked = fork_session(state.session, delta)
                return Step(Idle(session=session, stamp=state.stamp.next(ctx.now_ms)), forked)
            return Step(state, refusal(delta, RefusalReason.NOT_NOW))
        case _:
            assert_never(ctx.delta)

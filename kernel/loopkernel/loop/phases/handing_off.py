"""`HandingOff`: the work is being carried over to a new thread; nothing else starts (rule HANDOFF-1)."""

from typing import assert_never

from attrs import evolve

from loopkernel.data.events import HandoffEnded, SessionResumed
from loopkernel.data.model_deltas import FromModel
from loopkernel.data.outside_deltas import FromOutside, HandoffDone, HandoffFailed, TimerFired
from loopkernel.data.sessions import Session, Stamp
from loopkernel.data.states import Cancelled, Done, HandingOff, Idle, Initial, Thinking
from loopkernel.data.steps import Context, Step, stay
from loopkernel.data.thread_deltas import Disposed, Forked, FromThread, Resumed
from loopkernel.data.tool_deltas import FromTool
from loopkernel.data.user_deltas import CompactNow, FromUser, UserDelta
from loopkernel.data.words import RefusalReason, TurnEndReason
from loopkernel.loop.calls.held_runs import drop_held
from loopkernel.loop.calls.late_reports import late_report
from loopkernel.loop.gates.refusals import refusal
from loopkernel.loop.life.fork import fork_session
from loopkernel.loop.life.handoff import abort_handoff, drop_handoff
from loopkernel.loop.life.restart import restart_held_runs
from loopkernel.loop.phases.rest import back_at_rest, cut_at_rest, resting
from loopkernel.loop.turn.cancelling import cut_gates, cutting, reason_of
from loopkernel.loop.turn.inbox import hand_back, requeue_steers
from loopkernel.loop.turn.input import input_while_busy


def on_handing_off(state: HandingOff, ctx: Context) -> Step[HandingOff | Done | Idle | Cancelled | Thinking | Initial]:
    """The new thread, or that there is none; input waits, a cancel ends it."""
    match ctx.delta:
        case FromOutside() as delta:
            if isinstance(delta, HandoffDone | HandoffFailed) and delta.operation == state.operation:
                session = evolve(state.session, usage=state.session.usage.plus(delta.usage))
                if isinstance(delta, HandoffDone):
                    return _done(session, state.stamp.next(ctx.now_ms), delta.thread)
                step = back_at_rest(session, state.stamp.next(ctx.now_ms), state.within)
                return Step(step.next, (HandoffEnded(None), *step.effects))
            late = late_report(state.session, delta)
            return stay(state, ctx, late.session, late.effects)
        case FromUser() as delta:
            return _on_user(state, ctx, delta)
        case FromModel() | FromTool() | TimerFired() as report:
            late = late_report(state.session, report)
            return stay(state, ctx, late.session, late.effects)
        case FromThread() as delta:
            if isinstance(delta, Resumed):
                return _resumed(state, ctx, delta)
            if isinstance(delta, Disposed):
                stamp = state.stamp.next(ctx.now_ms)
                session, aborted = abort_handoff(state.session, state.operation)
                session, effects = cut_gates(session, reason_of(delta), stamp.now_ms, aborted)
                session, requeued = requeue_steers(session)
                return Step(Initial(session=session, stamp=stamp), (*effects, *requeued))
            if isinstance(delta, Forked):
                session, ended = drop_handoff(state.session, state.operation)
                session, forked = fork_session(session, delta)
                session, requeued = requeue_steers(session)
                return Step(Idle(session=session, stamp=state.stamp.next(ctx.now_ms)), (*forked, *ended, *requeued))
            return Step(state, refusal(delta, RefusalReason.NOT_NOW))
        case _:
            assert_never(ctx.delta)


def _done(session: Session, stamp: Stamp, thread: str) -> Step[Done]:
    """The run is over; what waits has gone along (rule STATE-8)."""
    session, requeued = requeue_steers(session)
    session, handed = hand_back(session)
    session, dropped = drop_held(session)
    done = Done(session=session, stamp=stamp, reason=TurnEndReason.HANDED_OFF)
    return Step(done, (HandoffEnded(thread), *requeued, *handed, *dropped))


def _on_user(state: HandingOff, ctx: Context, delta: UserDelta) -> Step[HandingOff | Thinking | Cancelled]:
    if isinstance(delta, CompactNow):
        return Step(state, refusal(delta, RefusalReason.NOT_NOW))
    cause = cutting(state.session, delta)
    if cause is not None:
        session, aborted = abort_handoff(state.session, state.operation)
        return cut_at_rest(session, state.stamp.next(ctx.now_ms), cause, aborted)
    session, effects = input_while_busy(state.session, None, delta, max(state.stamp.now_ms, ctx.now_ms))
    return stay(state, ctx, session, effects)


def _resumed(state: HandingOff, ctx: Context, delta: Resumed) -> Step[Idle | Cancelled]:
    """The process was restarted: whether a new thread was made is not known, so none is asked for again."""
    session, restarted = restart_held_runs(state.session, delta)
    session, ended = drop_handoff(session, state.operation)
    session, requeued = requeue_steers(session)
    rest = resting(session, state.stamp.next(ctx.now_ms), state.within)
    return Step(rest, (SessionResumed(), *restarted, *ended, *requeued))

"""`Compacting`: a summary is being made, in a turn or at rest (section COMPACT)."""

from typing import assert_never

from attrs import evolve

from loopkernel.data.effects import Effect
from loopkernel.data.events import SessionResumed
from loopkernel.data.model_deltas import FromModel
from loopkernel.data.outside_deltas import FromOutside, SummaryFailed, SummaryReady, TimerFired
from loopkernel.data.sessions import Session, Stamp, Turn
from loopkernel.data.states import AtRest, BeforeRequest, Cancelled, Compacting, Finishing, Idle, Initial, Thinking
from loopkernel.data.steps import Context, Step, stay
from loopkernel.data.thread_deltas import Disposed, Forked, FromThread, Resumed
from loopkernel.data.tool_deltas import FromTool
from loopkernel.data.user_deltas import CompactNow, FromUser, UserDelta
from loopkernel.data.words import RefusalReason
from loopkernel.loop.calls.late_reports import late_report
from loopkernel.loop.gates.refusals import refusal
from loopkernel.loop.history.compaction import abort_summary, ask_summary, drop_summary, summary_failed, take_summary
from loopkernel.loop.life.fork import FORKED, fork_session
from loopkernel.loop.life.restart import restart_held_runs
from loopkernel.loop.phases.rest import back_at_rest, cut_at_rest
from loopkernel.loop.turn.cancelling import Cause, cut_gates, cutting, end_cut_short, reason_of
from loopkernel.loop.turn.failure import surface
from loopkernel.loop.turn.inbox import requeue_steers
from loopkernel.loop.turn.input import input_while_busy


def on_compacting(
    state: Compacting, ctx: Context
) -> Step[Compacting | Thinking | Finishing | Idle | Cancelled | Initial]:
    """The summary, or that there is none; input waits, a cancel ends it."""
    match ctx.delta:
        case FromOutside() as delta:
            if isinstance(delta, SummaryReady | SummaryFailed) and delta.operation == state.operation:
                return _reported(state, ctx, delta)
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
                return _cut_short(state, ctx, delta)
            if isinstance(delta, Forked):
                return _forked(state, ctx, delta)
            return Step(state, refusal(delta, RefusalReason.NOT_NOW))
        case _:
            assert_never(ctx.delta)


def _reported(
    state: Compacting, ctx: Context, delta: SummaryReady | SummaryFailed
) -> Step[Thinking | Finishing | Idle | Cancelled]:
    """The summary takes its place, or the thread stays as it is; its usage counts either way (rule COMPACT-3)."""
    stamp = state.stamp.next(ctx.now_ms)
    session = evolve(state.session, usage=state.session.usage.plus(delta.usage))
    if isinstance(delta, SummaryReady):
        session, effects = take_summary(session, state.cut, delta.text)
        step = _gone_on(state, session, stamp)
        return Step(step.next, (*effects, *step.effects))
    session, effects = summary_failed(session, stamp.now_ms)
    turn = state.within
    if state.failure is None or isinstance(turn, AtRest):
        step = _gone_on(state, session, stamp)
        return Step(step.next, (*effects, *step.effects))
    after = surface(session, turn, state.failure)
    effects = (*effects, *after.effects)
    if after.ending is None:
        return Step(Thinking(session=after.session, stamp=stamp, turn=after.turn), effects)
    return Step(Finishing(session=after.session, stamp=stamp, turn=after.turn, ending=after.ending), effects)


def _gone_on(state: Compacting, session: Session, stamp: Stamp) -> Step[Thinking | Idle | Cancelled]:
    """On to the gates behind the compaction, or back at rest."""
    if isinstance(state.within, Turn):
        thinking = Thinking(session=session, stamp=stamp, turn=state.within, passed=BeforeRequest.COMPACTION)
        return Step(thinking, ())
    return back_at_rest(session, stamp, state.within)


def _on_user(state: Compacting, ctx: Context, delta: UserDelta) -> Step[Compacting | Thinking | Finishing | Cancelled]:
    if isinstance(delta, CompactNow):
        return Step(state, refusal(delta, RefusalReason.NOT_NOW))
    cause = cutting(state.session, delta)
    if cause is None:
        now_ms = max(state.stamp.now_ms, ctx.now_ms)
        session, effects = input_while_busy(state.session, None, delta, now_ms)
        return stay(state, ctx, session, effects)
    session, aborted = abort_summary(state.session, state.operation)
    if isinstance(state.within, Turn):
        return _turn_cut(state, ctx, session, cause, aborted, state.within)
    return cut_at_rest(session, state.stamp.next(ctx.now_ms), cause, aborted)


def _cut_short(state: Compacting, ctx: Context, delta: Disposed) -> Step[Finishing | Initial]:
    session, aborted = abort_summary(state.session, state.operation)
    if isinstance(state.within, Turn):
        return _turn_cut(state, ctx, session, delta, aborted, state.within)
    stamp = state.stamp.next(ctx.now_ms)
    session, effects = cut_gates(session, reason_of(delta), stamp.now_ms, aborted)
    session, requeued = requeue_steers(session)
    return Step(Initial(session=session, stamp=stamp), (*effects, *requeued))


def _turn_cut(
    state: Compacting, ctx: Context, session: Session, cause: Cause, aborted: tuple[Effect, ...], turn: Turn
) -> Step[Finishing]:
    stamp = state.stamp.next(ctx.now_ms)
    session, effects = cut_gates(session, reason_of(cause), stamp.now_ms, aborted)
    session, ending = end_cut_short(session, cause)
    return Step(Finishing(session=session, stamp=stamp, turn=turn, ending=ending), effects)


def _forked(state: Compacting, ctx: Context, delta: Forked) -> Step[Finishing | Idle]:
    stamp = state.stamp.next(ctx.now_ms)
    session, ended = drop_summary(state.session, state.operation)
    session, forked = fork_session(session, delta)
    effects = (*forked, *ended)
    if isinstance(state.within, Turn):
        return Step(Finishing(session=session, stamp=stamp, turn=state.within, ending=FORKED), effects)
    session, requeued = requeue_steers(session)
    return Step(Idle(session=session, stamp=stamp), (*effects, *requeued))


def _resumed(state: Compacting, ctx: Context, delta: Resumed) -> Step[Compacting]:
    """The process was restarted: the summary is asked for again (rule RESUME-3)."""
    session, restarted = restart_held_runs(state.session, delta)
    session, _ = drop_summary(session, state.operation)
    session, operation, asked = ask_summary(session, state.cut)
    again = evolve(state, session=session, stamp=state.stamp.next(ctx.now_ms), operation=operation)
    return Step(again, (SessionResumed(), *restarted, *asked))

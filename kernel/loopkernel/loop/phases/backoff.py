"""`Backoff`: a failed model call waits to be tried again; the user need not wait (rules RETRY-4 and INPUT-1)."""

from typing import assert_never

from attrs import evolve

from loopkernel.data.endings import Ending, NextInput, NextQueued
from loopkernel.data.events import ErrorCleared, SessionResumed
from loopkernel.data.model_deltas import FromModel
from loopkernel.data.outside_deltas import FromOutside, TimerFired
from loopkernel.data.states import Backoff, Finishing, Thinking
from loopkernel.data.steps import Context, Step, stay
from loopkernel.data.thread_deltas import Disposed, Forked, FromThread, Resumed
from loopkernel.data.tool_deltas import FromTool
from loopkernel.data.user_deltas import DismissError, Enqueue, FromUser, RetryNow, Say, UserDelta
from loopkernel.data.words import RefusalReason, TimerPurpose, TurnEndReason
from loopkernel.loop.calls.late_reports import late_report
from loopkernel.loop.gates.refusals import refusal
from loopkernel.loop.gates.timers import close_timer, start_timer
from loopkernel.loop.life.fork import FORKED, fork_session
from loopkernel.loop.life.restart import restart_held_runs
from loopkernel.loop.turn.cancelling import Cause, cut_gates, cutting, end_cut_short, reason_of
from loopkernel.loop.turn.inbox import queue_input, seen_before, take_receipt
from loopkernel.loop.turn.input import input_while_busy


def on_backoff(state: Backoff, ctx: Context) -> Step[Backoff | Thinking | Finishing]:
    """Time, or the user, ends the wait; a message ends the turn and starts its own; reports are late."""
    match ctx.delta:
        case TimerFired() as fired:
            if fired.operation == state.timer.operation:
                return _asked_again(state, ctx)
            late = late_report(state.session, fired)
            return stay(state, ctx, late.session, late.effects)
        case FromUser() as delta:
            return _on_user(state, ctx, delta)
        case FromModel() | FromTool() | FromOutside() as report:
            late = late_report(state.session, report)
            return stay(state, ctx, late.session, late.effects)
        case FromThread() as delta:
            if isinstance(delta, Resumed):
                return _resumed(state, ctx, delta)
            if isinstance(delta, Disposed):
                return _cut_short(state, ctx, delta)
            if isinstance(delta, Forked):
                session, forked = fork_session(state.session, delta)
                return Step(_finishing(evolve(state, session=session), ctx, FORKED), forked)
            return Step(state, refusal(delta, RefusalReason.NOT_NOW))
        case _:
            assert_never(ctx.delta)


def _on_user(state: Backoff, ctx: Context, delta: UserDelta) -> Step[Backoff | Thinking | Finishing]:
    """Backoff is not busy: what is said or queued is not kept waiting."""
    session = state.session
    if isinstance(delta, RetryNow):
        again = _asked_again(state, ctx)
        return Step(again.next, close_timer(state.timer))
    if isinstance(delta, DismissError):
        cleared = (ErrorCleared(),) if session.error is not None else ()
        dismissed = evolve(state, session=evolve(session, error=None))
        ended = _finishing(dismissed, ctx, Ending(reason=TurnEndReason.ERROR))
        return Step(ended, (*close_timer(state.timer), *cleared))
    if isinstance(delta, Say | Enqueue):
        return _interrupted(state, ctx, delta)
    cause = cutting(session, delta)
    if cause is not None:
        return _cut_short(state, ctx, cause)
    session, effects = input_while_busy(session, None, delta, state.stamp.next(ctx.now_ms).now_ms)
    return stay(state, ctx, session, effects)


def _asked_again(state: Backoff, ctx: Context) -> Step[Thinking]:
    return Step(Thinking(session=state.session, stamp=state.stamp.next(ctx.now_ms), turn=state.turn), ())


def _interrupted(state: Backoff, ctx: Context, delta: Say | Enqueue) -> Step[Backoff | Finishing]:
    """The turn ends, and the message starts another; one that is queued goes behind those that were (rule INPUT-2)."""
    session = state.session
    if seen_before(session, delta):
        return Step(state, refusal(delta, RefusalReason.DUPLICATE))
    closed = close_timer(state.timer)
    if isinstance(delta, Enqueue) and (session.inbox.queue or session.inbox.steers):
        session, queued = queue_input(session, delta.content, delta.key)
        ending = Ending(reason=TurnEndReason.INTERRUPTED, then=NextQueued())
        return Step(_finishing(evolve(state, session=session), ctx, ending), (*closed, *queued))
    session, receipt = take_receipt(session, delta.key)
    then = NextInput(receipt=receipt, content=delta.content, key=delta.key)
    ending = Ending(reason=TurnEndReason.INTERRUPTED, then=then)
    return Step(_finishing(evolve(state, session=session), ctx, ending), closed)


def _cut_short(state: Backoff, ctx: Context, cause: Cause) -> Step[Finishing]:
    now_ms = state.stamp.next(ctx.now_ms).now_ms
    session, effects = cut_gates(state.session, reason_of(cause), now_ms)
    session, ending = end_cut_short(session, cause)
    finishing = _finishing(evolve(state, session=session), ctx, ending)
    return Step(finishing, (*close_timer(state.timer), *effects))


def _finishing(state: Backoff, ctx: Context, ending: Ending) -> Finishing:
    """The turn ends instead of being tried again; its timer is closed by the caller, or gone."""
    return Finishing(session=state.session, stamp=state.stamp.next(ctx.now_ms), turn=state.turn, ending=ending)


def _resumed(state: Backoff, ctx: Context, delta: Resumed) -> Step[Backoff]:
    """The process was restarted: the countdown keeps its deadline (rule RESUME-3)."""
    session, restarted = restart_held_runs(state.session, delta)
    operations, timer, started = start_timer(session.operations, TimerPurpose.RETRY, state.timer.deadline_ms)
    stamp = state.stamp.next(ctx.now_ms)
    session = session.with_operations(operations)
    again = Backoff(session=session, stamp=stamp, turn=state.turn, timer=timer, error=state.error)
    return Step(again, (SessionResumed(), *restarted, started))

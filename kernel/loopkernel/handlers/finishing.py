"""`Finishing`: the end of a turn. Every turn ends here, once (rules STATE-8 and INFER-6)."""

from typing import assert_never

from attrs import evolve

from loopkernel.data.choices import Lifetime
from loopkernel.data.effects import Effect
from loopkernel.data.endings import NextInput
from loopkernel.data.events import TurnEnded
from loopkernel.data.model_deltas import FromModel
from loopkernel.data.outside_deltas import FromOutside, TimerFired
from loopkernel.data.states import Cancelled, Done, Finishing, Idle, Initial, Thinking
from loopkernel.data.steps import Context, Step, stay
from loopkernel.data.thread_deltas import Disposed, Forked, FromThread
from loopkernel.data.tool_deltas import FromTool
from loopkernel.data.user_deltas import FromUser
from loopkernel.data.words import CancelReason, RefusalReason, RequestReason
from loopkernel.regions.cancels import Cause, cut_gates, cutting, end_cut_short, reason_of
from loopkernel.regions.errors import show_error
from loopkernel.regions.forks import FORKED, fork_session
from loopkernel.regions.held_runs import drop_held
from loopkernel.regions.inbox import hand_back, requeue_steers
from loopkernel.regions.limits import limit_hit
from loopkernel.regions.refusals import refusal
from loopkernel.regions.reports import late_report
from loopkernel.regions.rewriting import drop_from
from loopkernel.regions.turns import open_turn_with
from loopkernel.regions.user_input import input_while_busy, open_queued_turn


def on_finishing(state: Finishing, ctx: Context) -> Step[Finishing]:
    """While a gate is open the turn has not ended: input waits, a cancel ends it."""
    match ctx.delta:
        case FromUser() as delta:
            cause = cutting(state.session, delta)
            if cause is not None:
                return _cut_short(state, ctx, cause)
            now_ms = max(state.stamp.now_ms, ctx.now_ms)
            session, effects = input_while_busy(state.session, None, delta, now_ms)
            return stay(state, ctx, session, effects)
        case FromModel() | FromTool() | TimerFired() | FromOutside() as report:
            late = late_report(state.session, report)
            return stay(state, ctx, late.session, late.effects)
        case FromThread() as delta:
            if isinstance(delta, Disposed):
                return _cut_short(state, ctx, delta)
            if isinstance(delta, Forked):
                session, forked = fork_session(state.session, delta)
                stamp = state.stamp.next(ctx.now_ms)
                return Step(Finishing(session=session, stamp=stamp, turn=state.turn, ending=FORKED), forked)
            return Step(state, refusal(delta, RefusalReason.NOT_NOW))
        case _:
            assert_never(ctx.delta)


def _cut_short(state: Finishing, ctx: Context, cause: Cause) -> Step[Finishing]:
    stamp = state.stamp.next(ctx.now_ms)
    session, effects = cut_gates(state.session, reason_of(cause), stamp.now_ms)
    session, ending = end_cut_short(session, cause)
    return Step(Finishing(session=session, stamp=stamp, turn=state.turn, ending=ending), effects)


def enter_finishing(state: Finishing) -> Step[Finishing | Idle | Thinking | Cancelled | Done | Initial]:
    """Wait for an open gate; let a waiting message keep the turn going; else end it and go where it leads."""
    if state.hook is not None or state.correction is not None:
        return Step(state, ())
    session, turn, ending = state.session, state.turn, state.ending
    if ending.gated and session.inbox.steers and limit_hit(session, turn, state.stamp.now_ms) is None:
        return Step(Thinking(session=session, stamp=state.stamp, turn=evolve(turn, reason=RequestReason.USER)), ())
    effects: tuple[Effect, ...] = ()
    if ending.error is not None:
        session, effects = show_error(session, ending.error, ending.message)
    ended = TurnEnded(ending.reason, session.usage)
    session, requeued = requeue_steers(evolve(session, last_end=ending.reason))
    step = _after_end(evolve(state, session=session))
    return Step(step.next, (*effects, ended, *requeued, *step.effects))


def _after_end(state: Finishing) -> Step[Idle | Thinking | Cancelled | Done | Initial]:
    """Where the session goes once its turn has ended."""
    session, stamp, ending = state.session, state.stamp, state.ending
    effects: tuple[Effect, ...]
    if isinstance(ending.then, NextInput):
        then = ending.then
        session, dropped = (session, ()) if then.replaces is None else drop_from(session, then.replaces)
        session, turn, effects = open_turn_with(session, stamp.now_ms, then.content, then.receipt, key=then.key)
        return Step(Thinking(session=session, stamp=stamp, turn=turn), (*dropped, *effects))
    if ending.then is not None and session.inbox.queue:
        session, turn, effects = open_queued_turn(session, stamp.now_ms)
        return Step(Thinking(session=session, stamp=stamp, turn=turn), effects)
    if ending.forked:
        return Step(Idle(session=session, stamp=stamp), ())
    if ending.cancel is CancelReason.DISPOSED:
        return Step(Initial(session=session, stamp=stamp, ledger=ending.waiting), ())
    if session.settings.policy.lifetime is Lifetime.TASK or ending.final:
        session, effects = hand_back(session)
        session, dropped = drop_held(session)
        done = Done(session=session, stamp=stamp, reason=ending.reason, cancel=ending.cancel)
        return Step(done, (*effects, *dropped))
    if ending.natural and session.inbox.queue:
        session, turn, effects = open_queued_turn(session, stamp.now_ms)
        return Step(Thinking(session=session, stamp=stamp, turn=turn), effects)
    if ending.cancel is not None:
        return Step(Cancelled(session=session, stamp=stamp, reason=ending.cancel), ())
    return Step(Idle(session=session, stamp=stamp), ())

"""Back at rest after what was done there, and on after a failure: the same from several phases."""

from typing import TypeVar

from loopkernel.data.effects import Effect
from loopkernel.data.endings import Failure
from loopkernel.data.sessions import Session, Stamp
from loopkernel.data.states import AtRest, Backoff, Cancelled, Compacting, Finishing, HandingOff, Idle, Thinking
from loopkernel.data.steps import Context, Step, stay
from loopkernel.data.user_deltas import CancelAll, CompactNow, EditMessage, Say, StartHandoff
from loopkernel.data.words import RefusalReason
from loopkernel.loop.gates.refusals import refusal
from loopkernel.loop.history.compaction import compact
from loopkernel.loop.life.handoff import begin_handoff
from loopkernel.loop.turn.cancelling import cut_gates, reason_of
from loopkernel.loop.turn.failure import Recovered
from loopkernel.loop.turn.inbox import requeue_steers
from loopkernel.loop.turn.input import message_at_rest, open_queued_turn


def recovering(after: Recovered, stamp: Stamp, failure: Failure) -> Step[Thinking | Backoff | Compacting | Finishing]:
    """Where the failure of a model call leads: to the end of the turn, a summary, a wait, or the next request."""
    session, turn, effects = after.session, after.turn, after.effects
    if after.ending is not None:
        return Step(Finishing(session=session, stamp=stamp, turn=turn, ending=after.ending), effects)
    if after.summary is not None:
        operation, cut = after.summary
        compacting = Compacting(
            session=session, stamp=stamp, within=turn, operation=operation, cut=cut, failure=failure
        )
        return Step(compacting, effects)
    if after.timer is not None:
        backoff = Backoff(session=session, stamp=stamp, turn=turn, timer=after.timer, error=failure.error)
        return Step(backoff, effects)
    return Step(Thinking(session=session, stamp=stamp, turn=turn), effects)


def back_at_rest(session: Session, stamp: Stamp, within: AtRest) -> Step[Idle | Cancelled | Thinking]:
    """What was done at rest is over: what the user has said meanwhile starts a turn, else the session rests again."""
    spoken = bool(session.inbox.steers) or any(waiting.number > within.queued for waiting in session.inbox.queue)
    session, requeued = requeue_steers(session)
    effects: tuple[Effect, ...] = requeued
    if spoken:
        session, turn, opened = open_queued_turn(session, stamp.now_ms)
        return Step(Thinking(session=session, stamp=stamp, turn=turn), (*effects, *opened))
    return Step(resting(session, stamp, within), effects)


R = TypeVar("R", Idle, Cancelled)


def started_at_rest(
    state: R, ctx: Context, delta: CompactNow | StartHandoff, within: AtRest
) -> Step[R | Compacting | HandingOff]:
    """The user wants the thread made smaller, or the work carried over, while nothing is open."""
    session, stamp = state.session, state.stamp.next(ctx.now_ms)
    if isinstance(delta, StartHandoff):
        session, operation, effects = begin_handoff(session, delta.goal)
        return Step(
            HandingOff(session=session, stamp=stamp, within=within, operation=operation, goal=delta.goal), effects
        )
    opened = compact(session)
    if opened is None:
        return Step(state, refusal(delta, RefusalReason.NOT_NOW))
    if opened.operation is None:
        return stay(state, ctx, opened.session, opened.effects)
    compacting = Compacting(
        session=opened.session, stamp=stamp, within=within, operation=opened.operation, cut=opened.cut
    )
    return Step(compacting, opened.effects)


def cut_at_rest(
    session: Session, stamp: Stamp, cause: CancelAll | Say | EditMessage, aborted: tuple[Effect, ...]
) -> Step[Cancelled | Thinking]:
    """What was done at rest is cut short: by a cancel, or by a message that starts a turn."""
    session, cut = cut_gates(session, reason_of(cause), stamp.now_ms, aborted)
    if isinstance(cause, CancelAll):
        session, requeued = requeue_steers(session)
        return Step(Cancelled(session=session, stamp=stamp, reason=reason_of(cause)), (*cut, *requeued))
    session, turn, opened = message_at_rest(session, stamp.now_ms, cause)
    session, requeued = requeue_steers(session)
    return Step(Thinking(session=session, stamp=stamp, turn=turn), (*cut, *requeued, *opened))


def resting(session: Session, stamp: Stamp, within: AtRest) -> Idle | Cancelled:
    """The state at rest in which the session was."""
    if within.cancel is None:
        return Idle(session=session, stamp=stamp)
    return Cancelled(session=session, stamp=stamp, reason=within.cancel)

"""`HandingOff`: the work is being carried over to a new thread; nothing else starts (rule HANDOFF-1)."""

from typing import assert_never

from loopkernel.data.events import HandoffEnded, SessionResumed, WorkCancelled
from loopkernel.data.model_deltas import FromModel
from loopkernel.data.outside_deltas import FromOutside, HandoffDone, HandoffFailed, TimerFired
from loopkernel.data.states import Cancelled, Done, HandingOff, Idle, Initial, Thinking
from loopkernel.data.steps import Context, Step
from loopkernel.data.thread_deltas import Disposed, Forked, FromThread, Resumed
from loopkernel.data.tool_deltas import FromTool
from loopkernel.data.user_deltas import CompactNow, FromUser, UserDelta
from loopkernel.data.words import RefusalReason, TurnEndReason
from loopkernel.loop.calls.held_runs import abort_all_in_background
from loopkernel.loop.calls.late_reports import late_report
from loopkernel.loop.draft import Draft
from loopkernel.loop.gates.refusals import refusal
from loopkernel.loop.life.fork import fork_session
from loopkernel.loop.life.handoff import abort_handoff, forget_handoff
from loopkernel.loop.life.restart import restart_held_runs
from loopkernel.loop.phases.moves import (
    back_at_rest,
    begin,
    cut_at_rest,
    stay,
    to_done,
    to_idle,
    to_initial,
    to_rest,
)
from loopkernel.loop.turn.cancelling import Cause, cutting, reason_of
from loopkernel.loop.turn.inbox import requeue_steers
from loopkernel.loop.turn.input import input_while_busy


def on_handing_off(state: HandingOff, ctx: Context) -> Step[HandingOff | Done | Idle | Cancelled | Thinking | Initial]:
    """The new thread, or that there is none; input waits, a cancel ends it."""
    draft = begin(state, ctx)
    match ctx.delta:
        case FromUser() as delta:
            return _on_user(state, draft, delta)
        case FromModel() | FromTool() | TimerFired() | FromOutside() as report:
            if isinstance(report, HandoffDone | HandoffFailed) and report.operation == state.operation:
                return _reported(state, draft, report)
            return stay(state, late_report(draft, report))
        case FromThread() as delta:
            if isinstance(delta, Resumed):  # whether a new thread was made is not known, so none is asked for again
                draft = restart_held_runs(draft.tell(SessionResumed()), delta)
                return to_rest(requeue_steers(forget_handoff(draft, state.operation)), state.within)
            if isinstance(delta, Disposed):
                return to_initial(requeue_steers(_cut(state, draft, delta)))
            if isinstance(delta, Forked):
                return to_idle(requeue_steers(forget_handoff(fork_session(draft, delta), state.operation)))
            return Step(state, (refusal(delta, RefusalReason.NOT_NOW),))
        case _:
            assert_never(ctx.delta)


def _reported(
    state: HandingOff, draft: Draft[None], delta: HandoffDone | HandoffFailed
) -> Step[Done | Idle | Cancelled | Thinking]:
    """The run is over, and what waits has gone along (rule STATE-8); or it goes on here."""
    draft = draft.with_session(draft.session.updated(usage=draft.session.usage.plus(delta.usage)))
    if isinstance(delta, HandoffFailed):
        return back_at_rest(draft.tell(HandoffEnded(None)), state.within)
    return to_done(requeue_steers(draft.tell(HandoffEnded(delta.thread))), TurnEndReason.HANDED_OFF)


def _on_user(state: HandingOff, draft: Draft[None], delta: UserDelta) -> Step[HandingOff | Thinking | Cancelled]:
    if isinstance(delta, CompactNow):
        return Step(state, (refusal(delta, RefusalReason.NOT_NOW),))
    cause = cutting(draft.session, delta)
    if cause is not None:
        return cut_at_rest(_cut(state, draft, cause), cause)
    return stay(state, input_while_busy(draft, delta))


def _cut(state: HandingOff, draft: Draft[None], cause: Cause) -> Draft[None]:
    """The new thread is not wanted any more, and what runs in the background is to stop."""
    draft = abort_handoff(abort_all_in_background(draft, reason_of(cause)), state.operation)
    return draft.tell(WorkCancelled(reason_of(cause)))

"""`Cancelled`: at rest after a cancel of everything; recoverable (rule STATE-4)."""

from typing import assert_never

from loopkernel.data.events import Refused, SessionResumed
from loopkernel.data.model_deltas import FromModel
from loopkernel.data.outside_deltas import FromOutside, TimerFired
from loopkernel.data.states import Cancelled, Initial, Thinking
from loopkernel.data.steps import Context, Step, stay
from loopkernel.data.thread_deltas import Disposed, FromThread, Resumed
from loopkernel.data.tool_deltas import FromTool
from loopkernel.data.user_deltas import FromUser
from loopkernel.data.words import RefusalReason, UserAction
from loopkernel.regions.refusals import refusal
from loopkernel.regions.reports import late_report
from loopkernel.regions.user_input import input_at_rest


def on_cancelled(state: Cancelled, ctx: Context) -> Step[Cancelled | Thinking | Initial]:
    """User input starts a turn again, or changes settings; reports are late; disposal releases the thread."""
    match ctx.delta:
        case FromUser() as delta:
            session, turn, effects = input_at_rest(state.session, state.stamp.next(ctx.now_ms).now_ms, delta)
            if turn is None:
                return stay(state, ctx, session, effects)
            return Step(Thinking(session=session, stamp=state.stamp.next(ctx.now_ms), turn=turn), effects)
        case FromModel() | FromTool() | TimerFired() | FromOutside() as report:
            session, reason = late_report(state.session, report)
            return stay(state, ctx, session, (Refused(UserAction.REPORT, reason),))
        case FromThread() as delta:
            if isinstance(delta, Resumed):
                return stay(state, ctx, state.session, (SessionResumed(),))
            if isinstance(delta, Disposed):
                return Step(Initial(session=state.session, stamp=state.stamp.next(ctx.now_ms)), ())
            return Step(state, refusal(delta, RefusalReason.NOT_NOW))
        case _:
            assert_never(ctx.delta)

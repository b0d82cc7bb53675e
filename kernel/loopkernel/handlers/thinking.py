"""`Thinking`: the gates before a request, in order (rule INFER-1). Entering it makes the request when none waits."""

from typing import assert_never

from loopkernel.data.effects import Effect
from loopkernel.data.endings import Ending
from loopkernel.data.events import LimitReached, Refused, WorkCancelled
from loopkernel.data.messages import UserOrigin
from loopkernel.data.model_deltas import FromModel
from loopkernel.data.outside_deltas import FromOutside, TimerFired
from loopkernel.data.states import Finishing, Streaming, Thinking
from loopkernel.data.steps import Context, Step, stay
from loopkernel.data.thread_deltas import Disposed, FromThread
from loopkernel.data.tool_deltas import FromTool
from loopkernel.data.user_deltas import CancelAll, FromUser, Say
from loopkernel.data.vector import Vector
from loopkernel.data.words import LimitName, RefusalReason, RequestReason, TurnEndReason, UserAction
from loopkernel.planning.budget import turn_limit_reached
from loopkernel.planning.wording import NUDGE
from loopkernel.regions.cancels import Cause, end_cut_short, reason_of
from loopkernel.regions.conversation import add_note
from loopkernel.regions.inbox import inject_steers
from loopkernel.regions.refusals import refusal
from loopkernel.regions.reports import late_report
from loopkernel.regions.turns import begin_request
from loopkernel.regions.user_input import input_while_busy, interrupts


def on_thinking(state: Thinking, ctx: Context) -> Step[Thinking | Finishing]:
    """While a gate is open: input waits, a cancel ends the turn."""
    match ctx.delta:
        case FromUser() as delta:
            if isinstance(delta, CancelAll) or (isinstance(delta, Say) and interrupts(state.session, delta)):
                return _cut_short(state, ctx, delta)
            session, effects = input_while_busy(state.session, None, delta)
            return stay(state, ctx, session, effects)
        case FromModel() | FromTool() | TimerFired() | FromOutside() as report:
            session, reason = late_report(state.session, report)
            return stay(state, ctx, session, (Refused(UserAction.REPORT, reason),))
        case FromThread() as delta:
            if isinstance(delta, Disposed):
                return _cut_short(state, ctx, delta)
            return Step(state, refusal(delta, RefusalReason.NOT_NOW))
        case _:
            assert_never(ctx.delta)


def _cut_short(state: Thinking, ctx: Context, cause: Cause) -> Step[Finishing]:
    session, ending = end_cut_short(state.session, cause)
    stamp = state.stamp.next(ctx.now_ms)
    finishing = Finishing(session=session, stamp=stamp, turn=state.turn, ending=ending)
    return Step(finishing, (WorkCancelled(reason_of(cause)),))


def enter_thinking(state: Thinking) -> Step[Thinking | Streaming | Finishing]:
    """Wait for an open gate; else test the limits, let waiting messages in, and ask the model."""
    if state.gate is not None:
        return Step(state, ())
    session, turn = state.session, state.turn
    if turn_limit_reached(session.settings.policy, turn.replies):
        ending = Ending(reason=TurnEndReason.MAX_TURNS)
        finishing = Finishing(session=session, stamp=state.stamp, turn=turn, ending=ending)
        return Step(finishing, (LimitReached(LimitName.MAX_TURNS),))
    effects: list[Effect] = []
    if turn.reason is RequestReason.NUDGE:
        session, nudged = add_note(session, NUDGE, UserOrigin.NUDGE)
        effects.extend(nudged)
    session, steered = inject_steers(session)
    effects.extend(steered)
    session, reply, ledger, asked = begin_request(session, turn)
    effects.extend(asked)
    streaming = Streaming(session=session, stamp=state.stamp, turn=turn, reply=reply, pieces=Vector(), ledger=ledger)
    return Step(streaming, tuple(effects))

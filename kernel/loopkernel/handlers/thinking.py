"""`Thinking`: the gates before a request, in order (rule INFER-1). Entering it makes the request when none waits."""

from typing import assert_never

from loopkernel.data.effects import Effect
from loopkernel.data.endings import Ending
from loopkernel.data.events import LimitReached
from loopkernel.data.messages import UserOrigin
from loopkernel.data.model_deltas import FromModel
from loopkernel.data.outside_deltas import FromOutside, TimerFired
from loopkernel.data.sessions import Session, Turn
from loopkernel.data.states import Finishing, Streaming, Thinking
from loopkernel.data.steps import Context, Step, stay
from loopkernel.data.thread_deltas import Disposed, FromThread
from loopkernel.data.tool_deltas import FromTool
from loopkernel.data.user_deltas import CancelAll, FromUser, Say
from loopkernel.data.vector import Vector
from loopkernel.data.words import LimitName, RefusalReason, RequestReason, TurnEndReason
from loopkernel.planning.budget import turn_limit_reached
from loopkernel.planning.wording import NUDGE, demand_text
from loopkernel.regions.cancels import Cause, cut_gates, end_cut_short, reason_of
from loopkernel.regions.clearing import clear_results
from loopkernel.regions.conversation import add_note
from loopkernel.regions.held_runs import inject_background_ends
from loopkernel.regions.inbox import inject_steers
from loopkernel.regions.refusals import refusal
from loopkernel.regions.reports import late_report
from loopkernel.regions.turns import begin_request, demands_output
from loopkernel.regions.user_input import input_while_busy, interrupts


def on_thinking(state: Thinking, ctx: Context) -> Step[Thinking | Finishing]:
    """While a gate is open: input waits, a cancel ends the turn."""
    match ctx.delta:
        case FromUser() as delta:
            if isinstance(delta, CancelAll) or (isinstance(delta, Say) and interrupts(state.session, delta)):
                return _cut_short(state, ctx, delta)
            now_ms = max(state.stamp.now_ms, ctx.now_ms)
            session, effects = input_while_busy(state.session, None, delta, now_ms)
            return stay(state, ctx, session, effects)
        case FromModel() | FromTool() | TimerFired() | FromOutside() as report:
            late = late_report(state.session, report)
            return stay(state, ctx, late.session, late.effects)
        case FromThread() as delta:
            if isinstance(delta, Disposed):
                return _cut_short(state, ctx, delta)
            return Step(state, refusal(delta, RefusalReason.NOT_NOW))
        case _:
            assert_never(ctx.delta)


def _cut_short(state: Thinking, ctx: Context, cause: Cause) -> Step[Finishing]:
    stamp = state.stamp.next(ctx.now_ms)
    session, effects = cut_gates(state.session, reason_of(cause), stamp.now_ms)
    session, ending = end_cut_short(session, cause)
    return Step(Finishing(session=session, stamp=stamp, turn=state.turn, ending=ending), effects)


def enter_thinking(state: Thinking) -> Step[Thinking | Streaming | Finishing]:
    """Wait for an open gate; else test the limits, let waiting messages in, and ask the model."""
    if state.gate is not None:
        return Step(state, ())
    session, turn = state.session, state.turn
    if turn_limit_reached(session.settings.policy, turn.replies):
        ending = Ending(reason=TurnEndReason.MAX_TURNS)
        finishing = Finishing(session=session, stamp=state.stamp, turn=turn, ending=ending)
        return Step(finishing, (LimitReached(LimitName.MAX_TURNS),))
    session, ended = inject_background_ends(session)
    effects: list[Effect] = [*ended]
    if turn.reason is RequestReason.NUDGE:
        session, nudged = add_note(session, _nudge(session, turn), UserOrigin.NUDGE)
        effects.extend(nudged)
    session, steered = inject_steers(session)
    effects.extend(steered)
    session, cleared = clear_results(session)
    effects.extend(cleared)
    session, reply, ledger, asked = begin_request(session, turn)
    effects.extend(asked)
    streaming = Streaming(session=session, stamp=state.stamp, turn=turn, reply=reply, pieces=Vector(), ledger=ledger)
    return Step(streaming, tuple(effects))


def _nudge(session: Session, turn: Turn) -> str:
    """What an empty reply, or one without the output that it owes, is told."""
    output = session.settings.policy.output_tool
    return demand_text(output) if output is not None and demands_output(turn) else NUDGE

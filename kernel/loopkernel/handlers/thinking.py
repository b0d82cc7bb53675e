"""`Thinking`: the gates before a request, in order (rule INFER-1). Entering it makes the request when none waits."""

from typing import assert_never

from attrs import evolve

from loopkernel.data.effects import Effect
from loopkernel.data.endings import Ending
from loopkernel.data.events import LimitReached
from loopkernel.data.messages import ResultMessage, UserOrigin
from loopkernel.data.model_deltas import FromModel
from loopkernel.data.outside_deltas import FromOutside, TimerFired
from loopkernel.data.sessions import Session, Turn
from loopkernel.data.states import Finishing, Streaming, Thinking
from loopkernel.data.steps import Context, Step, stay
from loopkernel.data.thread_deltas import Disposed, Forked, FromThread
from loopkernel.data.tool_deltas import FromTool
from loopkernel.data.user_deltas import FromUser
from loopkernel.data.vector import Vector
from loopkernel.data.words import LimitName, RefusalReason, RequestReason, TurnEndReason
from loopkernel.planning.wording import CONTINUE, NUDGE, demand_text
from loopkernel.regions.cancels import Cause, cut_gates, cutting, end_cut_short, reason_of
from loopkernel.regions.clearing import clear_results
from loopkernel.regions.conversation import add_note
from loopkernel.regions.forks import FORKED, fork_session
from loopkernel.regions.held_runs import inject_background_ends
from loopkernel.regions.inbox import inject_steers
from loopkernel.regions.limits import OUT_OF_BUDGET, limit_hit
from loopkernel.regions.refusals import refusal
from loopkernel.regions.repetition import check_repetition
from loopkernel.regions.reports import late_report
from loopkernel.regions.turns import begin_request
from loopkernel.regions.user_input import input_while_busy


def on_thinking(state: Thinking, ctx: Context) -> Step[Thinking | Finishing]:
    """While a gate is open: input waits, a cancel ends the turn."""
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


def _cut_short(state: Thinking, ctx: Context, cause: Cause) -> Step[Finishing]:
    stamp = state.stamp.next(ctx.now_ms)
    session, effects = cut_gates(state.session, reason_of(cause), stamp.now_ms)
    session, ending = end_cut_short(session, cause)
    return Step(Finishing(session=session, stamp=stamp, turn=state.turn, ending=ending), effects)


def enter_thinking(state: Thinking) -> Step[Thinking | Streaming | Finishing]:
    """Wait for an open gate; else test the limits, let waiting messages in, and ask the model."""
    if state.gate is not None:
        return Step(state, ())
    session, turn, now_ms = state.session, state.turn, state.stamp.now_ms
    limit = limit_hit(session, turn, now_ms)
    if limit is not None:
        ending = Ending(reason=TurnEndReason.MAX_TURNS) if limit is LimitName.MAX_TURNS else OUT_OF_BUDGET
        finishing = Finishing(session=session, stamp=state.stamp, turn=turn, ending=ending)
        return Step(finishing, (LimitReached(limit),))
    effects: list[Effect] = []
    note = _note(session, turn)
    session, ended = inject_background_ends(session)
    effects.extend(ended)
    if note is not None:
        session, told = add_note(session, *note)
        effects.extend(told)
    if session.inbox.steers:
        session, steered = inject_steers(session)
        turn = evolve(turn, recovery=evolve(turn.recovery, retries=0))  # they are new user messages (rule RETRY-4)
        effects.extend(steered)
    session, stopped, found = check_repetition(session)
    effects.extend(found)
    if stopped:
        ending = Ending(reason=TurnEndReason.LOOP_DETECTED)
        return Step(Finishing(session=session, stamp=state.stamp, turn=turn, ending=ending), tuple(effects))
    session, cleared = clear_results(session)
    effects.extend(cleared)
    asked = begin_request(session, turn, now_ms)
    streaming = Streaming(
        session=asked.session,
        stamp=state.stamp,
        turn=turn,
        reply=asked.reply,
        pieces=Vector(),
        ledger=asked.ledger,
        heard_ms=now_ms,
        silence=asked.silence,
    )
    return Step(streaming, (*effects, *asked.effects))


def _note(session: Session, turn: Turn) -> tuple[str, UserOrigin] | None:
    """What the model is told in the user's place, for the reason of the request; None: nothing."""
    if turn.reason is RequestReason.NUDGE:
        output = session.settings.policy.output_tool
        return (demand_text(output) if output is not None and turn.forcing else NUDGE), UserOrigin.NUDGE
    messages = session.thread.messages
    answered = len(messages) > 0 and isinstance(messages[len(messages) - 1], ResultMessage)
    if turn.reason is RequestReason.MAX_OUTPUT_TOKENS_RECOVERY and not answered:
        return CONTINUE, UserOrigin.CONTINUATION
    return None

"""`Executing`: the calls of the last reply run; when all are answered, the loop goes on (rule TOOL-7)."""

from typing import assert_never

from attrs import evolve

from loopkernel.data.blocks import TextBlock, ToolResult
from loopkernel.data.effects import Effect
from loopkernel.data.endings import Ending
from loopkernel.data.events import Refused, SessionResumed, ToolProgressed
from loopkernel.data.ledgers import Ledger
from loopkernel.data.model_deltas import FromModel
from loopkernel.data.outside_deltas import FromOutside, TimerFired
from loopkernel.data.sessions import Session
from loopkernel.data.states import Executing, Finishing, Thinking
from loopkernel.data.steps import Context, Step, stay
from loopkernel.data.thread_deltas import Disposed, FromThread, Resumed
from loopkernel.data.tool_deltas import (
    FromTool,
    ToolAsked,
    ToolChecked,
    ToolDelta,
    ToolFailed,
    ToolProgress,
    ToolStopped,
    ToolSucceeded,
)
from loopkernel.data.tools import ToolOutput
from loopkernel.data.user_deltas import CancelAll, CancelCall, ChangesSettings, FromUser, Say
from loopkernel.data.words import (
    CallStatus,
    CancelReason,
    RefusalReason,
    RequestReason,
    TurnEndReason,
    UserAction,
)
from loopkernel.planning.wording import NO_RESULT, stopped_to_ask_text
from loopkernel.regions.cancels import Cause, cut_calls, end_cut_short, reason_of
from loopkernel.regions.conversation import add_results
from loopkernel.regions.ledger import (
    add_progress,
    answer_faulty,
    cancel_call,
    finish_run,
    forget_schedule,
    open_check,
    open_run,
    results,
    start_ready,
    stop_call,
    take_verdict,
    user_cancelled,
)
from loopkernel.regions.refusals import refusal
from loopkernel.regions.reports import late_report
from loopkernel.regions.restart import restart_calls
from loopkernel.regions.user_input import input_while_busy, interrupts


def on_executing(state: Executing, ctx: Context) -> Step[Executing | Finishing]:
    """Reports of checks and runs; input waits; a cancel of one call answers it, a cancel of all ends the turn."""
    match ctx.delta:
        case FromTool() as delta:
            return _on_tool(state, ctx, delta)
        case FromUser() as delta:
            if isinstance(delta, CancelAll) or (isinstance(delta, Say) and interrupts(state.session, delta)):
                return _cut_short(state, ctx, delta)
            if isinstance(delta, CancelCall):
                return _cancel_one(state, ctx, delta)
            session, effects = input_while_busy(state.session, state.ledger, delta)
            if isinstance(delta, ChangesSettings):
                state = evolve(state, ledger=forget_schedule(state.ledger))
            return stay(state, ctx, session, effects)
        case FromModel() | TimerFired() | FromOutside() as report:
            session, reason = late_report(state.session, report)
            return stay(state, ctx, session, (Refused(UserAction.REPORT, reason),))
        case FromThread() as delta:
            if isinstance(delta, Resumed):
                return _resumed(state, ctx)
            if isinstance(delta, Disposed):
                return _cut_short(state, ctx, delta)
            return Step(state, refusal(delta, RefusalReason.NOT_NOW))
        case _:
            assert_never(ctx.delta)


def _on_tool(state: Executing, ctx: Context, delta: ToolDelta) -> Step[Executing]:
    if isinstance(delta, ToolChecked):
        place = open_check(state.ledger, delta.operation)
    else:
        place = open_run(state.ledger, delta.operation)
    if place is None:
        session, reason = late_report(state.session, delta)
        return stay(state, ctx, session, (Refused(UserAction.REPORT, reason),))
    session, ledger, effects = _apply(state, place, delta)
    stamp = state.stamp.next(ctx.now_ms)
    return Step(Executing(session=session, stamp=stamp, turn=state.turn, ledger=ledger), effects)


Applied = tuple[Session, Ledger, tuple[Effect, ...]]


def _apply(state: Executing, place: int, delta: ToolDelta) -> Applied:
    """A report on an open check or run takes effect on its call."""
    session, ledger = state.session, state.ledger
    call = ledger.entries[place].call
    match delta:
        case ToolSucceeded():
            ledger, ended = finish_run(ledger, place, delta.output, CallStatus.DONE)
            return session, ledger, (ended,)
        case ToolFailed():
            ledger, ended = finish_run(ledger, place, delta.output, CallStatus.ERROR)
            return session, ledger, (ended,)
        case ToolChecked():
            checked, effects = answer_faulty(take_verdict(ledger, place, delta.verdict), place, session.settings)
            return session, checked, effects
        case ToolProgress():
            grown = add_progress(ledger, place, delta.text)
            return session, grown, (ToolProgressed(call.id, delta.operation, delta.text),)
        case ToolStopped():
            output = ToolOutput(content=(TextBlock(NO_RESULT),))
            ledger, ended = finish_run(ledger, place, output, CallStatus.ERROR)
            return session, ledger, (ended,)
        case ToolAsked():
            result = ToolResult(
                call=call.id,
                provider_id=call.provider_id,
                tool=call.tool,
                status=CallStatus.ERROR,
                content=(TextBlock(stopped_to_ask_text(call.tool, delta.question)),),
                ran=True,
            )
            stopped = stop_call(ledger, session.operations, place, result, CancelReason.SAFETY)
            return session.with_operations(stopped.operations), stopped.ledger, stopped.effects
        case _:
            assert_never(delta)


def _cancel_one(state: Executing, ctx: Context, delta: CancelCall) -> Step[Executing]:
    cancelled = cancel_call(state.ledger, state.session.operations, delta.call)
    if cancelled is None:
        session, effects = input_while_busy(state.session, state.ledger, delta)
        return stay(state, ctx, session, effects)
    session = state.session.with_operations(cancelled.operations)
    stamp = state.stamp.next(ctx.now_ms)
    return Step(Executing(session=session, stamp=stamp, turn=state.turn, ledger=cancelled.ledger), cancelled.effects)


def _cut_short(state: Executing, ctx: Context, cause: Cause) -> Step[Finishing]:
    session, effects = cut_calls(state.session, state.ledger, reason_of(cause))
    session, ending = end_cut_short(session, cause)
    stamp = state.stamp.next(ctx.now_ms)
    return Step(Finishing(session=session, stamp=stamp, turn=state.turn, ending=ending), effects)


def _resumed(state: Executing, ctx: Context) -> Step[Executing]:
    """The process was restarted: what was in flight is made again or answered (rule RESUME-3)."""
    restarted = restart_calls(state.ledger, state.session.operations, state.session.settings)
    session = state.session.with_operations(restarted.operations)
    stamp = state.stamp.next(ctx.now_ms)
    executing = Executing(session=session, stamp=stamp, turn=state.turn, ledger=restarted.ledger)
    return Step(executing, (SessionResumed(), *restarted.effects))


def enter_executing(state: Executing) -> Step[Executing | Thinking | Finishing]:
    """Start what may start; once every call is answered, hand the answers over and go on."""
    ready = start_ready(state.ledger, state.session.operations, state.session.settings)
    session, ledger = state.session.with_operations(ready.operations), ready.ledger
    if ledger.unanswered:
        return Step(Executing(session=session, stamp=state.stamp, turn=state.turn, ledger=ledger), ready.effects)
    answers = results(ledger)
    session, added = add_results(session, ledger.reply, answers)
    effects = (*ready.effects, *added)
    ending = _ending(answers)
    if ending is not None:
        return Step(Finishing(session=session, stamp=state.stamp, turn=state.turn, ending=ending), effects)
    turn = evolve(state.turn, reason=RequestReason.NEXT_TURN)
    return Step(Thinking(session=session, stamp=state.stamp, turn=turn), effects)


def _ending(answers: tuple[ToolResult, ...]) -> Ending | None:
    """How the turn ends when all calls are answered; None if the model is asked again (rule TOOL-7)."""
    if user_cancelled(answers):
        return Ending(reason=TurnEndReason.USER_ABORT)
    if any(result.stops_loop for result in answers) or all(result.final for result in answers):
        return Ending(reason=TurnEndReason.TOOL_FINAL, natural=True)
    return None

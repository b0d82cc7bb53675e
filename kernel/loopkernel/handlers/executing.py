"""`Executing` and `Confirming`: one ledger under two names (rule STATE-5).

The calls of the last reply are decided on, asked about, run and answered; when all are answered, the loop goes on
(rule TOOL-7). Which of the two names a state has is a function of its ledger, settled when it is entered.
"""

from typing import TypeVar, assert_never

from attrs import evolve

from loopkernel.data.blocks import ToolResult
from loopkernel.data.choices import OnReject
from loopkernel.data.endings import Ending
from loopkernel.data.events import SessionResumed
from loopkernel.data.ledgers import Ledger
from loopkernel.data.model_deltas import FromModel
from loopkernel.data.outside_deltas import FromOutside, TimerFired
from loopkernel.data.sessions import Session, Settings
from loopkernel.data.states import Confirming, Executing, Finishing, Thinking
from loopkernel.data.steps import Context, Step, is_refused
from loopkernel.data.thread_deltas import Disposed, FromThread, Resumed
from loopkernel.data.tool_deltas import FromTool
from loopkernel.data.user_deltas import (
    AnswersCall,
    CancelAll,
    CancelCall,
    ChangesSettings,
    FromUser,
    Say,
    UserDelta,
)
from loopkernel.data.words import CallStatus, RefusalReason, RequestReason, TurnEndReason
from loopkernel.regions.approvals import answer_call, reconsider
from loopkernel.regions.cancels import Cause, cut_calls, end_cut_short, reason_of
from loopkernel.regions.conversation import add_results
from loopkernel.regions.errors import show_error
from loopkernel.regions.held_runs import Ledgered
from loopkernel.regions.ledger import results
from loopkernel.regions.output import gives_output, skip_for_output
from loopkernel.regions.refusals import refusal
from loopkernel.regions.reports import Report, late_report
from loopkernel.regions.restart import restart_calls
from loopkernel.regions.runs import timer_fired, tool_report
from loopkernel.regions.schedule import start_ready
from loopkernel.regions.stops import cancel_call, user_cancelled
from loopkernel.regions.user_input import input_while_busy, interrupts

Working = Executing | Confirming
W = TypeVar("W", Executing, Confirming)


def on_executing(state: Executing, ctx: Context) -> Step[Executing | Finishing]:
    """Reports of checks and runs, a person's answers, time that runs out, cancels of one call and of all."""
    return _on_calls(state, ctx)


def on_confirming(state: Confirming, ctx: Context) -> Step[Confirming | Executing | Finishing]:
    """As in `Executing`."""
    return _on_calls(state, ctx)


def _on_calls(state: W, ctx: Context) -> Step[W | Executing | Finishing]:
    now_ms = max(state.stamp.now_ms, ctx.now_ms)
    match ctx.delta:
        case FromTool() as delta:
            return _after(state, ctx, delta, tool_report(state.ledger, state.session, delta, now_ms))
        case FromUser() as delta:
            if isinstance(delta, CancelAll) or (isinstance(delta, Say) and interrupts(state.session, delta)):
                return _cut_short(state, ctx, delta)
            return _taken(state, ctx, _on_user(state.ledger, state.session, delta, now_ms))
        case TimerFired() as delta:
            return _after(state, ctx, delta, timer_fired(state.ledger, state.session, delta.operation, now_ms))
        case FromModel() | FromOutside() as report:
            return _after(state, ctx, report, None)
        case FromThread() as delta:
            if isinstance(delta, Resumed):
                restarted: Ledgered = restart_calls(state.ledger, state.session, now_ms)
                return _gone_on(state, ctx, evolve(restarted, effects=(SessionResumed(), *restarted.effects)))
            if isinstance(delta, Disposed):
                return _cut_short(state, ctx, delta)
            return Step(state, refusal(delta, RefusalReason.NOT_NOW))
        case _:
            assert_never(ctx.delta)


def _on_user(ledger: Ledger, session: Session, delta: UserDelta, now_ms: int) -> Ledgered:
    """What the user wants, but for a cancel of everything."""
    if isinstance(delta, AnswersCall):
        return answer_call(ledger, session, delta, now_ms)
    if isinstance(delta, CancelCall):
        cancelled = cancel_call(ledger, session, delta.call, now_ms)
        if cancelled is not None:
            return cancelled
    session, effects = input_while_busy(session, ledger, delta, now_ms)
    if isinstance(delta, ChangesSettings):
        again = reconsider(ledger, session)
        return Ledgered(again.ledger, again.session, (*effects, *again.effects))
    return Ledgered(ledger, session, effects)


def _after(state: W, ctx: Context, report: Report, taken: Ledgered | None) -> Step[W | Executing]:
    """After a report, which may be on nothing that is open here: it may still show that a run has stopped."""
    if taken is None:
        late = late_report(state.session, report, state.ledger)
        taken = Ledgered(late.ledger or state.ledger, late.session, late.effects)
    return _taken(state, ctx, taken)


def _taken(state: W, ctx: Context, taken: Ledgered) -> Step[W | Executing]:
    if not is_refused(taken.effects):
        return _gone_on(state, ctx, taken)
    if taken.session is state.session:
        return Step(state, taken.effects)
    stamp = state.stamp if taken.session.held is state.session.held else state.stamp.at(ctx.now_ms)
    unseen = Executing(session=taken.session, stamp=stamp, turn=state.turn, ledger=taken.ledger, ending=state.ending)
    return Step(unseen, taken.effects)


def _gone_on(state: Working, ctx: Context, taken: Ledgered) -> Step[Executing]:
    executing = Executing(
        session=taken.session,
        stamp=state.stamp.next(ctx.now_ms),
        turn=state.turn,
        ledger=taken.ledger,
        ending=state.ending,
    )
    return Step(executing, taken.effects)


def _cut_short(state: Working, ctx: Context, cause: Cause) -> Step[Finishing]:
    stamp = state.stamp.next(ctx.now_ms)
    session, waiting, effects = cut_calls(state.session, state.ledger, reason_of(cause), stamp.now_ms)
    session, ending = end_cut_short(session, cause, waiting)
    return Step(Finishing(session=session, stamp=stamp, turn=state.turn, ending=ending), effects)


def enter_executing(state: Executing) -> Step[Executing | Confirming | Thinking | Finishing]:
    """Start what may start, and ask what is to be asked; once every call is answered, go on with the answers."""
    now_ms = state.stamp.now_ms
    skipped = skip_for_output(state.ledger, state.session, now_ms)
    ready = start_ready(skipped.ledger, skipped.session, now_ms)
    session, ledger = ready.session, ready.ledger
    effects = (*skipped.effects, *ready.effects) if skipped.effects else ready.effects
    if ledger.unanswered:
        phase = Confirming if ledger.waiting and not ledger.running else Executing  # what is held back does not count
        return Step(
            phase(session=session, stamp=state.stamp, turn=state.turn, ledger=ledger, ending=state.ending), effects
        )
    answers = results(ledger)
    session, added = add_results(session, ledger.reply, answers)
    effects = (*effects, *added)
    ending = _ending(ledger, answers, session.settings, state.ending)
    if ending is not None:
        if ending.error is not None:
            session, shown = show_error(session, ending.error, ending.message)
            effects = (*effects, *shown)
        return Step(Finishing(session=session, stamp=state.stamp, turn=state.turn, ending=ending), effects)
    turn = evolve(state.turn, reason=RequestReason.NEXT_TURN)
    return Step(Thinking(session=session, stamp=state.stamp, turn=turn), effects)


def _ending(
    ledger: Ledger, answers: tuple[ToolResult, ...], settings: Settings, settled: Ending | None
) -> Ending | None:
    """How the turn ends when all calls are answered; None if the model is asked again (rule TOOL-7)."""
    if user_cancelled(answers):
        return Ending(reason=TurnEndReason.USER_ABORT)
    if settled is not None:
        return settled
    if settings.policy.on_reject is OnReject.HALT and any(
        result.status is CallStatus.REJECTED_BY_USER for result in answers
    ):
        return Ending(reason=TurnEndReason.TOOL_REJECTED)
    if settings.policy.output_tool is not None and any(gives_output(entry, settings) for entry in ledger.entries):
        return Ending(reason=TurnEndReason.OUTPUT, natural=True)
    if any(result.stops_loop for result in answers) or all(result.final for result in answers):
        return Ending(reason=TurnEndReason.TOOL_FINAL, natural=True)
    return None

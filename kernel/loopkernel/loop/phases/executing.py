"""`Executing`, `Confirming` and `Dispatching`: one ledger under three names (rule STATE-5).

The calls of the last reply are decided on, asked about, run and answered; when all are answered, the loop goes on
(rule TOOL-7). Which of the names a state has is a function of its ledger, settled when it is entered.
"""

from typing import TypeVar, assert_never

from attrs import evolve

from loopkernel.data.blocks import ToolResult
from loopkernel.data.choices import OnReject
from loopkernel.data.effects import Effect
from loopkernel.data.endings import Ending, Failure, GoOn, Settled
from loopkernel.data.events import LimitReached, SessionResumed
from loopkernel.data.ledgers import Ledger
from loopkernel.data.model_deltas import FromModel
from loopkernel.data.outside_deltas import (
    FromOutside,
    OutsideDelta,
    TimerFired,
)
from loopkernel.data.sessions import Session, Settings
from loopkernel.data.states import Backoff, Compacting, Confirming, Dispatching, Executing, Finishing, Thinking
from loopkernel.data.steps import Context, Step, is_refused
from loopkernel.data.thread_deltas import Disposed, Forked, FromThread, Resumed
from loopkernel.data.tool_deltas import FromTool, ToolDelta
from loopkernel.data.user_deltas import (
    AnswersCall,
    CancelCall,
    ChangesSettings,
    FromUser,
    UserDelta,
)
from loopkernel.data.words import CallStatus, RefusalReason, RequestReason, TurnEndReason
from loopkernel.loop.calls.approvals import answer_call, reconsider
from loopkernel.loop.calls.children import outside_report
from loopkernel.loop.calls.held_runs import Ledgered
from loopkernel.loop.calls.late_reports import Report, late_report
from loopkernel.loop.calls.ledger import results
from loopkernel.loop.calls.output import gives_output, skip_for_output
from loopkernel.loop.calls.run_reports import timer_fired, tool_report
from loopkernel.loop.calls.schedule import start_ready
from loopkernel.loop.calls.stopping import cancel_call, user_cancelled
from loopkernel.loop.calls.telling import tell_children
from loopkernel.loop.gates.refusals import refusal
from loopkernel.loop.history.thread import add_results
from loopkernel.loop.life.fork import FORKED, fork_calls, fork_session
from loopkernel.loop.life.restart import restart_calls
from loopkernel.loop.phases.rest import recovering
from loopkernel.loop.turn.cancelling import Cause, cut_calls, cutting, end_cut_short, reason_of
from loopkernel.loop.turn.failure import recover_from
from loopkernel.loop.turn.input import input_while_busy
from loopkernel.loop.turn.limits import OUT_OF_BUDGET, budget_hit, stop_starting

Working = Executing | Confirming | Dispatching
W = TypeVar("W", Executing, Confirming, Dispatching)


def on_executing(state: Executing, ctx: Context) -> Step[Executing | Finishing]:
    """Reports of checks and runs, a person's answers, time that runs out, cancels of one call and of all."""
    return _on_calls(state, ctx)


def on_confirming(state: Confirming, ctx: Context) -> Step[Confirming | Executing | Finishing]:
    """As in `Executing`."""
    return _on_calls(state, ctx)


def on_dispatching(state: Dispatching, ctx: Context) -> Step[Dispatching | Executing | Finishing]:
    """As in `Executing`."""
    return _on_calls(state, ctx)


def _on_calls(state: W, ctx: Context) -> Step[W | Executing | Finishing]:
    now_ms = max(state.stamp.now_ms, ctx.now_ms)
    match ctx.delta:
        case FromTool() as delta:
            return _after_run(state, ctx, delta, tool_report(state.ledger, state.session, delta, now_ms))
        case FromUser() as delta:
            cause = cutting(state.session, delta)
            if cause is not None:
                return _cut_short(state, ctx, cause)
            return _taken(state, ctx, _on_user(state.ledger, state.session, delta, now_ms))
        case TimerFired() as delta:
            fired = timer_fired(state.ledger, state.session, delta.operation, now_ms)
            return _after_run(state, ctx, delta, fired)
        case FromOutside() as delta:
            return _after_run(state, ctx, delta, outside_report(state.ledger, state.session, delta, now_ms))
        case FromModel() as report:
            return _after(state, ctx, report, None)
        case FromThread() as delta:
            if isinstance(delta, Resumed):
                restarted: Ledgered = restart_calls(state.ledger, state.session, delta, now_ms)
                return _gone_on(state, ctx, evolve(restarted, effects=(SessionResumed(), *restarted.effects)))
            if isinstance(delta, Disposed):
                return _cut_short(state, ctx, delta)
            if isinstance(delta, Forked):
                return _forked(state, ctx, delta)
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
    if isinstance(delta, ChangesSettings) and not is_refused(effects):
        again = reconsider(ledger, session)
        ledger, told = tell_children(again.ledger, delta)
        return Ledgered(ledger, again.session, (*effects, *told, *again.effects))
    return Ledgered(ledger, session, effects)


def _after_run(
    state: W, ctx: Context, report: ToolDelta | TimerFired | OutsideDelta, taken: Ledgered | None
) -> Step[W | Executing]:
    """After a report or a timer that may have ended a run: if so, the budgets are tested (rule LIMIT-2)."""
    step: Step[W | Executing] = _after(state, ctx, report, taken)
    after: W | Executing = step.next
    if taken is None or taken.ledger.unanswered >= state.ledger.unanswered or after.settled == OUT_OF_BUDGET:
        return step
    spent = budget_hit(after.session, after.turn, after.stamp.now_ms)
    if spent is None:
        return step
    return Step(evolve(after, settled=OUT_OF_BUDGET), (*step.effects, LimitReached(spent)))


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
    unseen = Executing(session=taken.session, stamp=stamp, turn=state.turn, ledger=taken.ledger, settled=state.settled)
    return Step(unseen, taken.effects)


def _gone_on(state: Working, ctx: Context, taken: Ledgered) -> Step[Executing]:
    executing = Executing(
        session=taken.session,
        stamp=state.stamp.next(ctx.now_ms),
        turn=state.turn,
        ledger=taken.ledger,
        settled=state.settled,
    )
    return Step(executing, taken.effects)


def _cut_short(state: Working, ctx: Context, cause: Cause) -> Step[Finishing]:
    stamp = state.stamp.next(ctx.now_ms)
    session, waiting, effects = cut_calls(state.session, state.ledger, reason_of(cause), stamp.now_ms)
    session, ending = end_cut_short(session, cause, waiting)
    return Step(Finishing(session=session, stamp=stamp, turn=state.turn, ending=ending), effects)


def _forked(state: Working, ctx: Context, delta: Forked) -> Step[Finishing]:
    session, forked = fork_session(state.session, delta)
    session, answered = fork_calls(session, state.ledger)
    finishing = Finishing(session=session, stamp=state.stamp.next(ctx.now_ms), turn=state.turn, ending=FORKED)
    return Step(finishing, (*forked, *answered))


def enter_executing(
    state: Executing,
) -> Step[Executing | Confirming | Dispatching | Thinking | Backoff | Compacting | Finishing]:
    """Start what may start, and ask what is to be asked; once every call is answered, go on with the answers."""
    if not state.ledger.unanswered:
        return _answered(state, state.ledger, state.session, (), state.settled)
    started, settled = _started(state, state.stamp.now_ms)
    session, ledger, effects = started.session, started.ledger, started.effects
    if not ledger.unanswered:
        return _answered(state, ledger, session, effects, settled)
    phase = _phase(ledger)
    return Step(phase(session=session, stamp=state.stamp, turn=state.turn, ledger=ledger, settled=settled), effects)


def _answered(
    state: Executing, ledger: Ledger, session: Session, effects: tuple[Effect, ...], settled: Settled | None
) -> Step[Thinking | Backoff | Compacting | Finishing]:
    """Every call is answered: the answers go into the thread, and the loop goes on (rule TOOL-7)."""
    now_ms, answers = state.stamp.now_ms, results(ledger)
    session, added = add_results(session, ledger.reply, answers)
    effects = (*effects, *added)
    spent = None if settled == OUT_OF_BUDGET else budget_hit(session, state.turn, now_ms)
    if spent is not None:
        effects, settled = (*effects, LimitReached(spent)), OUT_OF_BUDGET
    follows = _follows(ledger, answers, session.settings, settled)
    if isinstance(follows, Failure):
        recovered = recover_from(session, state.turn, follows, now_ms)
        step = recovering(recovered, state.stamp, follows)
        return Step(step.next, (*effects, *step.effects))
    if isinstance(follows, Ending):
        return Step(Finishing(session=session, stamp=state.stamp, turn=state.turn, ending=follows), effects)
    turn = state.turn.asking(follows.reason)
    return Step(Thinking(session=session, stamp=state.stamp, turn=turn), effects)


def _phase(ledger: Ledger) -> type[Executing] | type[Confirming] | type[Dispatching]:
    """The name of what is under way; what the schedule holds back does not count (rule STATE-5)."""
    if ledger.waiting and not ledger.running and not ledger.hooked:
        return Confirming
    if ledger.children and ledger.children == ledger.running and not ledger.hooked:
        return Dispatching
    return Executing


def _started(state: Executing, now_ms: int) -> tuple[Ledgered, Settled | None]:
    """The calls after all has started that may; where a budget is spent nothing does, and the turn is to end."""
    session, ledger, settled = state.session, state.ledger, state.settled
    if settled == OUT_OF_BUDGET:
        stopped = stop_starting(ledger, session, now_ms)
        again = start_ready(stopped.ledger, stopped.session, now_ms)  # only what a restart repeats is left to start
        return evolve(again, effects=(*stopped.effects, *again.effects)), settled
    skipped = skip_for_output(ledger, session, now_ms)
    ready = start_ready(skipped.ledger, skipped.session, now_ms)
    effects = (*skipped.effects, *ready.effects) if skipped.effects else ready.effects
    if ready.spent is not None:
        stopped = stop_starting(ready.ledger, ready.session, now_ms)
        return evolve(stopped, effects=(*effects, LimitReached(ready.spent), *stopped.effects)), OUT_OF_BUDGET
    return (evolve(ready, effects=effects) if skipped.effects else ready), settled


def _follows(ledger: Ledger, answers: tuple[ToolResult, ...], settings: Settings, settled: Settled | None) -> Settled:
    """What follows when all calls are answered: the first that applies of rule TOOL-7."""
    if settled == OUT_OF_BUDGET:
        return OUT_OF_BUDGET
    if user_cancelled(answers):
        return Ending(reason=TurnEndReason.USER_ABORT)
    if settings.policy.on_reject is OnReject.HALT and any(
        result.status is CallStatus.REJECTED_BY_USER for result in answers
    ):
        return Ending(reason=TurnEndReason.TOOL_REJECTED)
    if settings.policy.output_tool is not None and any(gives_output(entry, settings) for entry in ledger.entries):
        return Ending(reason=TurnEndReason.OUTPUT, natural=True)
    if any(result.stops_loop for result in answers) or all(result.final for result in answers):
        return Ending(reason=TurnEndReason.TOOL_FINAL, natural=True)
    return _NEXT if settled is None else settled


_NEXT = GoOn(RequestReason.NEXT_TURN)

"""`Executing`, `Confirming` and `Dispatching`: one ledger under three names (rule STATE-5).

The calls of the last reply are decided on, asked about, run and answered; when all are answered, the loop goes on
(rule TOOL-7). Which of the names a state has is a function of its ledger, settled when it is entered.
"""

from typing import TypeVar, assert_never

from loopkernel.data.blocks import ToolResult
from loopkernel.data.choices import OnReject
from loopkernel.data.endings import Ending, Failure, GoOn, Settled
from loopkernel.data.events import LimitReached, Refused, SessionResumed
from loopkernel.data.ledgers import Ledger
from loopkernel.data.model_deltas import FromModel
from loopkernel.data.outside_deltas import FromOutside, TimerFired
from loopkernel.data.sessions import Settings, Turn
from loopkernel.data.states import Backoff, Compacting, Confirming, Dispatching, Executing, Finishing, Thinking
from loopkernel.data.steps import Context, Step
from loopkernel.data.thread_deltas import Disposed, Forked, FromThread, Resumed
from loopkernel.data.tool_deltas import FromTool
from loopkernel.data.user_deltas import ChangesSettings, FromUser
from loopkernel.data.words import CallStatus, RefusalReason, RequestReason, TurnEndReason
from loopkernel.loop.calls.approvals import reconsider
from loopkernel.loop.calls.late_reports import LateReport, Report, late_report
from loopkernel.loop.calls.ledger import results
from loopkernel.loop.calls.run_reports import outside_report, timer_fired, tool_report
from loopkernel.loop.calls.schedule import OverBudget, gives_output, skip_for_output, start_ready
from loopkernel.loop.calls.stopping import user_cancelled
from loopkernel.loop.draft import CallsDraft, new_draft
from loopkernel.loop.gates.refusals import refusal
from loopkernel.loop.history.thread import add_results
from loopkernel.loop.life.fork import FORKED, fork_calls, fork_session
from loopkernel.loop.life.restart import restart_calls
from loopkernel.loop.phases.moves import (
    begin_on_calls,
    of_late_report,
    to_executing,
    to_finishing,
    to_recovery,
    to_thinking,
)
from loopkernel.loop.turn.cancelling import Cause, cut_calls, cutting, end_cut_short, reason_of
from loopkernel.loop.turn.failure import recover_from
from loopkernel.loop.turn.input import input_on_calls
from loopkernel.loop.turn.limits import OUT_OF_BUDGET, budget_hit, cancel_for_budget

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
    draft = begin_on_calls(state, ctx)
    match ctx.delta:
        case FromTool() as delta:
            return _reported(state, draft, delta, tool_report(draft, delta))
        case FromUser() as delta:
            cause = cutting(state.session, delta)
            if cause is not None:
                return _cut_short(state, draft, cause)
            taken = input_on_calls(draft, delta)
            if isinstance(taken, Refused):
                return Step(state, (taken,))
            taken = reconsider(taken) if isinstance(delta, ChangesSettings) else taken
            return to_executing(taken, state.turn, state.settled)
        case TimerFired() as delta:
            return _reported(state, draft, delta, timer_fired(draft, delta.operation))
        case FromOutside() as delta:
            return _reported(state, draft, delta, outside_report(draft, delta))
        case FromModel() as report:
            return _reported(state, draft, report, None)
        case FromThread() as delta:
            if isinstance(delta, Resumed):
                return to_executing(restart_calls(draft.tell(SessionResumed()), delta), state.turn, state.settled)
            if isinstance(delta, Disposed):
                return _cut_short(state, draft, delta)
            if isinstance(delta, Forked):
                return to_finishing(fork_calls(fork_session(draft, delta)), state.turn, FORKED)
            return Step(state, (refusal(delta, RefusalReason.NOT_NOW),))
        case _:
            assert_never(ctx.delta)


def _reported(state: W, draft: CallsDraft, report: Report, taken: CallsDraft | None) -> Step[W | Executing]:
    """After a report; where it may have ended a run, the budgets are tested (rule LIMIT-2).

    None: it is on nothing that is open here, and may still show that a run has stopped.
    """
    settled = state.settled
    if taken is None:
        late = late_report(draft, report)
        if not isinstance(late, LateReport):
            return to_executing(late, state.turn, settled)
        if late.draft.session is state.session:
            return Step(state, late.draft.effects)
        return to_executing(of_late_report(state, late), state.turn, settled)
    if taken.ledger.unanswered < state.ledger.unanswered and (settled is None or settled != OUT_OF_BUDGET):
        spent = budget_hit(taken.session, state.turn, taken.stamp.now_ms)
        if spent is not None:
            return to_executing(taken.tell(LimitReached(spent)), state.turn, OUT_OF_BUDGET)
    return to_executing(taken, state.turn, settled)


def _cut_short(state: Working, draft: CallsDraft, cause: Cause) -> Step[Finishing]:
    draft, waiting = cut_calls(draft, reason_of(cause))
    draft, ending = end_cut_short(draft, cause, waiting)
    return to_finishing(draft, state.turn, ending)


def enter_executing(
    state: Executing,
) -> Step[Executing | Confirming | Dispatching | Thinking | Backoff | Compacting | Finishing]:
    """Start what may start, and ask what is to be asked; once every call is answered, go on with the answers."""
    draft, settled = new_draft(state.session, state.stamp, state.ledger), state.settled
    if draft.ledger.unanswered:
        draft, settled = _start(draft, settled)
    ledger = draft.ledger
    if not ledger.unanswered:
        return _answered(draft, state.turn, settled)
    phase = _phase(ledger)
    after = phase(session=draft.session, stamp=draft.stamp, turn=state.turn, ledger=ledger, settled=settled)
    return Step(after, draft.effects)


def _answered(
    draft: CallsDraft, turn: Turn, settled: Settled | None
) -> Step[Thinking | Backoff | Compacting | Finishing]:
    """Every call is answered: the answers go into the thread, and the loop goes on (rule TOOL-7)."""
    answers = results(draft.ledger)
    draft = add_results(draft, draft.ledger.reply, answers)
    is_out = settled is not None and settled == OUT_OF_BUDGET
    spent = None if is_out else budget_hit(draft.session, turn, draft.stamp.now_ms)
    if spent is not None:
        draft, settled = draft.tell(LimitReached(spent)), OUT_OF_BUDGET
    follows = _follows(draft.ledger, answers, draft.session.settings, settled)
    if isinstance(follows, Failure):
        return to_recovery(recover_from(draft, turn, follows), follows)
    if isinstance(follows, Ending):
        return to_finishing(draft, turn, follows)
    return to_thinking(draft, turn.asking(follows.reason))


def _phase(ledger: Ledger) -> type[Executing] | type[Confirming] | type[Dispatching]:
    """The name of what is under way; what the schedule holds back does not count (rule STATE-5)."""
    if ledger.waiting and not ledger.running and not ledger.hooked:
        return Confirming
    if ledger.children and ledger.children == ledger.running and not ledger.hooked:
        return Dispatching
    return Executing


def _start(draft: CallsDraft, settled: Settled | None) -> tuple[CallsDraft, Settled | None]:
    """All starts that may; where a budget is spent nothing does, and the turn is to end."""
    if settled is not None and settled == OUT_OF_BUDGET:
        ready = start_ready(cancel_for_budget(draft))  # only what a restart repeats is left to start
        return (ready.draft if isinstance(ready, OverBudget) else ready), settled
    if draft.session.settings.policy.output_tool is not None:
        draft = skip_for_output(draft)
    ready = start_ready(draft)
    if isinstance(ready, OverBudget):
        return cancel_for_budget(ready.draft.tell(LimitReached(ready.limit))), OUT_OF_BUDGET
    return ready, settled


def _follows(ledger: Ledger, answers: tuple[ToolResult, ...], settings: Settings, settled: Settled | None) -> Settled:
    """What follows when all calls are answered: the first that applies of rule TOOL-7."""
    if settled is not None and settled == OUT_OF_BUDGET:
        return OUT_OF_BUDGET
    if user_cancelled(answers):
        return Ending(reason=TurnEndReason.USER_ABORT)
    if settings.policy.on_reject is OnReject.HALT and any(
        result.status is CallStatus.REJECTED_BY_USER for result in answers
    ):
        return Ending(reason=TurnEndReason.TOOL_REJECTED)
    if settings.policy.output_tool is not None and any(gives_output(entry, settings) for entry in ledger.entries):
        return Ending(reason=TurnEndReason.OUTPUT, natural=True)
    stops, final = False, True
    for result in answers:
        stops, final = stops or result.stops_loop, final and result.final
    if stops or final:
        return Ending(reason=TurnEndReason.TOOL_FINAL, natural=True)
    return _NEXT if settled is None else settled


_NEXT = GoOn(RequestReason.NEXT_TURN)

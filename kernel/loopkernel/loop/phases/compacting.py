"""`Compacting`: a summary is being made, in a turn or at rest (section COMPACT)."""

from typing import assert_never

from attrs import evolve

from loopkernel.data.endings import Ending
from loopkernel.data.events import SessionResumed, WorkCancelled
from loopkernel.data.ids import OperationKind
from loopkernel.data.model_deltas import FromModel
from loopkernel.data.outside_deltas import FromOutside, SummaryFailed, SummaryReady, TimerFired
from loopkernel.data.sessions import Turn
from loopkernel.data.states import AtRest, BeforeRequest, Cancelled, Compacting, Finishing, Idle, Initial, Thinking
from loopkernel.data.steps import Context, Step
from loopkernel.data.thread_deltas import Disposed, Forked, FromThread, Resumed
from loopkernel.data.tool_deltas import FromTool
from loopkernel.data.user_deltas import CompactNow, FromUser, UserDelta
from loopkernel.data.words import RefusalReason
from loopkernel.loop.calls.held_runs import abort_all_in_background
from loopkernel.loop.calls.late_reports import late_report
from loopkernel.loop.draft import Draft
from loopkernel.loop.gates.refusals import refusal
from loopkernel.loop.history.compaction import (
    abort_summary,
    ask_summary,
    forget_summary,
    summary_failed,
    take_summary,
)
from loopkernel.loop.life.fork import FORKED, fork_session
from loopkernel.loop.life.restart import restart_held_runs
from loopkernel.loop.phases.moves import (
    back_at_rest,
    begin,
    cut_at_rest,
    stay,
    to_finishing,
    to_idle,
    to_initial,
    to_thinking,
)
from loopkernel.loop.turn.cancelling import Cause, cutting, end_cut_short, reason_of
from loopkernel.loop.turn.failure import surface
from loopkernel.loop.turn.inbox import requeue_steers
from loopkernel.loop.turn.input import input_while_busy


def on_compacting(
    state: Compacting, ctx: Context
) -> Step[Compacting | Thinking | Finishing | Idle | Cancelled | Initial]:
    """The summary, or that there is none; input waits, a cancel ends it."""
    draft = begin(state, ctx)
    match ctx.delta:
        case FromUser() as delta:
            return _on_user(state, draft, delta)
        case FromModel() | FromTool() | TimerFired() | FromOutside() as report:
            if isinstance(report, SummaryReady | SummaryFailed) and report.operation == state.operation:
                return _reported(state, draft, report)
            return stay(state, late_report(draft, report))
        case FromThread() as delta:
            if isinstance(delta, Resumed):
                return _resumed(state, draft, delta)
            if isinstance(delta, Disposed):
                return _disposed(state, draft, delta)
            if isinstance(delta, Forked):
                return _forked(state, draft, delta)
            return Step(state, (refusal(delta, RefusalReason.NOT_NOW),))
        case _:
            assert_never(ctx.delta)


def _reported(
    state: Compacting, draft: Draft[None], delta: SummaryReady | SummaryFailed
) -> Step[Thinking | Finishing | Idle | Cancelled]:
    """The summary takes its place, or the thread stays as it is; its usage counts either way (rule COMPACT-3)."""
    draft = draft.with_session(draft.session.updated(usage=draft.session.usage.plus(delta.usage)))
    ready, turn = isinstance(delta, SummaryReady), state.within
    draft = take_summary(draft, state.cut, delta.text) if isinstance(delta, SummaryReady) else summary_failed(draft)
    if isinstance(turn, AtRest):
        return back_at_rest(draft, turn)
    if ready or state.failure is None:
        return to_thinking(draft, turn, BeforeRequest.COMPACTION)
    after = surface(draft, turn, state.failure)
    if isinstance(after.way, Ending):
        return to_finishing(after.draft, after.turn, after.way)
    return to_thinking(after.draft, after.turn)


def _on_user(
    state: Compacting, draft: Draft[None], delta: UserDelta
) -> Step[Compacting | Thinking | Finishing | Cancelled]:
    if isinstance(delta, CompactNow):
        return Step(state, (refusal(delta, RefusalReason.NOT_NOW),))
    cause = cutting(draft.session, delta)
    if cause is None:
        return stay(state, input_while_busy(draft, delta))
    draft = _cut(state, draft, cause)
    if isinstance(state.within, Turn):
        draft, ending = end_cut_short(draft, cause)
        return to_finishing(draft, state.within, ending)
    return cut_at_rest(draft, cause)


def _disposed(state: Compacting, draft: Draft[None], delta: Disposed) -> Step[Finishing | Initial]:
    draft = _cut(state, draft, delta)
    if isinstance(state.within, Turn):
        draft, ending = end_cut_short(draft, delta)
        return to_finishing(draft, state.within, ending)
    return to_initial(requeue_steers(draft))


def _cut(state: Compacting, draft: Draft[None], cause: Cause) -> Draft[None]:
    """Whoever makes the summary is to stop, and so is what runs in the background."""
    draft = abort_summary(abort_all_in_background(draft, reason_of(cause)), state.operation)
    return draft.tell(WorkCancelled(reason_of(cause)))


def _forked(state: Compacting, draft: Draft[None], delta: Forked) -> Step[Finishing | Idle]:
    draft = forget_summary(fork_session(draft, delta), state.operation)
    if isinstance(state.within, Turn):
        return to_finishing(draft, state.within, FORKED)
    return to_idle(requeue_steers(draft))


def _resumed(state: Compacting, draft: Draft[None], delta: Resumed) -> Step[Compacting]:
    """The process was restarted: the summary is asked for again (rule RESUME-3)."""
    draft = restart_held_runs(draft.tell(SessionResumed()), delta)
    draft, summary = ask_summary(draft.abandon(OperationKind.SUMMARY, state.operation), state.cut)
    again = evolve(state, session=draft.session, stamp=draft.stamp, operation=summary.operation)
    return Step(again, draft.effects)

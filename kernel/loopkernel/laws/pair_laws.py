"""Pair laws: PURE and FORK-EQ. Each compares the run with another that should agree with it.

What a step gives when it is taken again, or from a state that was restored, is found once for all laws: see `retakes`.
"""

from collections.abc import Iterator

from attrs import evolve

from loopkernel.data.events import Refused
from loopkernel.data.hook_calls import OpenHook
from loopkernel.data.model_deltas import ModelFailed
from loopkernel.data.outside_deltas import (
    ChildEnded,
    CorrectionAnswered,
    HandoffDone,
    HookAnswered,
    HookContinue,
    OutsideDelta,
    SummaryReady,
    TimerFired,
)
from loopkernel.data.records import StepRecord
from loopkernel.data.states import Compacting, HandingOff, State, Streaming
from loopkernel.data.steps import Context
from loopkernel.data.thread_deltas import Forked
from loopkernel.data.tool_deltas import ToolChecked, ToolSucceeded
from loopkernel.data.tools import ValidCall
from loopkernel.data.words import ErrorClass, RefusalReason, TurnEndReason, UserAction
from loopkernel.laws.ending_laws import entries_in
from loopkernel.laws.gates import gates_in
from loopkernel.laws.reports import Judged
from loopkernel.laws.shadow.step import JudgedStep
from loopkernel.laws.step_laws import pending_timers
from loopkernel.laws.views import held_in, taken_again


def pure(step: JudgedStep, _: Judged) -> Iterator[str]:
    """The step, taken again, gives an equal state and equal effects, and the same bytes when written."""
    yield from step.retake.impure


def fork_eq(step: JudgedStep, judged: Judged) -> Iterator[str]:
    """A run that was restored, or forked, goes on as if nothing had been before, but for what the log says."""
    yield from step.retake.strayed
    if isinstance(step.taken, Forked):
        yield from _leaks(step.record, judged)


def _leaks(record: StepRecord, judged: Judged) -> Iterator[str]:
    """What the lineage that was forked still reports is late to the fork: refused as stale, it changes nothing."""
    for report in _open_reports(record.before):
        late = taken_again(record.after, Context(report, record.after.stamp.now_ms), judged.transition)
        if late is None:
            continue
        same = evolve(late.next, stamp=record.after.stamp) == record.after  # whether it is counted, TOTAL says
        if not same or late.effects != (Refused(UserAction.REPORT, RefusalReason.STALE),):
            yield f"the fork is reached by {type(report).__name__} {report.operation} of the lineage that was forked"


def _open_reports(state: State) -> Iterator[ModelFailed | ToolSucceeded | ToolChecked | TimerFired | OutsideDelta]:
    """A report on each operation that is open."""
    if isinstance(state, Streaming) and state.after is None:
        yield ModelFailed(state.reply.operation, error=ErrorClass.SERVER)
    for entry in entries_in(state):
        if entry.check is not None:
            yield ToolChecked(entry.check, ValidCall(()))
        if entry.has_run and entry.operation is not None and entry.child is not None:
            yield ChildEnded(operation=entry.operation, reason=TurnEndReason.MODEL_STOP)
        elif entry.has_run and entry.operation is not None:
            yield ToolSucceeded(entry.operation)
    for gate in gates_in(state):
        if isinstance(gate, OpenHook):
            yield HookAnswered(gate.operation, HookContinue())
        else:
            yield CorrectionAnswered(gate.operation, None)
    if isinstance(state, Compacting):
        yield SummaryReady(state.operation, "summary")
    if isinstance(state, HandingOff):
        yield HandoffDone(state.operation, "thread")
    yield from (ToolSucceeded(run.operation) for run in held_in(state))
    yield from (TimerFired(timer.operation) for timer in pending_timers(state))

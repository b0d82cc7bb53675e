"""Reports on operations that are not open: named, never applied (rule DELTA-2)."""

from typing import Generic, assert_never, final

from attrs import evolve

from loopkernel.data.effects import AnswerTool
from loopkernel.data.events import Refused, ToolProgressed
from loopkernel.data.held_runs import HeldRun
from loopkernel.data.ids import OperationKind
from loopkernel.data.model_deltas import FromModel, ModelCompleted, ModelDelta, ModelFailed, ModelUsage
from loopkernel.data.operations import AbandonedModelCall, Operations
from loopkernel.data.outside_deltas import (
    ChildAsks,
    ChildEnded,
    ChildProgress,
    CorrectionAnswered,
    FromOutside,
    HandoffDone,
    HandoffFailed,
    HookAnswered,
    OutsideDelta,
    SummaryFailed,
    SummaryReady,
    TimerFired,
)
from loopkernel.data.tool_deltas import (
    FromTool,
    ToolAsked,
    ToolChecked,
    ToolDelta,
    ToolFailed,
    ToolLost,
    ToolProgress,
    ToolStopped,
    ToolSucceeded,
)
from loopkernel.data.tools import ToolOutput
from loopkernel.data.usage import NO_USAGE, Usage
from loopkernel.data.value_classes import frozen
from loopkernel.data.words import RefusalReason, UserAction
from loopkernel.loop.calls.held_runs import (
    background_ended,
    background_lost,
    grace_is_over,
    has_handle,
    has_stopped,
    held_run,
    leased_until,
)
from loopkernel.loop.draft import Draft, L

BilledReport = SummaryReady | SummaryFailed | CorrectionAnswered | ChildEnded | HandoffDone | HandoffFailed
Report = ModelDelta | ToolDelta | TimerFired | OutsideDelta


@final
@frozen
class LateReport(Generic[L]):
    """A report that was refused, which the draft tells first, and that shows something all the same.

    That is usage that was billed late, or resources that are free.
    """

    draft: Draft[L]


def late_report(draft: Draft[L], report: Report) -> Draft[L] | LateReport[L]:
    """A report that the phase itself does not wait for: on a held run, or on what is closed (rule DELTA-2)."""
    if draft.session.held:
        found = _on_held_run(draft, report)
        if found is not None:
            return found
    if isinstance(report, FromModel):
        draft, reason = _late_model_report(draft, report)
    else:
        kind, number = _named_by(report)
        reason = _judge(draft.session.operations, kind, number)
        draft = _billed_late(draft, report, kind, number, reason)
    return LateReport(draft.tell(Refused(UserAction.REPORT, reason)))


def _on_held_run(draft: Draft[L], report: Report) -> Draft[L] | LateReport[L] | None:
    """What a report on a held run, or on its grace time, does (rules TOOL-17 and TOOL-20)."""
    match report:
        case TimerFired():
            run = leased_until(draft.session, report.operation)
            return None if run is None else grace_is_over(draft, run)
        case FromTool():
            if isinstance(report, ToolChecked):
                return None
            run = held_run(draft.session, report.operation)
            if run is None:
                return None
            return _on_background(draft, run, report) if run.background else _on_aborted(draft, run, report)
        case ChildEnded():
            run = held_run(draft.session, report.operation)
            if run is None or run.background:
                return None  # only tools go on in the background, and a tool does not report as a sub-agent does
            draft = _billed_late(draft, report, OperationKind.RUN, report.operation, RefusalReason.STALE)
            return LateReport(has_stopped(draft.tell(_STALE), run))
        case FromModel() | FromOutside():
            return None
        case _:
            assert_never(report)


RunReport = ToolSucceeded | ToolFailed | ToolProgress | ToolAsked | ToolStopped | ToolLost
_STALE = Refused(UserAction.REPORT, RefusalReason.STALE)


def _on_aborted(draft: Draft[L], run: HeldRun, report: RunReport) -> Draft[L] | LateReport[L]:
    """An aborted run says that it has stopped, or reports all the same: it is then stale, but shows the same."""
    match report:
        case ToolStopped() | ToolLost():
            return has_stopped(draft, run)
        case ToolSucceeded() | ToolFailed():
            return LateReport(has_stopped(draft.tell(_STALE), run))
        case ToolProgress() | ToolAsked():
            return LateReport(draft.tell(_STALE))
        case _:
            assert_never(report)


def _on_background(draft: Draft[L], run: HeldRun, report: RunReport) -> Draft[L] | LateReport[L]:
    """A run in the background goes on, or has ended: its end waits for the next request."""
    match report:
        case ToolSucceeded() | ToolFailed():
            if not report.output.background:
                return background_ended(draft, run, report.output, isinstance(report, ToolFailed))
            if run.handle:
                return LateReport(draft.tell(Refused(UserAction.REPORT, RefusalReason.DUPLICATE)))
            return has_handle(draft, run)
        case ToolStopped():
            return background_ended(draft, run, ToolOutput(), failed=True)
        case ToolLost():
            return background_lost(draft, run)
        case ToolProgress():
            return draft.tell(ToolProgressed(run.call, run.operation, report.text))
        case ToolAsked():
            return draft.tell(AnswerTool(operation=run.operation, value=None))
        case _:
            assert_never(report)


def _judge(operations: Operations, kind: OperationKind, number: int) -> RefusalReason:
    """Why a report on an operation that is not open is refused. No timer fires twice: a late one was closed."""
    if not 1 <= number <= operations.minted[kind]:
        return RefusalReason.UNKNOWN
    if kind is OperationKind.TIMER or number in operations.abandoned[kind]:
        return RefusalReason.STALE
    return RefusalReason.DUPLICATE


def _billed_late(
    draft: Draft[L],
    report: ToolDelta | TimerFired | OutsideDelta,
    kind: OperationKind,
    number: int,
    reason: RefusalReason,
) -> Draft[L]:
    """What an operation that was closed otherwise has used is counted, once."""
    session = draft.session
    if reason is not RefusalReason.STALE or not isinstance(report, BilledReport):
        return draft
    if number in session.operations.billed[kind]:
        return draft
    calls = report.tool_calls if isinstance(report, ChildEnded) else 0
    if report.usage == NO_USAGE and not calls:
        return draft
    billed, usage = session.operations.bill(kind, number), session.usage.plus(report.usage)
    return draft.with_session(session.updated(operations=billed, usage=usage, started=session.started + calls))


def _late_model_report(draft: Draft[L], report: ModelDelta) -> tuple[Draft[L], RefusalReason]:
    session = draft.session
    operations = session.operations
    index = operations.abandoned_model_index(report.operation)
    if index is None:
        return draft, _judge(operations, OperationKind.MODEL, report.operation)
    counted = operations.abandoned_models[index].counted
    usage = _billed_by(report)
    extra = usage.beyond(counted)
    if extra == NO_USAGE:
        return draft, RefusalReason.STALE
    call = AbandonedModelCall(report.operation, counted.most(usage))
    operations = evolve(operations, abandoned_models=operations.abandoned_models.replace(index, call))
    billed = session.updated(operations=operations, usage=session.usage.plus(extra))
    return draft.with_session(billed), RefusalReason.STALE


def _billed_by(report: ModelDelta) -> Usage:
    return report.usage if isinstance(report, ModelUsage | ModelCompleted | ModelFailed) else NO_USAGE


def _named_by(report: ToolDelta | TimerFired | OutsideDelta) -> tuple[OperationKind, int]:
    """The operation that a report is about."""
    match report:
        case ToolChecked():
            return OperationKind.CHECK, report.operation
        case ToolSucceeded() | ToolFailed() | ToolProgress() | ToolAsked() | ToolStopped() | ToolLost():
            return OperationKind.RUN, report.operation
        case ChildProgress() | ChildAsks() | ChildEnded():
            return OperationKind.RUN, report.operation
        case TimerFired():
            return OperationKind.TIMER, report.operation
        case HookAnswered():
            return OperationKind.HOOK, report.operation
        case CorrectionAnswered():
            return OperationKind.CORRECTION, report.operation
        case SummaryReady() | SummaryFailed():
            return OperationKind.SUMMARY, report.operation
        case HandoffDone() | HandoffFailed():
            return OperationKind.HANDOFF, report.operation
        case _:
            assert_never(report)

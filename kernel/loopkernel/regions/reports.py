"""Reports on operations that are not open: named, never applied (rule DELTA-2)."""

from typing import assert_never

from attrs import evolve

from loopkernel.data.ids import OperationKind
from loopkernel.data.model_deltas import FromModel, ModelCompleted, ModelDelta, ModelFailed, ModelUsage
from loopkernel.data.operations import AbandonedModelCall, Operations
from loopkernel.data.outside_deltas import (
    ChildEnded,
    ChildProgress,
    CorrectionAnswered,
    HandoffDone,
    HandoffFailed,
    HookAnswered,
    OutsideDelta,
    SummaryFailed,
    SummaryReady,
    TimerFired,
)
from loopkernel.data.sessions import Session
from loopkernel.data.tool_deltas import (
    ToolAsked,
    ToolChecked,
    ToolDelta,
    ToolFailed,
    ToolProgress,
    ToolStopped,
    ToolSucceeded,
)
from loopkernel.data.usage import NO_USAGE, Usage
from loopkernel.data.words import RefusalReason

Report = ModelDelta | ToolDelta | TimerFired | OutsideDelta


def late_report(session: Session, report: Report) -> tuple[Session, RefusalReason]:
    """Why the report is refused; the session changes only by usage that an abandoned model call still billed."""
    if isinstance(report, FromModel):
        return _late_model_report(session, report)
    kind, number = _named_by(report)
    return session, _judge(session.operations, kind, number)


def _judge(operations: Operations, kind: OperationKind, number: int) -> RefusalReason:
    if not 1 <= number <= operations.minted[kind]:
        return RefusalReason.UNKNOWN
    return RefusalReason.STALE if number in operations.abandoned[kind] else RefusalReason.DUPLICATE


def _late_model_report(session: Session, report: ModelDelta) -> tuple[Session, RefusalReason]:
    operations = session.operations
    index = operations.abandoned_model_index(report.operation)
    if index is None:
        return session, _judge(operations, OperationKind.MODEL, report.operation)
    counted = operations.abandoned_models[index].counted
    usage = _billed_by(report)
    extra = usage.beyond(counted)
    if extra == NO_USAGE:
        return session, RefusalReason.STALE
    call = AbandonedModelCall(report.operation, counted.most(usage))
    operations = evolve(operations, abandoned_models=operations.abandoned_models.replace(index, call))
    return evolve(session, operations=operations, usage=session.usage.plus(extra)), RefusalReason.STALE


def _billed_by(report: ModelDelta) -> Usage:
    return report.usage if isinstance(report, ModelUsage | ModelCompleted | ModelFailed) else NO_USAGE


def _named_by(report: ToolDelta | TimerFired | OutsideDelta) -> tuple[OperationKind, int]:
    """The operation that a report is about."""
    match report:
        case ToolChecked():
            return OperationKind.CHECK, report.operation
        case ToolSucceeded() | ToolFailed() | ToolProgress() | ToolAsked() | ToolStopped():
            return OperationKind.RUN, report.operation
        case ChildProgress() | ChildEnded():
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

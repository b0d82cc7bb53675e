"""Reports on operations that are not open: named, never applied (rule DELTA-2)."""

from typing import assert_never

from attrs import evolve, frozen

from loopkernel.data.effects import AnswerTool, Effect
from loopkernel.data.events import Refused
from loopkernel.data.held_runs import HeldRun
from loopkernel.data.ids import OperationKind
from loopkernel.data.ledgers import Ledger
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
from loopkernel.data.sessions import Session
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
from loopkernel.data.words import RefusalReason, UserAction
from loopkernel.loop.calls.held_runs import (
    background_ended,
    background_lost,
    background_progressed,
    freed,
    grace_is_over,
    has_handle,
    has_stopped,
    held_run,
    leased_until,
)

BilledReport = SummaryReady | SummaryFailed | CorrectionAnswered | ChildEnded | HandoffDone | HandoffFailed
Report = ModelDelta | ToolDelta | TimerFired | OutsideDelta


@frozen
class Reported:
    """The session, and the ledger where there is one, after a report on nothing that the phase waits for.

    Refused where `effects` say so; a refused one changes nothing but usage that was billed late, and resources that it
    shows to be free.
    """

    session: Session
    ledger: Ledger | None
    effects: tuple[Effect, ...]


def late_report(session: Session, report: Report, ledger: Ledger | None = None) -> Reported:
    """A report that the phase itself does not wait for: on a held run, or on what is closed (rule DELTA-2)."""
    if session.held:
        found = _on_held_run(session, report, ledger)
        if found is not None:
            return found
    if isinstance(report, FromModel):
        session, reason = _late_model_report(session, report)
    else:
        kind, number = _named_by(report)
        reason = _judge(session.operations, kind, number)
        session = _billed_late(session, report, kind, number, reason)
    return Reported(session, ledger, (Refused(UserAction.REPORT, reason),))


def _on_held_run(session: Session, report: Report, ledger: Ledger | None) -> Reported | None:
    """What a report on a held run, or on its grace time, does (rules TOOL-17 and TOOL-20)."""
    match report:
        case TimerFired():
            run = leased_until(session, report.operation)
            if run is None:
                return None
            session, effects = grace_is_over(session, run)
            return Reported(session, freed(ledger, run), effects)
        case FromTool():
            if isinstance(report, ToolChecked):
                return None
            run = held_run(session, report.operation)
            if run is None:
                return None
            return (
                _on_background(session, run, report, ledger)
                if run.background
                else _on_aborted(session, run, report, ledger)
            )
        case ChildEnded():
            run = held_run(session, report.operation)
            if run is None or run.background:
                return None  # only tools go on in the background, and a tool does not report as a sub-agent does
            return _on_aborted_child(session, run, report, ledger)
        case FromModel() | FromOutside():
            return None
        case _:
            assert_never(report)


RunReport = ToolSucceeded | ToolFailed | ToolProgress | ToolAsked | ToolStopped | ToolLost


def _on_aborted(session: Session, run: HeldRun, report: RunReport, ledger: Ledger | None) -> Reported:
    """An aborted run says that it has stopped, or reports all the same: it is then stale, but shows the same."""
    stale = (Refused(UserAction.REPORT, RefusalReason.STALE),)
    match report:
        case ToolStopped() | ToolLost():
            session, effects = has_stopped(session, run)
            return Reported(session, freed(ledger, run), effects)
        case ToolSucceeded() | ToolFailed():
            session, effects = has_stopped(session, run)
            return Reported(session, freed(ledger, run), (*stale, *effects))
        case ToolProgress() | ToolAsked():
            return Reported(session, ledger, stale)
        case _:
            assert_never(report)


def _on_aborted_child(session: Session, run: HeldRun, report: ChildEnded, ledger: Ledger | None) -> Reported:
    """An aborted sub-agent has stopped, and says what it has used."""
    session = _billed_late(session, report, OperationKind.RUN, report.operation, RefusalReason.STALE)
    session, effects = has_stopped(session, run)
    return Reported(session, freed(ledger, run), (Refused(UserAction.REPORT, RefusalReason.STALE), *effects))


def _on_background(session: Session, run: HeldRun, report: RunReport, ledger: Ledger | None) -> Reported:
    """A run in the background goes on, or has ended: its end waits for the next request."""
    match report:
        case ToolSucceeded() | ToolFailed():
            if report.output.background and run.handle:
                return Reported(session, ledger, (Refused(UserAction.REPORT, RefusalReason.DUPLICATE),))
            if report.output.background:
                return Reported(has_handle(session, run), ledger, ())
            session = background_ended(session, run, report.output, isinstance(report, ToolFailed))
            return Reported(session, freed(ledger, run), ())
        case ToolStopped():
            return Reported(background_ended(session, run, ToolOutput(), failed=True), freed(ledger, run), ())
        case ToolLost():
            return Reported(background_lost(session, run), freed(ledger, run), ())
        case ToolProgress():
            return Reported(session, ledger, background_progressed(run, report.text))
        case ToolAsked():
            return Reported(session, ledger, (AnswerTool(operation=run.operation, value=None),))
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
    session: Session,
    report: ToolDelta | TimerFired | OutsideDelta,
    kind: OperationKind,
    number: int,
    reason: RefusalReason,
) -> Session:
    """What an operation that was closed otherwise has used is counted, once."""
    if reason is not RefusalReason.STALE or not isinstance(report, BilledReport):
        return session
    if number in session.operations.billed[kind]:
        return session
    calls = report.tool_calls if isinstance(report, ChildEnded) else 0
    if report.usage == NO_USAGE and not calls:
        return session
    session = session.with_operations(session.operations.bill(kind, number))
    return evolve(session, usage=session.usage.plus(report.usage), started=session.started + calls)


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

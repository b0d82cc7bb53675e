"""How the witness says what becomes of operations and deltas, and what a report is about."""

import enum

from loopkernel.data.ids import OperationKind
from loopkernel.data.model_deltas import ModelDelta
from loopkernel.data.outside_deltas import (
    ChildAsks,
    ChildEnded,
    ChildProgress,
    CorrectionAnswered,
    HookAnswered,
    OutsideDelta,
    SummaryFailed,
    SummaryReady,
    TimerFired,
)
from loopkernel.data.tool_deltas import ToolChecked, ToolDelta, ToolFailed, ToolSucceeded
from loopkernel.data.words import RefusalReason

ChildReport = ChildProgress | ChildAsks | ChildEnded

# How a delta may be taken: refused for one of these reasons, or (None) accepted.
Outcomes = frozenset[RefusalReason | None]
ACCEPTED: Outcomes = frozenset({None})
REFUSED: Outcomes = frozenset(RefusalReason)
UNFORESEEN: Outcomes = ACCEPTED | REFUSED


class Fate(enum.Enum):
    """Where an operation stands."""

    OPEN = "open"
    REPORTED = "reported"  # closed by its own report
    CUT = "cut"  # closed otherwise


def only(reason: RefusalReason) -> Outcomes:
    """Refused, and for this reason alone."""
    return frozenset({reason})


def goes_aside(delta: ModelDelta | ToolDelta | OutsideDelta | TimerFired) -> bool:
    """Whether the report says that a run goes on in the background."""
    return isinstance(delta, ToolSucceeded | ToolFailed) and delta.output.background


def kind_of(delta: ModelDelta | ToolDelta | OutsideDelta | TimerFired) -> OperationKind:
    """The kind of operation that a report is about."""
    if isinstance(delta, ModelDelta):
        return OperationKind.MODEL
    if isinstance(delta, ToolChecked):
        return OperationKind.CHECK
    if isinstance(delta, ToolDelta | ChildReport):
        return OperationKind.RUN
    if isinstance(delta, TimerFired):
        return OperationKind.TIMER
    if isinstance(delta, HookAnswered):
        return OperationKind.HOOK
    if isinstance(delta, CorrectionAnswered):
        return OperationKind.CORRECTION
    return OperationKind.SUMMARY if isinstance(delta, SummaryReady | SummaryFailed) else OperationKind.HANDOFF

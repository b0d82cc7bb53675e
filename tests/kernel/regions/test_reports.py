"""Late reports: named by what became of their operation, and billed for what they add."""

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.ids import ModelOperation, OperationKind
from loopkernel.data.model_deltas import FromModel, ModelCompleted, ModelFailed, ModelText, ModelUsage
from loopkernel.data.operations import Operations
from loopkernel.data.sessions import Session
from loopkernel.data.thread_deltas import FromThread
from loopkernel.data.usage import NO_USAGE, Usage
from loopkernel.data.user_deltas import FromUser
from loopkernel.data.words import ErrorClass, RefusalReason, StopReason
from loopkernel.regions.reports import Report, late_report
from loopkernel.testing.strategies.values import usages

from tests.kernel.building import ONE, at_rest, reports_about

KINDS = {
    "ToolChecked": OperationKind.CHECK,
    "ToolProgress": OperationKind.RUN,
    "ToolSucceeded": OperationKind.RUN,
    "ToolFailed": OperationKind.RUN,
    "ToolAsked": OperationKind.RUN,
    "ToolStopped": OperationKind.RUN,
    "ChildProgress": OperationKind.RUN,
    "ChildEnded": OperationKind.RUN,
    "TimerFired": OperationKind.TIMER,
    "HookAnswered": OperationKind.HOOK,
    "CorrectionAnswered": OperationKind.CORRECTION,
    "SummaryReady": OperationKind.SUMMARY,
    "SummaryFailed": OperationKind.SUMMARY,
    "HandoffDone": OperationKind.HANDOFF,
    "HandoffFailed": OperationKind.HANDOFF,
}
STARTED = 4


def reports(number: int) -> list[Report]:
    return [delta for delta in reports_about(number) if not isinstance(delta, FromUser | FromThread)]


def with_operations(operations: Operations) -> Session:
    return evolve(at_rest().session, operations=operations)


@st.composite
def operations(draw: st.DrawFn) -> tuple[Operations, dict[OperationKind, set[int]]]:
    """Four operations of each kind, and which of them were cut short."""
    cut_short = {kind: draw(st.sets(st.integers(1, STARTED))) for kind in OperationKind}
    found = Operations()
    for kind in OperationKind:
        for _ in range(STARTED):
            found, _ = found.mint(kind)
        for number in sorted(cut_short[kind]):
            if kind is OperationKind.MODEL:
                found = found.abandon_model(ModelOperation(number), NO_USAGE)
            else:
                found = found.abandon(kind, number)
    return found, cut_short


@pytest.mark.rule("DELTA-2")
@pytest.mark.rule("DELTA-3")
@given(operations(), st.integers(-1, STARTED + 2))
def test_a_late_report_is_named_by_what_became_of_its_operation(
    known: tuple[Operations, dict[OperationKind, set[int]]], number: int
) -> None:
    minted, cut_short = known
    for report in reports(number):
        kind = KINDS.get(type(report).__name__, OperationKind.MODEL)
        if not 1 <= number <= STARTED:
            expected = RefusalReason.UNKNOWN
        else:
            expected = RefusalReason.STALE if number in cut_short[kind] else RefusalReason.DUPLICATE
        session, reason = late_report(with_operations(minted), report)
        assert (reason, session) == (expected, with_operations(minted)), type(report).__name__


@pytest.mark.rule("DELTA-2")
@pytest.mark.rule("INFER-3")
@given(usages, st.lists(usages, max_size=4))
def test_a_stale_report_is_billed_for_what_goes_beyond_what_was_counted(counted: Usage, late: list[Usage]) -> None:
    session = evolve(at_rest().session, usage=counted)
    started, _ = session.operations.mint(OperationKind.MODEL)
    session = evolve(session, operations=started.abandon_model(ONE, counted))
    largest = counted
    for number, usage in enumerate(late):
        report = (
            ModelUsage(ONE, usage),
            ModelCompleted(ONE, StopReason.END_TURN, usage),
            ModelFailed(ONE, error=ErrorClass.SERVER, usage=usage),
        )[number % 3]
        session, reason = late_report(session, report)
        largest = largest.most(usage)
        assert reason is RefusalReason.STALE
        assert session.usage == largest
    assert late_report(session, ModelText(ONE, "a")) == (session, RefusalReason.STALE)


@pytest.mark.rule("INFER-3")
@pytest.mark.rule("DELTA-2")
def test_a_duplicate_report_is_not_billed() -> None:
    started, _ = at_rest().session.operations.mint(OperationKind.MODEL)
    session = with_operations(started)
    bill = ModelUsage(ONE, Usage(input=5))
    assert late_report(session, bill) == (session, RefusalReason.DUPLICATE)


def test_every_report_is_of_a_kind() -> None:
    named = {type(report).__name__ for report in reports(1) if not isinstance(report, FromModel)}
    assert named == KINDS.keys()

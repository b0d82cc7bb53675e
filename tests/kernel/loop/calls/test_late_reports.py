"""Late reports: named by what became of their operation, and billed for what they add."""

from typing import NamedTuple

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.blocks import TextBlock
from loopkernel.data.effects import AnswerTool, CancelTimer, Effect, StartTool
from loopkernel.data.events import LeaseBroken, Refused, ToolProgressed
from loopkernel.data.ids import ModelOperation, OperationKind
from loopkernel.data.ledgers import Ledger
from loopkernel.data.model_deltas import FromModel, ModelCompleted, ModelFailed, ModelText, ModelUsage
from loopkernel.data.operations import Operations
from loopkernel.data.outside_deltas import ChildEnded, FromOutside
from loopkernel.data.sessions import Session
from loopkernel.data.states import Executing
from loopkernel.data.thread_deltas import FromThread
from loopkernel.data.tool_deltas import ToolAsked, ToolFailed, ToolProgress, ToolSucceeded
from loopkernel.data.tools import ToolOutput
from loopkernel.data.usage import NO_USAGE, Usage
from loopkernel.data.user_deltas import CancelCall, FromUser
from loopkernel.data.words import CallStatus, ErrorClass, RefusalReason, StopReason, UserAction
from loopkernel.loop.algorithms.wording import LOST
from loopkernel.loop.calls.late_reports import LateReport, Report, late_report
from loopkernel.testing.strategies.values import usages

from tests.kernel.building import (
    ONE,
    a,
    after,
    at_rest,
    broken,
    call_id,
    checked,
    completed,
    effects_of,
    fired,
    lost,
    made_call,
    of_kind,
    reads,
    run,
    statuses,
    step,
    stopped,
    succeeded,
    timer,
    working,
    writes,
)
from tests.kernel.drafts import drafted
from tests.kernel.grids import reports_about

KINDS = {
    "ToolChecked": OperationKind.CHECK,
    "ToolProgress": OperationKind.RUN,
    "ToolSucceeded": OperationKind.RUN,
    "ToolFailed": OperationKind.RUN,
    "ToolAsked": OperationKind.RUN,
    "ToolStopped": OperationKind.RUN,
    "ToolLost": OperationKind.RUN,
    "ChildProgress": OperationKind.RUN,
    "ChildAsks": OperationKind.RUN,
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


class Reported(NamedTuple):
    """What a report on nothing that is waited for leaves behind."""

    session: Session
    ledger: Ledger | None
    effects: tuple[Effect, ...]


def reported(session: Session, report: Report, ledger: Ledger | None = None) -> Reported:
    """After the report, refused or not; a refused one says so first."""
    if ledger is None:
        late = late_report(drafted(session), report)
        draft = late.draft if isinstance(late, LateReport) else late
        assert isinstance(late, LateReport) is isinstance((*draft.effects, None)[0], Refused)
        return Reported(draft.session, None, draft.effects)
    on_calls = late_report(drafted(session, ledger=ledger), report)
    found = on_calls.draft if isinstance(on_calls, LateReport) else on_calls
    assert isinstance(on_calls, LateReport) is isinstance((*found.effects, None)[0], Refused)
    return Reported(found.session, found.ledger, found.effects)


def with_operations(operations: Operations) -> Session:
    return evolve(at_rest().session, operations=operations)


def refused(reason: RefusalReason) -> tuple[Refused]:
    return (Refused(UserAction.REPORT, reason),)


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
        if kind is OperationKind.TIMER and expected is RefusalReason.DUPLICATE:
            expected = RefusalReason.STALE  # no timer fires twice: whatever closed it was not its own report
        ledger = Ledger(reply=ONE)
        found = reported(with_operations(minted), report, ledger)
        assert found == Reported(with_operations(minted), ledger, refused(expected)), type(report).__name__


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
        found = reported(session, report)
        session, largest = found.session, largest.most(usage)
        assert (found.ledger, found.effects) == (None, refused(RefusalReason.STALE))
        assert session.usage == largest
    assert reported(session, ModelText(ONE, "a")) == Reported(session, None, refused(RefusalReason.STALE))


@pytest.mark.rule("INFER-3")
@pytest.mark.rule("DELTA-2")
def test_a_duplicate_report_is_not_billed() -> None:
    started, _ = at_rest().session.operations.mint(OperationKind.MODEL)
    session = with_operations(started)
    bill = ModelUsage(ONE, Usage(input=5))
    assert reported(session, bill) == Reported(session, None, refused(RefusalReason.DUPLICATE))


def test_every_report_is_of_a_kind() -> None:
    named = {type(report).__name__ for report in reports(1) if not isinstance(report, FromModel)}
    assert named == KINDS.keys()


# --- runs whose call is answered, and which have not stopped -----------------------------------------------

# Two writes of one file, the first of which is cancelled while it runs: the second waits until it has stopped.
LEASED = a(
    Executing, after(working(made_call("write", writes("a")), made_call("write", writes("a"))), CancelCall(call_id(1)))
)
# The same, where the first has gone on in the background.
BEHIND = a(
    Executing,
    after(working(made_call("write", writes("a")), made_call("write", writes("a"))), succeeded(1, background=True)),
)
GRACE = timer(2)


@pytest.mark.rule("TOOL-17")
@pytest.mark.rule("DELTA-2")
@pytest.mark.parametrize(
    ("report", "told"),
    [
        (stopped(1), [CancelTimer(GRACE)]),
        (lost(1), [CancelTimer(GRACE)]),
        (succeeded(1), [*refused(RefusalReason.STALE), CancelTimer(GRACE)]),
        (broken(1), [*refused(RefusalReason.STALE), CancelTimer(GRACE)]),
        (fired(2), [LeaseBroken(call_id(1))]),
    ],
    ids=["stopped", "lost", "succeeded", "failed", "not in time"],
)
def test_what_shows_that_an_aborted_run_has_stopped_frees_its_resources(report: Report, told: list[Effect]) -> None:
    found = reported(LEASED.session, report, LEASED.ledger)
    assert list(found.effects) == told
    assert (LEASED.session.held != (), found.session.held) == (True, ())
    assert found.ledger == LEASED.ledger
    following, effects = step(LEASED, report)
    assert [start.call for start in of_kind(StartTool, effects)] == [call_id(2)]
    counted = 0 if isinstance(effects[0], Refused) else 1
    assert following.stamp.version == LEASED.stamp.version + counted


@pytest.mark.rule("TOOL-17")
@pytest.mark.rule("CANCEL-3")
@pytest.mark.parametrize("report", [ToolProgress(run(1), "half"), ToolAsked(run(1), "which?")])
def test_an_aborted_run_that_goes_on_talking_changes_nothing(report: ToolProgress | ToolAsked) -> None:
    found = reported(LEASED.session, report, LEASED.ledger)
    assert found == Reported(LEASED.session, LEASED.ledger, refused(RefusalReason.STALE))
    assert found.session is LEASED.session


@pytest.mark.rule("TOOL-17")
@pytest.mark.parametrize("report", [stopped(2), fired(1), checked(1), fired(9)])
def test_a_report_on_another_run_frees_nothing(report: Report) -> None:
    assert reported(LEASED.session, report, LEASED.ledger).session is LEASED.session


@pytest.mark.rule("TOOL-17")
def test_what_is_not_about_runs_leaves_the_held_ones_alone() -> None:
    others = [report for report in reports(1) if isinstance(report, FromModel | FromOutside)]
    others = [report for report in others if not isinstance(report, ChildEnded)]  # it shows that a run has ended
    assert {reported(LEASED.session, report).session.held for report in others} == {LEASED.session.held}


@pytest.mark.rule("TOOL-20")
@pytest.mark.parametrize(
    ("report", "how", "words"),
    [
        (succeeded(1, "made"), "has ended", ["made"]),
        (broken(1, "no space"), "has failed", ["no space"]),
        (stopped(1), "has failed", []),
        (lost(1), "is lost", [LOST]),
    ],
    ids=["succeeded", "failed", "stopped", "lost"],
)
def test_the_end_of_a_background_run_waits_for_the_next_request(report: Report, how: str, words: list[str]) -> None:
    found = reported(BEHIND.session, report, BEHIND.ledger)
    assert (found.effects, found.session.held) == ((), ())
    (end,) = found.session.inbox.background
    first, *others = [block.text for block in end.content if isinstance(block, TextBlock)]
    assert (end.call, others) == (call_id(1), words)
    assert how in first
    following, effects = step(BEHIND, report)
    assert [start.call for start in of_kind(StartTool, effects)] == [call_id(2)]
    assert following.stamp.version == BEHIND.stamp.version + 1


@pytest.mark.rule("TOOL-20")
@pytest.mark.rule("DELTA-2")
@pytest.mark.parametrize("failed", [False, True])
def test_that_a_run_goes_on_in_the_background_is_told_once(failed: bool) -> None:
    again = (ToolFailed if failed else ToolSucceeded)(run(1), ToolOutput(background=True))
    found = reported(BEHIND.session, again, BEHIND.ledger)
    assert found == Reported(BEHIND.session, BEHIND.ledger, refused(RefusalReason.DUPLICATE))


@pytest.mark.rule("TOOL-20")
def test_a_background_run_shows_how_far_it_is_and_nobody_answers_it() -> None:
    progress = reported(BEHIND.session, ToolProgress(run(1), "half"), BEHIND.ledger)
    assert progress == Reported(BEHIND.session, BEHIND.ledger, (ToolProgressed(call_id(1), run(1), "half"),))
    question = reported(BEHIND.session, ToolAsked(run(1), "which?"), BEHIND.ledger)
    assert question == Reported(BEHIND.session, BEHIND.ledger, (AnswerTool(operation=run(1), value=None),))


@pytest.mark.rule("TOOL-17")
@pytest.mark.rule("TOOL-20")
def test_a_run_of_an_earlier_reply_frees_what_a_call_of_this_one_waits_for() -> None:
    calls = (made_call("write", writes("a"), reply=2), made_call("read", reads("a"), reply=2))
    second = (*calls, completed(StopReason.TOOL_USE, reply=2))
    state = after(working(made_call("write", writes("a"))), succeeded(1, background=True), *second)
    assert statuses(state) == [CallStatus.QUEUED, CallStatus.QUEUED]
    assert [start.call for start in of_kind(StartTool, effects_of(state, succeeded(1)))] == [call_id(1, reply=2)]

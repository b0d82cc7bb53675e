"""`Cancelled`: at rest after everything was cancelled; the next input starts the loop again."""

import pytest
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import CallModel
from loopkernel.data.events import Refused, SessionResumed
from loopkernel.data.ids import OperationKind
from loopkernel.data.model_deltas import ModelUsage
from loopkernel.data.states import Cancelled, Initial, Streaming
from loopkernel.data.thread_deltas import Disposed, Resumed
from loopkernel.data.usage import Usage
from loopkernel.data.user_deltas import CancelAll, RetryNow, Say
from loopkernel.data.words import CancelReason, RefusalReason, RequestReason, UserAction

from tests.kernel.building import (
    ONE,
    a,
    after,
    asked,
    enqueue,
    fired,
    made_call,
    of_kind,
    say,
    session_of,
    starts,
    step,
    stopped,
    succeeded,
    working,
)
from tests.kernel.grids import expected_grid, grid

CUT = a(Cancelled, after(asked(), CancelAll()))
CUT_CALLS = a(Cancelled, after(working(made_call(), made_call()), enqueue("later"), CancelAll()))
STARTS = {"Say": "Streaming", "Enqueue": "Streaming", "Steer": "Streaming", "RetryNow": "Streaming"}


@pytest.mark.rule("STATE-4")
@pytest.mark.rule("CANCEL-5")
@pytest.mark.rule("DELTA-2")
@pytest.mark.parametrize("state", [CUT, CUT_CALLS])
def test_after_a_cancel_input_starts_again_and_a_second_cancel_is_refused(state: Cancelled) -> None:
    moved = {"Resumed": "Cancelled", "Disposed": "Initial", "Forked": "Idle", "StartHandoff": "HandingOff"}
    expected = expected_grid(settings="Cancelled", **STARTS, **moved)
    assert grid(state) == expected


@pytest.mark.rule("CANCEL-3")
@pytest.mark.rule("TOOL-17")
@pytest.mark.rule("DELTA-2")
def test_what_reports_after_it_was_cut_is_stale_and_that_it_has_stopped_is_accepted() -> None:
    runs = (
        "ToolProgress",
        "ToolSucceeded",
        "ToolFailed",
        "ToolAsked",
        "ChildProgress",
        "ChildAsks",
        "ChildEnded",
        "TimerFired",
    )
    found = grid(CUT_CALLS, 1)
    assert {name: found[name] for name in runs} == dict.fromkeys(runs, "refused stale")
    assert found["ToolStopped"] == "Cancelled"
    assert found["ModelCompleted"] == "refused duplicate"
    assert grid(CUT, 1)["ModelCompleted"] == "refused stale"
    assert grid(after(CUT_CALLS, stopped(1)), 1)["ToolStopped"] == "refused stale"


@pytest.mark.rule("TOOL-17")
@pytest.mark.parametrize("report", [stopped(1), succeeded(1), fired(3)], ids=["stopped", "late result", "no time left"])
def test_each_aborted_run_is_held_until_it_has_stopped(report: Delta) -> None:
    assert [held.operation for held in CUT_CALLS.session.held] == [1, 2]
    following, effects = step(CUT_CALLS, report)
    assert [held.operation for held in session_of(a(Cancelled, following)).held] == [2]
    assert starts(effects) == []


@pytest.mark.rule("STATE-4")
@pytest.mark.rule("INFER-1")
@pytest.mark.parametrize(("delta", "reason"), [(say(), RequestReason.USER), (RetryNow(), RequestReason.ERROR_RETRY)])
def test_the_mark_is_gone_once_the_model_is_asked_again(delta: Say | RetryNow, reason: RequestReason) -> None:
    following, effects = step(CUT, delta)
    (call,) = of_kind(CallModel, effects)
    assert (a(Streaming, following).turn.reason, call.request.reason) == (reason, reason)
    assert call.operation == session_of(CUT).operations.minted[OperationKind.MODEL] + 1


@pytest.mark.rule("CANCEL-1")
def test_the_state_keeps_why_everything_was_cancelled() -> None:
    assert CUT.reason is CancelReason.USER_CANCELLED


@pytest.mark.rule("INPUT-2")
def test_a_cancel_and_a_release_keep_the_queue() -> None:
    released = a(Initial, after(CUT_CALLS, Disposed()))
    assert [queued.number for queued in session_of(released).inbox.queue] == [1]


@pytest.mark.rule("INFER-3")
@pytest.mark.rule("DELTA-2")
def test_a_late_bill_is_counted_and_still_refused() -> None:
    following, effects = step(CUT, ModelUsage(ONE, Usage(output=3)))
    assert effects == (Refused(UserAction.REPORT, RefusalReason.STALE),)
    assert (session_of(following).usage, following.stamp) == (Usage(output=3), CUT.stamp)


def test_a_resumed_session_stays_cancelled() -> None:
    following, effects = step(CUT, Resumed())
    assert (a(Cancelled, following).session, effects) == (CUT.session, (SessionResumed(),))


@pytest.mark.rule("RESUME-3")
@pytest.mark.rule("TOOL-17")
def test_a_restart_forgets_what_had_still_to_stop() -> None:
    following, effects = step(CUT_CALLS, Resumed())
    assert (session_of(a(Cancelled, following)).held, effects) == ((), (SessionResumed(),))


@pytest.mark.rule("TOOL-20")
@pytest.mark.rule("CANCEL-2")
def test_after_a_release_nothing_runs_in_the_background() -> None:
    """Nothing does after a cancel; a run that was in the background is aborted by then."""
    behind = after(working(made_call()), succeeded(1, background=True))
    cut = a(Cancelled, after(behind, CancelAll()))
    assert all(held.grace is not None for held in cut.session.held)
    assert after(cut, Disposed()).session == cut.session

"""Runs whose call is answered and which have not stopped: what they hold, until when, and what their end says."""

import pytest
from attrs import evolve
from hypothesis import given
from loopkernel.data.blocks import TextBlock, text_of
from loopkernel.data.effects import AbortTool, CallModel, CancelTimer, StartTimer
from loopkernel.data.events import LeaseBroken, MessageAdded, ToolProgressed
from loopkernel.data.held_runs import HeldRun
from loopkernel.data.ids import CallId, ModelOperation, OperationKind
from loopkernel.data.ledgers import Ledger
from loopkernel.data.messages import UserMessage, UserOrigin
from loopkernel.data.model_deltas import ModelText
from loopkernel.data.policy import ResultLimit
from loopkernel.data.sessions import BackgroundEnd, Session
from loopkernel.data.states import Done, Idle, Streaming
from loopkernel.data.timers import Timer
from loopkernel.data.tool_deltas import ToolProgress
from loopkernel.data.tools import ToolOutput
from loopkernel.data.user_deltas import CancelAll, CancelCall
from loopkernel.data.words import CancelReason, StopReason, TimerPurpose
from loopkernel.loop.algorithms.wording import cancelled_text
from loopkernel.loop.calls.held_runs import (
    abort_all_in_background,
    abort_held_runs,
    abort_in_background,
    abort_run,
    background_ended,
    background_run,
    forget_background,
    give_up_in_background,
    grace_is_over,
    has_stopped,
    held_run,
    inject_background_ends,
    leased_until,
    without_run,
)
from loopkernel.loop.calls.late_reports import late_report
from loopkernel.loop.calls.schedule import forget_plan
from loopkernel.loop.life.restart import keep_leases
from loopkernel.testing.run import Run

from tests.kernel.building import (
    ASKING_NOBODY,
    NOTHING,
    ONE,
    TASK,
    a,
    after,
    asked,
    at_rest,
    call_id,
    completed,
    effects_of,
    ledger_of,
    made_call,
    named,
    of_kind,
    run,
    say,
    session_of,
    starts,
    step,
    stopped,
    succeeded,
    text,
    timer,
    working,
    writes,
)
from tests.kernel.drafts import drafted, outcome
from tests.kernel.plays import plays

SESSION = at_rest().session


def held(number: int, *, reply: int = 1, grace: int | None = None) -> HeldRun:
    """The run of the nth call of a reply, in the background, or aborted."""
    found = HeldRun(operation=run(number), call=call_id(number, reply), tool="build", input=NOTHING, runs=1, claims=())
    return found if grace is None else evolve(found, grace=Timer(timer(grace), TimerPurpose.GRACE, 9))


def with_held(*runs: HeldRun) -> Session:
    """A session with these runs, which were minted in it."""
    operations = SESSION.operations
    for _ in runs:
        operations, _ = operations.mint(OperationKind.RUN)
    return evolve(SESSION, operations=operations, held=runs)


# --- what holds always ------------------------------------------------------------------------------------


@pytest.mark.rule("TOOL-17")
@pytest.mark.rule("TOOL-20")
@given(plays())
def test_a_held_run_is_of_an_answered_call_and_abandoned_exactly_if_it_has_a_grace_time(play: Run) -> None:
    for record in play.steps:
        state = record.after
        if state.session is None:
            continue
        abandoned = state.session.operations.abandoned[OperationKind.RUN]
        operations = [found.operation for found in state.session.held]
        assert len(set(operations)) == len(operations)
        for found in state.session.held:
            assert found.background is (found.grace is None)
            assert (found.operation in abandoned) is not found.background
            assert found.grace is None or found.grace.purpose is TimerPurpose.GRACE
            ledger = getattr(state, "ledger", None)
            if isinstance(ledger, Ledger) and ledger.reply == found.call.reply:
                assert not ledger.entries[found.call.position - 1].is_open


@pytest.mark.rule("TOOL-20")
@pytest.mark.rule("CANCEL-2")
@given(plays())
def test_after_a_cancel_of_all_or_a_release_nothing_runs_in_the_background(play: Run) -> None:
    for record in play.steps:
        for effect in record.effects:
            if type(effect).__name__ == "WorkCancelled":
                assert not any(found.background for found in session_of(record.after).held)


# --- leases -----------------------------------------------------------------------------------------------


@pytest.mark.rule("TOOL-17")
def test_a_lease_lasts_for_the_grace_time_of_the_policy() -> None:
    session = evolve(with_held(), settings=evolve(SESSION.settings, policy=evolve(ASKING_NOBODY, grace_ms=70)))
    operations, _ = session.operations.mint(OperationKind.RUN)
    draft = drafted(evolve(session, operations=operations), 1_000)
    leased, effects = outcome(abort_run(draft, held(1), CancelReason.SAFETY))
    assert effects == (
        AbortTool(run(1), CancelReason.SAFETY),
        StartTimer(operation=timer(1), purpose=TimerPurpose.GRACE, deadline_ms=1_070),
    )
    assert leased.held == (evolve(held(1), grace=Timer(timer(1), TimerPurpose.GRACE, 1_070)),)
    assert list(leased.operations.abandoned[OperationKind.RUN]) == [1]


@pytest.mark.rule("TOOL-17")
@pytest.mark.rule("TOOL-20")
def test_a_held_run_is_found_by_its_operation_its_timer_or_its_call() -> None:
    behind, leased = held(1), held(2, grace=7)
    session = with_held(behind, leased)
    assert [held_run(session, run(number)) for number in (1, 2, 3)] == [behind, leased, None]
    assert [leased_until(session, timer(number)) for number in (1, 7)] == [None, leased]
    assert [background_run(session, call_id(number)) for number in (1, 2, 3)] == [behind, None, None]


@pytest.mark.rule("TOOL-17")
def test_a_run_that_has_stopped_or_had_its_time_holds_nothing_any_more() -> None:
    first, second = held(1, grace=1), held(2, grace=2)
    session = with_held(first, second)
    assert without_run(session, first).held == (second,)
    assert outcome(has_stopped(drafted(session), first)) == (without_run(session, first), (CancelTimer(timer(1)),))
    assert outcome(grace_is_over(drafted(session), second)) == (
        without_run(session, second),
        (LeaseBroken(call_id(2)),),
    )


@pytest.mark.rule("TOOL-17")
def test_what_a_run_frees_is_looked_at_in_the_ledger_that_waits_for_it() -> None:
    state = after(working(made_call("write", writes("a")), made_call("write", writes("a"))), CancelCall(call_id(1)))
    ledger, (found,) = ledger_of(state), session_of(state).held
    assert ledger.plan is not None
    assert (ledger.plan.held, ledger.plan.candidates) == (1, 0)
    free = has_stopped(drafted(session_of(state), ledger=ledger), found).ledger
    assert free.plan is not None
    assert (free.plan.held, free.plan.candidates) == (0, 2)
    unplanned = has_stopped(drafted(session_of(state), ledger=forget_plan(ledger)), found)
    assert (unplanned.ledger, unplanned.ledger.plan) == (ledger, None)


@pytest.mark.rule("TOOL-17")
def test_what_a_run_of_another_reply_frees_wakes_the_calls_that_wait_for_one() -> None:
    first = after(working(made_call("write", writes("a"))), succeeded(1, background=True))
    calls = [made_call("write", writes("a"), reply=2), made_call(reply=2)]
    state = after(first, *calls, completed(StopReason.TOOL_USE, reply=2))
    ledger, (found,) = ledger_of(state), session_of(state).held
    assert ledger.plan is not None
    assert (ledger.plan.parked, ledger.plan.candidates) == (1, 0)
    free = has_stopped(drafted(session_of(state), ledger=ledger), found).ledger
    assert free.plan is not None
    assert (free.plan.parked, free.plan.candidates) == (0, 1)


@pytest.mark.rule("TOOL-17")
def test_a_thread_that_is_acquired_keeps_the_leases_and_nothing_else_that_held() -> None:
    session, effects = outcome(keep_leases(drafted(with_held(held(1), held(2, grace=1)))))
    assert [(each.call, each.grace is not None) for each in session.held] == [(call_id(2), True)]
    assert [type(effect) for effect in effects] == [CancelTimer, StartTimer]
    assert keep_leases(drafted(SESSION)).session is SESSION


@pytest.mark.rule("TOOL-17")
@pytest.mark.rule("CANCEL-2")
def test_leases_live_beyond_the_turn() -> None:
    rest = a(Idle, after(working(made_call("write", writes("a"))), CancelCall(call_id(1))))
    again = after(rest, say(), made_call("write", writes("a"), reply=2), completed(StopReason.TOOL_USE, reply=2))
    assert ledger_of(again).running == 0
    assert starts(effects_of(again, stopped(1))) == [call_id(1, reply=2)]


# --- runs in the background -------------------------------------------------------------------------------


@pytest.mark.rule("TOOL-20")
@pytest.mark.rule("TOOL-11")
@pytest.mark.parametrize("failed", [False, True])
def test_the_end_of_a_background_run_waits_with_what_it_returned_cut_to_the_limit(failed: bool) -> None:
    policy = evolve(ASKING_NOBODY, result_limit=ResultLimit(chars=10, head=1, tail=1))
    session = with_held(held(1), held(2))
    session = evolve(session, settings=evolve(session.settings, policy=policy))
    following = background_ended(drafted(session), held(1), ToolOutput(content=text("abcdefghijklmn")), failed).session
    (end,) = following.inbox.background
    first, second = [a(TextBlock, block).text for block in end.content]
    assert end.call == call_id(1)
    assert all(part in first for part in ('"build"', "1.1", "failed" if failed else "ended"))
    assert second == "a\n[12 characters left out]\nn"
    assert following.held == session.held  # another object of the same run is another run


@pytest.mark.rule("TOOL-20")
def test_a_background_run_that_is_lost_is_told_why() -> None:
    run_behind = held(1)
    following = give_up_in_background(drafted(with_held(run_behind)), run_behind, CancelReason.SAFETY).session
    (end,) = following.inbox.background
    assert following.held == ()
    assert cancelled_text(CancelReason.SAFETY) in text_of(end.content)
    assert "stopped" in text_of(end.content)


@pytest.mark.rule("TOOL-20")
@pytest.mark.rule("TOOL-17")
def test_a_background_run_that_is_stopped_is_aborted_and_leased() -> None:
    run_behind = held(1)
    session, effects = outcome(
        abort_in_background(drafted(with_held(run_behind), 100), run_behind, CancelReason.USER_CANCELLED)
    )
    assert effects[0] == AbortTool(run(1), CancelReason.USER_CANCELLED)
    assert named(effects) == ["AbortTool", "StartTimer"]
    (leased,) = session.held
    assert leased.grace is not None
    assert leased.grace.deadline_ms == 5_100
    assert cancelled_text(CancelReason.USER_CANCELLED) in text_of(session.inbox.background[0].content)


@pytest.mark.rule("TOOL-20")
def test_all_that_run_in_the_background_are_stopped_and_aborted_ones_are_left() -> None:
    session, effects = outcome(
        abort_all_in_background(drafted(with_held(held(1), held(2, grace=1), held(3))), CancelReason.DISPOSED)
    )
    assert [abort.operation for abort in of_kind(AbortTool, effects)] == [1, 3]
    assert all(found.grace is not None for found in session.held)
    assert len(session.inbox.background) == 2


@pytest.mark.rule("TOOL-20")
def test_what_ended_in_the_background_goes_into_the_thread_once() -> None:
    first, second = held(1), held(2)
    session = background_ended(drafted(with_held(first, second)), first, ToolOutput(content=text("one")), False).session
    session = background_ended(drafted(session), second, ToolOutput(content=text("two")), False).session
    session, effects = outcome(inject_background_ends(drafted(session)))
    messages = [a(UserMessage, added.message) for added in of_kind(MessageAdded, effects)]
    assert [text_of(message.content).splitlines()[-1] for message in messages] == ["one", "two"]
    assert {message.origin for message in messages} == {UserOrigin.BACKGROUND_RESULT}
    assert session.inbox.background == ()
    assert outcome(inject_background_ends(drafted(session))) == (session, ())


@pytest.mark.rule("TOOL-20")
def test_how_far_it_is_is_shown() -> None:
    draft = late_report(drafted(with_held(held(3))), ToolProgress(run(3), "half"))
    assert outcome(draft) == (with_held(held(3)), (ToolProgressed(call_id(3), run(3), "half"),))


@pytest.mark.rule("TOOL-20")
@pytest.mark.rule("INPUT-3")
def test_an_end_starts_no_turn_and_is_told_with_the_next_request() -> None:
    first = after(working(made_call()), succeeded(1, background=True))
    rest = a(Idle, after(first, ModelText(ONE, "x"), completed(reply=2), completed(reply=3)))
    ended, effects = step(rest, succeeded(1, "made"))
    assert (type(ended), effects) == (Idle, ())
    asking_again = effects_of(ended, say())
    assert named(asking_again) == ["InputSettled", "MessageAdded", "MessageAdded", "CallModel"]
    told = a(UserMessage, of_kind(MessageAdded, asking_again)[1].message)
    assert told.origin is UserOrigin.BACKGROUND_RESULT
    assert text_of(told.content).endswith("made")
    (call,) = of_kind(CallModel, asking_again)
    assert call.request.thread.messages[len(call.request.thread) - 1] == told


@pytest.mark.rule("TOOL-20")
@pytest.mark.rule("CANCEL-5")
def test_a_background_run_is_cancelled_by_its_call_also_at_rest_and_once() -> None:
    first = after(working(made_call()), succeeded(1, background=True))
    rest = a(Idle, after(first, completed(reply=2), completed(reply=3)))
    for state in (first, rest):
        following, effects = step(state, CancelCall(call_id(1)))
        assert named(effects) == ["AbortTool", "StartTimer"]
        assert type(following) is type(state)
        assert named(effects_of(following, CancelCall(call_id(1)))) == ["Refused"]


# --- the session is over ----------------------------------------------------------------------------------


@pytest.mark.rule("TOOL-17")
@pytest.mark.rule("TOOL-20")
@pytest.mark.rule("STATE-7")
def test_a_session_that_is_over_waits_for_no_run() -> None:
    session, effects = outcome(abort_held_runs(drafted(with_held(held(1), held(2, grace=1)))))
    assert effects == (AbortTool(run(1), CancelReason.DISPOSED), CancelTimer(timer(1)))
    assert session.held == ()
    assert list(session.operations.abandoned[OperationKind.RUN]) == [1]
    assert outcome(abort_held_runs(drafted(SESSION))) == (SESSION, ())


@pytest.mark.rule("TOOL-17")
@pytest.mark.rule("STATE-7")
def test_a_task_that_is_over_has_no_timer_and_no_run_left() -> None:
    state = after(asked(evolve(TASK, no_profile_approval=ASKING_NOBODY.no_profile_approval)), made_call(), completed())
    done, effects = step(state, CancelAll())
    assert session_of(a(Done, done)).held == ()
    assert named(effects)[-1] == "CancelTimer"
    behind = after(state, succeeded(1, background=True))
    finished, effects = step(a(Streaming, after(behind, completed(reply=2))), completed(reply=3))
    assert isinstance(finished, Done)
    assert effects[-1] == AbortTool(run(1), CancelReason.DISPOSED)


@pytest.mark.rule("TOOL-20")
def test_what_ended_in_the_background_is_forgotten_with_its_reply_and_no_other() -> None:
    first, second = (BackgroundEnd(CallId(ModelOperation(reply), 1), text("so")) for reply in (1, 2))
    session = at_rest().session
    session = evolve(session, inbox=evolve(session.inbox, background=(first, second)))
    assert forget_background(drafted(session), ModelOperation(1)).session.inbox.background == (second,)
    assert forget_background(drafted(session), ModelOperation(3)).session is session

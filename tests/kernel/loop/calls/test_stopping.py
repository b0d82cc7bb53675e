"""Calls that are cut short: their runs aborted and leased, their checks abandoned, their answers given."""

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.blocks import RawInput, text_of
from loopkernel.data.effects import AbortTool, StartTimer
from loopkernel.data.events import Refused, ToolEnded
from loopkernel.data.held_runs import HeldRun
from loopkernel.data.ids import CallId, OperationKind
from loopkernel.data.json_text import Json
from loopkernel.data.ledgers import CrashWait, LedgerEntry, Person, QuestionWait
from loopkernel.data.model_deltas import ModelCall
from loopkernel.data.states import Confirming, Executing, Streaming
from loopkernel.data.timers import Timer
from loopkernel.data.tool_deltas import ToolAsked
from loopkernel.data.tools import Claim, EffectClass, ValidCall
from loopkernel.data.user_deltas import CancelCall, Correct
from loopkernel.data.vector import Vector
from loopkernel.data.words import CallStatus, CancelReason, TimerPurpose
from loopkernel.loop.algorithms.wording import cancelled_text
from loopkernel.loop.calls.ledger import error_result
from loopkernel.loop.calls.stopping import (
    cancel_open,
    cancel_others,
    cancel_unstarted,
    open_place,
    release_calls,
    run_of,
    stop_call,
    user_cancelled,
    waits_for_person,
)
from loopkernel.loop.turn.input import input_on_calls
from loopkernel.testing.run import Run

from tests.kernel.building import (
    ALL_TOOLS,
    ASKING_NOBODY,
    FREE,
    NOTHING,
    a,
    after,
    asking,
    call_id,
    check,
    checked,
    ends,
    entries_of,
    ledger_of,
    made_call,
    named,
    of_kind,
    recorded_call,
    run,
    session_of,
    statuses,
    succeeded,
    timer,
    working,
    writes,
)
from tests.kernel.drafts import all_of, drafted, fresh
from tests.kernel.plays import plays

CANCELLED, RUNNING = CallStatus.CANCELLED, CallStatus.IN_PROGRESS
USER = CancelReason.USER_CANCELLED
# One that runs, one that asks something, one that waits for approval, one that is being checked, one held back.
CALLS = (made_call("write", writes("a")), made_call(), made_call("asks"), made_call(verdict=None), made_call())
MIXED = a(
    Executing,
    after(
        working(*CALLS, tools=ALL_TOOLS, policy=evolve(ASKING_NOBODY, approval_timeout_ms=9)),
        ToolAsked(run(2), "which?"),
    ),
)


# --- one call ---------------------------------------------------------------------------------------------


@pytest.mark.rule("CANCEL-5")
@pytest.mark.rule("TOOL-17")
def test_a_running_call_is_aborted_and_its_run_leased_for_the_grace_time() -> None:
    stopped = stop_call(fresh(MIXED, 100), 0, USER)
    assert named(stopped.effects) == ["AbortTool", "StartTimer", "CancelTimer", "ToolEnded"]
    assert stopped.effects[0] == AbortTool(run(1), USER)
    (grace,) = of_kind(StartTimer, stopped.effects)
    assert (grace.purpose, grace.deadline_ms) == (TimerPurpose.GRACE, 100 + 5_000)
    (held,) = stopped.session.held
    assert (held.operation, held.call, held.tool, held.runs) == (run(1), call_id(1), "write", 1)
    assert (held.claims, held.background) == (writes("a").claims, False)
    assert held.grace == Timer(grace.operation, TimerPurpose.GRACE, 5_100)
    assert list(stopped.session.operations.abandoned[OperationKind.RUN]) == [1]
    (ended,) = of_kind(ToolEnded, stopped.effects)
    assert (ended.result.status, ended.result.ran) == (CANCELLED, True)
    assert text_of(ended.result.content) == cancelled_text(USER)
    assert stopped.ledger.plan is not None
    assert stopped.ledger.plan.held == 1


@pytest.mark.rule("TOOL-19")
@pytest.mark.rule("TOOL-17")
def test_a_call_whose_tool_asks_is_aborted_as_a_running_one() -> None:
    stopped = stop_call(fresh(MIXED), 1, USER)
    assert named(stopped.effects) == ["AbortTool", "StartTimer", "ToolEnded"]
    assert (stopped.ledger.waiting, stopped.ledger.asking) == (1, 0)
    assert [held.operation for held in stopped.session.held] == [2]


@pytest.mark.rule("CANCEL-5")
@pytest.mark.rule("ASK-6")
def test_a_call_that_does_not_run_is_answered_and_what_it_waited_for_is_closed() -> None:
    waiting = stop_call(fresh(MIXED), 2, USER)
    assert named(waiting.effects) == ["CancelTimer", "ToolEnded"]
    checking = stop_call(fresh(MIXED), 3, USER)
    assert named(checking.effects) == ["ToolEnded"]
    assert list(checking.session.operations.abandoned[OperationKind.CHECK]) == [1]
    assert checking.ledger.checking == 0
    queued = stop_call(fresh(MIXED), 4, USER)
    assert (named(queued.effects), queued.session) == (["ToolEnded"], MIXED.session)
    assert [ends(stopped.effects)[0][0] for stopped in (waiting, checking, queued)] == [3, 4, 5]


@pytest.mark.rule("TOOL-10")
def test_a_call_may_be_stopped_with_an_answer_of_its_own() -> None:
    given_result = error_result(MIXED.ledger.entries[0], "too slow", CancelReason.TIMEOUT)
    stopped = stop_call(fresh(MIXED), 0, CancelReason.TIMEOUT, given_result)
    assert of_kind(ToolEnded, stopped.effects) == [ToolEnded(given_result)]


@pytest.mark.rule("CALL-3")
def test_what_depends_on_a_call_that_is_stopped_is_unreachable() -> None:
    state = working(made_call(), made_call(provider_id="q", needs=("p",)))
    stopped = stop_call(fresh(state), 0, USER)
    assert ends(stopped.effects) == [(1, CANCELLED, USER), (2, CallStatus.ERROR, None)]


@pytest.mark.rule("TOOL-17")
@pytest.mark.parametrize(
    ("call", "claims"),
    [
        (made_call("write", writes("a")), writes("a").claims),
        (made_call("write", ValidCall(None)), None),
        (made_call("serial", writes("a")), None),
        (made_call("bare", writes("a")), None),
    ],
)
def test_what_a_held_run_uses_is_what_its_call_used(call: ModelCall, claims: tuple[Claim, ...] | None) -> None:
    state = working(call, tools=ALL_TOOLS)
    found = run_of(state.ledger.entries[0], state.session, "")
    assert found is not None
    assert found.claims == claims


@pytest.mark.rule("ASK-3")
def test_the_run_of_an_edited_call_is_that_of_the_edit() -> None:
    edit = Correct(call=call_id(1), input=Json.of({"path": "b"}))
    state = after(asking(made_call("asks")), edit, checked(1, writes("b")))
    found = run_of(entries_of(state)[0], session_of(state), "")
    assert found is not None
    assert (found.input, found.claims) == (Json.of({"path": "b"}), writes("b").claims)


def test_what_does_not_run_has_no_run() -> None:
    session = MIXED.session
    waiting = LedgerEntry(call=recorded_call(), verdict=FREE, operation=run(1), person=Person(wait=CrashWait()))
    assert run_of(waiting, session, "") is None
    assert run_of(evolve(waiting, status=RUNNING, operation=None), session, "") is None
    unparsed = LedgerEntry(call=recorded_call(call_input=RawInput("{")), status=RUNNING, operation=run(1))
    assert run_of(unparsed, session, "") is None
    unknown = LedgerEntry(call=recorded_call(), status=RUNNING, operation=run(1), runs=1)
    found = run_of(unknown, session, "")
    expected = HeldRun(operation=run(1), call=call_id(1), tool="read", input=NOTHING, runs=1, claims=None)
    assert found == evolve(expected, effect=EffectClass.READ_ONLY)


@pytest.mark.rule("CANCEL-5")
@pytest.mark.parametrize(
    ("call", "place"),
    [(call_id(1), 0), (call_id(5), 4), (call_id(0), None), (call_id(6), None), (call_id(1, reply=2), None)],
)
def test_only_an_open_call_of_this_reply_is_cancelled(call: CallId, place: int | None) -> None:
    assert open_place(MIXED.ledger, call) == place
    cancelled = input_on_calls(fresh(MIXED), CancelCall(call))
    assert isinstance(cancelled, Refused) is (place is None)
    assert isinstance(cancelled, Refused) or ends(cancelled.effects)[0] == ((place or 0) + 1, CANCELLED, USER)


@pytest.mark.rule("CANCEL-5")
def test_a_call_that_is_answered_is_not_cancelled_again() -> None:
    state = after(MIXED, succeeded(1))
    taken = input_on_calls(drafted(session_of(state), ledger=ledger_of(state)), CancelCall(call_id(1)))
    assert isinstance(taken, Refused)


# --- several calls ----------------------------------------------------------------------------------------


@pytest.mark.rule("ASK-7")
@pytest.mark.rule("TOOL-6")
@pytest.mark.parametrize("running", [False, True])
def test_the_others_are_cancelled_with_or_without_those_that_run(running: bool) -> None:
    cut = (cancel_others if running else cancel_unstarted)(fresh(MIXED), CancelReason.SIBLING)
    assert [place for place, _, _ in ends(cut.effects)] == ([1, 2, 3, 4, 5] if running else [3, 4, 5])
    assert [abort.operation for abort in of_kind(AbortTool, cut.effects)] == ([1, 2] if running else [])


@pytest.mark.rule("CANCEL-2")
@pytest.mark.rule("TOOL-4")
@given(st.sampled_from(CancelReason), plays())
def test_a_cancel_of_all_first_aborts_and_then_answers_each_open_call_once(reason: CancelReason, play: Run) -> None:
    for step in play.steps:
        state = step.before
        if not isinstance(state, Streaming | Executing | Confirming):
            continue
        still_open = [entry for entry in state.ledger.entries if entry.is_open]
        cut = cancel_open(fresh(state, 7), reason)
        answers = of_kind(ToolEnded, cut.effects)
        assert list(cut.effects[len(cut.effects) - len(answers) :]) == answers
        assert [(end.result.call, end.result.status, end.result.reason) for end in answers] == [
            (entry.call.id, CANCELLED, reason) for entry in still_open
        ]
        aborted = [entry.operation for entry in still_open if entry.is_running]
        assert [abort.operation for abort in of_kind(AbortTool, cut.effects)] == aborted
        counts = (cut.ledger.unanswered, cut.ledger.running, cut.ledger.waiting, cut.ledger.asking)
        assert (*counts, cut.ledger.checking) == (0, 0, 0, 0, 0)
        assert len(cut.session.held) == len(state.session.held) + len(aborted)


@pytest.mark.rule("CANCEL-2")
def test_a_release_cancels_all_but_the_calls_that_wait_for_a_person() -> None:
    cut = cancel_open(fresh(MIXED), CancelReason.DISPOSED, but_waiting=True)
    assert [place for place, _, _ in ends(cut.effects)] == [1, 2, 4, 5]
    assert cut.ledger.entries[2] == MIXED.ledger.entries[2]
    assert [waits_for_person(entry) for entry in MIXED.ledger.entries] == [False, False, True, False, False]


@pytest.mark.rule("TOOL-7")
def test_a_call_that_the_user_cancelled_is_told_from_others() -> None:
    results = [error_result(LedgerEntry(call=recorded_call()), "x", reason) for reason in (None, *CancelReason)]
    assert [user_cancelled((result,)) for result in results] == [result.reason is USER for result in results]
    assert user_cancelled(tuple(results))
    assert not user_cancelled(())


@pytest.mark.rule("CANCEL-2")
def test_a_thread_that_is_released_keeps_no_time_and_no_check_of_an_edit() -> None:
    edit = Correct(call=call_id(1), input=Json.of({"path": "b"}))
    calls = (made_call("asks"), made_call("asks"), made_call("denied"))
    state = after(asking(*calls, policy=evolve(ASKING_NOBODY, approval_timeout_ms=9)), edit)
    ledger, session, effects = all_of(release_calls(drafted(session_of(state), ledger=ledger_of(state))))
    assert [(entry.timer, entry.check) for entry in ledger.entries] == [(None, None)] * 3
    assert [name for name in named(effects) if name != "CancelTimer"] == []
    assert len(effects) == 2
    assert list(session.operations.abandoned[OperationKind.CHECK]) == [check(1)]
    assert ledger.checking == 0
    untimed = asking(made_call("asks"))
    assert all_of(release_calls(fresh(untimed))) == (
        untimed.ledger,
        untimed.session,
        (),
    )


def test_an_entry_that_is_answered_is_put_down_as_it_is() -> None:
    entry = LedgerEntry(
        call=recorded_call(),
        status=CallStatus.DONE,
        timer=Timer(timer(9), TimerPurpose.TOOL_TIMEOUT, 1),
        person=Person(wait=QuestionWait("?")),
    )
    ledger = evolve(MIXED.ledger, entries=Vector.of([entry]))
    assert all_of(release_calls(drafted(MIXED.session, ledger=ledger))) == (ledger, MIXED.session, ())
    assert statuses(evolve(MIXED, ledger=ledger)) == [CallStatus.DONE]

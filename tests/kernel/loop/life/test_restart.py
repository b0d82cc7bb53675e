"""A restart in mid-turn: what may be repeated runs again under its own key, and what may not is answered."""

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from loopkernel import Machine
from loopkernel.data.blocks import RawInput, text_of
from loopkernel.data.choices import ApprovalMode, OnReject, RestartDangerous
from loopkernel.data.effects import CheckCall, StartTool
from loopkernel.data.events import ApprovalAsked, Refused, SessionResumed, ToolEnded
from loopkernel.data.ids import CheckOperation, RunOperation
from loopkernel.data.json_text import Json
from loopkernel.data.ledgers import CrashWait, LedgerEntry
from loopkernel.data.model_deltas import ModelCompleted
from loopkernel.data.policy import ApprovalRule, OnRestart
from loopkernel.data.states import Confirming, Executing, Streaming
from loopkernel.data.thread_deltas import Acquired, Created, Resumed
from loopkernel.data.tool_deltas import ToolChecked, ToolSucceeded
from loopkernel.data.tools import Decision
from loopkernel.data.user_deltas import (
    AnswerAfterCrash,
    Approve,
    CancelCall,
    ChangeMode,
    ChangePolicy,
    ChangeTools,
    Correct,
    CrashAnswerKind,
    Permit,
    Reject,
)
from loopkernel.data.vector import Vector
from loopkernel.data.words import CallStatus, CancelReason, RefusalReason, StopReason, UserAction
from loopkernel.loop.algorithms.wording import cancelled_text
from loopkernel.loop.calls.schedule import start_ready
from loopkernel.loop.life.restart import restart_calls

from tests.kernel.building import (
    ALL_TOOLS,
    ASKING_NOBODY,
    FREE,
    ONE,
    a,
    after,
    asked,
    asking,
    call_id,
    checked,
    completed,
    effects_of,
    ends,
    entries_of,
    ledger_of,
    made_call,
    named,
    of_kind,
    pending_timers,
    reads,
    recorded_call,
    session_of,
    starts,
    statuses,
    step,
    succeeded,
    working,
    writes,
)
from tests.kernel.drafts import drafted, fresh, unspent
from tests.kernel.grids import grid
from tests.kernel.loop.life.restarting import TOOLS, answer_by_policy, restarts


@pytest.mark.rule("RESUME-3")
@pytest.mark.rule("TOOL-1")
@given(restarts, st.sampled_from([tool.name for tool in TOOLS]))
def test_a_run_in_flight_is_repeated_answered_or_put_to_a_person_by_its_class(policy: OnRestart, tool: str) -> None:
    state = working(made_call(tool), policy=evolve(ASKING_NOBODY, on_restart=policy), tools=TOOLS)
    following, effects = step(state, Resumed())
    status = answer_by_policy(tool, policy)
    assert effects[0] == SessionResumed()
    if status is None:
        (start,) = of_kind(StartTool, effects)
        (before,) = of_kind(StartTool, effects_of(asked(ASKING_NOBODY, made_call(tool), tools=TOOLS), completion()))
        assert (start.operation, start.run, start.key) == (2, 2, before.key)
        assert (start.call, start.tool, start.input) == (before.call, before.tool, before.input)
        assert a(Executing, following).ledger.running == a(Executing, following).ledger.unanswered == 1
    elif status is CallStatus.BLOCKED_ON_USER:
        assert effects[1:] == (ApprovalAsked(call_id(1)),)
        (entry,) = entries_of(a(Confirming, following))
        assert (entry.status, entry.person.wait, entry.timer) == (status, CrashWait(), None)
        assert (ledger_of(following).running, ledger_of(following).waiting) == (0, 1)
    else:
        (ended,) = of_kind(ToolEnded, effects)
        assert (ended.result.status, ended.result.reason, ended.result.ran) == (status, CancelReason.SAFETY, True)
        assert text_of(ended.result.content) == cancelled_text(CancelReason.SAFETY)
        assert of_kind(StartTool, effects) == []
        assert isinstance(following, Streaming)  # the loop just goes on
    late = effects_of(following, ToolSucceeded(RunOperation(1)))
    assert late == (Refused(UserAction.REPORT, RefusalReason.STALE),)


def completion() -> ModelCompleted:
    return ModelCompleted(ONE, StopReason.TOOL_USE)


@pytest.mark.rule("RESUME-3")
@pytest.mark.rule("TOOL-18")
def test_what_was_being_checked_is_checked_again_and_what_waited_still_waits() -> None:
    state = working(made_call("read_only"), made_call("read_only", None), made_call("read_only"), tools=TOOLS)
    following, effects = step(state, Resumed())
    assert named(effects) == ["SessionResumed", "CheckCall", "StartTool", "StartTimer"]
    (check,) = of_kind(CheckCall, effects)
    assert (check.operation, check.call) == (2, call_id(2))
    assert grid(following, 1)["ToolChecked"] == "refused stale"
    went_on = effects_of(following, ToolChecked(CheckOperation(2), FREE))
    assert [start.call for start in of_kind(StartTool, went_on)] == [call_id(2), call_id(3)]


@pytest.mark.rule("RESUME-3")
def test_answered_calls_stay_answered_and_the_results_go_on() -> None:
    calls = (made_call("read_only"), made_call("read_only"))
    state = after(working(*calls, tools=TOOLS), ToolSucceeded(RunOperation(1)), Resumed())
    entries = a(Executing, state).ledger.entries
    assert [(entry.status, entry.runs) for entry in entries] == [(CallStatus.DONE, 1), (CallStatus.IN_PROGRESS, 2)]
    assert isinstance(after(state, ToolSucceeded(RunOperation(3))), Streaming)


@pytest.mark.rule("RESUME-3")
@pytest.mark.rule("TOOL-4")
def test_a_call_that_was_answered_before_the_first_is_not_run_again() -> None:
    calls = (made_call("read_only"), made_call("read_only"))
    effects = effects_of(working(*calls, tools=TOOLS), ToolSucceeded(RunOperation(2)), Resumed())
    assert [start.call for start in of_kind(StartTool, effects)] == [call_id(1)]


@pytest.mark.rule("RESUME-3")
@given(st.integers(0, 3))
def test_every_restart_repeats_under_another_operation_and_the_same_key(times: int) -> None:
    state = after(working(made_call("read_only"), tools=TOOLS), *[Resumed()] * times)
    (entry,) = a(Executing, state).ledger.entries
    assert (entry.operation, entry.runs) == (times + 1, times + 1)
    (start,) = of_kind(StartTool, effects_of(state, Resumed()))
    assert (start.operation, start.run, start.key) == (times + 2, times + 2, "s/1/1.1")


@pytest.mark.rule("RESUME-3")
def test_arguments_that_do_not_parse_are_neither_checked_nor_run() -> None:
    """No run reaches such entries; a log from elsewhere might hold them. Nothing may start by them."""
    call = recorded_call(call_input=RawInput("{"))
    entries = (
        LedgerEntry(call=call, check=CheckOperation(1)),
        LedgerEntry(call=call, status=CallStatus.IN_PROGRESS, operation=RunOperation(1), runs=1),
    )
    state = working(made_call())
    ledger = evolve(state.ledger, entries=Vector.of(entries), unanswered=2, checking=1, started=Vector.of([1]))
    restarted = restart_calls(drafted(state.session, ledger=ledger), Resumed())
    assert [entry.status for entry in restarted.ledger.entries] == [CallStatus.QUEUED, CallStatus.QUEUED]
    assert restarted.effects == ()
    assert starts(unspent(start_ready(fresh(restarted))).effects) == []


def test_a_call_that_runs_without_an_operation_takes_its_place_in_the_schedule_again() -> None:
    """No call runs without one; the type allows it."""
    state = working(made_call("read_only"), tools=TOOLS)
    entry = evolve(state.ledger.entries[0], operation=None)
    ledger = evolve(state.ledger, entries=state.ledger.entries.replace(0, entry))
    restarted = restart_calls(drafted(state.session, ledger=ledger), Resumed())
    assert restarted.session == state.session
    assert [entry.status for entry in restarted.ledger.entries] == [CallStatus.QUEUED]


# --- runs that a person decides about ----------------------------------------------------------------------


ASK = evolve(ASKING_NOBODY, on_restart=OnRestart(dangerous=RestartDangerous.ASK), approval_timeout_ms=50)
CRASHED = a(Confirming, after(working(made_call("dangerous"), policy=ASK, tools=TOOLS), Resumed()))


@pytest.mark.rule("RESUME-3")
@pytest.mark.rule("RESUME-4")
def test_a_dangerous_run_that_a_person_decides_about_waits_without_a_time_limit() -> None:
    assert pending_timers(CRASHED) == []
    again, effects = step(CRASHED, Resumed())
    assert named(effects) == ["SessionResumed"]  # it is not asked about twice
    assert entries_of(again) == entries_of(CRASHED)


@pytest.mark.rule("RESUME-3")
@pytest.mark.rule("RESUME-4")
@pytest.mark.rule("TOOL-1")
def test_only_a_person_starts_a_dangerous_call_again_and_its_run_has_a_number_of_its_own() -> None:
    effects = effects_of(CRASHED, AnswerAfterCrash(call=call_id(1), kind=CrashAnswerKind.RERUN))
    (start,) = of_kind(StartTool, effects)
    assert (start.operation, start.run, start.key) == (2, 2, "s/1/1.1")


# --- the schedule after a restart -------------------------------------------------------------------------


@pytest.mark.rule("RESUME-3")
@pytest.mark.rule("TOOL-3")
def test_runs_that_are_repeated_keep_to_the_slots_and_to_what_they_conflict_with() -> None:
    policy = evolve(ASKING_NOBODY, max_parallel=2)
    state = working(*[made_call("read_only")] * 3, policy=policy, tools=TOOLS)
    following = after(state, ToolSucceeded(RunOperation(1)), ChangePolicy(evolve(policy, max_parallel=1)))
    assert [entry.runs for entry in entries_of(following)] == [1, 1, 1]
    assert starts(effects_of(following, Resumed())) == [call_id(2)]


@pytest.mark.rule("RESUME-3")
@pytest.mark.rule("ASK-3")
def test_what_had_started_goes_before_what_never_did() -> None:
    """The first call was corrected onto what the second, which runs, uses: it takes its place behind it."""
    calls = (made_call("asks", reads("a")), made_call("write", writes("b")))
    edit = Correct(call=call_id(1), input=Json.of({"path": "b"}))
    state = after(working(*calls, tools=ALL_TOOLS), edit, checked(1, reads("b")))
    assert statuses(state) == [CallStatus.QUEUED, CallStatus.IN_PROGRESS]
    following, effects = step(state, Resumed())
    assert starts(effects) == [call_id(2)]
    assert starts(effects_of(following, ToolSucceeded(RunOperation(2)))) == [call_id(1)]


@pytest.mark.rule("RESUME-3")
@pytest.mark.rule("ASK-1")
@pytest.mark.rule("ASK-4")
def test_a_run_is_repeated_under_its_approval_and_not_where_a_rule_denies_it_now() -> None:
    deny = Permit(ApprovalRule(decision=Decision.DENY))
    state = after(working(made_call("read_only"), tools=TOOLS), deny)
    assert ends(effects_of(state, Resumed())) == [(1, CallStatus.ERROR, None)]
    approved = after(asking(made_call("asks")), Approve(call=call_id(1)), ChangeMode(ApprovalMode.HEADLESS))
    assert starts(effects_of(approved, Resumed())) == [call_id(1)]


@pytest.mark.rule("ASK-7")
@pytest.mark.rule("RESUME-4")
def test_a_rejection_skips_no_call_that_had_started_before_the_crash() -> None:
    policy = evolve(ASK, on_reject=OnReject.SKIP_REST)
    calls = (made_call("danger"), made_call("asks"), made_call("asks"))
    state = after(working(*calls, policy=policy, tools=ALL_TOOLS), Resumed())
    assert statuses(state) == [CallStatus.BLOCKED_ON_USER] * 3
    assert ends(effects_of(state, Reject(call=call_id(2)))) == [
        (2, CallStatus.REJECTED_BY_USER, None),
        (3, CallStatus.CANCELLED, CancelReason.REJECTED),
    ]


@pytest.mark.rule("TOOL-20")
@pytest.mark.rule("RESUME-2")
def test_a_background_run_is_repeated_behind_a_run_that_had_not_stopped() -> None:
    calls = made_call("idempotent", writes("a")), made_call("read_only")
    running = after(working(*calls, tools=TOOLS), CancelCall(call_id(1)), succeeded(2, background=True))
    assert [held.background for held in session_of(running).held] == [False, True]
    assert starts(effects_of(running, Resumed())) == [call_id(2)]


@pytest.mark.rule("TOOL-20")
@pytest.mark.rule("ASK-1")
def test_a_background_run_that_may_not_start_any_more_is_given_up() -> None:
    running = working(made_call("read_only"), tools=TOOLS)
    rest = after(running, succeeded(1, background=True), completed(reply=2), completed(reply=3))
    for change in (Permit(ApprovalRule(decision=Decision.DENY)), ChangeTools(())):
        following, effects = step(after(rest, change), Resumed())
        assert effects == (SessionResumed(),)
        assert session_of(following).held == ()
        assert len(session_of(following).inbox.background) == 1


@pytest.mark.rule("RESUME-7")
def test_the_keys_of_runs_are_made_from_what_the_last_restart_gave_or_else_from_what_there_was() -> None:
    machine = Machine()
    for delta in (Created(session_id="s", nonce="first"), Acquired(), Resumed()):
        machine.deliver(delta, 0)
    assert session_of(machine.state).settings.nonce == "first"
    machine.deliver(Resumed(nonce="second"), 0)
    assert session_of(machine.state).settings.nonce == "second"

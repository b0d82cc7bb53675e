"""A restart in mid-turn: what may be repeated runs again under its own key, and what may not is answered."""

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.blocks import RawInput, text_of
from loopkernel.data.choices import ApprovalMode, OnReject, RestartDangerous, RestartSafe
from loopkernel.data.effects import CallModel, CheckCall, StartTimer, StartTool
from loopkernel.data.events import ApprovalAsked, Refused, ReplyRetracted, SessionResumed, ToolEnded
from loopkernel.data.ids import CheckOperation, RunOperation
from loopkernel.data.json_text import Json
from loopkernel.data.ledgers import CrashWait, LedgerEntry
from loopkernel.data.model_deltas import ModelCompleted, ModelText
from loopkernel.data.outside_deltas import TimerFired
from loopkernel.data.policy import ApprovalRule, OnRestart, Policy
from loopkernel.data.sessions import Settings
from loopkernel.data.states import Confirming, Executing, Idle, Streaming
from loopkernel.data.thread_deltas import Resumed
from loopkernel.data.tool_deltas import ToolAsked, ToolChecked, ToolSucceeded
from loopkernel.data.tools import Decision, EffectClass, Tool, ToolProfile
from loopkernel.data.usage import Usage
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
    Swap,
)
from loopkernel.data.vector import Vector
from loopkernel.data.words import (
    CallStatus,
    CancelReason,
    RefusalReason,
    RequestReason,
    StopReason,
    TimerPurpose,
    UserAction,
)
from loopkernel.planning.wording import cancelled_text
from loopkernel.regions.restart import after_crash, restart_calls, restart_held_runs
from loopkernel.regions.schedule import start_ready

from tests.kernel.building import (
    ALL_TOOLS,
    ASKING_NOBODY,
    FREE,
    ONE,
    TWO,
    a,
    after,
    asked,
    asking,
    at_rest,
    call_id,
    checked,
    completed,
    effects_of,
    ends,
    enqueue,
    entries_of,
    fired,
    grid,
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
    steer,
    step,
    succeeded,
    working,
    writes,
)

TOOLS = (
    *(Tool(name=effect.value, profile=ToolProfile(effect=effect)) for effect in EffectClass),
    Tool(name="bare"),
)
DANGER = ("dangerous", "bare")  # a tool without a profile counts as dangerous

ANSWERS = {RestartSafe.RERUN: None, RestartSafe.CANCEL: CallStatus.CANCELLED, RestartSafe.ERROR: CallStatus.ERROR}
DANGEROUS_ANSWERS = {
    RestartDangerous.CANCEL: CallStatus.CANCELLED,
    RestartDangerous.UNKNOWN: CallStatus.UNKNOWN,
    RestartDangerous.ASK: CallStatus.BLOCKED_ON_USER,
}
restarts = st.builds(
    OnRestart,
    read_only=st.sampled_from(RestartSafe),
    idempotent=st.sampled_from(RestartSafe),
    dangerous=st.sampled_from(RestartDangerous),
)


def answer_by_policy(tool: str, policy: OnRestart) -> CallStatus | None:
    """How a run in flight is answered; None if it is repeated."""
    if tool in DANGER:
        return DANGEROUS_ANSWERS[policy.dangerous]
    choice = policy.read_only if tool == "read_only" else policy.idempotent
    return ANSWERS[choice]


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
    restarted = restart_calls(ledger, state.session, 0)
    assert [entry.status for entry in restarted.ledger.entries] == [CallStatus.QUEUED, CallStatus.QUEUED]
    assert restarted.effects == ()
    assert starts(start_ready(restarted.ledger, restarted.session, 0).effects) == []


def test_a_call_that_runs_without_an_operation_takes_its_place_in_the_schedule_again() -> None:
    """No call runs without one; the type allows it."""
    state = working(made_call("read_only"), tools=TOOLS)
    entry = evolve(state.ledger.entries[0], operation=None)
    ledger = evolve(state.ledger, entries=state.ledger.entries.replace(0, entry))
    restarted = restart_calls(ledger, state.session, 0)
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
@pytest.mark.rule("ASK-1")
def test_a_background_run_that_may_not_start_any_more_is_given_up() -> None:
    running = working(made_call("read_only"), tools=TOOLS)
    rest = after(running, succeeded(1, background=True), completed(reply=2), completed(reply=3))
    for change in (Permit(ApprovalRule(decision=Decision.DENY)), ChangeTools(())):
        following, effects = step(after(rest, change), Resumed())
        assert effects == (SessionResumed(),)
        assert session_of(following).held == ()
        assert len(session_of(following).inbox.background) == 1


# --- a person's word that is still waited for ---------------------------------------------------------------


@pytest.mark.rule("RESUME-3")
@pytest.mark.rule("ASK-6")
def test_waiting_approvals_still_wait_and_their_timeouts_start_anew() -> None:
    waiting = asking(made_call("asks"), policy=evolve(ASKING_NOBODY, approval_timeout_ms=50))
    (before,) = pending_timers(waiting)
    following, effects = step(waiting, Resumed(), now_ms=1_000)
    (timer,) = pending_timers(a(Confirming, following))
    assert effects == (
        SessionResumed(),
        StartTimer(operation=timer.operation, purpose=TimerPurpose.APPROVAL_TIMEOUT, deadline_ms=1_050),
    )
    assert timer.operation == before.operation + 1
    assert effects_of(following, TimerFired(before.operation)) == (Refused(UserAction.REPORT, RefusalReason.STALE),)
    assert ends(effects_of(following, TimerFired(timer.operation))) == [
        (1, CallStatus.REJECTED_BY_USER, CancelReason.TIMEOUT)
    ]


@pytest.mark.rule("RESUME-3")
@pytest.mark.rule("ASK-4")
def test_an_approved_call_that_waited_for_a_slot_is_not_asked_about_again() -> None:
    calls = (made_call("read"), made_call("asks"))
    state = after(
        working(*calls, policy=evolve(ASKING_NOBODY, max_parallel=1), tools=ALL_TOOLS), Approve(call=call_id(2))
    )
    following, effects = step(state, Resumed())
    assert starts(effects) == [call_id(1)]
    assert starts(effects_of(following, ToolSucceeded(RunOperation(2)))) == [call_id(2)]


@pytest.mark.rule("RESUME-3")
@pytest.mark.rule("ASK-3")
def test_an_edit_that_was_being_checked_is_checked_again() -> None:
    edited = Swap(call=call_id(1), tool="write", input=Json.of({"path": "b"}))
    state = after(asking(made_call("asks")), edited)
    following, effects = step(state, Resumed())
    (check,) = of_kind(CheckCall, effects)
    assert (check.operation, check.tool, check.input) == (2, "write", Json.of({"path": "b"}))
    (start,) = of_kind(StartTool, effects_of(following, checked(2)))
    assert (start.tool, start.input) == ("write", Json.of({"path": "b"}))


@pytest.mark.rule("RESUME-3")
@pytest.mark.rule("TOOL-19")
@pytest.mark.parametrize("tool", ["read_only", "dangerous"])
def test_a_run_that_had_asked_is_treated_by_its_class_as_any_run(tool: str) -> None:
    state = after(working(made_call(tool), tools=TOOLS), ToolAsked(RunOperation(1), "which?"))
    following, effects = step(state, Resumed())
    if tool == "read_only":
        assert starts(effects) == [call_id(1)]
        (entry,) = entries_of(following)
        assert (entry.status, entry.question) == (CallStatus.IN_PROGRESS, None)
        ledger = ledger_of(following)
        assert (ledger.running, ledger.waiting, ledger.asking) == (1, 0, 0)
    else:
        assert ends(effects) == [(1, CallStatus.CANCELLED, CancelReason.SAFETY)]


# --- runs whose call is answered ---------------------------------------------------------------------------


@pytest.mark.rule("RESUME-3")
@pytest.mark.rule("TOOL-17")
def test_a_restart_forgets_aborted_runs_since_their_process_is_gone() -> None:
    calls = (made_call("write", writes("a")), made_call("write", writes("a")))
    state = after(working(*calls), CancelCall(call_id(1)))
    assert statuses(state) == [CallStatus.CANCELLED, CallStatus.QUEUED]
    following, effects = step(state, Resumed())
    assert named(effects) == ["SessionResumed", "StartTool", "StartTimer"]
    assert starts(effects) == [call_id(2)]
    assert session_of(following).held == ()
    assert effects_of(following, fired(2)) == (Refused(UserAction.REPORT, RefusalReason.STALE),)


@pytest.mark.rule("RESUME-3")
@pytest.mark.rule("TOOL-20")
@given(restarts, st.sampled_from([tool.name for tool in TOOLS]))
def test_a_background_run_is_repeated_or_given_up_by_its_class(policy: OnRestart, tool: str) -> None:
    running = working(made_call(tool), policy=evolve(ASKING_NOBODY, on_restart=policy), tools=TOOLS)
    rest = a(Idle, after(running, succeeded(1, background=True), completed(reply=2), completed(reply=3)))
    following, effects = step(rest, Resumed())
    session = session_of(a(Idle, following))
    if answer_by_policy(tool, policy) is None:
        (start,) = of_kind(StartTool, effects)
        assert (start.operation, start.run, start.call, start.key) == (2, 2, call_id(1), "s/1/1.1")
        (held,) = session.held
        assert (held.operation, held.runs, held.background) == (2, 2, True)
        assert session.inbox.background == ()
        (end,) = session_of(after(following, succeeded(2))).inbox.background
    else:
        assert effects == (SessionResumed(),)
        assert session.held == ()
        (end,) = session.inbox.background
        assert cancelled_text(CancelReason.SAFETY) in text_of(end.content)
    assert end.call == call_id(1)
    late = effects_of(following, succeeded(1))
    assert late == (Refused(UserAction.REPORT, RefusalReason.STALE),)


@pytest.mark.rule("RESUME-3")
@pytest.mark.parametrize("read_only", RestartSafe)
@pytest.mark.parametrize("idempotent", RestartSafe)
@pytest.mark.parametrize("dangerous", RestartDangerous)
def test_the_policy_answers_for_each_class(
    read_only: RestartSafe, idempotent: RestartSafe, dangerous: RestartDangerous
) -> None:
    choices = OnRestart(read_only=read_only, idempotent=idempotent, dangerous=dangerous)
    settings = Settings(session_id="s", policy=Policy(on_restart=choices), tools=TOOLS)
    found = {tool.name: after_crash(tool.name, settings) for tool in (*TOOLS, Tool(name="missing"))}
    assert found == {
        "read_only": ANSWERS[read_only],
        "idempotent": ANSWERS[idempotent],
        **dict.fromkeys((*DANGER, "missing"), DANGEROUS_ANSWERS[dangerous]),
    }


def test_a_session_that_holds_no_run_is_left_as_it_is() -> None:
    session = at_rest().session
    assert restart_held_runs(session) == (session, ())
    assert restart_held_runs(session)[0] is session


# --- a reply in flight ------------------------------------------------------------------------------------


@pytest.mark.rule("RESUME-3")
@pytest.mark.rule("INFER-12")
@pytest.mark.rule("INFER-3")
def test_a_partial_reply_is_dropped_and_asked_for_again() -> None:
    state = evolve_usage(asked(Policy(), ModelText(ONE, "so"), made_call(verdict=None)), Usage(output=2))
    following, effects = step(state, Resumed())
    assert effects[:2] == (SessionResumed(), ReplyRetracted(ONE))
    (call,) = of_kind(CallModel, effects)
    assert (call.operation, call.request.reason) == (TWO, RequestReason.RESUME)
    assert call.request.thread == state.session.thread
    streaming = a(Streaming, following)
    assert (len(streaming.pieces), streaming.turn.number, streaming.session.usage) == (0, 1, Usage(output=2))
    late = grid(following, 1)
    assert (late["ModelText"], late["ToolChecked"]) == ("refused stale", "refused stale")


def evolve_usage(state: Streaming, usage: Usage) -> Streaming:
    return evolve(state, reply=evolve(state.reply, usage=usage))


@pytest.mark.rule("RESUME-3")
def test_a_reply_that_had_not_begun_is_asked_for_again_without_a_word() -> None:
    assert named(effects_of(asked(), Resumed())) == ["SessionResumed", "CallModel"]


@pytest.mark.rule("RESUME-3")
@pytest.mark.rule("INPUT-2")
@pytest.mark.rule("INPUT-3")
def test_what_was_queued_stays_queued_and_a_steer_goes_in() -> None:
    following, effects = step(after(asked(), enqueue("later"), steer("left")), Resumed())
    assert [queued.number for queued in session_of(following).inbox.queue] == [1]
    assert named(effects) == ["SessionResumed", "InputSettled", "MessageAdded", "Steered", "CallModel"]

"""`Executing` and `Confirming`: calls start, are answered once each, and the last answer decides what follows."""

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.blocks import TextBlock
from loopkernel.data.choices import ApprovalMode, OnBusy, OnReject, Schedule
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import AbortTool, CallModel, Effect, StartTool
from loopkernel.data.endings import Ending
from loopkernel.data.events import (
    ApprovalAsked,
    MessageAdded,
    Refused,
    SessionResumed,
    ToolEnded,
    TurnEnded,
    WorkCancelled,
)
from loopkernel.data.ids import CheckOperation
from loopkernel.data.messages import ResultMessage
from loopkernel.data.model_deltas import ModelUsage
from loopkernel.data.policy import ApprovalRule, Policy
from loopkernel.data.states import Cancelled, Confirming, Executing, Idle, Initial, State, Streaming
from loopkernel.data.thread_deltas import Disposed, Resumed
from loopkernel.data.tool_deltas import ToolAsked, ToolChecked
from loopkernel.data.tools import Decision, InvalidCall, UnknownTool, Verdict
from loopkernel.data.usage import NO_USAGE, Usage
from loopkernel.data.user_deltas import (
    AnswerQuestion,
    Approve,
    CancelAll,
    CancelCall,
    ChangeMode,
    ChangePolicy,
    ChangeTools,
    Permit,
    Reject,
)
from loopkernel.data.words import (
    CallStatus,
    CancelReason,
    ErrorClass,
    RefusalReason,
    RequestReason,
    StopReason,
    TurnEndReason,
    UserAction,
)

from tests.kernel.building import (
    ALL_TOOLS,
    ASKING_NOBODY,
    FREE,
    ONE,
    READ,
    a,
    after,
    asked,
    asking,
    call_id,
    completed,
    effects_of,
    entries_of,
    expected_grid,
    grid,
    made_call,
    named,
    of_kind,
    pending_timers,
    results_of,
    run,
    say,
    session_of,
    starts,
    statuses,
    steer,
    step,
    stopped,
    succeeded,
    text,
    working,
    writes,
)
from tests.kernel.plays import Play, plays

TWO_RUN = working(made_call(), made_call())
IN_TURN = Policy(schedule=Schedule.SERIAL)
ONE_WAITS = working(made_call(), made_call(), policy=IN_TURN)
WAITING = asking(made_call("asks"), made_call("asks"))


# --- the grid -------------------------------------------------------------------------------------------


@pytest.mark.rule("DELTA-2")
@pytest.mark.parametrize("on_busy", OnBusy)
def test_strange_reports_are_refused_and_input_waits(on_busy: OnBusy) -> None:
    said = {OnBusy.QUEUE: "Executing", OnBusy.REJECT: "refused not-now", OnBusy.INTERRUPT: "Streaming"}[on_busy]
    expected = expected_grid(
        settings="Executing",
        Say=said,
        Enqueue="Executing",
        Steer="Executing",
        Resumed="Executing",
        CancelAll="Cancelled",
        Disposed="Initial",
    )
    assert grid(working(made_call(), policy=Policy(on_busy=on_busy))) == expected


@pytest.mark.rule("DELTA-2")
@pytest.mark.rule("STATE-5")
@pytest.mark.parametrize("on_busy", OnBusy)
def test_while_all_that_is_under_way_waits_for_a_person_the_loop_is_busy_too(on_busy: OnBusy) -> None:
    said = {OnBusy.QUEUE: "Confirming", OnBusy.REJECT: "refused not-now", OnBusy.INTERRUPT: "Streaming"}[on_busy]
    expected = expected_grid(
        settings="Confirming",
        Say=said,
        Enqueue="Confirming",
        Steer="Confirming",
        Resumed="Confirming",
        CancelAll="Cancelled",
        Disposed="Initial",
        Permit="Executing",  # the rule allows what waits
        ChangeMode="Streaming",  # in mode `plan` a call that writes is denied, and all are answered
        ChangeTools="Streaming",
    )
    assert grid(asking(made_call("asks"), policy=evolve(ASKING_NOBODY, on_busy=on_busy))) == expected


@pytest.mark.rule("DELTA-4")
@pytest.mark.rule("DELTA-2")
def test_each_report_of_an_open_run_is_taken_and_an_answered_one_closed() -> None:
    runs = ("ToolProgress", "ToolSucceeded", "ToolFailed", "ToolStopped")
    found = grid(TWO_RUN, 1)
    assert {found[name] for name in runs} == {"Executing"}
    assert found["ToolAsked"] == "Executing"  # the other runs
    assert grid(working(made_call()), 1)["ToolAsked"] == "Confirming"
    assert found["TimerFired"] == "Executing"
    assert found["ModelCompleted"] == "refused duplicate"
    assert found["Approve"] == "refused not-now"
    assert found["CancelCall"] == "Executing"
    done = grid(after(TWO_RUN, succeeded(1)), 1)
    assert {done[name] for name in (*runs, "ToolAsked")} == {"refused duplicate"}
    assert (done["Approve"], done["CancelCall"], done["TimerFired"]) == (
        "refused stale",
        "refused duplicate",
        "refused stale",
    )
    cancelled = grid(after(TWO_RUN, CancelCall(call_id(1))), 1)
    assert {cancelled[name] for name in ("ToolProgress", "ToolSucceeded", "ToolFailed", "ToolAsked")} == {
        "refused stale"
    }
    assert cancelled["ToolStopped"] == "Executing"  # it is accepted: the run has stopped
    assert cancelled["CancelCall"] == "refused stale"


@pytest.mark.rule("ASK-2")
@pytest.mark.rule("DELTA-2")
def test_an_answer_to_a_call_that_waits_is_taken() -> None:
    found = grid(WAITING, 1)
    taken = {name: found[name] for name in ("Approve", "Reject", "Correct", "Swap", "CancelCall")}
    assert taken == {
        "Approve": "Executing",
        "Reject": "Confirming",
        "Correct": "Confirming",
        "Swap": "Confirming",
        "CancelCall": "Confirming",
    }
    assert (found["AnswerQuestion"], found["AnswerAfterCrash"]) == ("refused invalid", "refused invalid")


# --- the phase ------------------------------------------------------------------------------------------


@pytest.mark.rule("STATE-5")
@given(plays())
def test_the_phase_is_a_function_of_the_ledger(play: Play) -> None:
    """Somebody is asked, and nothing runs: what is only checked, or held back, does not count."""
    for moment in play.moments:
        state = moment.step.next
        if isinstance(state, Executing | Confirming):
            entries = list(state.ledger.entries)
            runs = any(entry.status is CallStatus.IN_PROGRESS for entry in entries)
            waits = any(entry.status is CallStatus.BLOCKED_ON_USER for entry in entries)
            assert any(entry.is_open for entry in entries)
            assert isinstance(state, Confirming) is (waits and not runs)


@pytest.mark.rule("STATE-5")
def test_a_loop_that_waits_for_a_person_alone_confirms() -> None:
    assert isinstance(WAITING, Confirming)
    beside = working(made_call("asks"), made_call(), tools=ALL_TOOLS)
    assert isinstance(after(beside, succeeded(1)), Confirming)
    assert isinstance(after(WAITING, Approve(call=call_id(1))), Executing)
    assert isinstance(working(made_call(verdict=None)), Executing)
    asked_by_tool = after(working(made_call()), ToolAsked(run(1), "which?"))
    assert isinstance(asked_by_tool, Confirming)
    assert isinstance(after(asked_by_tool, AnswerQuestion(call=call_id(1), value=None)), Executing)


# --- reports --------------------------------------------------------------------------------------------


@pytest.mark.rule("DELTA-7")
@pytest.mark.rule("TOOL-17")
@pytest.mark.parametrize("state", [TWO_RUN, after(TWO_RUN, ToolAsked(run(1), "?"), ToolAsked(run(2), "?"))])
def test_a_stale_report_that_frees_nothing_changes_nothing(state: State) -> None:
    left = after(state, CancelCall(call_id(1)), stopped(1))
    following, effects = step(left, succeeded(1))
    assert following == left
    assert named(effects) == ["Refused"]


@pytest.mark.rule("TOOL-17")
@pytest.mark.rule("TOOL-10")
@pytest.mark.rule("DELTA-7")
def test_a_stale_report_that_frees_what_a_call_waits_for_starts_it_at_its_own_time() -> None:
    calls = (made_call("write", writes("a")), made_call("write", writes("a")))
    left = after(working(*calls), CancelCall(call_id(1)))
    following, effects = step(left, succeeded(1), now_ms=3_000)
    assert named(effects) == ["Refused", "CancelTimer", "StartTool", "StartTimer"]
    assert pending_timers(following)[0].deadline_ms == 123_000
    assert (following.stamp.version, following.stamp.now_ms) == (left.stamp.version, 3_000)


@pytest.mark.rule("INFER-3")
@pytest.mark.rule("DELTA-7")
@pytest.mark.parametrize("late", [False, True])
def test_a_late_bill_is_counted_and_nothing_else(late: bool) -> None:
    resumed = after(asked(ASKING_NOBODY, tools=ALL_TOOLS), Resumed())
    tool = made_call("asks" if late else "read", reply=2)
    state = after(resumed, tool, completed(StopReason.TOOL_USE, reply=2))
    following, effects = step(state, ModelUsage(ONE, Usage(output=3)), now_ms=9_000)
    assert effects == (Refused(UserAction.REPORT, RefusalReason.STALE),)
    assert (type(following), following.stamp) == (type(state), state.stamp)
    assert session_of(following).usage == Usage(output=3)
    assert statuses(following) == statuses(state)


@pytest.mark.rule("TOOL-5")
@pytest.mark.rule("TOOL-18")
@pytest.mark.parametrize("verdict", [UnknownTool(), InvalidCall("no path")])
def test_a_call_that_may_not_run_is_answered_with_an_error(verdict: Verdict) -> None:
    state = working(made_call(verdict=None), made_call(verdict=None))
    following, effects = step(state, ToolChecked(CheckOperation(1), verdict))
    (ended,) = effects
    assert isinstance(ended, ToolEnded)
    assert (ended.result.status, ended.result.ran) == (CallStatus.ERROR, False)
    assert statuses(following) == [CallStatus.ERROR, CallStatus.QUEUED]
    continued = effects_of(following, ToolChecked(CheckOperation(2), verdict))
    assert named(continued) == ["ToolEnded", "MessageAdded", "CallModel"]


@pytest.mark.rule("TOOL-5")
@pytest.mark.rule("TOOL-18")
def test_a_call_starts_when_its_check_is_in() -> None:
    state = working(made_call(verdict=None))
    following, effects = step(state, ToolChecked(CheckOperation(1), FREE))
    assert named(effects) == ["StartTool", "StartTimer"]
    assert statuses(following) == [CallStatus.IN_PROGRESS]


@pytest.mark.rule("TOOL-3")
@pytest.mark.rule("DELTA-8")
def test_more_slots_let_more_start() -> None:
    state = working(made_call(), made_call(), policy=Policy(max_parallel=1))
    effects = effects_of(state, ChangePolicy(Policy(max_parallel=2)))
    assert [start.call for start in of_kind(StartTool, effects)] == [call_id(2)]


@pytest.mark.rule("TOOL-5")
@pytest.mark.rule("DELTA-8")
@pytest.mark.parametrize("change", [Permit(ApprovalRule(decision=Decision.DENY)), ChangeTools(())])
def test_a_call_that_was_denied_before_it_could_start_does_not_run(change: Delta) -> None:
    effects = effects_of(ONE_WAITS, change, succeeded(1))
    assert of_kind(StartTool, effects) == []


# --- when all calls are answered ------------------------------------------------------------------------


@pytest.mark.rule("TOOL-7")
@pytest.mark.rule("TOOL-8")
@given(st.permutations(range(3)))
def test_no_request_starts_before_all_are_answered_in_whatever_order(order: list[int]) -> None:
    state: State = working(*(made_call() for _ in range(3)))
    last: tuple[Effect, ...] = ()
    for count, place in enumerate(order, 1):
        state, last = step(state, succeeded(place + 1, f"out {place + 1}"))
        assert isinstance(state, Streaming if count == 3 else Executing)
        assert bool(of_kind(CallModel, last)) == (count == 3)
    (added,) = of_kind(MessageAdded, last)
    results = a(ResultMessage, added.message).results
    assert [result.content for result in results] == [text(f"out {n}") for n in (1, 2, 3)]
    (call,) = of_kind(CallModel, last)
    assert call.request.reason is RequestReason.NEXT_TURN


@pytest.mark.rule("TOOL-7")
@pytest.mark.rule("TOOL-13")
@pytest.mark.parametrize("first_final", [False, True])
@pytest.mark.parametrize("second_final", [False, True])
@pytest.mark.parametrize("stops", [False, True])
def test_a_tool_that_stops_the_loop_or_only_final_results_end_the_turn(
    first_final: bool, second_final: bool, stops: bool
) -> None:
    ends_first = succeeded(1, final=first_final)
    state, effects = step(after(TWO_RUN, ends_first), succeeded(2, final=second_final, stops_loop=stops))
    if stops or (first_final and second_final):
        assert effects[-1] == TurnEnded(TurnEndReason.TOOL_FINAL, NO_USAGE)
        assert isinstance(state, Idle)
    else:
        assert isinstance(state, Streaming)


@pytest.mark.rule("TOOL-7")
@pytest.mark.rule("TOOL-13")
@pytest.mark.rule("CANCEL-5")
@pytest.mark.rule("LIMIT-1")
@pytest.mark.rule("STATE-9")
@pytest.mark.parametrize("cancelled", [False, True])
@pytest.mark.parametrize("stops", [False, True])
@pytest.mark.parametrize("limited", [False, True])
def test_the_first_line_that_applies_ends_the_turn(cancelled: bool, stops: bool, limited: bool) -> None:
    begun = working(made_call(), made_call(), policy=Policy(max_turns=1 if limited else None))
    state = after(begun, CancelCall(call_id(1)) if cancelled else succeeded(1))
    following, effects = step(state, succeeded(2, stops_loop=stops))
    ends = [ended.reason for ended in of_kind(TurnEnded, effects)]
    if cancelled:
        assert ends == [TurnEndReason.USER_ABORT]
    elif stops:
        assert ends == [TurnEndReason.TOOL_FINAL]
    elif limited:
        assert ends == [TurnEndReason.MAX_TURNS]
    else:
        assert ends == []
    assert isinstance(following, Idle if ends else Streaming)


@pytest.mark.rule("TOOL-7")
@pytest.mark.rule("INPUT-2")
@pytest.mark.parametrize(("stops", "natural"), [(True, True), (False, False)])
def test_the_queue_goes_on_after_a_tool_ended_the_turn_and_not_after_a_limit(stops: bool, natural: bool) -> None:
    state = after(working(made_call(), policy=Policy(max_turns=1)), say("next"))
    following = after(state, succeeded(1, stops_loop=stops))
    assert isinstance(following, Streaming if natural else Idle)
    assert len(session_of(following).inbox.queue) == (0 if natural else 1)


@pytest.mark.rule("INPUT-3")
@pytest.mark.rule("TOOL-7")
def test_a_steer_goes_in_behind_the_results() -> None:
    effects = effects_of(after(working(made_call()), steer("that way")), succeeded(1))
    assert named(effects) == [
        *("CancelTimer", "ToolEnded", "MessageAdded"),
        *("InputSettled", "MessageAdded", "Steered", "CallModel"),
    ]


# --- cancels --------------------------------------------------------------------------------------------


@pytest.mark.rule("CANCEL-5")
@pytest.mark.rule("TOOL-7")
def test_the_cancel_of_one_call_lets_the_others_start_and_run() -> None:
    following, effects = step(ONE_WAITS, CancelCall(call_id(1)))
    assert named(effects) == ["AbortTool", "StartTimer", "CancelTimer", "ToolEnded", "StartTool", "StartTimer"]
    assert effects[0] == AbortTool(run(1), CancelReason.USER_CANCELLED)
    assert statuses(following) == [CallStatus.CANCELLED, CallStatus.IN_PROGRESS]
    rested = after(following, succeeded(2))
    assert isinstance(rested, Idle)
    assert session_of(rested).last_end is TurnEndReason.USER_ABORT


@pytest.mark.rule("CANCEL-5")
@pytest.mark.rule("CANCEL-1")
def test_the_cancel_of_the_only_call_leads_to_rest_and_the_model_sees_it() -> None:
    following, effects = step(working(made_call()), CancelCall(call_id(1)))
    assert named(effects) == ["AbortTool", "StartTimer", "CancelTimer", "ToolEnded", "MessageAdded", "TurnEnded"]
    assert isinstance(following, Idle)
    (ended,) = of_kind(ToolEnded, effects)
    assert (ended.result.reason, ended.result.ran) == (CancelReason.USER_CANCELLED, True)
    assert isinstance(ended.result.content[0], TextBlock)


@pytest.mark.rule("CANCEL-5")
@pytest.mark.rule("DELTA-2")
@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (call_id(1), RefusalReason.DUPLICATE),
        (call_id(0), RefusalReason.UNKNOWN),
        (call_id(3), RefusalReason.UNKNOWN),
        (call_id(2, reply=2), RefusalReason.UNKNOWN),
    ],
)
def test_a_cancel_of_no_open_call_is_refused(call: object, reason: RefusalReason) -> None:
    state = after(TWO_RUN, succeeded(1))
    assert effects_of(state, CancelCall(a(type(call_id(1)), call))) == (Refused(UserAction.CANCEL, reason),)


@pytest.mark.rule("CANCEL-2")
@pytest.mark.rule("CANCEL-4")
@pytest.mark.rule("CANCEL-1")
@pytest.mark.parametrize(
    ("cause", "reason", "end", "rest"),
    [
        (CancelAll(), CancelReason.USER_CANCELLED, TurnEndReason.USER_ABORT, Cancelled),
        (Disposed(), CancelReason.DISPOSED, TurnEndReason.DISPOSED, Initial),
        (say("instead"), CancelReason.USER_INTERRUPTED, TurnEndReason.INTERRUPTED, Streaming),
    ],
)
def test_everything_is_stopped_then_answered_then_ended(
    cause: Delta, reason: CancelReason, end: TurnEndReason, rest: type[State]
) -> None:
    policy = Policy(on_busy=OnBusy.INTERRUPT)
    state = working(made_call(), made_call(), made_call(verdict=None), policy=policy)
    following, effects = step(state, cause)
    assert named(effects[:12]) == [
        *["AbortTool", "StartTimer", "CancelTimer"] * 2,
        *["ToolEnded"] * 3,
        *("MessageAdded", "WorkCancelled", "TurnEnded"),
    ]
    assert of_kind(AbortTool, effects) == [AbortTool(run(1), reason), AbortTool(run(2), reason)]
    assert [(ended.result.reason, ended.result.ran) for ended in of_kind(ToolEnded, effects)] == [
        (reason, True),
        (reason, True),
        (reason, False),
    ]
    assert of_kind(WorkCancelled, effects) == [WorkCancelled(reason)]
    assert of_kind(TurnEnded, effects)[0].reason is end
    assert type(following) is rest


@pytest.mark.rule("TOOL-15")
@pytest.mark.rule("INFER-5")
def test_calls_run_only_once_the_reply_is_complete() -> None:
    streaming = asked(ASKING_NOBODY, made_call(), made_call(), tools=(READ,))
    effects = effects_of(streaming, completed(StopReason.TOOL_USE))
    assert named(effects) == ["ReplyEnded", "MessageAdded", *["StartTool", "StartTimer"] * 2]


# --- which end is the turn's ----------------------------------------------------------------------------


@pytest.mark.rule("TOOL-7")
@pytest.mark.rule("ASK-7")
@pytest.mark.rule("CALL-5")
@pytest.mark.rule("STATE-9")
@pytest.mark.parametrize("cancelled", [False, True])
@pytest.mark.parametrize("settled", [False, True])
@pytest.mark.parametrize("rejected", [False, True])
@pytest.mark.parametrize("output", [False, True])
@pytest.mark.parametrize("stops", [False, True])
def test_the_first_end_that_applies_is_the_turns(
    cancelled: bool, settled: bool, rejected: bool, output: bool, stops: bool
) -> None:
    policy = evolve(ASKING_NOBODY, on_reject=OnReject.HALT, output_tool="danger")
    calls = (made_call(), made_call("asks"), made_call("danger" if output else "read"), made_call())
    ending = Ending(reason=TurnEndReason.ERROR, error=ErrorClass.NETWORK) if settled else None
    begun = evolve(working(*calls, policy=policy, tools=ALL_TOOLS), ending=ending)
    runs = [found.operation for found in entries_of(begun) if found.operation is not None]
    state = after(begun, Reject(call=call_id(2)) if rejected else Approve(call=call_id(2)))
    first: Delta = CancelCall(call_id(1)) if cancelled else succeeded(runs[0])
    following = after(state, first, *map(succeeded, [*runs[1:-1], *([] if rejected else [len(runs) + 1])]))
    ended = after(following, succeeded(runs[-1], stops_loop=stops))
    reasons = (
        (cancelled, TurnEndReason.USER_ABORT),
        (settled, TurnEndReason.ERROR),
        (rejected, TurnEndReason.TOOL_REJECTED),
        (output, TurnEndReason.OUTPUT),
        (stops, TurnEndReason.TOOL_FINAL),
    )
    expected = next((reason for applies, reason in reasons if applies), None)
    assert session_of(ended).last_end is expected
    assert isinstance(ended, Streaming if expected is None else Idle)


@pytest.mark.rule("ASK-7")
@pytest.mark.parametrize("choice", OnReject)
def test_a_rejection_ends_the_turn_only_under_halt_and_not_naturally(choice: OnReject) -> None:
    waiting = asking(made_call("asks"), policy=evolve(ASKING_NOBODY, on_reject=choice))
    following = after(waiting, say("next"), Reject(call=call_id(1)))
    if choice is OnReject.HALT:
        assert (type(following), session_of(following).last_end) == (Idle, TurnEndReason.TOOL_REJECTED)
        assert len(session_of(following).inbox.queue) == 1
    else:
        assert a(Streaming, following).turn.reason is RequestReason.NEXT_TURN


@pytest.mark.rule("CALL-5")
@pytest.mark.rule("INPUT-2")
def test_the_queue_goes_on_after_an_output_and_a_steer_waits_in_it() -> None:
    policy = evolve(ASKING_NOBODY, output_tool="danger")
    state = working(made_call("danger"), made_call(), policy=policy, tools=ALL_TOOLS)
    following, effects = step(after(state, steer("left"), say("next")), succeeded(1))
    assert [ended.reason for ended in of_kind(TurnEnded, effects)] == [TurnEndReason.OUTPUT]
    assert isinstance(following, Streaming)
    assert len(session_of(following).inbox.queue) == 1


# --- released and resumed -------------------------------------------------------------------------------


@pytest.mark.rule("CANCEL-2")
@pytest.mark.rule("STATE-3")
def test_a_released_thread_keeps_the_calls_that_wait_and_shows_them_again_in_a_new_turn() -> None:
    calls = (made_call("asks"), made_call(), made_call("asks"))
    state = working(*calls, tools=ALL_TOOLS, policy=evolve(ASKING_NOBODY, approval_timeout_ms=50))
    released, effects = step(state, Disposed())
    assert [ended.reason for ended in of_kind(TurnEnded, effects)] == [TurnEndReason.DISPOSED]
    assert statuses(a(Initial, released)) == [
        CallStatus.BLOCKED_ON_USER,
        CallStatus.CANCELLED,
        CallStatus.BLOCKED_ON_USER,
    ]
    resumed, effects = step(released, Resumed(), now_ms=1_000)
    assert effects[0] == SessionResumed()
    assert of_kind(ApprovalAsked, effects) == [ApprovalAsked(call_id(1)), ApprovalAsked(call_id(3))]
    assert [found.deadline_ms for found in pending_timers(resumed)] == [1_050, 1_050]
    turn = a(Confirming, resumed).turn
    assert (turn.number, turn.opened_ms, turn.reason) == (2, 1_000, RequestReason.RESUME)
    going_on = after(resumed, Approve(call=call_id(1)), Reject(call=call_id(3)), succeeded(2))
    assert [result.status for result in results_of(going_on)] == [
        CallStatus.DONE,
        CallStatus.CANCELLED,
        CallStatus.REJECTED_BY_USER,
    ]
    assert a(Streaming, going_on).turn.reason is RequestReason.NEXT_TURN


@pytest.mark.rule("RESUME-3")
@pytest.mark.rule("DELTA-7")
def test_a_restart_is_told_first_and_counted() -> None:
    following, effects = step(TWO_RUN, Resumed())
    assert effects[0] == SessionResumed()
    assert following.stamp.version == TWO_RUN.stamp.version + 1


# --- changed settings -----------------------------------------------------------------------------------


@pytest.mark.rule("ASK-5")
@pytest.mark.rule("DELTA-8")
def test_a_change_of_mode_decides_on_all_that_waits() -> None:
    following, effects = step(WAITING, ChangeMode(ApprovalMode.BYPASS))
    assert starts(effects) == [call_id(1), call_id(2)]
    assert isinstance(following, Executing)

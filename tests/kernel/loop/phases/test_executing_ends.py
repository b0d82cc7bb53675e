"""`Executing`: cancels, and which end is the turn's once every call is answered."""

import pytest
from attrs import evolve
from loopkernel.data.blocks import TextBlock
from loopkernel.data.choices import ApprovalMode, OnBusy, OnReject, Schedule
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import AbortTool
from loopkernel.data.endings import Failure
from loopkernel.data.events import ApprovalAsked, Refused, SessionResumed, ToolEnded, TurnEnded, WorkCancelled
from loopkernel.data.policy import Policy
from loopkernel.data.states import Cancelled, Confirming, Executing, Idle, Initial, State, Streaming
from loopkernel.data.thread_deltas import Disposed, Resumed
from loopkernel.data.user_deltas import Approve, CancelAll, CancelCall, ChangeMode, Reject
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
    succeeded,
    working,
)

TWO_RUN = working(made_call(), made_call())
IN_TURN = Policy(schedule=Schedule.SERIAL)
ONE_WAITS = working(made_call(), made_call(), policy=IN_TURN)
WAITING = asking(made_call("asks"), made_call("asks"))

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
        *["AbortTool", "StartTimer"] * 2,
        *["CancelTimer"] * 2,
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
    failure = Failure(request=ONE, error=ErrorClass.AUTH) if settled else None
    begun = evolve(working(*calls, policy=policy, tools=ALL_TOOLS), settled=failure)
    runs = [found.operation for found in entries_of(begun) if found.operation is not None]
    state = after(begun, Reject(call=call_id(2)) if rejected else Approve(call=call_id(2)))
    first: Delta = CancelCall(call_id(1)) if cancelled else succeeded(runs[0])
    following = after(state, first, *map(succeeded, [*runs[1:-1], *([] if rejected else [len(runs) + 1])]))
    ended = after(following, succeeded(runs[-1], stops_loop=stops))
    reasons = (
        (cancelled, TurnEndReason.USER_ABORT),
        (rejected, TurnEndReason.TOOL_REJECTED),
        (output, TurnEndReason.OUTPUT),
        (stops, TurnEndReason.TOOL_FINAL),
        (settled, TurnEndReason.ERROR),  # as any failure, once nothing stands before the next request
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

"""`Executing`: calls start, are answered once each, and the last answer decides how the loop goes on."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.blocks import TextBlock, text_of
from loopkernel.data.choices import OnBusy, Schedule
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import AbortTool, CallModel, Effect, StartTool
from loopkernel.data.events import MessageAdded, Refused, ToolEnded, ToolProgressed, TurnEnded, WorkCancelled
from loopkernel.data.ids import CheckOperation, RunOperation
from loopkernel.data.messages import ResultMessage
from loopkernel.data.policy import ApprovalRule, Policy
from loopkernel.data.states import Cancelled, Executing, Idle, Initial, State, Streaming
from loopkernel.data.thread_deltas import Disposed
from loopkernel.data.tool_deltas import ToolAsked, ToolChecked, ToolFailed, ToolProgress, ToolStopped, ToolSucceeded
from loopkernel.data.tools import Decision, InvalidCall, ToolOutput, UnknownTool, Verdict
from loopkernel.data.usage import NO_USAGE
from loopkernel.data.user_deltas import CancelAll, CancelCall, ChangePolicy, ChangeTools, Permit
from loopkernel.data.words import (
    CallStatus,
    CancelReason,
    RefusalReason,
    RequestReason,
    StopReason,
    TurnEndReason,
    UserAction,
)

from tests.kernel.building import (
    ASKING_NOBODY,
    FREE,
    READ,
    a,
    after,
    asked,
    call_id,
    completed,
    effects_of,
    expected_grid,
    grid,
    made_call,
    named,
    of_kind,
    say,
    session_of,
    steer,
    step,
    text,
    working,
)

TWO_RUN = working(made_call(), made_call())
SERIAL = Policy(schedule=Schedule.SERIAL)
ONE_WAITS = working(made_call(), made_call(), policy=SERIAL)


def run(number: int) -> RunOperation:
    return RunOperation(number)


def output(words: str = "out", *, final: bool = False, stops_loop: bool = False) -> ToolOutput:
    return ToolOutput(content=text(words), final=final, stops_loop=stops_loop)


def statuses(state: State) -> list[CallStatus]:
    return [entry.status for entry in a(Executing, state).ledger.entries]


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


@pytest.mark.rule("DELTA-4")
@pytest.mark.rule("DELTA-2")
def test_each_report_of_an_open_run_is_taken_and_an_answered_one_closed() -> None:
    runs = ("ToolProgress", "ToolSucceeded", "ToolFailed", "ToolAsked", "ToolStopped")
    found = grid(TWO_RUN, 1)
    assert {found[name] for name in runs} == {"Executing"}
    assert found["ModelCompleted"] == "refused duplicate"
    assert found["Approve"] == "refused not-now"
    assert found["CancelCall"] == "Executing"
    done = grid(after(TWO_RUN, ToolSucceeded(run(1))), 1)
    assert {done[name] for name in runs} == {"refused duplicate"}
    assert done["Approve"] == done["CancelCall"] == "refused stale"
    cancelled = grid(after(TWO_RUN, CancelCall(call_id(1))), 1)
    assert {cancelled[name] for name in runs} == {"refused stale"}


# --- reports --------------------------------------------------------------------------------------------


@pytest.mark.rule("TOOL-4")
@pytest.mark.rule("TOOL-6")
@pytest.mark.rule("CANCEL-3")
@pytest.mark.parametrize(
    ("report", "status"),
    [
        (ToolSucceeded(run(1), output()), CallStatus.DONE),
        (ToolFailed(run(1), output()), CallStatus.ERROR),
        (ToolStopped(run(1)), CallStatus.ERROR),
    ],
)
def test_what_a_run_reports_is_its_answer_and_the_other_runs_on(report: Delta, status: CallStatus) -> None:
    following, effects = step(TWO_RUN, report)
    (ended,) = effects
    assert isinstance(ended, ToolEnded)
    assert (ended.result.call, ended.result.status, ended.result.ran, ended.result.reason) == (
        call_id(1),
        status,
        True,
        None,
    )
    assert text_of(ended.result.content) != ""
    assert statuses(following) == [status, CallStatus.IN_PROGRESS]


@pytest.mark.rule("CANCEL-3")
@pytest.mark.rule("TOOL-16")
def test_progress_is_shown_and_stays_when_the_call_is_cancelled() -> None:
    following, effects = step(TWO_RUN, ToolProgress(run(2), "half"))
    assert effects == (ToolProgressed(call_id(2), run(2), "half"),)
    cancelled = a(Executing, after(following, CancelCall(call_id(2)), ToolProgress(run(2), "more")))
    assert list(cancelled.ledger.entries[1].progress) == ["half"]


def test_a_question_that_nobody_can_be_shown_stops_the_tool() -> None:
    following, effects = step(TWO_RUN, ToolAsked(run(1), "which one?"))
    abort, ended = effects
    assert abort == AbortTool(run(1), CancelReason.SAFETY)
    assert isinstance(ended, ToolEnded)
    assert (ended.result.status, ended.result.ran) == (CallStatus.ERROR, True)
    assert "which one?" in text_of(ended.result.content)
    assert grid(following, 1)["ToolStopped"] == "refused stale"


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
    assert named(effects) == ["StartTool"]
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
    effects = effects_of(ONE_WAITS, change, ToolSucceeded(run(1)))
    assert of_kind(StartTool, effects) == []


# --- when all calls are answered ------------------------------------------------------------------------


@pytest.mark.rule("TOOL-7")
@pytest.mark.rule("TOOL-8")
@given(st.permutations(range(3)))
def test_no_request_starts_before_all_are_answered_in_whatever_order(order: list[int]) -> None:
    state: State = working(*(made_call() for _ in range(3)))
    last: tuple[Effect, ...] = ()
    for count, place in enumerate(order, 1):
        state, last = step(state, ToolSucceeded(run(place + 1), output(f"out {place + 1}")))
        assert isinstance(state, Streaming if count == 3 else Executing)
        assert bool(of_kind(CallModel, last)) == (count == 3)
    (added,) = of_kind(MessageAdded, last)
    results = a(ResultMessage, added.message).results
    assert [result.content for result in results] == [text(f"out {n}") for n in (1, 2, 3)]
    (call,) = of_kind(CallModel, last)
    assert call.request.reason is RequestReason.NEXT_TURN


def answered(first: ToolOutput, second: ToolOutput) -> tuple[State, tuple[Effect, ...]]:
    state, effects = step(after(TWO_RUN, ToolSucceeded(run(1), first)), ToolSucceeded(run(2), second))
    return state, effects


@pytest.mark.rule("TOOL-7")
@pytest.mark.rule("TOOL-13")
@pytest.mark.parametrize("first_final", [False, True])
@pytest.mark.parametrize("second_final", [False, True])
@pytest.mark.parametrize("stops", [False, True])
def test_a_tool_that_stops_the_loop_or_only_final_results_end_the_turn(
    first_final: bool, second_final: bool, stops: bool
) -> None:
    state, effects = answered(output(final=first_final), output(final=second_final, stops_loop=stops))
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
    state = after(begun, CancelCall(call_id(1)) if cancelled else ToolSucceeded(run(1), output()))
    following, effects = step(state, ToolSucceeded(run(2), output(stops_loop=stops)))
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
    following = after(state, ToolSucceeded(run(1), output(stops_loop=stops)))
    assert isinstance(following, Streaming if natural else Idle)
    assert len(session_of(following).inbox.queue) == (0 if natural else 1)


@pytest.mark.rule("INPUT-3")
@pytest.mark.rule("TOOL-7")
def test_a_steer_goes_in_behind_the_results() -> None:
    effects = effects_of(after(working(made_call()), steer("that way")), ToolSucceeded(run(1), output()))
    assert named(effects) == ["ToolEnded", "MessageAdded", "InputSettled", "MessageAdded", "Steered", "CallModel"]


# --- cancels --------------------------------------------------------------------------------------------


@pytest.mark.rule("CANCEL-5")
@pytest.mark.rule("TOOL-7")
def test_the_cancel_of_one_call_lets_the_others_start_and_run() -> None:
    following, effects = step(ONE_WAITS, CancelCall(call_id(1)))
    assert named(effects) == ["AbortTool", "ToolEnded", "StartTool"]
    assert effects[0] == AbortTool(run(1), CancelReason.USER_CANCELLED)
    assert statuses(following) == [CallStatus.CANCELLED, CallStatus.IN_PROGRESS]
    rested = after(following, ToolSucceeded(run(2)))
    assert isinstance(rested, Idle)
    assert session_of(rested).last_end is TurnEndReason.USER_ABORT


@pytest.mark.rule("CANCEL-5")
@pytest.mark.rule("CANCEL-1")
def test_the_cancel_of_the_only_call_leads_to_rest_and_the_model_sees_it() -> None:
    following, effects = step(working(made_call()), CancelCall(call_id(1)))
    assert named(effects) == ["AbortTool", "ToolEnded", "MessageAdded", "TurnEnded"]
    assert isinstance(following, Idle)
    (ended,) = of_kind(ToolEnded, effects)
    assert (ended.result.reason, ended.result.ran) == (CancelReason.USER_CANCELLED, True)
    assert isinstance(ended.result.content[0], TextBlock)


@pytest.mark.rule("CANCEL-5")
@pytest.mark.rule("DELTA-2")
@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (call_id(1), RefusalReason.STALE),
        (call_id(0), RefusalReason.UNKNOWN),
        (call_id(3), RefusalReason.UNKNOWN),
        (call_id(2, reply=2), RefusalReason.UNKNOWN),
    ],
)
def test_a_cancel_of_no_open_call_is_refused(call: object, reason: RefusalReason) -> None:
    state = after(TWO_RUN, ToolSucceeded(run(1)))
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
    assert effects[:2] == (AbortTool(run(1), reason), AbortTool(run(2), reason))
    assert named(effects[2:8]) == [*["ToolEnded"] * 3, "MessageAdded", "WorkCancelled", "TurnEnded"]
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
    assert named(effects) == ["ReplyEnded", "MessageAdded", "StartTool", "StartTool"]

"""`Executing` and `Confirming`: calls start and are answered once each, and nothing goes on before all are."""

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.choices import OnBusy, Schedule
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import CallModel, Effect, StartTool
from loopkernel.data.events import MessageAdded, Refused, ToolEnded, TurnEnded
from loopkernel.data.ids import CheckOperation
from loopkernel.data.json_text import Json
from loopkernel.data.messages import ResultMessage
from loopkernel.data.model_deltas import ModelUsage
from loopkernel.data.policy import ApprovalRule, Policy
from loopkernel.data.states import Confirming, Executing, Idle, State, Streaming
from loopkernel.data.thread_deltas import Resumed
from loopkernel.data.tool_deltas import ToolAsked, ToolChecked
from loopkernel.data.tools import Decision, InvalidCall, UnknownTool, Verdict
from loopkernel.data.usage import NO_USAGE, Usage
from loopkernel.data.user_deltas import AnswerQuestion, Approve, CancelCall, ChangePolicy, ChangeTools, Permit
from loopkernel.data.words import CallStatus, RefusalReason, RequestReason, StopReason, TurnEndReason, UserAction
from loopkernel.testing.run import Run

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
    completed,
    effects_of,
    made_call,
    named,
    of_kind,
    pending_timers,
    run,
    say,
    session_of,
    statuses,
    steer,
    step,
    stopped,
    succeeded,
    text,
    working,
    writes,
)
from tests.kernel.grids import expected_grid, grid
from tests.kernel.plays import plays

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
        Forked="Idle",
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
        Forked="Idle",
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
def test_the_phase_is_a_function_of_the_ledger(play: Run) -> None:
    """Somebody is asked, and nothing runs: what is only checked, or held back, does not count."""
    for record in play.steps:
        state = record.after
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
    state: State = working(*(made_call(call_input=Json.of({"n": number})) for number in range(3)))
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

"""`Streaming`: how a reply ends or is cut, calls that start before that, and a restart in between."""

import pytest
from attrs import evolve
from loopkernel.data.blocks import TextBlock
from loopkernel.data.choices import ApprovalMode, OnBusy
from loopkernel.data.effects import AbortModel, CallModel, CheckCall, StartTimer
from loopkernel.data.events import (
    ErrorShown,
    MessageAdded,
    Refused,
    ReplyAborted,
    ReplyEnded,
    ReplyFailed,
    ReplyRetracted,
    RetryScheduled,
    ToolEnded,
    TurnEnded,
    WorkCancelled,
)
from loopkernel.data.json_text import Json
from loopkernel.data.messages import AssistantMessage, ReplyState
from loopkernel.data.model_deltas import ModelInput, ModelText, ModelUsage
from loopkernel.data.policy import ApprovalRule, Policy, Retry
from loopkernel.data.states import Backoff, Cancelled, Idle, Initial, Streaming
from loopkernel.data.thread_deltas import Disposed, Resumed
from loopkernel.data.tool_deltas import ToolAsked
from loopkernel.data.tools import Decision
from loopkernel.data.usage import NO_USAGE, Usage
from loopkernel.data.user_deltas import AnswerQuestion, CancelAll, CancelCall, ChangeMode, ChangePolicy, Permit
from loopkernel.data.words import (
    CallStatus,
    CancelReason,
    ErrorClass,
    RefusalReason,
    RequestReason,
    StopReason,
    TimerPurpose,
    TurnEndReason,
    UserAction,
)

from tests.kernel.building import (
    ALL_TOOLS,
    ASKING_NOBODY,
    NOTHING,
    ONE,
    TWO,
    a,
    after,
    asked,
    call_id,
    checked,
    completed,
    effects_of,
    ends,
    failed,
    fired,
    made_call,
    named,
    of_kind,
    pending_timers,
    reads,
    results_of,
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
from tests.kernel.grids import grid, reports_about

ASKED = asked()
INTERRUPT = Policy(on_busy=OnBusy.INTERRUPT)
UNCHECKED = made_call(verdict=None)

# --- cut short ------------------------------------------------------------------------------------------


@pytest.mark.rule("CANCEL-2")
@pytest.mark.rule("CANCEL-4")
@pytest.mark.rule("INPUT-5")
@pytest.mark.rule("TOOL-15")
def test_a_cancelled_reply_keeps_its_text_and_its_calls_which_are_answered() -> None:
    state = after(ASKED, ModelText(ONE, "so"), made_call(), UNCHECKED, ModelInput(ONE, '{"half'))
    following, effects = step(state, CancelAll())
    assert effects[:2] == (AbortModel(ONE), ReplyAborted(ONE))
    assert named(effects[2:]) == [
        "MessageAdded",
        *("ToolEnded", "ToolEnded"),
        *("MessageAdded", "WorkCancelled", "TurnEnded"),
    ]
    _, reply, answers = session_of(following).thread
    assert a(AssistantMessage, reply).state is ReplyState.CANCELLED
    assert a(AssistantMessage, reply).stop is None
    assert [block for block in a(AssistantMessage, reply).content if isinstance(block, TextBlock)] == [TextBlock("so")]
    results = [ended.result for ended in of_kind(ToolEnded, effects)]
    assert [(result.call, result.status, result.reason, result.ran) for result in results] == [
        (call_id(n), CallStatus.CANCELLED, CancelReason.USER_CANCELLED, False) for n in (1, 2)
    ]
    assert of_kind(MessageAdded, effects)[1].message == answers


@pytest.mark.rule("CANCEL-2")
@pytest.mark.rule("CANCEL-4")
def test_a_reply_that_is_cancelled_before_it_says_anything_is_on_record() -> None:
    following, effects = step(ASKED, CancelAll())
    assert named(effects) == ["AbortModel", "ReplyAborted", "MessageAdded", "WorkCancelled", "TurnEnded"]
    reply = a(AssistantMessage, session_of(following).thread.messages[1])
    assert (reply.state, reply.content) == (ReplyState.CANCELLED, ())


@pytest.mark.rule("CANCEL-1")
@pytest.mark.rule("CANCEL-2")
@pytest.mark.rule("INPUT-1")
def test_the_cause_decides_the_reasons_and_where_it_leads() -> None:
    cancelled, by_user = step(ASKED, CancelAll())
    released, by_end = step(ASKED, Disposed())
    going_on, by_input = step(asked(INTERRUPT), say("instead"))
    assert [of_kind(WorkCancelled, effects)[0].reason for effects in (by_user, by_end, by_input)] == [
        CancelReason.USER_CANCELLED,
        CancelReason.DISPOSED,
        CancelReason.USER_INTERRUPTED,
    ]
    assert [of_kind(TurnEnded, effects)[0].reason for effects in (by_user, by_end, by_input)] == [
        TurnEndReason.USER_ABORT,
        TurnEndReason.DISPOSED,
        TurnEndReason.INTERRUPTED,
    ]
    assert (type(cancelled), type(released), type(going_on)) == (Cancelled, Initial, Streaming)
    (call,) = of_kind(CallModel, by_input)
    assert (call.operation, a(Streaming, going_on).turn.number) == (TWO, 2)


@pytest.mark.rule("CANCEL-2")
def test_after_a_cancel_nothing_starts_until_there_is_new_input() -> None:
    state = after(ASKED, made_call(), CancelAll())
    assert all(type(step(state, report).next) is Cancelled for report in reports_about(1))


# --- failed and complete --------------------------------------------------------------------------------


@pytest.mark.rule("RETRY-5")
@pytest.mark.rule("TOOL-15")
@pytest.mark.parametrize(
    "error", [error for error in ErrorClass if error not in (ErrorClass.REFUSED, *Retry().classes)]
)
def test_a_reply_that_failed_for_good_is_retracted_shown_and_ends_the_turn(error: ErrorClass) -> None:
    state = after(ASKED, ModelText(ONE, "so"), UNCHECKED)
    following, effects = step(state, failed(error, usage=Usage(input=1)))
    assert effects == (
        ReplyFailed(ONE, error),
        ReplyRetracted(ONE),
        ErrorShown(error, ""),
        TurnEnded(TurnEndReason.ERROR, Usage(input=1)),
    )
    assert len(session_of(a(Idle, following)).thread) == 1
    assert grid(following, 1)["ToolChecked"] == "refused stale"


@pytest.mark.rule("RETRY-4")
@pytest.mark.rule("RETRY-1")
@pytest.mark.parametrize("error", Retry().classes)
def test_a_failed_reply_that_is_asked_for_again_is_retracted_and_nothing_is_shown(error: ErrorClass) -> None:
    following, effects = step(after(ASKED, ModelText(ONE, "so"), UNCHECKED), failed(error, usage=Usage(input=1)))
    backoff = a(Backoff, following)
    assert effects == (
        ReplyFailed(ONE, error),
        ReplyRetracted(ONE),
        RetryScheduled(5_000, 1),
        StartTimer(operation=timer(1), purpose=TimerPurpose.RETRY, deadline_ms=backoff.stamp.now_ms + 5_000),
    )
    assert (len(backoff.session.thread), backoff.session.error, backoff.error) == (1, None, error)
    assert backoff.session.usage == Usage(input=1)
    assert grid(following, 1)["ToolChecked"] == "refused stale"


@pytest.mark.rule("INFER-10")
@pytest.mark.rule("STATE-9")
def test_a_call_that_the_provider_refused_ends_as_a_refusal() -> None:
    effects = effects_of(ASKED, failed(ErrorClass.REFUSED))
    assert effects == (
        ReplyFailed(ONE, ErrorClass.REFUSED),
        ErrorShown(ErrorClass.REFUSED, ""),
        TurnEnded(TurnEndReason.REFUSAL, NO_USAGE),
    )


@pytest.mark.rule("CANCEL-5")
@pytest.mark.rule("DELTA-1")
def test_of_a_natural_end_and_a_cancel_the_first_decides() -> None:
    state = after(ASKED, ModelText(ONE, "so"))
    assert isinstance(after(state, completed(), CancelAll()), Idle)
    assert isinstance(after(state, CancelAll(), completed()), Cancelled)


@pytest.mark.rule("INFER-4")
def test_the_end_of_a_reply_says_how_it_stopped() -> None:
    for stop in StopReason:
        assert effects_of(ASKED, ModelText(ONE, "so"), completed(stop))[0] == ReplyEnded(ONE, stop)


# --- calls that start early -----------------------------------------------------------------------------


EARLY = asked(ASKING_NOBODY, made_call("early_write", writes("a")), tools=ALL_TOOLS)


@pytest.mark.rule("TOOL-9")
@pytest.mark.rule("CALL-2")
def test_a_call_starts_with_its_verdict_which_may_come_with_it_or_later() -> None:
    streaming = asked(ASKING_NOBODY, tools=ALL_TOOLS)
    assert named(effects_of(streaming, made_call("early_write"))) == ["CallAppeared", "StartTool", "StartTimer"]
    waiting, effects = step(streaming, made_call("early_write", None))
    assert named(effects) == ["CallAppeared", "CheckCall"]
    assert named(effects_of(waiting, checked(1))) == ["StartTool", "StartTimer"]


@pytest.mark.rule("TOOL-9")
@pytest.mark.rule("TOOL-16")
def test_reports_of_early_runs_are_taken_while_the_reply_streams() -> None:
    found = grid(EARLY, 1)
    runs = ("ToolProgress", "ToolSucceeded", "ToolFailed", "ToolAsked", "ToolStopped", "TimerFired", "CancelCall")
    assert {name: found[name] for name in runs} == dict.fromkeys(runs, "Streaming")
    following, effects = step(EARLY, succeeded(1, "done early"))
    assert named(effects) == ["CancelTimer", "ToolEnded"]
    finished = after(following, completed(StopReason.TOOL_USE))
    assert a(Streaming, finished).turn.number == 1
    assert [result.content for result in results_of(finished)] == [text("done early")]


@pytest.mark.rule("TOOL-9")
@pytest.mark.rule("TOOL-3")
def test_the_end_of_an_early_run_lets_the_next_start() -> None:
    behind = after(EARLY, made_call("early_read", reads("a")))
    assert starts(effects_of(behind, succeeded(1))) == [call_id(2)]
    assert starts(effects_of(behind, fired(1))) == []  # it still holds its file
    assert starts(effects_of(behind, fired(1), stopped(1))) == [call_id(2)]


@pytest.mark.rule("TOOL-17")
@pytest.mark.rule("TOOL-10")
@pytest.mark.rule("DELTA-7")
def test_a_stale_report_that_frees_what_an_early_call_waits_for_starts_it_at_its_own_time() -> None:
    behind = after(EARLY, made_call("early_read", reads("a")), CancelCall(call_id(1)))
    following, effects = step(behind, succeeded(1), now_ms=3_000)
    assert named(effects) == ["Refused", "CancelTimer", "StartTool", "StartTimer"]
    assert pending_timers(following)[0].deadline_ms == 123_000
    assert (following.stamp.version, following.stamp.now_ms) == (behind.stamp.version, 3_000)
    assert step(following, succeeded(1)).next == following


@pytest.mark.rule("INFER-3")
@pytest.mark.rule("DELTA-7")
def test_a_late_bill_of_another_reply_is_counted_and_nothing_else() -> None:
    again = after(ASKED, CancelAll(), say())
    following, effects = step(again, ModelUsage(ONE, Usage(input=4)), now_ms=9_000)
    assert effects == (Refused(UserAction.REPORT, RefusalReason.STALE),)
    assert (session_of(following).usage, following.stamp) == (Usage(input=4), again.stamp)


@pytest.mark.rule("TOOL-9")
@pytest.mark.rule("TOOL-19")
def test_an_early_tool_may_ask_and_be_answered_while_the_reply_streams() -> None:
    following, effects = step(EARLY, ToolAsked(run(1), "which?"))
    assert named(effects) == ["CancelTimer", "QuestionAsked"]
    assert isinstance(following, Streaming)
    answer = AnswerQuestion(call=call_id(1), value=NOTHING)
    assert named(effects_of(following, answer)) == ["AnswerTool", "StartTimer"]
    assert effects_of(EARLY, answer) == (Refused(UserAction.ANSWER, RefusalReason.NOT_NOW),)


@pytest.mark.rule("TOOL-9")
@pytest.mark.rule("DELTA-8")
def test_a_change_of_settings_holds_for_what_has_not_started_yet() -> None:
    state = after(EARLY, made_call("early_read", None), ChangeMode(ApprovalMode.HEADLESS), deny_reads())
    assert starts(effects_of(state, checked(1))) == []
    waiting = asked(evolve(ASKING_NOBODY, max_parallel=1), *[made_call("early_read")] * 2, tools=ALL_TOOLS)
    assert starts(effects_of(waiting, ChangePolicy(ASKING_NOBODY))) == [call_id(2)]


def deny_reads() -> Permit:
    """Nothing that only reads may run."""
    return Permit(ApprovalRule(decision=Decision.DENY, tool="early_read"))


@pytest.mark.rule("TOOL-20")
@pytest.mark.rule("CANCEL-5")
def test_a_run_in_the_background_may_be_cancelled_while_a_reply_streams() -> None:
    streaming = after(working(made_call()), succeeded(1, background=True))
    following, effects = step(a(Streaming, streaming), CancelCall(call_id(1)))
    assert named(effects) == ["AbortTool", "StartTimer"]
    assert isinstance(following, Streaming)


@pytest.mark.rule("CALL-1")
@pytest.mark.rule("CALL-3")
@pytest.mark.rule("TOOL-9")
def test_a_call_that_comes_after_its_source_has_ended_goes_on_or_is_unreachable_at_once() -> None:
    refers = made_call("early_read", None, provider_id="q", call_input=Json.of({"path": {"$result": "p"}}))
    (check,) = of_kind(CheckCall, effects_of(EARLY, succeeded(1, "b"), refers))
    assert check.input == Json.of({"path": "b"})
    failing = effects_of(EARLY, fired(1), refers)
    assert (of_kind(CheckCall, failing), ends(failing)) == ([], [(2, CallStatus.ERROR, None)])
    declares = made_call("early_read", provider_id="q", needs=("p",))
    assert starts(effects_of(EARLY, succeeded(1), declares)) == [call_id(2)]
    assert ends(effects_of(EARLY, fired(1), declares)) == [(2, CallStatus.ERROR, None)]


@pytest.mark.rule("CANCEL-2")
@pytest.mark.rule("TOOL-17")
def test_a_cut_reply_aborts_its_early_runs() -> None:
    following, effects = step(EARLY, CancelAll())
    assert named(effects) == [
        *("AbortModel", "ReplyAborted", "MessageAdded"),
        *("AbortTool", "StartTimer", "CancelTimer", "ToolEnded"),
        *("MessageAdded", "WorkCancelled", "TurnEnded"),
    ]
    assert [held.operation for held in session_of(a(Cancelled, following)).held] == [1]


# --- a restart ------------------------------------------------------------------------------------------


@pytest.mark.rule("RESUME-3")
@pytest.mark.rule("INFER-12")
def test_a_restart_asks_again_and_counts_what_was_billed() -> None:
    state = after(ASKED, ModelText(ONE, "so"), ModelUsage(ONE, Usage(output=2)))
    following, effects = step(state, Resumed())
    assert named(effects) == ["SessionResumed", "ReplyRetracted", "CallModel"]
    streaming = a(Streaming, following)
    assert (streaming.turn.reason, streaming.session.usage) == (RequestReason.RESUME, Usage(output=2))
    assert effects_of(following, ModelUsage(ONE, Usage(output=2))) == (Refused(UserAction.REPORT, RefusalReason.STALE),)


@pytest.mark.rule("RESUME-3")
@pytest.mark.rule("TOOL-20")
def test_a_restart_in_mid_reply_repeats_what_ran_in_the_background() -> None:
    streaming = after(working(made_call()), succeeded(1, background=True))
    assert named(effects_of(streaming, Resumed())) == ["SessionResumed", "StartTool", "CallModel"]

"""`Streaming`: the reply grows, its calls are checked, input waits, and a cancel or a failure cuts it."""

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.blocks import OpaqueBlock, RawInput, ReasoningBlock, ServerCall, TextBlock
from loopkernel.data.choices import ApprovalMode, OnBusy
from loopkernel.data.effects import AbortModel, CallModel, CheckCall
from loopkernel.data.events import (
    CallAppeared,
    ErrorShown,
    MessageAdded,
    Refused,
    ReplyAborted,
    ReplyEnded,
    ReplyFailed,
    ReplyGrew,
    ReplyRetracted,
    ToolEnded,
    TurnEnded,
    WorkCancelled,
)
from loopkernel.data.ids import CheckOperation, ModelOperation
from loopkernel.data.json_text import Json
from loopkernel.data.messages import AssistantMessage, ReplyState
from loopkernel.data.model_deltas import (
    ModelCall,
    ModelInput,
    ModelOpaque,
    ModelReasoning,
    ModelServerCall,
    ModelStarted,
    ModelText,
    ModelUsage,
)
from loopkernel.data.policy import ApprovalRule, Policy
from loopkernel.data.states import Cancelled, Executing, Idle, Initial, Streaming
from loopkernel.data.thread_deltas import Disposed, Resumed
from loopkernel.data.tool_deltas import ToolAsked, ToolChecked
from loopkernel.data.tools import Decision, InvalidCall, UnknownTool, Verdict
from loopkernel.data.usage import NO_USAGE, Usage
from loopkernel.data.user_deltas import (
    AnswerQuestion,
    CancelAll,
    CancelCall,
    ChangeMode,
    ChangePolicy,
    Permit,
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
from loopkernel.testing.strategies.values import usages

from tests.kernel.building import (
    ALL_TOOLS,
    ASKING_NOBODY,
    FREE,
    NOTHING,
    ONE,
    TWO,
    a,
    after,
    asked,
    at_rest,
    call_id,
    checked,
    completed,
    effects_of,
    ends,
    expected_grid,
    failed,
    fired,
    grid,
    made_call,
    named,
    of_kind,
    pending_timers,
    reads,
    reports_about,
    results_of,
    run,
    say,
    session_of,
    starts,
    step,
    stopped,
    succeeded,
    text,
    working,
    writes,
)

ASKED = asked()
INTERRUPT = Policy(on_busy=OnBusy.INTERRUPT)
UNCHECKED = made_call(verdict=None)
WAITS = {"Say": "Streaming", "Enqueue": "Streaming", "Steer": "Streaming"}


# --- the grid -------------------------------------------------------------------------------------------


@pytest.mark.rule("DELTA-2")
@pytest.mark.rule("DELTA-3")
@pytest.mark.parametrize("on_busy", OnBusy)
def test_strange_reports_are_refused_and_input_waits(on_busy: OnBusy) -> None:
    said = {OnBusy.QUEUE: "Streaming", OnBusy.REJECT: "refused not-now", OnBusy.INTERRUPT: "Streaming"}[on_busy]
    taken = {**WAITS, "Say": said, "Resumed": "Streaming", "CancelAll": "Cancelled", "Disposed": "Initial"}
    expected = expected_grid(settings="Streaming", **taken)
    assert grid(asked(Policy(on_busy=on_busy))) == expected


@pytest.mark.rule("DELTA-4")
def test_each_report_of_the_model_call_under_way_is_taken() -> None:
    found = grid(ASKED, 1)
    assert {name: found[name] for name in map(_name, reports_about(1)[:10])} == {
        **dict.fromkeys(("ModelStarted", "ModelText", "ModelReasoning", "ModelOpaque", "ModelInput"), "Streaming"),
        **dict.fromkeys(("ModelCall", "ModelServerCall", "ModelUsage", "ModelCompleted"), "Streaming"),
        "ModelFailed": "Idle",
    }


def _name(value: object) -> str:
    return type(value).__name__


@pytest.mark.rule("TOOL-15")
@pytest.mark.rule("DELTA-2")
def test_of_the_tools_only_a_check_is_open_while_the_reply_streams() -> None:
    found = grid(after(ASKED, UNCHECKED), 1)
    assert found["ToolChecked"] == "Streaming"
    runs = ("ToolProgress", "ToolSucceeded", "ToolFailed", "ToolAsked", "ToolStopped", "ChildProgress", "ChildEnded")
    assert {found[name] for name in runs} == {"refused unknown"}


# --- the reply grows ------------------------------------------------------------------------------------


@pytest.mark.rule("INFER-3")
def test_every_piece_is_kept_in_order_and_what_is_said_is_shown() -> None:
    pieces = (
        ModelReasoning(ONE, "hm"),
        ModelText(ONE, "a"),
        ModelText(ONE, "b"),
        ModelOpaque(ONE, NOTHING),
        ModelInput(ONE, "{"),
        ModelServerCall(ONE, provider_id="w", tool="search", input=NOTHING),
        made_call(),
    )
    state: Streaming = ASKED
    shown: list[object] = []
    for piece in pieces:
        following, effects = step(state, piece)
        state = a(Streaming, following)
        shown.extend(effects)
    assert tuple(state.pieces) == pieces
    assert shown == [
        ReplyGrew(ONE, "hm", True),
        ReplyGrew(ONE, "a"),
        ReplyGrew(ONE, "b"),
        CallAppeared(call_id(1), "p", "read"),
    ]


@pytest.mark.rule("INFER-3")
@pytest.mark.rule("INFER-15")
@pytest.mark.rule("TOOL-15")
def test_the_whole_reply_goes_into_the_thread_as_it_came() -> None:
    deltas = (
        ModelReasoning(ONE, "hm"),
        ModelText(ONE, "a"),
        ModelText(ONE, "b"),
        ModelOpaque(ONE, NOTHING),
        ModelInput(ONE, "{"),
        ModelServerCall(ONE, provider_id="w", tool="search", input=NOTHING),
    )
    (added,) = of_kind(MessageAdded, effects_of(ASKED, *deltas, completed()))
    reply = a(AssistantMessage, added.message)
    assert reply.content == (
        ReasoningBlock("hm"),
        TextBlock("ab"),
        OpaqueBlock("default", NOTHING),
        ServerCall(provider_id="w", tool="search", input=NOTHING),
    )
    assert (reply.reply, reply.model, reply.state, reply.stop) == (
        ONE,
        "default",
        ReplyState.COMPLETE,
        StopReason.END_TURN,
    )


@pytest.mark.rule("INFER-3")
@given(st.lists(usages, max_size=3), usages)
def test_usage_within_a_reply_merges_by_the_largest_of_each_field(reported: list[Usage], last: Usage) -> None:
    state = after(ASKED, *(ModelUsage(ONE, usage) for usage in reported), ModelText(ONE, "a"))
    session = session_of(after(state, completed(usage=last)))
    every = [*reported, last]
    assert session.usage == Usage(
        max(usage.input for usage in every),
        max(usage.output for usage in every),
        max(usage.cache_read for usage in every),
        max(usage.cache_write for usage in every),
    )


@pytest.mark.rule("INFER-3")
@given(usages, usages, usages)
def test_usage_of_different_replies_adds_up_also_of_failed_and_aborted_ones(
    failing: Usage, aborted: Usage, whole: Usage
) -> None:
    state = after(at_rest(), say(), failed(usage=failing), say(), ModelUsage(TWO, aborted), CancelAll(), say())
    state = after(state, ModelText(ModelOperation(3), "a"), completed(reply=3, usage=whole))
    assert session_of(state).usage == failing.plus(aborted).plus(whole)


def test_the_start_of_the_answer_changes_nothing_else() -> None:
    following, effects = step(ASKED, ModelStarted(ONE, "default"))
    assert (a(Streaming, following).pieces, session_of(following), effects) == (ASKED.pieces, ASKED.session, ())


# --- its calls ------------------------------------------------------------------------------------------


@pytest.mark.rule("TOOL-14")
@given(st.lists(st.sampled_from(("same", "other")), min_size=1, max_size=4))
def test_a_call_is_known_by_its_reply_and_place_whatever_the_provider_calls_it(provider_ids: list[str]) -> None:
    calls = [made_call(provider_id=name) for name in provider_ids]
    state = a(Streaming, after(ASKED, *calls))
    assert [entry.call.id for entry in state.ledger.entries] == [call_id(n + 1) for n in range(len(calls))]
    assert [entry.call.provider_id for entry in state.ledger.entries] == provider_ids


@pytest.mark.rule("TOOL-18")
def test_a_complete_call_is_checked_at_once() -> None:
    following, effects = step(ASKED, UNCHECKED)
    assert effects == (
        CallAppeared(call_id(1), "p", "read"),
        CheckCall(operation=CheckOperation(1), call=call_id(1), tool="read", input=NOTHING),
    )
    assert a(Streaming, following).ledger.entries[0].check == 1


@pytest.mark.rule("TOOL-18")
@pytest.mark.parametrize("call", [made_call(), made_call(verdict=None, call_input=RawInput("{"))])
def test_a_verdict_may_come_along_and_what_does_not_parse_needs_none(call: ModelCall) -> None:
    assert effects_of(ASKED, call) == (CallAppeared(call_id(1), "p", "read"),)


@pytest.mark.rule("TOOL-18")
@pytest.mark.rule("TOOL-5")
@pytest.mark.parametrize("verdict", [FREE, UnknownTool(), InvalidCall("no path")])
def test_a_verdict_is_kept_until_the_reply_is_complete(verdict: Verdict) -> None:
    following, effects = step(after(ASKED, UNCHECKED), ToolChecked(CheckOperation(1), verdict))
    (entry,) = a(Streaming, following).ledger.entries
    assert (entry.status, entry.check, entry.verdict, effects) == (CallStatus.QUEUED, None, verdict, ())


@pytest.mark.rule("DELTA-2")
def test_a_second_verdict_is_a_duplicate() -> None:
    state = after(ASKED, UNCHECKED, ToolChecked(CheckOperation(1), FREE))
    assert grid(state, 1)["ToolChecked"] == "refused duplicate"


@pytest.mark.rule("CANCEL-5")
def test_one_call_can_be_cancelled_before_its_reply_is_complete() -> None:
    state = after(ASKED, UNCHECKED, UNCHECKED)
    following, effects = step(state, CancelCall(call_id(1)))
    (ended,) = of_kind(ToolEnded, effects)
    assert (len(effects), ended.result.status, ended.result.reason) == (
        1,
        CallStatus.CANCELLED,
        CancelReason.USER_CANCELLED,
    )
    assert isinstance(following, Streaming)
    assert grid(following, 1)["ToolChecked"] == "refused stale"
    assert effects_of(following, CancelCall(call_id(1))) == (Refused(UserAction.CANCEL, RefusalReason.STALE),)
    assert effects_of(following, CancelCall(call_id(3))) == (Refused(UserAction.CANCEL, RefusalReason.UNKNOWN),)
    finished = after(following, ToolChecked(CheckOperation(2), FREE), completed(StopReason.TOOL_USE))
    assert [entry.status for entry in a(Executing, finished).ledger.entries] == [
        CallStatus.CANCELLED,
        CallStatus.IN_PROGRESS,
    ]


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
@pytest.mark.parametrize("error", [error for error in ErrorClass if error is not ErrorClass.REFUSED])
def test_a_failed_reply_is_retracted_shown_and_ends_the_turn(error: ErrorClass) -> None:
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
# What becomes of them when the reply fails, tests/kernel/regions/test_early_runs.py says.

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

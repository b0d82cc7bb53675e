"""Reports on the calls of a reply take effect: verdicts, progress, ends, and time that has run out."""

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.blocks import MediaBlock, RawInput, TextBlock, text_of
from loopkernel.data.choices import ApprovalMode, OnToolFailure, Oversize
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import AbortTool, CancelTimer, StartTimer, StartTool
from loopkernel.data.events import Refused, ToolEnded, ToolProgressed
from loopkernel.data.held_runs import HeldRun
from loopkernel.data.ids import OperationKind
from loopkernel.data.json_text import Json
from loopkernel.data.ledgers import Ledger, LedgerEntry
from loopkernel.data.model_deltas import ModelCall
from loopkernel.data.policy import ResultLimit
from loopkernel.data.states import Confirming, Executing, State, Streaming
from loopkernel.data.tool_deltas import (
    ToolAsked,
    ToolChecked,
    ToolDelta,
    ToolFailed,
    ToolLost,
    ToolProgress,
    ToolStopped,
    ToolSucceeded,
)
from loopkernel.data.tools import EffectClass, InvalidCall, Tool, ToolOutput, ToolProfile, UnknownTool, Verdict
from loopkernel.data.user_deltas import CancelCall, ChangePolicy, Correct
from loopkernel.data.vector import GrowingSet, Vector
from loopkernel.data.words import CallStatus, CancelReason, RefusalReason, TimerPurpose
from loopkernel.loop.algorithms.wording import NO_RESULT, cancelled_text
from loopkernel.loop.calls.run_reports import timer_fired, tool_report
from loopkernel.testing.run import Run
from loopkernel.testing.strategies.conversation import contents

from tests.kernel.building import (
    ALL_TOOLS,
    ASKING_NOBODY,
    FREE,
    ONE,
    a,
    after,
    asked,
    asking,
    at_rest,
    broken,
    call_id,
    check,
    checked,
    completed,
    effects_of,
    ends,
    entries_of,
    fired,
    ledger_of,
    made_call,
    named,
    of_kind,
    reads,
    recorded_call,
    results_of,
    run,
    session_of,
    starts,
    statuses,
    step,
    stopped,
    succeeded,
    text,
    timer,
    working,
    writes,
)
from tests.kernel.drafts import drafted, fresh
from tests.kernel.gates import BEFORE_TOOL, gated, hooked
from tests.kernel.plays import plays

DONE, QUEUED, RUNNING, WAITING, ERROR, CANCELLED = (
    CallStatus.DONE,
    CallStatus.QUEUED,
    CallStatus.IN_PROGRESS,
    CallStatus.BLOCKED_ON_USER,
    CallStatus.ERROR,
    CallStatus.CANCELLED,
)
TWO = working(made_call(), made_call())
SIBLINGS = evolve(ASKING_NOBODY, on_tool_failure=OnToolFailure.CANCEL_SIBLINGS)


def on_run(number: int) -> tuple[ToolDelta, ...]:
    """One report of each class on the run of that number."""
    operation = run(number)
    return (
        ToolProgress(operation, "half"),
        ToolSucceeded(operation),
        ToolFailed(operation),
        ToolAsked(operation, "which?"),
        ToolStopped(operation),
        ToolLost(operation),
    )


# --- which report is about which call ---------------------------------------------------------------------


@pytest.mark.rule("DELTA-2")
@pytest.mark.rule("TOOL-14")
@given(plays())
def test_a_report_changes_the_call_of_its_operation_alone(play: Run) -> None:
    for record in play.steps:
        state = record.before
        if not isinstance(state, Executing | Confirming):
            continue
        for place, entry in enumerate(state.ledger.entries):
            if entry.operation is None:
                continue
            for report in on_run(entry.operation):
                taken = tool_report(fresh(state), report)
                assert (taken is None) is not entry.is_running
                if taken is not None and not isinstance(report, ToolFailed | ToolStopped):
                    others = [other for other in range(state.ledger.entries.size) if other != place]
                    dependents = [other for other in others if state.ledger.entries[other].links is not None]
                    for other in set(others) - set(dependents):
                        assert taken.ledger.entries[other] == state.ledger.entries[other]


@pytest.mark.rule("DELTA-2")
def test_a_report_on_nothing_that_is_open_here_is_not_taken() -> None:
    for number in (0, 3):
        for report in (*on_run(number), checked(number)):
            assert tool_report(fresh(TWO), report) is None
        assert timer_fired(fresh(TWO), timer(number)) is None
    ended = a(Executing, after(TWO, succeeded(1)))
    assert timer_fired(fresh(ended), timer(1)) is None


@pytest.mark.rule("TOOL-10")
@pytest.mark.rule("TOOL-19")
def test_a_timer_that_another_has_replaced_is_not_taken() -> None:
    state = after(working(made_call()), ToolAsked(run(1), "which?"))
    assert timer_fired(drafted(session_of(state), ledger=ledger_of(state)), timer(1)) is None


# --- verdicts ---------------------------------------------------------------------------------------------


@pytest.mark.rule("TOOL-18")
@pytest.mark.rule("CALL-2")
@pytest.mark.parametrize("verdict", [InvalidCall("no path"), UnknownTool()])
def test_a_call_that_may_not_run_is_answered_when_its_reply_is_complete_and_not_before(verdict: Verdict) -> None:
    streaming = asked(ASKING_NOBODY, made_call(verdict=None))
    report = ToolChecked(check(1), verdict)
    early = tool_report(fresh(streaming), report, streaming=True)
    assert early is not None
    assert (early.effects, early.ledger.entries[0].verdict) == ((), verdict)
    late = tool_report(fresh(streaming), report)
    assert late is not None
    assert ends(late.effects) == [(1, ERROR, None)]


@pytest.mark.rule("ASK-3")
def test_the_verdict_on_an_edit_is_the_edits() -> None:
    state = after(asking(made_call("asks")), Correct(call=call_id(1), input=Json.of({"path": "b"})))
    taken = tool_report(drafted(session_of(state), ledger=ledger_of(state)), checked(1, writes("b")))
    assert taken is not None
    entry = taken.ledger.entries[0]
    assert (entry.verdict, entry.given, entry.status) == (writes("b"), Json.of({"path": "b"}), QUEUED)


# --- ends -------------------------------------------------------------------------------------------------


@pytest.mark.rule("TOOL-4")
@pytest.mark.rule("TOOL-6")
@pytest.mark.rule("TOOL-13")
@given(contents, st.booleans(), st.booleans(), st.booleans())
def test_what_a_run_returns_is_the_answer_to_its_call(
    content: tuple[TextBlock | MediaBlock, ...], final: bool, stops_loop: bool, fails: bool
) -> None:
    output = ToolOutput(content=content, final=final, stops_loop=stops_loop)
    report = ToolFailed(run(1), output) if fails else ToolSucceeded(run(1), output)
    state = working(made_call(), made_call(), policy=evolve(ASKING_NOBODY, result_limit=None))
    following, effects = step(state, report)
    cancelled, ended = effects
    assert cancelled == CancelTimer(timer(1))
    result = a(ToolEnded, ended).result
    assert (result.call, result.provider_id, result.tool) == (call_id(1), "p", "read")
    assert (result.status, result.reason, result.ran, result.decided) == (ERROR if fails else DONE, None, True, False)
    assert (result.content, result.final, result.stops_loop) == (content, final, stops_loop)
    assert statuses(following)[1] is RUNNING
    assert entries_of(following)[0].output is None  # it is what the result says


@pytest.mark.rule("TOOL-16")
def test_a_run_that_ends_without_a_result_has_failed() -> None:
    (result,) = [ended.result for ended in of_kind(ToolEnded, effects_of(TWO, stopped(1)))]
    assert (result.status, result.content, result.ran) == (ERROR, text(NO_RESULT), True)


@pytest.mark.rule("CANCEL-3")
@pytest.mark.rule("TOOL-16")
def test_progress_is_shown_and_stays_when_the_call_is_cancelled() -> None:
    following, effects = step(TWO, ToolProgress(run(2), "half"))
    assert effects == (ToolProgressed(call_id(2), run(2), "half"),)
    cancelled = after(following, CancelCall(call_id(2)), ToolProgress(run(2), "more"))
    assert list(entries_of(cancelled)[1].progress) == ["half"]


@pytest.mark.rule("TOOL-11")
@pytest.mark.rule("CALL-1")
def test_a_large_result_is_cut_and_what_refers_to_it_gets_it_in_full() -> None:
    policy = evolve(ASKING_NOBODY, result_limit=ResultLimit(chars=40, head=5, tail=5))
    second = made_call(provider_id="q", call_input=Json.of({"path": {"$result": "p"}}))
    state = working(made_call(), second, policy=policy)
    long = "abcde" * 20
    following, effects = step(state, succeeded(1, long))
    (ended,) = of_kind(ToolEnded, effects)
    assert text_of(ended.result.content) == "abcde\n[90 characters left out]\nabcde"
    assert ended.result.status is DONE
    (start,) = of_kind(StartTool, effects_of(following, checked(1)))
    assert start.input == Json.of({"path": long})
    failed = effects_of(state, broken(1, long))
    assert text_of(of_kind(ToolEnded, failed)[0].result.content) == text_of(ended.result.content)


@pytest.mark.rule("TOOL-11")
@pytest.mark.parametrize("oversize", Oversize)
@pytest.mark.parametrize("commands", [(), ("command",)])
def test_a_shell_alone_is_told_to_keep_a_long_output_in_a_file_and_only_by_policy(
    oversize: Oversize, commands: tuple[str, ...]
) -> None:
    limit = ResultLimit(oversize=oversize)
    profile = ToolProfile(effect=EffectClass.READ_ONLY, commands=commands)
    permissive = evolve(ASKING_NOBODY, result_limit=limit, approval_mode=ApprovalMode.BYPASS)
    state = working(made_call("runs", verdict=None), policy=permissive, tools=(Tool(name="runs", profile=profile),))
    (start,) = of_kind(StartTool, effects_of(state, checked(1)))
    assert start.spill == (limit if oversize is Oversize.SPILL and commands else None)
    unlimited = after(state, ChangePolicy(evolve(permissive, result_limit=None)))
    assert [each.spill for each in of_kind(StartTool, effects_of(unlimited, checked(1)))] == [None]


@pytest.mark.rule("HOOK-4")
def test_a_hook_whose_time_is_over_lets_the_call_go_on_and_its_timer_is_not_cancelled_any_more() -> None:
    policy = evolve(hooked(gated(BEFORE_TOOL)), hook_timeout_ms=30)
    state = working(made_call(), policy=policy)
    effects = effects_of(state, fired(1))
    assert of_kind(CancelTimer, effects) == []
    assert starts(effects) == [call_id(1)]


@pytest.mark.rule("ASK-3")
@pytest.mark.rule("TOOL-12")
def test_a_note_on_an_edit_holds_no_secret() -> None:
    edit = Correct(call=call_id(1), input=Json.of({"path": "b", "password": "hunter2"}))
    state = after(asking(made_call("asks")), edit, checked(1))
    (result,) = results_of(after(state, succeeded(1)))
    note = getattr(result.content[0], "text", "")
    assert '"path":"b"' in note
    assert "hunter2" not in note


# --- failures and those beside them -----------------------------------------------------------------------

FAMILY = (
    made_call("write", writes("a")),
    made_call("read", reads("b")),
    made_call("read", reads("a")),
    made_call("asks", reads("c")),
    made_call("read", reads("d")),
)


@pytest.mark.rule("TOOL-6")
@pytest.mark.parametrize("failure", [broken(1), stopped(1), fired(1)], ids=["failed", "stopped", "timeout"])
def test_a_run_that_ends_in_an_error_cancels_its_siblings_by_policy(failure: Delta) -> None:
    state = after(working(*FAMILY, policy=SIBLINGS, tools=ALL_TOOLS), succeeded(3, "kept"))
    assert statuses(state) == [RUNNING, RUNNING, QUEUED, WAITING, DONE]
    following, effects = step(state, failure)
    assert [(place, how) for place, how, _ in ends(effects)] == [
        (1, ERROR),
        *[(place, CANCELLED) for place in (2, 3, 4)],
    ]
    assert [why for _, _, why in ends(effects)[1:]] == [CancelReason.SIBLING] * 3
    assert AbortTool(run(2), CancelReason.SIBLING) in effects
    assert text_of(results_of(following)[4].content) == "kept"
    assert isinstance(following, Streaming)  # the loop goes on


@pytest.mark.rule("TOOL-6")
def test_by_default_the_siblings_go_on() -> None:
    state = working(*FAMILY, tools=ALL_TOOLS)
    following, effects = step(state, broken(1))
    assert ends(effects) == [(1, ERROR, None)]
    assert statuses(following) == [ERROR, RUNNING, RUNNING, WAITING, RUNNING]


@pytest.mark.rule("TOOL-6")
@pytest.mark.parametrize(
    "call",
    [made_call("denied"), made_call(verdict=InvalidCall("no")), made_call(verdict=UnknownTool())],
    ids=["denied", "invalid", "unknown"],
)
def test_what_never_ran_cancels_nobody(call: ModelCall) -> None:
    effects = effects_of(asked(SIBLINGS, tools=ALL_TOOLS), call, made_call(), completed())
    assert [place for place, _, _ in ends(effects)] == [1]
    assert starts(effects) == [call_id(2)]


@pytest.mark.rule("TOOL-6")
@pytest.mark.rule("CALL-3")
def test_what_depends_on_the_run_that_failed_is_unreachable_and_not_cancelled() -> None:
    calls = (made_call(), made_call(provider_id="q", needs=("p",)), made_call(provider_id="r"))
    effects = effects_of(working(*calls, policy=SIBLINGS), broken(1))
    assert ends(effects) == [(1, ERROR, None), (2, ERROR, None), (3, CANCELLED, CancelReason.SIBLING)]


# --- time that has run out --------------------------------------------------------------------------------


@pytest.mark.rule("TOOL-10")
@pytest.mark.rule("TOOL-17")
def test_a_run_that_takes_too_long_is_aborted_and_its_call_answered() -> None:
    state = working(made_call("write", writes("a")), made_call("write", writes("a")))
    following, effects = step(state, fired(1), now_ms=500)
    assert effects[:2] == (
        AbortTool(run(1), CancelReason.TIMEOUT),
        StartTimer(operation=timer(2), purpose=TimerPurpose.GRACE, deadline_ms=5_500),
    )
    (ended,) = of_kind(ToolEnded, effects)
    assert (ended.result.status, ended.result.reason, ended.result.ran) == (ERROR, CancelReason.TIMEOUT, True)
    assert text_of(ended.result.content) == cancelled_text(CancelReason.TIMEOUT)
    assert len(effects) == 3  # the timer has fired: it is not cancelled
    assert statuses(following) == [ERROR, QUEUED]
    late, told = step(following, succeeded(1))
    assert a(Refused, told[0]).reason is RefusalReason.STALE
    assert statuses(late) == [ERROR, RUNNING]


@pytest.mark.rule("TOOL-10")
@pytest.mark.rule("DELTA-2")
def test_the_time_of_a_run_that_has_ended_is_stale() -> None:
    (found,) = of_kind(Refused, effects_of(TWO, succeeded(1), fired(1)))
    assert found.reason is RefusalReason.STALE


# --- runs in the background -------------------------------------------------------------------------------


@pytest.mark.rule("TOOL-20")
@pytest.mark.rule("TOOL-17")
def test_a_run_that_goes_on_in_the_background_is_answered_at_once_and_holds_what_it_uses() -> None:
    calls = [made_call("write", writes("a"), call_input=Json.of({"path": "a"}))] * 2
    state: State = working(*calls, made_call(), made_call(), policy=evolve(ASKING_NOBODY, max_parallel=2))
    assert statuses(state) == [RUNNING, QUEUED, RUNNING, QUEUED]
    following, effects = step(state, succeeded(1, "number 7", background=True))
    assert named(effects) == ["CancelTimer", "ToolEnded", "StartTool", "StartTimer"]
    assert starts(effects) == [call_id(4)]  # its slot is free, its file is not
    (ended,) = of_kind(ToolEnded, effects)
    assert (ended.result.status, text_of(ended.result.content)) == (DONE, "number 7")
    assert session_of(following).held == (
        HeldRun(
            operation=run(1),
            call=call_id(1),
            tool="write",
            input=Json.of({"path": "a"}),
            runs=1,
            effect=EffectClass.IDEMPOTENT,
            claims=writes("a").claims,
        ),
    )
    assert session_of(following).operations.abandoned[OperationKind.RUN] == GrowingSet()


@pytest.mark.rule("TOOL-20")
def test_a_background_run_without_a_handle_of_its_own_gets_one() -> None:
    (ended,) = of_kind(ToolEnded, effects_of(TWO, ToolSucceeded(run(1), ToolOutput(background=True))))
    assert '"read"' in text_of(ended.result.content)
    assert "background" in text_of(ended.result.content)


@pytest.mark.rule("TOOL-20")
def test_arguments_that_do_not_parse_run_nowhere_and_hold_nothing() -> None:
    """No run reaches such an entry; what reports for it is answered all the same."""
    entry = LedgerEntry(
        call=recorded_call(call_input=RawInput("{")), verdict=FREE, status=RUNNING, operation=run(1), runs=1
    )
    ledger = Ledger(reply=ONE, entries=Vector.of([entry]), unanswered=1, running=1, first_run=1, started=Vector.of([0]))
    taken = tool_report(drafted(at_rest().session, ledger=ledger), succeeded(1, background=True))
    assert taken is not None
    assert (ends(taken.effects), taken.session.held) == ([(1, DONE, None)], ())

"""Hooks around calls: before one runs, and about its end before it is answered."""

import pytest
from attrs import evolve
from loopkernel.data.blocks import text_of
from loopkernel.data.choices import HookFailure, OnToolFailure
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import AskHook, StartTool
from loopkernel.data.events import ApprovalAsked, ToolEnded
from loopkernel.data.json_text import Json
from loopkernel.data.outside_deltas import HookModify, HookRetry
from loopkernel.data.policy import Policy
from loopkernel.data.states import Cancelled, Confirming, Executing, Idle, State
from loopkernel.data.thread_deltas import Disposed, Forked, Resumed
from loopkernel.data.tools import InvalidCall
from loopkernel.data.user_deltas import Approve, CancelAll, CancelCall, Correct
from loopkernel.data.waits import ForHook
from loopkernel.data.words import CallStatus, CancelReason
from loopkernel.views.waits import waits_of

from tests.kernel.building import (
    ALL_TOOLS,
    FREE,
    a,
    after,
    asked,
    broken,
    call_id,
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
    results_of,
    session_of,
    starts,
    statuses,
    step,
    succeeded,
    writes,
)
from tests.kernel.gates import (
    AFTER_TOOL,
    BEFORE_TOOL,
    asked_of,
    blocks,
    gated,
    hooked,
    observed,
    says,
    told_of,
)

BEFORE = hooked(gated(BEFORE_TOOL))
AFTER = hooked(gated(AFTER_TOOL))
OTHER_INPUT = Json.of({"path": "b"})


def calling(*tools: str, policy: Policy = BEFORE) -> State:
    """The model has called these tools; a hook is asked, or they run."""
    calls = [made_call(tool, writes("a") if tool == "write" else FREE) for tool in tools or ("write",)]
    return after(asked(policy, tools=ALL_TOOLS), *calls, completed())


# --- before -----------------------------------------------------------------------------------------------


@pytest.mark.rule("HOOK-1")
@pytest.mark.rule("TOOL-5")
def test_a_call_runs_once_its_hooks_have_let_it() -> None:
    policy = hooked(observed(BEFORE_TOOL, "a"), gated(BEFORE_TOOL, "b"), gated(BEFORE_TOOL, "c"))
    effects = effects_of(asked(policy), made_call("write"), completed())
    assert (told_of(effects), asked_of(effects)) == ([(BEFORE_TOOL, "a")], [(BEFORE_TOOL, "b")])
    (told,) = of_kind(AskHook, effects)
    assert (told.context.call, told.context.tool) == (call_id(1), "write")
    state = calling(policy=policy)
    assert asked_of(effects_of(state, says(1))) == [(BEFORE_TOOL, "c")]
    assert starts(effects_of(state, says(1), says(2))) == [call_id(1)]
    assert [wait.reasons for wait in waits_of(state)] == [(ForHook("b"),)]
    assert ledger_of(state).hooked == 1
    assert ledger_of(after(state, says(1), says(2))).hooked == 0
    told_only = hooked(observed(BEFORE_TOOL))
    assert named(effects_of(asked(told_only), made_call(), completed()))[2:4] == ["TellHook", "StartTool"]


@pytest.mark.rule("HOOK-2")
def test_a_block_is_an_error_that_says_why_and_the_call_does_not_run() -> None:
    effects = effects_of(calling(), blocks(1, "not there"))
    (ended,) = of_kind(ToolEnded, effects)
    assert (ended.result.status, ended.result.ran) == (CallStatus.ERROR, False)
    assert "not there" in text_of(ended.result.content)


@pytest.mark.rule("HOOK-2")
def test_a_changed_input_is_checked_and_the_call_runs_with_it() -> None:
    changed, effects = step(calling(), says(1, HookModify(input=OTHER_INPUT)))
    assert named(effects) == ["CheckCall"]
    (start,) = of_kind(StartTool, effects_of(changed, checked(1)))
    assert start.input == OTHER_INPUT
    (ended,) = of_kind(ToolEnded, effects_of(changed, checked(1, InvalidCall("no path"))))
    assert (ended.result.status, ended.result.ran) == (CallStatus.ERROR, False)
    assert starts(effects_of(calling(), says(1, HookModify()))) == [call_id(1)]
    assert starts(effects_of(calling(), says(1, HookRetry()))) == [call_id(1)]


@pytest.mark.rule("HOOK-2")
@pytest.mark.rule("ASK-1")
def test_the_hooks_come_before_the_person_and_an_edit_is_not_looked_at_again() -> None:
    state = calling("asks")
    assert of_kind(ApprovalAsked, effects_of(state, says(1))) == [ApprovalAsked(call_id(1))]
    waiting = a(Confirming, after(state, says(1)))
    assert starts(effects_of(waiting, Approve(call=call_id(1)))) == [call_id(1)]
    corrected = after(waiting, Correct(call=call_id(1), input=OTHER_INPUT))
    assert starts(effects_of(corrected, checked(1))) == [call_id(1)]
    denied = effects_of(calling("denied"), says(1))
    assert [status for _, status, _ in ends(denied)] == [CallStatus.ERROR]


@pytest.mark.rule("HOOK-1")
@pytest.mark.rule("TOOL-3")
def test_a_call_that_is_looked_at_holds_back_those_behind_it() -> None:
    state = calling("write", "write")
    assert ledger_of(state).hooked == 1
    blocked, effects = step(state, blocks(1))
    assert asked_of(effects) == [(BEFORE_TOOL, "gate")]
    assert statuses(blocked) == [CallStatus.ERROR, CallStatus.QUEUED]


@pytest.mark.rule("HOOK-1")
@pytest.mark.rule("TOOL-9")
def test_a_call_that_may_start_early_is_looked_at_while_the_reply_streams() -> None:
    streaming = asked(BEFORE, tools=ALL_TOOLS)
    effects = effects_of(streaming, made_call("early_write"))
    assert asked_of(effects) == [(BEFORE_TOOL, "gate")]
    assert asked_of(effects_of(streaming, made_call("write"))) == []
    waiting = after(streaming, made_call("early_write"))
    assert starts(effects_of(waiting, says(1))) == [call_id(1)]
    assert ends(effects_of(waiting, blocks(1), completed())) == [(1, CallStatus.ERROR, None)]
    assert ends(effects_of(waiting, blocks(1))) == []  # it is answered when the reply is complete
    timed = asked(evolve(BEFORE, hook_timeout_ms=9), made_call("early_write"), tools=ALL_TOOLS)
    assert starts(effects_of(timed, fired(1))) == [call_id(1)]


@pytest.mark.rule("HOOK-4")
@pytest.mark.parametrize(("failure", "starts_it"), [(HookFailure.OPEN, True), (HookFailure.CLOSED, False)])
def test_a_hook_before_a_call_that_is_too_slow_counts_as_policy_says(failure: HookFailure, starts_it: bool) -> None:
    state = calling(policy=evolve(BEFORE, hook_timeout_ms=30, hook_failure=failure))
    effects = effects_of(state, fired(1))
    assert named(effects)[0] == "AbortOther"
    assert (starts(effects) == [call_id(1)]) is starts_it
    assert named(effects_of(state, fired(7))) == ["Refused"]
    assert named(effects_of(after(state, says(1)), says(1))) == ["Refused"]
    assert named(effects_of(state, says(2))) == ["Refused"]


# --- after ------------------------------------------------------------------------------------------------


@pytest.mark.rule("HOOK-1")
def test_the_end_of_a_run_is_the_answer_once_hooks_have_looked_at_it() -> None:
    policy = hooked(gated(AFTER_TOOL, "a"), observed(AFTER_TOOL, "b"), gated(AFTER_TOOL, "c"))
    state = calling(policy=policy)
    looked_at, effects = step(state, succeeded(1, "made"))
    assert (asked_of(effects), ends(effects)) == ([(AFTER_TOOL, "c")], [])
    (told,) = of_kind(AskHook, effects)
    assert told.context.end is not None
    assert text_of(told.context.end.output.content) == "made"
    (entry,) = entries_of(a(Executing, looked_at))
    assert (entry.is_running, entry.has_run, entry.timer) == (True, False, None)
    assert named(effects_of(looked_at, succeeded(1))) == ["Refused"]
    effects = effects_of(looked_at, says(1))
    assert (told_of(effects), asked_of(effects)) == ([(AFTER_TOOL, "b")], [(AFTER_TOOL, "a")])
    assert ends(effects_of(looked_at, says(1), says(2))) == [(1, CallStatus.DONE, None)]
    only_told = effects_of(calling(policy=hooked(observed(AFTER_TOOL))), succeeded(1))
    assert (told_of(only_told), ends(only_told)) == ([(AFTER_TOOL, "watch")], [(1, CallStatus.DONE, None)])


@pytest.mark.rule("HOOK-2")
@pytest.mark.parametrize("report", [succeeded(1, "made"), broken(1, "made")], ids=["done", "error"])
def test_a_hook_may_put_another_text_in_the_place_of_a_result(report: Delta) -> None:
    state = after(calling(policy=AFTER), report)
    status = CallStatus.DONE if report == succeeded(1, "made") else CallStatus.ERROR
    for answer, words in ((HookModify(result="hidden"), "hidden"), (HookModify(), "made")):
        (ended,) = of_kind(ToolEnded, effects_of(state, says(1, answer)))
        assert (ended.result.status, text_of(ended.result.content)) == (status, words)


@pytest.mark.rule("HOOK-2")
@pytest.mark.rule("TOOL-6")
def test_a_block_voids_the_result_and_its_siblings_may_be_cancelled() -> None:
    (ended,) = of_kind(ToolEnded, effects_of(calling(policy=AFTER), succeeded(1, "made"), blocks(1, "no")))
    assert (ended.result.status, "no" in text_of(ended.result.content)) == (CallStatus.ERROR, True)
    policy = evolve(AFTER, on_tool_failure=OnToolFailure.CANCEL_SIBLINGS)
    effects = effects_of(calling("read", "read", policy=policy), succeeded(1), blocks(1))
    assert [reason for _, _, reason in ends(effects)] == [None, CancelReason.SIBLING]


@pytest.mark.rule("HOOK-2")
@pytest.mark.rule("RESUME-4")
def test_a_run_is_repeated_three_times_in_a_row_and_a_dangerous_one_never() -> None:
    state = calling(policy=AFTER)
    for number in (1, 2, 3):
        state, effects = step(after(state, succeeded(number)), says(number, HookRetry()))
        assert starts(effects) == [call_id(1)]
    assert ends(effects_of(state, succeeded(4), says(4, HookRetry()))) == [(1, CallStatus.DONE, None)]
    assert session_of(state).started == 1
    dangerous = calling("danger", policy=AFTER)
    assert ends(effects_of(dangerous, succeeded(1), says(1, HookRetry()))) == [(1, CallStatus.DONE, None)]
    spent = calling(policy=evolve(AFTER, max_wall_ms=1))
    assert starts(effects_of(spent, succeeded(1), says(1, HookRetry()))) == []


@pytest.mark.rule("HOOK-4")
def test_a_hook_after_a_call_is_timed_too_and_a_run_that_is_over_has_no_time_left() -> None:
    policy = evolve(AFTER, hook_timeout_ms=30, tool_timeout_ms=50)
    looked_at, effects = step(calling(policy=policy), succeeded(1))
    assert named(effects) == ["CancelTimer", "AskHook", "StartTimer"]
    assert ends(effects_of(looked_at, fired(2))) == [(1, CallStatus.DONE, None)]
    assert named(effects_of(looked_at, fired(1))) == ["Refused"]


@pytest.mark.rule("HOOK-1")
@pytest.mark.parametrize("delta", [fired(1), CancelCall(call_id(1))], ids=["time out", "cancel"])
def test_neither_a_timeout_nor_a_cancel_is_looked_at(delta: Delta) -> None:
    state = calling(policy=evolve(AFTER, tool_timeout_ms=50))
    assert asked_of(effects_of(state, delta)) == []
    background = effects_of(state, succeeded(1, background=True))
    assert asked_of(background) == []


# --- cut short, restarted, forked -------------------------------------------------------------------------

CASES = {"before": calling(), "after": after(calling(policy=AFTER), succeeded(1))}
cases = pytest.mark.parametrize("state", CASES.values(), ids=CASES)


@cases
@pytest.mark.rule("CANCEL-2")
@pytest.mark.rule("CANCEL-5")
def test_a_cancel_aborts_the_hook_and_answers_the_call(state: State) -> None:
    following, effects = step(state, CancelAll())
    assert isinstance(following, Cancelled)
    assert named(effects)[0] == "AbortOther"
    assert [reason for _, _, reason in ends(effects)] == [CancelReason.USER_CANCELLED]
    assert session_of(following).held == ()
    rest, effects = step(state, CancelCall(call_id(1)))
    assert isinstance(rest, Idle)
    assert named(effects)[:2] == ["AbortOther", "ToolEnded"]
    assert named(effects_of(state, Disposed()))[0] == "AbortOther"


@cases
@pytest.mark.rule("RESUME-6")
def test_a_fork_answers_the_call_and_aborts_nothing(state: State) -> None:
    following, effects = step(state, Forked(session_id="t"))
    assert isinstance(following, Idle)
    assert [result.status for result in results_of(following)] == [CallStatus.CANCELLED]
    assert "AbortOther" not in named(effects)


@cases
@pytest.mark.rule("RESUME-3")
def test_after_a_restart_the_hook_of_a_call_is_asked_again_and_no_run_is_made_again(state: State) -> None:
    again, effects = step(state, Resumed())
    assert named(effects) == ["SessionResumed", "AskHook"]
    assert named(effects_of(again, says(1))) == ["Refused"]
    assert len(starts(effects_of(again, says(2)))) + len(ends(effects_of(again, says(2)))) == 1


@pytest.mark.rule("TOOL-9")
@pytest.mark.rule("RESUME-3")
def test_the_hook_of_a_call_in_a_reply_that_is_dropped_is_forgotten() -> None:
    streaming = asked(BEFORE, made_call("early_write"), tools=ALL_TOOLS)
    again, effects = step(streaming, Resumed())
    assert "AbortOther" not in named(effects)
    assert named(effects_of(again, says(1))) == ["Refused"]
    cut = effects_of(streaming, CancelAll())
    assert named(cut)[:2] == ["AbortModel", "ReplyAborted"]
    assert "AbortOther" in named(cut)

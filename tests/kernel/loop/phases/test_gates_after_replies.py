"""Hooks after a model call: before anything of the reply is acted on, and again where they want it."""

import pytest
from attrs import evolve
from loopkernel.data.choices import HookFailure
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import AskHook, CallModel, CheckCall, StartTool
from loopkernel.data.events import MessageAdded, ToolEnded
from loopkernel.data.ids import ModelOperation
from loopkernel.data.messages import AssistantMessage, ReplyState
from loopkernel.data.model_deltas import ModelText
from loopkernel.data.outside_deltas import HookFault, HookRetry, TimerFired
from loopkernel.data.policy import Policy
from loopkernel.data.states import Backoff, Cancelled, Executing, Finishing, Idle, Initial, Streaming
from loopkernel.data.thread_deltas import Disposed, Forked, Resumed
from loopkernel.data.tools import InvalidCall, UnknownTool, Verdict
from loopkernel.data.usage import Usage
from loopkernel.data.user_deltas import CancelAll, CancelCall, ChangePolicy
from loopkernel.data.words import CallStatus, CancelReason, ErrorClass, RequestReason, StopReason, TurnEndReason
from loopkernel.views.waits import waits_of

from tests.kernel.building import (
    ALL_TOOLS,
    FREE,
    ONE,
    a,
    after,
    asked,
    call_id,
    completed,
    effects_of,
    ends,
    entries_of,
    failed,
    fired,
    made_call,
    named,
    of_kind,
    results_of,
    session_of,
    starts,
    step,
    stopped,
    succeeded,
)
from tests.kernel.gates import AFTER_MODEL, asked_of, blocks, gate_of, gated, hooked, observed, says, told_of

GATED = hooked(gated(AFTER_MODEL))
TALK = ModelText(ONE, "done")
BILL = Usage(input=3)
EARLY = made_call("early_write")
AGAIN = HookRetry()


def looked_at(*deltas: Delta, policy: Policy = GATED) -> Streaming:
    """The reply has ended so, and a hook looks at it."""
    state = a(Streaming, after(asked(policy, tools=ALL_TOOLS), *deltas))
    assert state.after is not None
    return state


DONE = looked_at(TALK, completed(usage=BILL))
CALLING = looked_at(made_call(), completed(StopReason.TOOL_USE, usage=BILL))
FAILED = looked_at(TALK, failed(usage=BILL))
WITH_EFFECT = looked_at(EARLY, completed(StopReason.TOOL_USE, usage=BILL))
FAILED_WITH_EFFECT = looked_at(EARLY, failed(usage=BILL))


@pytest.mark.rule("HOOK-1")
@pytest.mark.rule("INFER-4")
def test_nothing_of_a_reply_is_acted_on_before_the_hooks_have_answered() -> None:
    effects = effects_of(asked(GATED), made_call(), completed(StopReason.TOOL_USE))
    assert named(effects) == ["ReplyEnded", "AskHook"]
    assert starts(effects_of(CALLING, says(1))) == [call_id(1)]
    (told,) = of_kind(AskHook, effects)
    assert (told.context.stop, told.context.error) == (StopReason.TOOL_USE, None)
    (told,) = of_kind(AskHook, effects_of(asked(GATED), TALK, failed()))
    assert (told.context.stop, told.context.error) == (None, ErrorClass.SERVER)
    assert isinstance(after(DONE, says(1)), Idle)
    assert isinstance(after(FAILED, says(1)), Backoff)


@pytest.mark.rule("HOOK-1")
def test_they_are_asked_in_reverse_and_those_that_observe_are_told() -> None:
    policy = hooked(gated(AFTER_MODEL, "a"), observed(AFTER_MODEL, "b"), gated(AFTER_MODEL, "c"))
    state = looked_at(TALK, completed(), policy=policy)
    assert gate_of(state).hook.name == "c"
    effects = effects_of(state, says(1))
    assert (told_of(effects), asked_of(effects)) == ([(AFTER_MODEL, "b")], [(AFTER_MODEL, "a")])
    told = effects_of(asked(hooked(observed(AFTER_MODEL))), TALK, completed())
    assert named(told) == ["ReplyEnded", "TellHook", "MessageAdded", "TurnEnded"]


@pytest.mark.rule("HOOK-2")
@pytest.mark.parametrize("state", [DONE, FAILED], ids=["reply", "failure"])
def test_a_retry_takes_the_reply_back_and_asks_the_model_again(state: Streaming) -> None:
    following, effects = step(state, says(1, AGAIN))
    assert named(effects) == ["ReplyRetracted", "CallModel"]
    assert of_kind(CallModel, effects)[0].request.reason is RequestReason.HOOK_RETRY
    turn = a(Streaming, following).turn
    assert (turn.hook_retries, turn.replies, session_of(following).usage) == (1, 0, BILL)
    assert named(effects_of(looked_at(completed()), says(1, AGAIN))) == ["CallModel"]  # nothing has streamed


@pytest.mark.rule("RESUME-8")
@pytest.mark.parametrize(
    ("verdict", "asked_anew"), [(FREE, ["read"]), (UnknownTool(), []), (InvalidCall("no such path"), [])]
)
def test_only_what_a_check_has_allowed_is_checked_anew_where_nobody_vouches_for_the_log(
    verdict: Verdict, asked_anew: list[str]
) -> None:
    state = looked_at(made_call("read", verdict), completed(StopReason.TOOL_USE))
    effects = effects_of(state, Resumed(doubted=True))
    assert [check.tool for check in of_kind(CheckCall, effects)] == asked_anew


@pytest.mark.rule("HOOK-2")
@pytest.mark.rule("RETRY-4")
def test_a_complete_reply_that_is_taken_back_ends_a_row_of_failures_all_the_same() -> None:
    failed_once = a(Backoff, after(FAILED, says(1)))
    again = after(failed_once, TimerFired(failed_once.timer.operation))
    assert a(Streaming, again).turn.recovery.retries == 1
    complete = a(Streaming, after(again, completed(reply=2), says(2, AGAIN)))
    assert complete.turn.recovery.retries == 0
    incomplete = a(Streaming, after(again, failed(reply=2), says(2, AGAIN)))
    assert incomplete.turn.recovery.retries == 1


@pytest.mark.rule("HOOK-2")
def test_three_times_in_a_row_and_a_reply_that_is_kept_breaks_the_row() -> None:
    state = DONE
    for reply in (2, 3, 4):
        state = a(Streaming, after(state, says(reply - 1, AGAIN), completed(reply=reply)))
    assert state.turn.hook_retries == 3
    kept = a(Streaming, after(state, says(4, AGAIN)))  # an empty reply, which is nudged
    assert (kept.turn.reason, kept.turn.hook_retries) == (RequestReason.NUDGE, 0)


@pytest.mark.rule("HOOK-2")
@pytest.mark.rule("TOOL-9")
@pytest.mark.parametrize("state", [WITH_EFFECT, FAILED_WITH_EFFECT], ids=["reply", "failure"])
def test_a_reply_with_an_effect_is_not_taken_back(state: Streaming) -> None:
    following = after(state, says(1, AGAIN))
    assert [entry.runs for entry in entries_of(a(Executing, following))] == [1]


@pytest.mark.rule("HOOK-2")
def test_a_block_ends_the_turn_and_the_reply_stays_with_its_calls_answered() -> None:
    following, effects = step(CALLING, blocks(1))
    assert session_of(a(Idle, following)).last_end is TurnEndReason.GUARDRAIL
    assert [found.result.reason for found in of_kind(ToolEnded, effects)] == [CancelReason.SUPERSEDED]
    assert isinstance(of_kind(MessageAdded, effects)[0].message, AssistantMessage)
    failure, effects = step(FAILED, blocks(1))
    assert session_of(a(Idle, failure)).last_end is TurnEndReason.GUARDRAIL
    assert named(effects) == ["ReplyRetracted", "TurnEnded"]
    committed = after(FAILED_WITH_EFFECT, blocks(1), succeeded(1))
    assert session_of(a(Idle, committed)).last_end is TurnEndReason.GUARDRAIL


@pytest.mark.rule("HOOK-4")
@pytest.mark.parametrize(("failure", "reason"), [(HookFailure.OPEN, "model_stop"), (HookFailure.CLOSED, "guardrail")])
def test_a_hook_that_is_too_slow_counts_as_policy_says(failure: HookFailure, reason: str) -> None:
    policy = evolve(GATED, hook_timeout_ms=30, hook_failure=failure)
    state = looked_at(TALK, completed(), policy=policy)
    late, effects = step(state, fired(1))
    assert named(effects)[0] == "AbortOther"
    assert "CancelTimer" not in named(effects)  # it has fired
    assert a(Idle, late).session.last_end is TurnEndReason(reason)
    assert isinstance(after(state, says(1, HookFault("gone"))), Idle)
    assert named(effects_of(state, fired(9))) == ["Refused"]


@pytest.mark.rule("HOOK-1")
@pytest.mark.rule("DELTA-2")
def test_while_it_is_asked_the_stream_is_over_and_early_runs_go_on() -> None:
    assert named(effects_of(CALLING, TALK)) == ["Refused"]
    assert named(effects_of(CALLING, says(2))) == ["Refused"]
    assert ends(effects_of(WITH_EFFECT, succeeded(1))) == [(1, CallStatus.DONE, None)]
    unchecked = looked_at(made_call("early_read", None), completed(StopReason.TOOL_USE))
    assert starts(effects_of(unchecked, CancelCall(call_id(1)))) == []
    policy = ChangePolicy(evolve(GATED, silence_ms=50))
    assert a(Streaming, after(CALLING, policy)).silence is None  # no stream is listened to any more
    (wait,) = waits_of(CALLING)
    assert wait.call == call_id(1)


@pytest.mark.rule("CANCEL-2")
@pytest.mark.rule("CANCEL-4")
@pytest.mark.parametrize(("cause", "rest"), [(CancelAll(), Cancelled), (Disposed(), Initial)])
def test_a_cancel_keeps_a_whole_reply_and_answers_its_calls(cause: Delta, rest: type) -> None:
    following, effects = step(CALLING, cause)
    assert type(following) is rest
    assert [reason for _, _, reason in ends(effects)] == [of_kind(ToolEnded, effects)[0].result.reason]
    replies = [found for found in session_of(following).thread if isinstance(found, AssistantMessage)]
    assert [found.state for found in replies] == [ReplyState.COMPLETE]
    assert session_of(following).usage == BILL
    words, effects = step(DONE, cause)
    assert type(words) is rest
    assert sorted(named(effects)) == ["AbortOther", "MessageAdded", "TurnEnded", "WorkCancelled"]


@pytest.mark.rule("CANCEL-2")
@pytest.mark.rule("TOOL-9")
def test_a_cancel_drops_a_failed_reply_unless_it_has_had_an_effect() -> None:
    following, effects = step(FAILED, CancelAll())
    assert sorted(named(effects)) == ["AbortOther", "ReplyRetracted", "TurnEnded", "WorkCancelled"]
    assert len(session_of(following).thread) == 1
    kept, effects = step(FAILED_WITH_EFFECT, CancelAll())
    assert isinstance(kept, Cancelled)
    assert [result.reason for result in results_of(kept)] == [CancelReason.USER_CANCELLED]
    assert len(session_of(after(kept, stopped(1))).held) == 0


@pytest.mark.rule("RESUME-6")
@pytest.mark.parametrize(
    ("state", "messages"), [(DONE, 2), (CALLING, 3), (FAILED, 1), (FAILED_WITH_EFFECT, 3), (WITH_EFFECT, 3)]
)
def test_a_fork_keeps_what_a_cancel_would_and_aborts_nothing(state: Streaming, messages: int) -> None:
    following, effects = step(state, Forked(session_id="t"))
    assert session_of(a(Idle, following)).last_end is TurnEndReason.INTERRUPTED
    assert len(session_of(following).thread) == messages
    assert "AbortOther" not in named(effects)
    assert session_of(following).usage == BILL


@pytest.mark.rule("RESUME-3")
def test_after_a_restart_the_hook_is_asked_again_and_early_runs_are_made_again() -> None:
    again, effects = step(WITH_EFFECT, Resumed())
    assert [type(effect) for effect in effects if isinstance(effect, StartTool | AskHook)] == [AskHook] or starts(
        effects
    )
    assert gate_of(again).operation == 2
    assert isinstance(after(again, says(2)), Executing)
    assert named(effects_of(again, says(1))) == ["Refused"]
    assert gate_of(after(DONE, Resumed())).operation == 2


@pytest.mark.rule("HOOK-1")
def test_an_aborted_reply_is_not_looked_at() -> None:
    assert asked_of(effects_of(asked(GATED), TALK, CancelAll())) == []
    stalled = evolve(GATED, silence_ms=10)
    state = asked(stalled, TALK)
    effects = step(state, fired(1), now_ms=1_000).effects
    assert asked_of(effects) == [(AFTER_MODEL, "gate")]  # one that was silent has failed
    assert isinstance(step(DONE, says(1)).next, Idle | Finishing)
    assert ModelOperation(1) == DONE.reply.operation

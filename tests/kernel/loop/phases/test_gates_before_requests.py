"""Hooks before a turn and before a request: told and asked in order; an answer opens the gate or ends the turn."""

import pytest
from attrs import evolve
from loopkernel.data.blocks import MediaBlock, UserBlock
from loopkernel.data.choices import HookFailure, OnBusy
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import AskHook, CallModel, CancelTimer
from loopkernel.data.events import MessageAdded, MessageReplaced, Refused, TurnEnded
from loopkernel.data.ids import OperationKind
from loopkernel.data.messages import UserMessage, UserOrigin
from loopkernel.data.outside_deltas import HookFault, HookModify, HookRetry
from loopkernel.data.policy import Policy
from loopkernel.data.states import BeforeRequest, Cancelled, Idle, Initial, Streaming, Thinking
from loopkernel.data.thread_deltas import Disposed, Forked, Resumed
from loopkernel.data.timers import Timer
from loopkernel.data.user_deltas import CancelAll, Say
from loopkernel.data.words import RefusalReason, TimerPurpose, TurnEndReason, UserAction
from loopkernel.loop.algorithms.compaction import characters_of
from loopkernel.loop.gates.hooks import hooks_at

from tests.kernel.building import (
    ASKING_NOBODY,
    a,
    after,
    at_rest,
    completed,
    effects_of,
    failed,
    fired,
    named,
    of_kind,
    pending_timers,
    say,
    session_of,
    steer,
    step,
    text,
    timer,
)
from tests.kernel.gates import (
    ADDED,
    AFTER_MODEL,
    AFTER_TURN,
    BEFORE_MODEL,
    BEFORE_TURN,
    GO_ON,
    asked_of,
    blocks,
    gate_of,
    gated,
    hooked,
    observed,
    says,
    told_of,
)

BOTH = hooked(gated(BEFORE_TURN, "turn"), gated(BEFORE_MODEL, "model"))
TIMED = evolve(hooked(gated(BEFORE_MODEL)), hook_timeout_ms=30)
END = HookModify(message="mind the gap")
END_TEXT = text("mind the gap")


def waiting(policy: Policy = BOTH) -> Thinking:
    """The user has spoken, and a hook is asked."""
    return a(Thinking, after(at_rest(policy), say()))


@pytest.mark.rule("HOOK-1")
def test_hooks_are_looked_at_in_order_and_those_after_something_in_reverse() -> None:
    hooks = tuple(gated(point, name) for name in "abc" for point in (BEFORE_TURN, AFTER_TURN))
    policy = hooked(*hooks)
    assert [hook.name for hook in hooks_at(policy, BEFORE_TURN)] == ["a", "b", "c"]
    assert [hook.name for hook in hooks_at(policy, AFTER_TURN)] == ["c", "b", "a"]
    assert hooks_at(policy, AFTER_MODEL) == ()
    assert hooks_at(ASKING_NOBODY, BEFORE_TURN) == ()


@pytest.mark.rule("HOOK-1")
@pytest.mark.rule("INFER-1")
def test_observed_hooks_are_told_when_their_place_is_reached_and_gated_ones_are_asked_one_after_the_other() -> None:
    hooks = (observed(BEFORE_TURN, "a"), gated(BEFORE_TURN, "b"), observed(BEFORE_TURN, "c"), gated(BEFORE_TURN, "d"))
    first, effects = step(at_rest(hooked(*hooks, observed(BEFORE_MODEL, "e"))), say())
    assert (told_of(effects), asked_of(effects)) == ([(BEFORE_TURN, "a")], [(BEFORE_TURN, "b")])
    second, effects = step(first, says(1))
    assert (told_of(effects), asked_of(effects)) == ([(BEFORE_TURN, "c")], [(BEFORE_TURN, "d")])
    assert gate_of(second).left == ()
    last, effects = step(second, says(2))
    assert told_of(effects) == [(BEFORE_MODEL, "e")]
    assert named(effects)[-1] == "CallModel"
    assert isinstance(last, Streaming)


@pytest.mark.rule("HOOK-1")
def test_before_a_turn_once_and_before_every_request_again() -> None:
    state = after(waiting(), says(1), says(2), completed())  # an empty reply is nudged
    assert asked_of(effects_of(waiting(), says(1))) == [(BEFORE_MODEL, "model")]
    assert (gate_of(state).hook.name, a(Thinking, state).turn.begun) == ("model", True)
    only_told = hooked(observed(BEFORE_TURN), observed(BEFORE_MODEL))
    assert named(effects_of(at_rest(only_told), say()))[2:] == ["TellHook", "TellHook", "CallModel"]


@pytest.mark.rule("HOOK-1")
def test_a_message_that_is_added_is_told() -> None:
    effects = effects_of(at_rest(hooked(observed(ADDED))), say())
    assert told_of(effects) == [(ADDED, "watch")]
    effects = effects_of(at_rest(hooked(observed(BEFORE_MODEL))), say())
    assert told_of(effects) == [(BEFORE_MODEL, "watch")]


@pytest.mark.rule("HOOK-2")
@pytest.mark.parametrize("deltas", [(blocks(1),), (says(1), blocks(2))], ids=["before the turn", "before the model"])
def test_a_block_ends_the_turn_as_guardrail(deltas: tuple[Delta, ...]) -> None:
    state = after(waiting(), *deltas)
    assert isinstance(state, Idle)
    assert session_of(state).last_end is TurnEndReason.GUARDRAIL
    assert of_kind(CallModel, effects_of(waiting(), *deltas)) == []


@pytest.mark.rule("HOOK-2")
def test_a_message_of_a_hook_before_the_model_goes_into_the_thread() -> None:
    effects = effects_of(waiting(), says(1), says(2, END))
    (added,) = of_kind(MessageAdded, effects)
    message = a(UserMessage, added.message)
    assert (message.content, message.origin) == (text("mind the gap"), UserOrigin.HOOK)


IMAGE = MediaBlock("image/png", "aaaa")


@pytest.mark.rule("HOOK-2")
@pytest.mark.parametrize(
    ("said", "read"),
    [
        (text("a"), END_TEXT),
        ((*text("a"), IMAGE, *text("b")), (*END_TEXT, IMAGE)),
        ((IMAGE, *text("a")), (IMAGE, *END_TEXT)),
        ((IMAGE,), (*END_TEXT, IMAGE)),
        ((), END_TEXT),
    ],
)
def test_a_text_of_a_hook_before_the_turn_takes_the_place_of_what_was_said(
    said: tuple[UserBlock, ...], read: tuple[UserBlock, ...]
) -> None:
    state = after(at_rest(BOTH), Say(content=said))
    (first,) = session_of(state).thread
    reworded, effects = step(state, says(1, END))
    (message,) = session_of(reworded).thread
    assert message == evolve(a(UserMessage, first), content=read)
    assert of_kind(MessageReplaced, effects) == [MessageReplaced(message)]
    assert of_kind(MessageAdded, effects) == []
    (hooked_next,) = of_kind(AskHook, effects)
    assert list(hooked_next.context.thread.messages) == [message]
    session = session_of(reworded)
    assert session.thread.generation == session_of(state).thread.generation + 1
    assert session.size.total == characters_of(message)


@pytest.mark.rule("HOOK-2")
@pytest.mark.parametrize("answer", [HookRetry(), HookModify(), GO_ON])
def test_any_other_answer_lets_it_go_on(answer: HookRetry | HookModify) -> None:
    assert isinstance(after(waiting(), says(1, answer), says(2, answer)), Streaming)


@pytest.mark.rule("HOOK-4")
@pytest.mark.parametrize("failure", HookFailure)
def test_a_hook_that_fails_or_is_too_slow_counts_as_policy_says(failure: HookFailure) -> None:
    state = waiting(evolve(TIMED, hook_failure=failure))
    expected = Streaming if failure is HookFailure.OPEN else Idle
    assert pending_timers(state) == [Timer(timer(1), TimerPurpose.HOOK_TIMEOUT, state.stamp.now_ms + 30)]
    assert isinstance(after(state, says(1, HookFault("gone"))), expected)
    late, effects = step(state, fired(1))
    assert isinstance(late, expected)
    assert named(effects)[0] == "AbortOther"
    assert effects_of(late, says(1)) == (Refused(UserAction.REPORT, RefusalReason.STALE),)
    assert effects_of(state, says(1))[0] == CancelTimer(timer(1))
    assert named(effects_of(state, fired(2))) == ["Refused"]


@pytest.mark.rule("RESUME-3")
def test_after_a_restart_the_hook_is_asked_again() -> None:
    state = waiting()
    again, effects = step(state, Resumed())
    assert named(effects) == ["SessionResumed", "AskHook"]
    assert of_kind(AskHook, effects)[0].operation == 2
    assert a(Thinking, again).passed is BeforeRequest.NOTHING
    assert named(effects_of(again, says(1))) == ["Refused"]
    assert isinstance(after(again, says(2), says(3)), Streaming)
    passed = evolve(state, gate=None)  # the type allows it
    assert named(step(passed, Resumed()).effects)[0] == "SessionResumed"


@pytest.mark.rule("CANCEL-2")
@pytest.mark.rule("RESUME-6")
@pytest.mark.parametrize(
    ("cause", "rest", "reason"),
    [
        (CancelAll(), Cancelled, TurnEndReason.USER_ABORT),
        (Disposed(), Initial, TurnEndReason.DISPOSED),
        (Forked(session_id="t"), Idle, TurnEndReason.INTERRUPTED),
    ],
)
def test_a_turn_at_a_gate_is_cut_short_as_any_other(cause: Delta, rest: type, reason: TurnEndReason) -> None:
    following, effects = step(waiting(TIMED), cause)
    assert type(following) is rest
    assert [ended.reason for ended in of_kind(TurnEnded, effects)] == [reason]
    forked = isinstance(cause, Forked)
    assert named(effects)[:2] == (["LineageForked", "TurnEnded"] if forked else ["AbortOther", "CancelTimer"])
    assert 1 in session_of(following).operations.abandoned[OperationKind.HOOK]
    bare = evolve(waiting(TIMED), gate=None)
    assert type(step(bare, cause).next) is rest


@pytest.mark.rule("INPUT-3")
@pytest.mark.rule("HOOK-1")
def test_what_is_said_at_the_last_gate_goes_in_before_the_request() -> None:
    effects = effects_of(waiting(TIMED), steer("left"), says(1))
    assert named(effects) == ["CancelTimer", "InputSettled", "MessageAdded", "Steered", "CallModel"]
    interrupting = evolve(TIMED, on_busy=OnBusy.INTERRUPT)
    assert gate_of(after(waiting(interrupting), say("instead"))).operation == 2


@pytest.mark.rule("HOOK-1")
def test_a_retry_asks_the_hook_before_the_model_again() -> None:
    state = after(waiting(hooked(gated(BEFORE_MODEL))), says(1), failed(), fired(1))
    assert gate_of(state).operation == 2

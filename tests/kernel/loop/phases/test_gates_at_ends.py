"""Hooks and the course correction at the end of a turn: in order, so many times, and never for ever."""

import pytest
from attrs import evolve
from loopkernel.data.choices import HookFailure, OnError
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import AskHook, CallModel, CheckCorrection, TellHook
from loopkernel.data.events import CorrectionChecked, CorrectionInjected, ErrorShown, MessageAdded, TurnEnded
from loopkernel.data.ids import CorrectionOperation, ModelOperation, OperationKind
from loopkernel.data.messages import UserMessage, UserOrigin
from loopkernel.data.model_deltas import ModelText
from loopkernel.data.outside_deltas import CorrectionAnswered, HookFault
from loopkernel.data.policy import Policy
from loopkernel.data.states import BeforeEnd, Cancelled, Done, Finishing, Idle, Initial, State, Streaming
from loopkernel.data.thread_deltas import Disposed, Forked, Resumed
from loopkernel.data.usage import Usage
from loopkernel.data.user_deltas import CancelAll
from loopkernel.data.words import ErrorClass, RequestReason, StopReason, TurnEndReason
from loopkernel.loop.algorithms.wording import NOT_DONE, correction_text

from tests.kernel.building import (
    ONE,
    a,
    after,
    asked,
    completed,
    effects_of,
    enqueue,
    failed,
    fired,
    made_call,
    named,
    of_kind,
    session_of,
    steer,
    step,
    succeeded,
    text,
)
from tests.kernel.gates import (
    AFTER_TURN,
    CORRECTING,
    STOP,
    asked_of,
    blocks,
    gate_of,
    gated,
    hooked,
    observed,
    says,
    told_of,
)

STOPPING = hooked(gated(STOP, "a"), gated(STOP, "b"), gated(AFTER_TURN, "c"))
BILL = Usage(output=4)


def talk(reply: int) -> tuple[Delta, ...]:
    """The reply says something, and stops."""
    return (ModelText(ModelOperation(reply), "done"), completed(reply=reply))


TALK = talk(1)


def ending(policy: Policy, *deltas: Delta) -> Finishing:
    """The model has said something and stopped; these deltas have come since."""
    return a(Finishing, after(asked(policy), *TALK, *deltas))


def corrected(number: int = 1, words: str | None = "look again", usage: Usage = BILL) -> CorrectionAnswered:
    """The nth correction is there."""
    return CorrectionAnswered(CorrectionOperation(number), words, usage)


def at_correction(policy: Policy = CORRECTING) -> Finishing:
    """A call that writes has run, and a correction is asked for at the end."""
    calls = (made_call("write"), completed(StopReason.TOOL_USE), succeeded(1))
    return a(Finishing, after(asked(policy), *calls, *talk(2)))


# --- stop hooks -------------------------------------------------------------------------------------------


@pytest.mark.rule("HOOK-1")
@pytest.mark.rule("INFER-6")
def test_the_stop_hooks_are_asked_in_order_then_those_after_the_turn() -> None:
    state = ending(STOPPING)
    assert (gate_of(state).hook.name, state.passed) == ("a", BeforeEnd.STOP_HOOKS)
    assert asked_of(effects_of(state, says(1))) == [(STOP, "b")]
    assert asked_of(effects_of(state, says(1), says(2))) == [(AFTER_TURN, "c")]
    rest, effects = step(after(state, says(1), says(2)), says(3))
    assert named(effects) == ["TurnEnded"]
    assert isinstance(rest, Idle)


@pytest.mark.rule("HOOK-2")
@pytest.mark.parametrize("why", ["not yet", " "])
def test_a_block_of_a_stop_hook_is_told_to_the_model_and_the_loop_goes_on(why: str) -> None:
    following, effects = step(ending(STOPPING), blocks(1, why))
    (added,) = of_kind(MessageAdded, effects)
    message = a(UserMessage, added.message)
    assert (message.content, message.origin) == (text(why if why.strip() else NOT_DONE), UserOrigin.STOP_HOOK)
    assert of_kind(CallModel, effects)[0].request.reason is RequestReason.STOP_HOOK_BLOCKING
    assert a(Streaming, following).turn.blocks == 1
    (asked_again,) = of_kind(AskHook, effects_of(following, *talk(2)))
    assert asked_again.context.stop_hook_active
    (first,) = of_kind(AskHook, effects_of(asked(STOPPING), *TALK))
    assert not first.context.stop_hook_active


@pytest.mark.rule("HOOK-2")
@pytest.mark.parametrize("limit", [None, 2])
def test_only_so_many_blocks_are_honoured(limit: int | None) -> None:
    state = after(ending(evolve(STOPPING, stop_hook_limit=1, max_turns=limit)), blocks(1), *talk(2))
    assert gate_of(state).hook.name == "a"  # it is still asked
    assert asked_of(effects_of(state, blocks(2))) == [(STOP, "b")]
    assert session_of(after(state, blocks(2), blocks(3), blocks(4))).last_end is TurnEndReason.MODEL_STOP


@pytest.mark.rule("HOOK-2")
@pytest.mark.rule("LIMIT-1")
@pytest.mark.parametrize("said", [(), (steer("left"), enqueue("next"))])
def test_a_block_at_the_turn_limit_ends_the_turn_for_the_limit(said: tuple[Delta, ...]) -> None:
    state = ending(evolve(STOPPING, max_turns=1), *said)
    waiting, effects = step(state, blocks(1))
    assert named(effects)[0] == "LimitReached"
    assert asked_of(effects) == [(AFTER_TURN, "c")]
    assert not of_kind(MessageAdded, effects)
    (told,) = of_kind(AskHook, effects)
    assert told.context.reason is TurnEndReason.MAX_TURNS
    rest = a(Idle, after(waiting, says(2)))
    assert session_of(rest).last_end is TurnEndReason.MAX_TURNS
    assert len(session_of(rest).inbox.queue) == len(said)


@pytest.mark.rule("HOOK-4")
@pytest.mark.parametrize("failure", HookFailure)
def test_a_stop_hook_that_fails_never_holds_the_turn_open(failure: HookFailure) -> None:
    policy = evolve(STOPPING, hook_failure=failure, hook_timeout_ms=30)
    state = ending(policy)
    assert asked_of(effects_of(state, says(1, HookFault("gone")))) == [(STOP, "b")]
    late = effects_of(state, fired(1))
    assert (named(late)[0], asked_of(late)) == ("AbortOther", [(STOP, "b")])


@pytest.mark.rule("INFER-6")
@pytest.mark.rule("INPUT-3")
def test_what_the_user_says_at_a_stop_hook_is_heard_before_the_others_are_asked() -> None:
    steered = after(ending(STOPPING), steer("left"), says(1))
    assert a(Streaming, steered).turn.reason is RequestReason.USER
    queued = after(ending(STOPPING), enqueue("next"), says(1))
    assert gate_of(queued).hook.point is AFTER_TURN
    assert a(Streaming, after(queued, says(2))).turn.number == 2


@pytest.mark.rule("INFER-6")
@pytest.mark.parametrize(
    ("deltas", "reason"),
    [
        ((failed(ErrorClass.AUTH),), TurnEndReason.ERROR),
        ((ModelText(ONE, "no"), completed(StopReason.REFUSAL)), TurnEndReason.REFUSAL),
    ],
)
def test_only_a_natural_end_has_stop_hooks_and_every_end_has_those_after_it(
    deltas: tuple[Delta, ...], reason: TurnEndReason
) -> None:
    state = after(asked(STOPPING), *deltas)
    assert gate_of(state).hook.point is AFTER_TURN
    assert session_of(after(state, blocks(1))).last_end is reason  # what it answers does not matter


@pytest.mark.rule("HOOK-1")
@pytest.mark.rule("CANCEL-2")
@pytest.mark.parametrize("cause", [CancelAll(), Disposed()])
def test_at_a_cut_only_those_that_observe_are_told(cause: Delta) -> None:
    policy = hooked(gated(STOP), gated(AFTER_TURN), observed(AFTER_TURN))
    effects = effects_of(asked(policy), cause)
    assert (told_of(effects), asked_of(effects)) == ([(AFTER_TURN, "watch")], [])
    assert told_of(effects_of(asked(policy), Forked(session_id="t"))) == []


@pytest.mark.rule("HOOK-1")
@pytest.mark.rule("CANCEL-2")
@pytest.mark.rule("RETRY-7")
def test_the_error_of_a_turn_that_is_cut_short_at_its_last_gate_is_shown_all_the_same() -> None:
    state = after(asked(hooked(gated(AFTER_TURN))), failed(ErrorClass.AUTH))
    following, effects = step(state, CancelAll())
    assert [shown.error for shown in of_kind(ErrorShown, effects)] == [ErrorClass.AUTH]
    assert session_of(a(Cancelled, following)).last_end is TurnEndReason.USER_ABORT
    ending_it = evolve(hooked(gated(AFTER_TURN)), on_error=OnError.END)
    assert isinstance(after(asked(ending_it), failed(ErrorClass.AUTH), CancelAll()), Done)


@pytest.mark.rule("RESUME-3")
def test_a_stop_hook_is_asked_again_after_a_restart() -> None:
    state = ending(STOPPING, Resumed())
    assert gate_of(state).operation == 2
    assert named(effects_of(state, says(1))) == ["Refused"]
    assert gate_of(after(state, says(2))).hook.name == "b"


# --- the course correction --------------------------------------------------------------------------------


@pytest.mark.rule("HOOK-3")
@pytest.mark.parametrize(
    ("tool", "due"), [("write", True), ("read", False), ("bare", True)], ids=["writes", "reads", "unknown"]
)
def test_a_correction_is_asked_for_once_enough_has_been_written(tool: str, due: bool) -> None:
    calls = (made_call(tool), completed(StopReason.TOOL_USE), succeeded(1), *talk(2))
    assert isinstance(after(asked(CORRECTING), *calls), Finishing if due else Idle)


@pytest.mark.rule("HOOK-3")
def test_a_correction_goes_in_as_a_message_and_is_asked_for_once() -> None:
    state = at_correction()
    following, effects = step(state, corrected())
    assert (
        named(effects) == [*("CorrectionChecked", "CorrectionInjected", "MessageAdded"), "CallModel"]
        or named(effects)[0] == "CancelTimer"
    )
    (added,) = of_kind(MessageAdded, effects)
    message = a(UserMessage, added.message)
    assert (message.content, message.origin) == (text(correction_text("look again")), UserOrigin.CORRECTION)
    assert of_kind(CallModel, effects)[0].request.reason is RequestReason.CORRECTION
    assert session_of(following).usage == Usage(output=4)
    again = (made_call("write", reply=3), completed(StopReason.TOOL_USE, reply=3), succeeded(2))
    assert isinstance(after(following, *again, *talk(4)), Idle)


@pytest.mark.rule("HOOK-3")
@pytest.mark.parametrize("delta", [steer("left"), enqueue("next")])
def test_a_correction_is_dropped_where_the_user_has_spoken(delta: Delta) -> None:
    effects = effects_of(at_correction(), delta, corrected())
    assert len(of_kind(CorrectionChecked, effects)) == 1
    assert of_kind(CorrectionInjected, effects) == []


@pytest.mark.rule("HOOK-3")
def test_nothing_to_correct_or_no_room_for_it_ends_the_turn() -> None:
    assert isinstance(after(at_correction(), corrected(words=None)), Idle)
    full = at_correction(evolve(CORRECTING, max_turns=2))
    assert isinstance(after(full, corrected()), Idle)
    hooks = hooked(gated(STOP), gated(AFTER_TURN), policy=CORRECTING)
    state = at_correction(hooks)
    assert gate_of(state).hook.point is STOP
    assert len(of_kind(CheckCorrection, effects_of(state, says(1)))) == 1
    assert gate_of(after(state, says(1), corrected(words=None))).hook.point is AFTER_TURN


@pytest.mark.rule("HOOK-4")
@pytest.mark.rule("RESUME-3")
def test_a_correction_times_out_as_a_hook_does_and_is_asked_for_again_after_a_restart() -> None:
    state = at_correction(evolve(CORRECTING, hook_timeout_ms=30))
    number = session_of(state).operations.minted[OperationKind.TIMER]
    rest, effects = step(state, fired(number))
    assert named(effects) == ["AbortOther", "TurnEnded"]
    late = step(rest, corrected())
    assert (named(late.effects), session_of(late.next).usage) == (["Refused"], Usage(output=4))
    assert named(effects_of(state, fired(number + 1))) == ["Refused"]
    again = after(state, Resumed())
    assert named(effects_of(again, corrected())) == ["Refused"]
    assert isinstance(after(again, corrected(2)), Streaming)
    untimed = at_correction(evolve(CORRECTING, hook_timeout_ms=None))
    assert named(effects_of(untimed, fired(number))) == ["Refused"]


@pytest.mark.rule("CANCEL-2")
@pytest.mark.rule("RESUME-6")
@pytest.mark.parametrize(
    ("cause", "rest"), [(CancelAll(), Cancelled), (Disposed(), Initial), (Forked(session_id="t"), Idle)]
)
@pytest.mark.parametrize("gate", ["hook", "correction", "none"])
def test_a_turn_that_is_ending_is_cut_short_as_any_other(cause: Delta, rest: type, gate: str) -> None:
    state: State = ending(STOPPING) if gate == "hook" else at_correction()
    if gate == "none":
        state = evolve(at_correction(), gate=None)  # the type allows it
        assert named(step(state, Resumed()).effects)[0] == "SessionResumed"
    following, effects = step(state, cause)
    assert type(following) is rest
    assert len(of_kind(TurnEnded, effects)) == 1


@pytest.mark.rule("HOOK-1")
def test_a_hook_that_was_told_of_the_end_is_not_told_again_when_the_turn_is_cut_while_another_is_asked() -> None:
    policy = hooked(gated(AFTER_TURN), observed(AFTER_TURN))  # behind a turn the last comes first
    ending, effects = step(after(asked(policy), ModelText(ONE, "so")), completed(reply=1))
    assert [one.context.name for one in of_kind(TellHook, effects)] == ["watch"]
    assert of_kind(TellHook, step(ending, CancelAll()).effects) == []

"""`Idle`: at rest. Input starts a turn or changes settings; a cancel finds nothing; disposal releases."""

import pytest
from loopkernel.data.choices import OnBusy
from loopkernel.data.effects import AbortTool, CallModel, StartTimer
from loopkernel.data.events import Dequeued, Discarded, InputSettled, MessageAdded, Queued, Refused, SessionResumed
from loopkernel.data.ids import MessageId, QueueNumber, ReceiptId
from loopkernel.data.messages import UserMessage, UserOrigin
from loopkernel.data.policy import Policy
from loopkernel.data.states import Idle, Initial, Streaming
from loopkernel.data.thread_deltas import Disposed, Resumed
from loopkernel.data.user_deltas import CancelAll, CancelCall, Discard, Enqueue, RetryNow, Say, Steer
from loopkernel.data.words import (
    CancelReason,
    ErrorClass,
    InputFate,
    RefusalReason,
    RequestReason,
    TimerPurpose,
    UserAction,
)

from tests.kernel.building import (
    ASKING_NOBODY,
    a,
    after,
    at_rest,
    call_id,
    completed,
    effects_of,
    enqueue,
    failed,
    made_call,
    named,
    of_kind,
    run,
    say,
    session_of,
    steer,
    step,
    succeeded,
    text,
    timer,
    working,
)
from tests.kernel.grids import expected_grid, grid

REST = at_rest()
SPOKEN = {"Say": "Streaming", "Enqueue": "Streaming", "Steer": "Streaming"}
UNKNOWN = "refused unknown"
FAILED = a(Idle, after(REST, say(), failed(ErrorClass.AUTH)))
WITH_QUEUE = a(Idle, after(REST, say(), enqueue("later"), failed(ErrorClass.AUTH)))


@pytest.mark.rule("STATE-4")
@pytest.mark.rule("DELTA-2")
@pytest.mark.parametrize(
    ("state", "retry", "dismiss", "answers"),
    [
        (REST, "refused not-now", "refused not-now", UNKNOWN),
        (a(Idle, after(REST, say(), completed(), say(), completed(reply=2))), "Streaming", "refused not-now", UNKNOWN),
        (FAILED, "Streaming", "Idle", "refused stale"),  # the reply is gone, and its calls with it
    ],
    ids=["new", "after empty replies", "after an error"],
)
def test_at_rest_input_starts_a_turn_or_changes_settings(state: Idle, retry: str, dismiss: str, answers: str) -> None:
    others = {"RetryNow": retry, "DismissError": dismiss, "Discard": UNKNOWN, "EditMessage": UNKNOWN}
    moved = {"Resumed": "Idle", "Disposed": "Initial", "Forked": "Idle", "StartHandoff": "HandingOff"}
    expected = expected_grid(answers=answers, settings="Idle", **SPOKEN, **others, **moved)
    assert grid(state) == expected


@pytest.mark.rule("INPUT-3")
@pytest.mark.rule("INFER-1")
@pytest.mark.parametrize("delta", [say("hi", "k"), steer("hi", "k"), enqueue("hi", "k")])
def test_what_is_said_at_rest_goes_into_the_thread_and_asks_the_model(delta: Say | Steer | Enqueue) -> None:
    following, effects = step(REST, delta, now_ms=50)
    message = UserMessage(id=MessageId(1), content=text("hi"), origin=UserOrigin.SAID, receipt=ReceiptId(1))
    assert effects[:2] == (InputSettled(ReceiptId(1), InputFate.IN_THREAD, "k"), MessageAdded(message))
    assert named(effects[2:]) == ["CallModel"]
    streaming = a(Streaming, following)
    assert (streaming.turn.number, streaming.turn.opened_ms, streaming.turn.reason) == (1, 50, RequestReason.USER)


@pytest.mark.rule("DELTA-6")
@pytest.mark.parametrize("again", [say("other", "k"), steer("other", "k"), enqueue("other", "k")])
def test_a_key_that_was_used_is_a_duplicate(again: Say | Steer | Enqueue) -> None:
    rest = after(REST, say("hi", "k"), failed(ErrorClass.AUTH))
    action = {Say: UserAction.SAY, Steer: UserAction.STEER, Enqueue: UserAction.ENQUEUE}[type(again)]
    assert step(rest, again) == (rest, (Refused(action, RefusalReason.DUPLICATE, "k"),))


@pytest.mark.rule("DELTA-6")
def test_the_key_of_a_refused_message_can_be_used() -> None:
    busy = after(at_rest(Policy(on_busy=OnBusy.REJECT)), say())
    assert effects_of(busy, say("hi", "k")) == (Refused(UserAction.SAY, RefusalReason.NOT_NOW, "k"),)
    assert isinstance(after(busy, say("hi", "k"), failed(ErrorClass.AUTH), say("hi", "k")), Streaming)


@pytest.mark.rule("INPUT-2")
def test_an_enqueued_message_lets_the_oldest_start_a_turn() -> None:
    following, effects = step(WITH_QUEUE, enqueue("last"))
    assert of_kind(Queued, effects) == [Queued(QueueNumber(2))]
    assert of_kind(Dequeued, effects) == [Dequeued(QueueNumber(1))]
    assert [queued.number for queued in session_of(following).inbox.queue] == [2]
    (added,) = of_kind(MessageAdded, effects)
    assert isinstance(added.message, UserMessage)
    assert (added.message.content, added.message.origin) == (text("later"), UserOrigin.QUEUED)


@pytest.mark.rule("INPUT-2")
@pytest.mark.parametrize("delta", [say("now"), RetryNow()])
def test_what_is_said_or_retried_goes_before_the_queue(delta: Say | RetryNow) -> None:
    following = after(WITH_QUEUE, delta)
    assert isinstance(following, Streaming)
    assert session_of(following).inbox == session_of(WITH_QUEUE).inbox


@pytest.mark.rule("INFER-12")
def test_a_retry_asks_again_from_the_same_thread() -> None:
    following, effects = step(FAILED, RetryNow())
    (call,) = of_kind(CallModel, effects)
    assert (call.request.reason, call.request.thread) == (RequestReason.ERROR_RETRY, session_of(FAILED).thread)
    assert a(Streaming, following).turn.number == 2


@pytest.mark.rule("INPUT-2")
def test_a_natural_end_is_not_retried() -> None:
    spoken = after(at_rest(Policy(empty_reply_nudges=0)), say(), completed())
    assert step(spoken, RetryNow()) == (spoken, (Refused(UserAction.RETRY, RefusalReason.NOT_NOW),))


@pytest.mark.rule("INPUT-2")
def test_queued_input_can_be_discarded_once() -> None:
    number = QueueNumber(1)
    rest, effects = step(WITH_QUEUE, Discard(number))
    assert effects[1:] == (InputSettled(ReceiptId(2), InputFate.DISCARDED), Discarded(number))
    assert session_of(rest).inbox.queue == ()
    assert effects_of(rest, Discard(number)) == (Refused(UserAction.DISCARD, RefusalReason.STALE),)
    assert effects_of(rest, Discard()) == (Refused(UserAction.DISCARD, RefusalReason.NOT_NOW),)


@pytest.mark.rule("CANCEL-5")
def test_a_cancel_at_rest_is_refused() -> None:
    rest = after(working(made_call()), CancelAll(), say("go on"), completed(reply=2))
    assert effects_of(REST, CancelAll()) == (Refused(UserAction.CANCEL, RefusalReason.NOT_NOW),)
    assert effects_of(rest, CancelCall(call_id(1))) == (Refused(UserAction.CANCEL, RefusalReason.STALE),)
    assert effects_of(rest, CancelCall(call_id(2))) == (Refused(UserAction.CANCEL, RefusalReason.UNKNOWN),)


@pytest.mark.rule("CANCEL-2")
@pytest.mark.rule("INPUT-2")
def test_a_release_at_rest_keeps_the_session_with_its_queue() -> None:
    following, effects = step(WITH_QUEUE, Disposed())
    assert named(effects) == ["ErrorCleared"]
    assert session_of(a(Initial, following)).inbox == session_of(WITH_QUEUE).inbox


def test_a_resumed_session_stays_at_rest() -> None:
    following, effects = step(REST, Resumed())
    assert (a(Idle, following).session, effects) == (REST.session, (SessionResumed(),))


@pytest.mark.rule("DELTA-7")
def test_time_never_goes_back() -> None:
    assert step(at_rest(ASKING_NOBODY), Resumed(), now_ms=-5).next.stamp.now_ms == REST.stamp.now_ms


# --- runs in the background -----------------------------------------------------------------------------

BEHIND = a(Idle, after(working(made_call()), succeeded(1, background=True), completed(reply=2), completed(reply=3)))


@pytest.mark.rule("TOOL-20")
def test_a_run_in_the_background_goes_on_at_rest_and_may_be_cancelled() -> None:
    found = grid(BEHIND, 1)
    taken = ("ToolProgress", "ToolSucceeded", "ToolFailed", "ToolAsked", "ToolStopped", "CancelCall", "Resumed")
    assert {name: found[name] for name in taken} == dict.fromkeys(taken, "Idle")
    assert named(effects_of(BEHIND, CancelCall(call_id(1)))) == ["AbortTool", "StartTimer"]
    assert effects_of(BEHIND, CancelAll()) == (Refused(UserAction.CANCEL, RefusalReason.NOT_NOW),)


@pytest.mark.rule("TOOL-20")
@pytest.mark.rule("CANCEL-2")
def test_a_release_at_rest_stops_what_runs_in_the_background() -> None:
    following, effects = step(BEHIND, Disposed(), now_ms=1_000)
    assert effects == (
        AbortTool(run(1), CancelReason.DISPOSED),
        StartTimer(operation=timer(2), purpose=TimerPurpose.GRACE, deadline_ms=6_000),
    )
    assert isinstance(following, Initial)


@pytest.mark.rule("RESUME-3")
@pytest.mark.rule("TOOL-20")
def test_a_restart_at_rest_repeats_what_ran_in_the_background() -> None:
    assert named(effects_of(BEHIND, Resumed())) == ["SessionResumed", "StartTool"]


@pytest.mark.rule("CANCEL-5")
@pytest.mark.rule("DELTA-2")
def test_a_cancel_of_a_call_that_ended_by_itself_is_a_duplicate() -> None:
    rest = after(working(made_call()), succeeded(1), completed(reply=2), completed(reply=3))
    assert effects_of(rest, CancelCall(call_id(1))) == (Refused(UserAction.CANCEL, RefusalReason.DUPLICATE),)

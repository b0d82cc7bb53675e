"""`Backoff`: a failed model call waits to be tried again; time or the user ends the wait."""

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.choices import ErrorDisplay, OnBusy
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import CallModel, CancelTimer, Effect, Request
from loopkernel.data.events import (
    ErrorShown,
    InputSettled,
    LineageForked,
    Refused,
    RetryScheduled,
    TurnEnded,
    WorkCancelled,
)
from loopkernel.data.ids import MessageId, ReceiptId
from loopkernel.data.messages import UserMessage
from loopkernel.data.model_deltas import ModelText, ModelUsage
from loopkernel.data.outside_deltas import TimerFired
from loopkernel.data.policy import Policy, Retry
from loopkernel.data.sessions import ShownError
from loopkernel.data.states import Backoff, Cancelled, Done, Idle, Initial, State, Streaming
from loopkernel.data.thread_deltas import Acquired, Disposed, Forked, Resumed
from loopkernel.data.timers import Timer
from loopkernel.data.usage import Usage
from loopkernel.data.user_deltas import CancelAll, DismissError, EditMessage, Enqueue, RetryNow, Say
from loopkernel.data.words import (
    CancelReason,
    ErrorClass,
    InputFate,
    RefusalReason,
    RequestReason,
    StopReason,
    TimerPurpose,
    TurnEndReason,
    UserAction,
)
from loopkernel.loop.algorithms.interaction import Interaction
from loopkernel.views.explain import accepted_inputs, interaction_of

from tests.kernel.building import (
    ASKING_NOBODY,
    ONE,
    TASK,
    a,
    after,
    all_effects,
    asked,
    at_rest,
    completed,
    enqueue,
    failed,
    fired,
    made_call,
    named,
    of_kind,
    pending_timers,
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
BACKOFF = a(Backoff, after(REST, say(), ModelText(ONE, "so"), failed(ErrorClass.NETWORK)))
RETRY = timer(1)
SHOWING = evolve(ASKING_NOBODY, errors=ErrorDisplay.SHOWN)
SHOWN = a(Backoff, after(at_rest(SHOWING), say(), failed(ErrorClass.NETWORK)))
OF_TASK = a(Backoff, after(asked(TASK), failed(ErrorClass.NETWORK)))
BEGUN = ["InputSettled", "MessageAdded", "CallModel"]


def ended(effects: tuple[Effect, ...]) -> list[TurnEndReason]:
    """How the turns have ended."""
    return [effect.reason for effect in of_kind(TurnEnded, effects)]


def request_of(effects: tuple[Effect, ...]) -> Request:
    """The one request that is made."""
    (call,) = of_kind(CallModel, effects)
    return call.request


# --- the grid -------------------------------------------------------------------------------------------


@pytest.mark.rule("DELTA-2")
@pytest.mark.rule("INPUT-1")
@pytest.mark.rule("RETRY-4")
@pytest.mark.parametrize("on_busy", OnBusy)
@pytest.mark.parametrize("errors", ErrorDisplay)
def test_the_wait_is_ended_by_the_user_and_reports_are_late(on_busy: OnBusy, errors: ErrorDisplay) -> None:
    state = after(at_rest(evolve(ASKING_NOBODY, on_busy=on_busy, errors=errors)), say(), failed(ErrorClass.NETWORK))
    ways = {"Say": "Streaming", "Enqueue": "Streaming", "Steer": "Backoff", "RetryNow": "Streaming"}
    ends = {"DismissError": "Idle", "CancelAll": "Cancelled", "Disposed": "Initial", "Forked": "Idle"}
    kept = {"Resumed": "Backoff", "Discard": "refused unknown", "EditMessage": "refused unknown"}
    assert grid(state) == expected_grid(answers="refused stale", settings="Backoff", **ways, **ends, **kept)


@pytest.mark.rule("RETRY-4")
@pytest.mark.rule("DELTA-2")
def test_what_was_open_before_is_named_by_how_it_was_closed() -> None:
    found = grid(BACKOFF, 1)
    assert found["ModelCompleted"] == found["ModelText"] == "refused duplicate"
    assert found["TimerFired"] == "Streaming"
    assert found["EditMessage"] == "Streaming"
    assert grid(after(BACKOFF, RetryNow()), 1)["TimerFired"] == "refused stale"


@pytest.mark.rule("INFER-3")
def test_what_the_failed_call_is_billed_later_is_counted() -> None:
    state = after(at_rest(Policy(silence_ms=50)), say(), ModelUsage(ONE, Usage(input=3)))
    stalled = a(Backoff, step(state, fired(1), now_ms=90).next)
    assert stalled.error is ErrorClass.STALLED
    following, effects = step(stalled, ModelUsage(ONE, Usage(input=3, output=4)))
    assert (stalled.session.usage, session_of(following).usage) == (Usage(input=3), Usage(input=3, output=4))
    assert effects == (Refused(UserAction.REPORT, RefusalReason.STALE),)


@pytest.mark.rule("STATE-6")
def test_the_wait_is_busy() -> None:
    assert interaction_of(BACKOFF) is Interaction.BUSY
    assert {type(delta).__name__ for delta in accepted_inputs(BACKOFF)} >= {
        *("Say", "Enqueue", "Steer", "RetryNow", "DismissError", "CancelAll", "EditMessage"),
    }


# --- the countdown ----------------------------------------------------------------------------------------


@pytest.mark.rule("RETRY-4")
@pytest.mark.rule("INFER-12")
def test_the_model_is_asked_again_when_the_time_is_over() -> None:
    following, effects = step(BACKOFF, TimerFired(RETRY))
    assert named(effects) == ["CallModel"]
    request = request_of(effects)
    assert (request.number, request.reason) == (2, RequestReason.ERROR_RETRY)
    assert request.thread == BACKOFF.session.thread
    assert a(Streaming, following).turn == BACKOFF.turn


@pytest.mark.rule("RETRY-4")
def test_only_the_timer_of_the_wait_ends_it() -> None:
    again = a(Backoff, after(BACKOFF, TimerFired(RETRY), failed(ErrorClass.SERVER, reply=2)))
    assert again.timer.operation == timer(2)
    following, effects = step(again, TimerFired(RETRY))
    assert (following, effects) == (again, (Refused(UserAction.REPORT, RefusalReason.STALE),))


retries = st.builds(
    lambda base, factor, room, times: Retry(base_ms=base, factor=factor, cap_ms=base + room, retries=times),
    st.integers(0, 9_000),
    st.sampled_from((1.0, 1.5, 2.0, 10.0)),
    st.integers(0, 50_000),
    st.integers(0, 6),
)


@pytest.mark.rule("RETRY-1")
@pytest.mark.rule("RETRY-4")
@pytest.mark.rule("INFER-9")
@given(retries, st.lists(st.sampled_from(Retry().classes), min_size=7, max_size=7), st.booleans())
def test_each_failure_waits_as_the_schedule_says_until_it_is_used_up(
    retry: Retry, errors: list[ErrorClass], by_hand: bool
) -> None:
    state: State = asked(evolve(ASKING_NOBODY, retry=retry))
    for attempt in range(1, retry.retries + 1):
        state, effects = step(state, failed(errors[attempt - 1], reply=attempt))
        delay = min(int(retry.base_ms * retry.factor ** (attempt - 1)), retry.cap_ms)
        assert of_kind(RetryScheduled, effects) == [RetryScheduled(delay, attempt)]
        backoff = a(Backoff, state)
        assert backoff.timer.deadline_ms == backoff.stamp.now_ms + delay
        assert (backoff.error, backoff.session.error) == (errors[attempt - 1], None)
        # the user's "now" is not a new beginning
        state = step(state, RetryNow() if by_hand else TimerFired(backoff.timer.operation)).next
    last = errors[retry.retries]
    ended_with, effects = step(state, failed(last, reply=retry.retries + 1))
    assert named(effects) == ["ReplyFailed", "ErrorShown", "TurnEnded"]
    assert a(Idle, ended_with).session.error == ShownError(last, "")


@pytest.mark.rule("RETRY-4")
@pytest.mark.rule("RETRY-1")
def test_the_counter_starts_again_after_a_completed_reply_and_a_new_message() -> None:
    spoken = after(BACKOFF, TimerFired(RETRY), made_call(reply=2), completed(StopReason.TOOL_USE, reply=2))
    again = after(spoken, succeeded(1), failed(reply=3))
    assert a(Backoff, again).turn.recovery.retries == 1
    assert a(Backoff, after(BACKOFF, say("rather"), failed(reply=2))).turn.recovery.retries == 1
    steered = after(BACKOFF, steer("this way"), TimerFired(RETRY))
    assert a(Streaming, steered).turn.recovery.retries == 0
    assert a(Backoff, after(BACKOFF, CancelAll(), RetryNow(), failed(reply=2))).turn.recovery.retries == 1
    assert a(Backoff, after(BACKOFF, DismissError(), RetryNow(), failed(reply=2))).turn.recovery.retries == 1
    assert a(Backoff, after(BACKOFF, TimerFired(RETRY), failed(reply=2))).turn.recovery.retries == 2


# --- what the user does ---------------------------------------------------------------------------------


@pytest.mark.rule("RETRY-4")
def test_the_user_need_not_wait() -> None:
    following, effects = step(BACKOFF, RetryNow())
    assert named(effects) == ["CancelTimer", "CallModel"]
    assert request_of(effects).reason is RequestReason.ERROR_RETRY
    assert a(Streaming, following).turn == BACKOFF.turn


@pytest.mark.rule("INPUT-1")
@pytest.mark.rule("RETRY-4")
@pytest.mark.parametrize("on_busy", OnBusy)
@pytest.mark.parametrize("delta", [say("rather", "k"), enqueue("rather", "k")], ids=lambda delta: type(delta).__name__)
def test_a_message_ends_the_turn_and_starts_its_own(delta: Say | Enqueue, on_busy: OnBusy) -> None:
    state = after(at_rest(evolve(ASKING_NOBODY, on_busy=on_busy, queue_limit=0)), say(), failed(ErrorClass.NETWORK))
    following, effects = step(state, delta)
    assert named(effects) == ["CancelTimer", "TurnEnded", *BEGUN]
    assert ended(effects) == [TurnEndReason.INTERRUPTED]
    assert of_kind(InputSettled, effects) == [InputSettled(ReceiptId(2), InputFate.IN_THREAD, "k")]
    assert request_of(effects).reason is RequestReason.USER
    assert a(Streaming, following).turn.number == 2
    again, refused = step(after(state, enqueue("x", "k"), failed(ErrorClass.SERVER, reply=2)), delta)
    assert isinstance(again, Backoff)
    assert [effect.reason for effect in of_kind(Refused, refused)] == [RefusalReason.DUPLICATE]


@pytest.mark.rule("INPUT-2")
def test_what_is_said_goes_before_what_is_queued_and_what_is_queued_behind_it() -> None:
    waiting = after(asked(ASKING_NOBODY, enqueue("first"), steer("second")), failed(ErrorClass.NETWORK))
    said, effects = step(waiting, say("now"))
    assert named(effects) == ["CancelTimer", "TurnEnded", "InputSettled", "Queued", *BEGUN]
    assert [queued.content for queued in session_of(said).inbox.queue] == [text("second"), text("first")]
    *_, last = session_of(said).thread
    assert a(UserMessage, last).content == text("now")
    queued, effects = step(waiting, enqueue("last"))
    assert sorted(named(effects)) == sorted(
        ["CancelTimer", "TurnEnded", *["InputSettled", "Queued"] * 2, "Dequeued", *BEGUN]
    )
    assert ended(effects) == [TurnEndReason.INTERRUPTED]
    assert [found.content for found in session_of(queued).inbox.queue] == [text("first"), text("last")]
    *_, oldest = session_of(queued).thread
    assert a(UserMessage, oldest).content == text("second")  # a steer that did not go in heads the queue


@pytest.mark.rule("INPUT-3")
@pytest.mark.rule("DELTA-6")
def test_a_steer_goes_in_with_the_retry() -> None:
    waiting, effects = step(BACKOFF, steer("this way"))
    assert named(effects) == ["InputSettled"]
    following, effects = step(waiting, TimerFired(RETRY))
    assert named(effects) == ["InputSettled", "MessageAdded", "Steered", "CallModel"]
    assert request_of(effects).reason is RequestReason.ERROR_RETRY
    *_, last = session_of(following).thread
    assert a(UserMessage, last).content == text("this way")


@pytest.mark.rule("CANCEL-2")
@pytest.mark.rule("RETRY-4")
@pytest.mark.parametrize(
    ("cause", "reason", "end", "phase"),
    [
        (CancelAll(), CancelReason.USER_CANCELLED, TurnEndReason.USER_ABORT, Cancelled),
        (Disposed(), CancelReason.DISPOSED, TurnEndReason.DISPOSED, Initial),
    ],
)
def test_a_cancel_and_a_release_end_the_wait(
    cause: Delta, reason: CancelReason, end: TurnEndReason, phase: type[State]
) -> None:
    following, effects = step(BACKOFF, cause)
    assert effects == (CancelTimer(RETRY), WorkCancelled(reason), TurnEnded(end, BACKOFF.session.usage))
    assert isinstance(following, phase)
    assert isinstance(after(following, Acquired()) if phase is Initial else following, Cancelled | Idle)


@pytest.mark.rule("CANCEL-2")
@pytest.mark.rule("TOOL-20")
def test_a_cancel_stops_what_runs_in_the_background() -> None:
    state = after(working(made_call()), succeeded(1, background=True), failed(reply=2))
    following, effects = step(a(Backoff, state), CancelAll())
    assert named(effects) == ["CancelTimer", "AbortTool", "StartTimer", "WorkCancelled", "TurnEnded"]
    assert isinstance(following, Cancelled)


@pytest.mark.rule("RETRY-4")
@pytest.mark.rule("DELTA-5")
@pytest.mark.parametrize(
    ("state", "told", "phase"),
    [(BACKOFF, [], Idle), (SHOWN, ["ErrorCleared"], Idle), (OF_TASK, [], Done)],
    ids=["withheld", "shown", "task"],
)
def test_a_dismissal_ends_the_turn_with_the_error_and_shows_nothing(
    state: Backoff, told: list[str], phase: type[State]
) -> None:
    following, effects = step(state, DismissError())
    assert named(effects) == ["CancelTimer", *told, "TurnEnded"]
    assert ended(effects) == [TurnEndReason.ERROR]
    assert isinstance(following, phase)
    assert session_of(following).error is None


@pytest.mark.rule("INFER-9")
@pytest.mark.rule("DELTA-5")
def test_an_error_that_policy_shows_at_once_goes_with_the_next_delta_and_is_not_shown_twice() -> None:
    assert SHOWN.session.error == ShownError(ErrorClass.NETWORK, "")
    following, effects = step(SHOWN, TimerFired(RETRY))
    assert named(effects) == ["ErrorCleared", "CallModel"]
    assert session_of(following).error is None
    policy = evolve(SHOWING, retry=Retry(retries=1))
    shown = all_effects(asked(policy), failed(), RetryNow(), failed(ErrorClass.OVERLOADED, reply=2))
    assert [effect.error for effect in of_kind(ErrorShown, shown)] == [ErrorClass.SERVER, ErrorClass.OVERLOADED]


@pytest.mark.rule("INPUT-4")
def test_an_edit_ends_the_turn_and_starts_one_from_the_message_it_replaces() -> None:
    following, effects = step(BACKOFF, EditMessage(message=MessageId(1), content=text("rather")))
    assert named(effects) == [
        *("CancelTimer", "WorkCancelled", "TurnEnded"),
        *("InputSettled", "Edited", "ThreadCut"),
        *BEGUN,
    ]
    assert ended(effects) == [TurnEndReason.EDITED]
    (message,) = session_of(following).thread
    assert a(UserMessage, message).content == text("rather")


# --- crashes and forks --------------------------------------------------------------------------------------


@pytest.mark.rule("RESUME-3")
@given(st.integers(0, 20_000))
def test_a_crash_keeps_the_deadline(later_ms: int) -> None:
    following, effects = step(BACKOFF, Resumed(), now_ms=BACKOFF.stamp.now_ms + later_ms)
    backoff = a(Backoff, following)
    assert named(effects) == ["SessionResumed", "StartTimer"]
    assert backoff.timer == Timer(timer(2), TimerPurpose.RETRY, BACKOFF.timer.deadline_ms)
    assert (backoff.turn, backoff.error) == (BACKOFF.turn, BACKOFF.error)
    assert isinstance(after(following, TimerFired(timer(2))), Streaming)


@pytest.mark.rule("RESUME-6")
def test_a_fork_ends_the_turn_of_the_new_lineage_and_leaves_it_at_rest() -> None:
    waiting = after(asked(ASKING_NOBODY, enqueue("first"), steer("second")), failed(ErrorClass.NETWORK))
    following, effects = step(waiting, Forked(session_id="t"))
    assert effects[0] == LineageForked("t")
    assert ended(effects) == [TurnEndReason.INTERRUPTED]
    assert of_kind(WorkCancelled, effects) == []
    rest = a(Idle, following)
    assert (rest.session.settings.session_id, rest.session.settings.lineage) == ("t", 2)
    assert [queued.content for queued in rest.session.inbox.queue] == [text("second"), text("first")]
    assert pending_timers(following) == []
    assert isinstance(after(OF_TASK, Forked(session_id="t")), Idle)

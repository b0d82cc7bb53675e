"""A stream that stays silent: it is looked at when the time may be over, and aborted when it is (rule INFER-11)."""

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import AbortModel, CancelTimer, StartTimer
from loopkernel.data.endings import Failure
from loopkernel.data.events import Refused, ReplyFailed, ReplyRetracted
from loopkernel.data.model_deltas import ModelReasoning, ModelStarted, ModelText, ModelUsage
from loopkernel.data.outside_deltas import TimerFired
from loopkernel.data.policy import ApprovalRule
from loopkernel.data.states import Backoff, Executing, State, Streaming
from loopkernel.data.thread_deltas import Disposed, Resumed
from loopkernel.data.timers import Timer
from loopkernel.data.tools import Decision
from loopkernel.data.usage import Usage
from loopkernel.data.user_deltas import CancelAll, ChangePolicy, Permit
from loopkernel.data.words import ErrorClass, RefusalReason, StopReason, TimerPurpose, UserAction

from tests.kernel.building import (
    ALL_TOOLS,
    ASKING_NOBODY,
    ONE,
    a,
    after,
    asked,
    checked,
    completed,
    effects_of,
    enqueue,
    failed,
    fired,
    made_call,
    named,
    pending_timers,
    session_of,
    steer,
    step,
    succeeded,
    timer,
    writes,
)

QUIET = evolve(ASKING_NOBODY, silence_ms=100)
ASKED = asked(QUIET)  # at 3 ms
HEARD = ASKED.stamp.now_ms
FIRST = timer(1)


@pytest.mark.rule("INFER-11")
@pytest.mark.rule("RETRY-1")
def test_a_stream_of_which_nothing_is_heard_is_aborted_and_asked_for_again() -> None:
    state = after(ASKED, ModelText(ONE, "so"))
    following, effects = step(state, TimerFired(FIRST), now_ms=HEARD + 101)
    assert effects[:3] == (AbortModel(ONE), ReplyFailed(ONE, ErrorClass.STALLED), ReplyRetracted(ONE))
    assert named(effects)[3:] == ["RetryScheduled", "StartTimer"]
    backoff = a(Backoff, following)
    assert (backoff.error, len(backoff.session.thread)) == (ErrorClass.STALLED, 1)
    assert step(following, ModelText(ONE, "late")) == (following, (Refused(UserAction.REPORT, RefusalReason.STALE),))


@pytest.mark.rule("INFER-11")
@given(st.lists(st.integers(1, 99), min_size=1, max_size=6))
def test_what_is_heard_in_time_keeps_the_stream_alive(pauses: list[int]) -> None:
    state: State = ASKED
    pieces: list[Delta] = [
        ModelText(ONE, "a"),
        ModelUsage(ONE, Usage(output=1)),
        ModelStarted(ONE, "default"),
        ModelReasoning(ONE, "a"),
        made_call(),
        made_call(verdict=None),
    ]
    now_ms = HEARD
    for pause, piece in zip(pauses, pieces, strict=False):
        silence = a(Streaming, state).silence
        assert silence is not None
        while now_ms + pause >= silence.deadline_ms:
            due_ms = silence.deadline_ms
            state, effects = step(state, TimerFired(silence.operation), now_ms=due_ms)
            silence = a(Streaming, state).silence
            assert silence is not None
            assert effects == (
                StartTimer(operation=silence.operation, purpose=TimerPurpose.SILENCE, deadline_ms=silence.deadline_ms),
            )
            assert due_ms < silence.deadline_ms == now_ms + 100  # from when the stream was last heard of
        now_ms += pause
        state = step(state, piece, now_ms=now_ms).next
        assert a(Streaming, state).heard_ms == now_ms


@pytest.mark.rule("INFER-11")
@pytest.mark.parametrize("delta", [steer("a"), enqueue("b"), Permit(ApprovalRule(decision=Decision.DENY)), checked(1)])
def test_what_others_send_says_nothing_of_the_stream(delta: Delta) -> None:
    state = after(ASKED, made_call(verdict=None))
    heard = a(Streaming, state).heard_ms
    assert a(Streaming, step(state, delta, now_ms=HEARD + 50).next).heard_ms == heard


@pytest.mark.rule("INFER-11")
@pytest.mark.parametrize(
    "end", [completed(StopReason.END_TURN), failed(), failed(ErrorClass.AUTH), CancelAll(), Disposed()], ids=str
)
def test_the_timer_is_closed_with_the_stream(end: Delta) -> None:
    following, effects = step(after(ASKED, ModelText(ONE, "so")), end)
    assert CancelTimer(FIRST) in effects
    assert not any(pending.purpose is TimerPurpose.SILENCE for pending in pending_timers(following))


@pytest.mark.rule("INFER-11")
@pytest.mark.rule("DELTA-8")
@pytest.mark.parametrize("silence_ms", [None, 20, 500])
def test_under_another_policy_the_stream_may_be_silent_for_another_time(silence_ms: int | None) -> None:
    state = step(ASKED, ModelText(ONE, "so"), now_ms=HEARD + 30).next
    following, effects = step(state, ChangePolicy(evolve(QUIET, silence_ms=silence_ms)), now_ms=HEARD + 60)
    silence = a(Streaming, following).silence
    deadline_ms = HEARD + 30 + (silence_ms or 0)
    assert silence == (None if silence_ms is None else Timer(timer(2), TimerPurpose.SILENCE, deadline_ms))
    assert named(effects) == ["CancelTimer", *([] if silence is None else ["StartTimer"])]
    assert step(following, fired(1)) == (following, (Refused(UserAction.REPORT, RefusalReason.STALE),))
    begun = after(following, ChangePolicy(QUIET))
    again = a(Streaming, begun).silence
    assert again is not None
    assert again.deadline_ms == HEARD + 130
    assert named(effects_of(begun, ChangePolicy(QUIET))) == []  # nothing is another


@pytest.mark.rule("INFER-11")
def test_without_a_limit_nothing_is_looked_at() -> None:
    state = asked(evolve(ASKING_NOBODY, silence_ms=None))
    assert (state.silence, pending_timers(state)) == (None, [])


@pytest.mark.rule("INFER-11")
@pytest.mark.rule("TOOL-9")
@pytest.mark.rule("CANCEL-3")
def test_a_silent_stream_with_an_effect_is_kept_and_the_failure_is_recovered_behind_its_run() -> None:
    state = asked(QUIET, made_call("early_write", writes("a")), ModelUsage(ONE, Usage(output=2)), tools=ALL_TOOLS)
    executing, effects = step(state, TimerFired(FIRST), now_ms=HEARD + 500)
    assert named(effects) == ["AbortModel", "ReplyFailed", "MessageAdded"]
    assert a(Executing, executing).settled == Failure(
        request=ONE, error=ErrorClass.STALLED, message="the model was silent for too long", begun=True
    )
    assert session_of(executing).usage == Usage(output=2)
    following, effects = step(executing, succeeded(1))
    assert named(effects)[-2:] == ["RetryScheduled", "StartTimer"]
    late = step(following, completed(usage=Usage(output=5))).next
    assert (session_of(late).usage, isinstance(late, Backoff)) == (Usage(output=5), True)


@pytest.mark.rule("RESUME-3")
@pytest.mark.rule("INFER-11")
def test_after_a_crash_the_new_request_has_a_time_of_its_own() -> None:
    following, effects = step(after(ASKED, ModelText(ONE, "so")), Resumed(), now_ms=HEARD + 1_000)
    silence = a(Streaming, following).silence
    assert silence == Timer(timer(2), TimerPurpose.SILENCE, HEARD + 1_100)
    assert named(effects) == ["SessionResumed", "ReplyRetracted", "CallModel", "StartTimer"]

"""What follows the failure of a model call: a smaller request, a retry, another model, or the end."""

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.choices import ErrorDisplay, NoProfileApproval, OnError
from loopkernel.data.effects import CallModel, StartTimer
from loopkernel.data.endings import Ending, Failure
from loopkernel.data.events import ErrorShown, MessageAdded, OpaqueDropped, RetryScheduled
from loopkernel.data.ids import ModelOperation
from loopkernel.data.messages import UserMessage, UserOrigin
from loopkernel.data.model_deltas import ModelFailed, ModelOpaque, ModelText
from loopkernel.data.outside_deltas import HookRetry, TimerFired
from loopkernel.data.policy import ClearResults, Policy, Retry, Truncation
from loopkernel.data.sessions import NO_RECOVERY, Recovery, ShownError, Turn
from loopkernel.data.states import Backoff, Done, Idle, State, Streaming
from loopkernel.data.timers import Timer
from loopkernel.data.user_deltas import RetryNow
from loopkernel.data.words import ErrorClass, RequestReason, StopReason, TimerPurpose, TurnEndReason
from loopkernel.loop.algorithms.clearing import is_cleared
from loopkernel.loop.algorithms.wording import failure_text
from loopkernel.loop.turn.failure import Recovered, recover_from

from tests.kernel.building import (
    ASKING_NOBODY,
    NOTHING,
    ONE,
    a,
    after,
    asked,
    at_rest,
    completed,
    effects_of,
    enqueue,
    failed,
    made_call,
    named,
    of_kind,
    results_of,
    say,
    session_of,
    step,
    succeeded,
    text,
    timer,
    working,
)
from tests.kernel.drafts import drafted
from tests.kernel.gates import AFTER_MODEL, gated, hooked, says

TURN = Turn(number=1, opened_ms=0)
QUIET = evolve(ASKING_NOBODY, retry=None)
RETRIED = Retry().classes
FOR_GOOD = [error for error in ErrorClass if error not in (*RETRIED, ErrorClass.REFUSED, ErrorClass.PROMPT_TOO_LONG)]
FALLS_BACK = [error for error in FOR_GOOD if error not in (ErrorClass.AUTH, ErrorClass.BAD_REQUEST)]


def recovering(
    error: ErrorClass = ErrorClass.SERVER,
    policy: Policy = ASKING_NOBODY,
    used: Recovery = NO_RECOVERY,
    *,
    retry_after_ms: int | None = None,
    now_ms: int = 100,
    begun: bool = False,
) -> Recovered[None]:
    """Where the failure of the first request leads."""
    session = at_rest(policy).session
    failure = Failure(request=ONE, error=error, message="why", retry_after_ms=retry_after_ms, begun=begun)
    return recover_from(drafted(session, now_ms), evolve(TURN, recovery=used), failure)


# --- retries ----------------------------------------------------------------------------------------------


@pytest.mark.rule("INFER-11")
@pytest.mark.parametrize(
    ("begun", "retry_after_ms", "used", "helps"),
    [
        (True, None, False, True),
        (True, 0, False, True),
        (True, 1, False, False),  # the server has asked for time
        (False, None, False, False),
        (True, None, True, False),
    ],
)
def test_a_stream_that_breaks_off_is_asked_for_whole_at_once_and_once(
    begun: bool, retry_after_ms: int | None, used: bool, helps: bool
) -> None:
    policy = evolve(ASKING_NOBODY, retry=Retry(unstreamed=(ErrorClass.NETWORK,)))
    before = Recovery(unstreamed=used)
    found = recovering(ErrorClass.NETWORK, policy, before, retry_after_ms=retry_after_ms, begun=begun)
    assert (found.way is None) is helps
    assert found.turn.recovery.unstreamed is (helps or used)


@pytest.mark.rule("INFER-11")
@pytest.mark.rule("RETRY-4")
def test_what_is_asked_for_behind_a_reply_that_came_whole_streams_again() -> None:
    retry, escalating = Retry(unstreamed=(ErrorClass.SERVER,)), Truncation(escalate_to=(20_000,))
    policy = evolve(ASKING_NOBODY, retry=retry, on_truncation=escalating, max_output_tokens=10_000)
    whole = after(asked(policy, ModelText(ONE, "so")), failed())
    assert a(Streaming, whole).turn.recovery.unstreamed
    longer = a(Streaming, after(whole, completed(StopReason.MAX_TOKENS, reply=2)))
    assert longer.turn.reason is RequestReason.MAX_OUTPUT_TOKENS_ESCALATE
    assert not longer.turn.recovery.unstreamed
    hooked_policy = hooked(gated(AFTER_MODEL), policy=policy)
    hooked_end = after(after(asked(hooked_policy, ModelText(ONE, "so")), failed()), completed(reply=2))
    again = a(Streaming, after(hooked_end, says(1, HookRetry())))
    assert again.turn.reason is RequestReason.HOOK_RETRY
    assert not again.turn.recovery.unstreamed


@pytest.mark.rule("RETRY-1")
@pytest.mark.rule("RETRY-3")
@pytest.mark.parametrize("error", RETRIED)
@pytest.mark.parametrize("attempt", [0, 3])
def test_a_class_that_policy_lists_waits_for_its_retry(error: ErrorClass, attempt: int) -> None:
    found = recovering(error, used=Recovery(retries=attempt))
    delay = 5_000 * 2**attempt
    assert found.draft.effects == (
        RetryScheduled(delay, attempt + 1),
        StartTimer(operation=timer(1), purpose=TimerPurpose.RETRY, deadline_ms=100 + delay),
    )
    assert found.way == Timer(timer(1), TimerPurpose.RETRY, 100 + delay)
    assert found.draft.session.error is None
    assert (found.turn.reason, found.turn.recovery.retries) == (RequestReason.ERROR_RETRY, attempt + 1)


@pytest.mark.rule("RETRY-2")
@given(st.integers(0, 400_000), st.integers(0, 400_000), st.integers(0, 4))
def test_the_server_may_ask_for_more_up_to_the_cap(asked_ms: int, cap_ms: int, attempt: int) -> None:
    policy = evolve(ASKING_NOBODY, retry_after_cap_ms=cap_ms)
    found = recovering(policy=policy, used=Recovery(retries=attempt), retry_after_ms=asked_ms)
    if asked_ms > cap_ms:
        assert found.draft.effects == ()
        assert found.way == Ending(reason=TurnEndReason.ERROR, error=ErrorClass.SERVER, message="why")
    else:
        assert isinstance(found.way, Timer)
        assert found.way.deadline_ms - 100 == max(asked_ms, min(5_000 * 2**attempt, 60_000))


@pytest.mark.rule("RETRY-2")
@given(st.integers(0, 2**63), st.integers(0, 1_000))
def test_jitter_comes_from_the_seed_in_state(seed: int, jitter_ms: int) -> None:
    policy = evolve(ASKING_NOBODY, seed=seed, retry=Retry(jitter_ms=jitter_ms))
    found, again = recovering(policy=policy), recovering(policy=policy)
    assert (found.way, found.turn) == (again.way, again.turn)
    assert isinstance(found.way, Timer)
    assert 5_100 <= found.way.deadline_ms <= 5_100 + jitter_ms


# --- fallbacks --------------------------------------------------------------------------------------------

LARGE = evolve(ASKING_NOBODY, model="large", fallback_models=("middle", "small"), retry=Retry(retries=1))


@pytest.mark.rule("RETRY-6")
@pytest.mark.parametrize("error", [*RETRIED, *FALLS_BACK, ErrorClass.REFUSED])
def test_the_next_model_is_asked_at_once_with_a_fresh_counter(error: ErrorClass) -> None:
    found = recovering(error, LARGE, Recovery(retries=1, raised=1, fed_back=True))
    assert (found.way, found.draft.effects) == (None, ())
    assert found.turn.reason is RequestReason.ERROR_RETRY
    assert found.turn.recovery == Recovery(model=1, raised=1, fed_back=True)


@pytest.mark.rule("RETRY-6")
@pytest.mark.parametrize("error", [ErrorClass.AUTH, ErrorClass.BAD_REQUEST, ErrorClass.PROMPT_TOO_LONG])
def test_what_any_model_would_answer_the_same_falls_back_on_none(error: ErrorClass) -> None:
    assert recovering(error, LARGE).way == Ending(reason=TurnEndReason.ERROR, error=error, message="why")


@pytest.mark.rule("RETRY-6")
def test_the_fallback_answers_to_the_end_of_the_turn_and_the_first_model_the_next() -> None:
    state: State = asked(LARGE)
    state = after(state, failed(), RetryNow(), failed(reply=2))
    assert a(Streaming, state).reply.model == "middle"
    state = after(state, made_call(reply=3), completed(StopReason.TOOL_USE, reply=3), succeeded(1))
    assert a(Streaming, state).reply.model == "middle"
    again, effects = step(state, failed(reply=4))
    assert [scheduled.attempt for scheduled in of_kind(RetryScheduled, effects)] == [1]
    last = after(again, RetryNow(), failed(reply=5))
    assert a(Streaming, last).reply.model == "small"
    over = after(last, failed(reply=6), RetryNow(), failed(reply=7))
    assert a(Idle, over).session.error == ShownError(ErrorClass.SERVER, "")
    assert a(Streaming, after(over, RetryNow())).reply.model == "large"


@pytest.mark.rule("INFER-15")
@pytest.mark.rule("RETRY-6")
def test_a_fallback_is_not_given_what_only_the_first_model_understands() -> None:
    state = asked(LARGE, ModelOpaque(ONE, NOTHING), made_call(), completed(StopReason.TOOL_USE), succeeded(1))
    effects = effects_of(state, failed(ErrorClass.UNKNOWN, reply=2))
    assert named(effects) == ["ReplyFailed", "OpaqueDropped", "CallModel"]
    assert of_kind(OpaqueDropped, effects) == [OpaqueDropped(ModelOperation(3), ("large",))]


# --- a prompt that is too long ----------------------------------------------------------------------------


@pytest.mark.rule("INFER-8")
@pytest.mark.parametrize("errors", ErrorDisplay)
def test_a_prompt_that_is_too_long_is_made_smaller_once(errors: ErrorDisplay) -> None:
    clearing = ClearResults(above=100, keep=1)
    policy = evolve(LARGE, clear_results=clearing, errors=errors)
    state: State = working(made_call(), made_call(), policy=policy)
    state = after(state, succeeded(1, "first"), succeeded(2, "second"))
    following, effects = step(state, failed(ErrorClass.PROMPT_TOO_LONG, reply=2))
    shown = ["ErrorShown"] if errors is ErrorDisplay.SHOWN else []
    assert named(effects) == ["ReplyFailed", *shown, "ResultsCleared", "CallModel"]
    (call,) = of_kind(CallModel, effects)
    assert (call.request.reason, call.request.model) == (RequestReason.COLLAPSE_DRAIN_RETRY, "large")
    assert [is_cleared(result) for result in results_of(following)] == [True, False]
    over, effects = step(following, failed(ErrorClass.PROMPT_TOO_LONG, reply=3))
    assert named(effects)[-3:] == ["ReplyFailed", "ErrorShown", "TurnEnded"]
    assert a(Idle, over).session.error == ShownError(ErrorClass.PROMPT_TOO_LONG, "")


@pytest.mark.rule("INFER-8")
@pytest.mark.parametrize("clearing", [None, ClearResults(keep=2)])
def test_where_nothing_can_be_cleared_it_surfaces(clearing: ClearResults | None) -> None:
    policy = evolve(ASKING_NOBODY, clear_results=clearing)
    state: State = working(made_call(), made_call(), policy=policy)
    state = after(state, succeeded(1), succeeded(2), failed(ErrorClass.PROMPT_TOO_LONG, reply=2))
    assert a(Idle, state).session.last_end is TurnEndReason.ERROR


# --- what is shown, and when ------------------------------------------------------------------------------


@pytest.mark.rule("INFER-9")
@pytest.mark.parametrize("errors", ErrorDisplay)
@pytest.mark.parametrize("policy", [ASKING_NOBODY, evolve(LARGE, retry=None)], ids=["retry", "fallback"])
def test_an_error_under_recovery_is_shown_by_policy(errors: ErrorDisplay, policy: Policy) -> None:
    found = recovering(policy=evolve(policy, errors=errors))
    shown = [ErrorShown(ErrorClass.SERVER, "why")] if errors is ErrorDisplay.SHOWN else []
    assert of_kind(ErrorShown, found.draft.effects) == shown
    assert found.draft.effects[: len(shown)] == tuple(shown)
    assert found.draft.session.error == (ShownError(ErrorClass.SERVER, "why") if shown else None)


@pytest.mark.rule("INFER-9")
@pytest.mark.rule("RETRY-7")
@pytest.mark.parametrize("errors", ErrorDisplay)
@pytest.mark.parametrize("on_error", [way for way in OnError if way is not OnError.FEED_BACK])
@pytest.mark.parametrize("error", [*RETRIED, *FOR_GOOD])
def test_an_unrecovered_error_is_shown_once_at_the_end_of_the_turn(
    error: ErrorClass, on_error: OnError, errors: ErrorDisplay
) -> None:
    found = recovering(error, evolve(QUIET, on_error=on_error, errors=errors))
    assert found.draft.effects == ()  # the end of the turn shows it
    final = on_error is not OnError.REST
    assert found.way == Ending(reason=TurnEndReason.ERROR, error=error, message="why", final=final)


# --- an error that nothing recovers -----------------------------------------------------------------------


@pytest.mark.rule("RETRY-7")
@pytest.mark.parametrize("on_error", OnError)
def test_an_unrecovered_error_rests_or_ends_the_run_as_policy_says(on_error: OnError) -> None:
    state = after(asked(evolve(QUIET, on_error=on_error), enqueue("later")), failed(ErrorClass.AUTH))
    if on_error is OnError.FEED_BACK:
        state = after(state, failed(ErrorClass.AUTH, reply=2))
    session = session_of(state)
    assert (session.last_end, session.error) == (TurnEndReason.ERROR, ShownError(ErrorClass.AUTH, ""))
    assert isinstance(state, Idle if on_error is OnError.REST else Done)
    assert len(session.inbox.queue) == (1 if on_error is OnError.REST else 0)


@pytest.mark.rule("RETRY-7")
@pytest.mark.rule("INFER-10")
@pytest.mark.parametrize("on_error", OnError)
@pytest.mark.parametrize("errors", ErrorDisplay)
def test_a_refused_call_ends_as_a_refusal_whatever_policy_says_of_errors(
    on_error: OnError, errors: ErrorDisplay
) -> None:
    found = recovering(ErrorClass.REFUSED, evolve(ASKING_NOBODY, on_error=on_error, errors=errors))
    refused = Ending(reason=TurnEndReason.REFUSAL, error=ErrorClass.REFUSED, message="why")
    assert (found.way, found.draft.effects) == (refused, ())


@pytest.mark.rule("RETRY-7")
def test_an_error_is_fed_back_once_a_turn() -> None:
    policy = evolve(ASKING_NOBODY, on_error=OnError.FEED_BACK, errors=ErrorDisplay.SHOWN)
    fed, effects = step(asked(policy), ModelFailed(ONE, error=ErrorClass.AUTH, message="no key"))
    assert named(effects) == ["ReplyFailed", "MessageAdded", "CallModel"]
    (added,) = of_kind(MessageAdded, effects)
    message = a(UserMessage, added.message)
    assert (message.origin, message.receipt) == (UserOrigin.ERROR_FEEDBACK, None)
    assert message.content == text(failure_text(ErrorClass.AUTH, "no key"))
    assert "auth" in failure_text(ErrorClass.AUTH, "no key")
    (call,) = of_kind(CallModel, effects)
    assert call.request.reason is RequestReason.ERROR_RETRY
    over, effects = step(fed, failed(ErrorClass.BAD_REQUEST, reply=2))
    assert named(effects) == ["ReplyFailed", "ErrorShown", "TurnEnded"]
    assert a(Done, over).reason is TurnEndReason.ERROR
    spoken = after(fed, ModelText(ModelOperation(2), "so"), completed(reply=2), say("more"))
    assert isinstance(after(spoken, failed(ErrorClass.AUTH, reply=3)), Streaming)  # another turn
    worked = a(Streaming, after(fed, made_call("write", reply=2), completed(reply=2), succeeded(1)))
    assert isinstance(after(worked, failed(ErrorClass.AUTH, reply=3)), Done)  # the same one


@pytest.mark.rule("RETRY-4")
@pytest.mark.rule("RETRY-7")
def test_a_fed_back_error_starts_the_counter_again_and_keeps_the_model() -> None:
    policy = evolve(LARGE, on_error=OnError.FEED_BACK)
    found = recovering(policy=policy, used=Recovery(model=2, retries=1))
    assert found.turn.recovery == Recovery(model=2, fed_back=True)
    assert (found.way, named(found.draft.effects)) == (None, ["MessageAdded"])


@given(
    st.builds(
        Policy,
        retry=st.none() | st.builds(Retry, retries=st.integers(0, 3)),
        fallback_models=st.sampled_from(((), ("b",), ("b", "c"))),
        on_error=st.sampled_from(OnError),
        errors=st.sampled_from(ErrorDisplay),
        no_profile_approval=st.just(NoProfileApproval.ALLOW),
    ),
    st.data(),
)
def test_a_model_that_always_fails_brings_the_run_to_rest(policy: Policy, data: st.DataObject) -> None:
    state: State = asked(policy)
    retries = 0 if policy.retry is None else policy.retry.retries
    most = (2 if policy.on_error is OnError.FEED_BACK else 1) * (1 + len(policy.fallback_models)) * (1 + retries)
    requests = 0
    while not isinstance(state, Idle | Done):
        if isinstance(state, Backoff):
            state = after(state, TimerFired(state.timer.operation))
        else:
            requests += 1
            assert requests <= most
            error = data.draw(st.sampled_from(ErrorClass))
            state = after(state, failed(error, reply=a(Streaming, state).reply.operation))
    assert session_of(state).last_end in (TurnEndReason.ERROR, TurnEndReason.REFUSAL)
    assert session_of(state).error is not None

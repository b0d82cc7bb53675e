"""Planted bugs about what endures: lost results, retries, limits and recoveries.

As in `bugs`: each is caught by its own law, and by no other.
"""

from collections.abc import Callable, Iterator
from typing import TypeGuard

from attrs import evolve
from loopkernel.data.choices import ErrorDisplay
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import CallModel, Effect, StartTimer
from loopkernel.data.events import (
    LimitReached,
    LoopStopped,
    ReplyFailed,
    ReplyRetracted,
    TurnEnded,
)
from loopkernel.data.model_deltas import ModelCompleted, ModelFailed
from loopkernel.data.policy import Policy, Prices, Retry
from loopkernel.data.records import StepRecord
from loopkernel.data.sessions import Recovery, Settings
from loopkernel.data.states import Backoff, Executing, State, Streaming
from loopkernel.data.steps import Step, is_refused
from loopkernel.data.tool_deltas import ToolLost, ToolProgress, ToolSucceeded
from loopkernel.data.usage import NO_USAGE
from loopkernel.data.user_deltas import DismissError
from loopkernel.data.words import (
    ErrorClass,
    TimerPurpose,
    TurnEndReason,
)
from loopkernel.laws.views import call_of_run
from loopkernel.testing.planted.planting import (
    Plant,
    PlantedBug,
    changing_deltas,
    changing_effects,
    changing_states,
    changing_steps,
    under_policy,
    under_settings,
    with_session,
)

from tests.kernel.planted.limits import PLANTED_LIMITS

# --- lost results ---------------------------------------------------------------------------------------------


def _is_lost(delta: Delta, state: State) -> TypeGuard[ToolLost]:
    """Whether nobody will say more of the run of an open call."""
    entry = call_of_run(state, delta.operation) if isinstance(delta, ToolLost) else None
    return entry is not None and entry.is_open


def _lost_goes_on(state: State, delta: Delta) -> Delta:
    """Of a run that nobody will say more of, more is awaited."""
    return ToolProgress(delta.operation, "...") if _is_lost(delta, state) else delta


def _lost_is_done(state: State, delta: Delta) -> Delta:
    """A run that nobody will say more of is taken to have done its work."""
    return ToolSucceeded(delta.operation) if _is_lost(delta, state) else delta


# --- failures -------------------------------------------------------------------------------------------------


def _retry(change: Callable[[Retry], Retry]) -> Plant:
    """The schedule of retries is another than policy says."""

    def apply(policy: Policy) -> Policy:
        if policy.retry is None or policy.retry == Retry():
            return policy
        return evolve(policy, retry=change(policy.retry))

    return under_policy(apply)


def _retries_kept(record: StepRecord) -> State:
    """A completed reply does not make the retries whole again."""
    before, after = record.before, record.after
    if not isinstance(before, Streaming) or not isinstance(after, Streaming | Executing):
        return after
    if before.turn.number != after.turn.number or not isinstance(record.context.delta, ModelCompleted):
        return after
    kept = evolve(after.turn.recovery, retries=before.turn.recovery.retries)
    changed: State = evolve(after, turn=evolve(after.turn, recovery=kept))
    return changed


def _server_unheard(_: State, delta: Delta) -> Delta:
    return evolve(delta, retry_after_ms=None) if isinstance(delta, ModelFailed) else delta


def _server_always_waited_for(_: State, delta: Delta) -> Delta:
    """However long the server asks to wait, it is waited as long as policy allows."""
    if isinstance(delta, ModelFailed) and (delta.retry_after_ms or 0) > 1_000:
        return evolve(delta, retry_after_ms=1_000)
    return delta


def _auth_as_server(_: State, delta: Delta) -> Delta:
    if isinstance(delta, ModelFailed) and delta.error is ErrorClass.AUTH:
        return evolve(delta, error=ErrorClass.SERVER)
    return delta


def _timed_early(record: StepRecord) -> Step[State]:
    """The countdown is half as long as was said."""
    after = record.after
    if not isinstance(after, Backoff) or not isinstance(record.context.delta, ModelFailed):
        return Step(after, record.effects)
    early_ms = (after.timer.deadline_ms + after.stamp.now_ms) // 2
    told = (
        evolve(effect, deadline_ms=early_ms)
        if isinstance(effect, StartTimer) and effect.purpose is TimerPurpose.RETRY
        else effect
        for effect in record.effects
    )
    return Step(evolve(after, timer=evolve(after.timer, deadline_ms=early_ms)), tuple(told))


def _failed_reply_stays_seen(record: StepRecord) -> Iterator[Effect]:
    failed = any(isinstance(effect, ReplyFailed) for effect in record.effects)
    for effect in record.effects:
        if not (failed and isinstance(effect, ReplyRetracted)):
            yield effect


# --- limits ---------------------------------------------------------------------------------------------------


def _one_token_more(policy: Policy) -> Policy:
    return policy if policy.max_total_tokens is None else evolve(policy, max_total_tokens=policy.max_total_tokens + 1)


def _one_call_more(policy: Policy) -> Policy:
    return policy if policy.max_tool_calls is None else evolve(policy, max_tool_calls=policy.max_tool_calls + 1)


def _twice_the_time(settings: Settings, state: State, _: Delta) -> Settings:
    """While calls run the turn may take twice its time; a reply under way still has what it was given."""
    wall_ms = settings.policy.max_wall_ms
    if wall_ms is None or not isinstance(state, Executing) or state.ledger.unanswered < 2:
        return settings
    return evolve(settings, policy=evolve(settings.policy, max_wall_ms=2 * wall_ms))


def _output_is_free(policy: Policy) -> Policy:
    return evolve(policy, prices=Prices(input=policy.prices.input))


def _failures_unbilled(_: State, delta: Delta) -> Delta:
    return evolve(delta, usage=NO_USAGE) if isinstance(delta, ModelFailed) else delta


def _late_billed_twice(record: StepRecord) -> State:
    before, after = record.before.session, record.after.session
    if before is None or after is None or not is_refused(record.effects) or before.usage == after.usage:
        return record.after
    extra = after.usage.beyond(before.usage)
    return with_session(record.after, lambda session: evolve(session, usage=session.usage.plus(extra)))


def _retracted_counted(record: StepRecord) -> State:
    """A reply that is asked again under a higher limit counts as one of the turn."""
    after = record.after
    retracted = any(isinstance(effect, ReplyRetracted) for effect in record.effects)
    if isinstance(after, Streaming) and isinstance(record.context.delta, ModelCompleted) and retracted:
        return evolve(after, turn=evolve(after.turn, replies=after.turn.replies + 1))
    return after


def _limit_untold(record: StepRecord) -> Iterator[Effect]:
    return (effect for effect in record.effects if not isinstance(effect, LimitReached))


# --- recoveries -----------------------------------------------------------------------------------------------


def _uncounted(forget: Callable[[Recovery], Recovery]) -> Plant:
    """A recovery is never counted, so that it is tried without end."""

    def change(record: StepRecord) -> State:
        after = record.after
        if not isinstance(after, Streaming):
            return after
        return evolve(after, turn=evolve(after.turn, recovery=forget(after.turn.recovery)))

    return changing_states(change)


def _disabled_offered(record: StepRecord) -> Iterator[Effect]:
    for effect in record.effects:
        if isinstance(effect, CallModel) and record.after.session is not None:
            yield evolve(effect, request=evolve(effect.request, tools=record.after.session.settings.tools))
        else:
            yield effect


def _dismissed_turn_open(record: StepRecord) -> Iterator[Effect]:
    dismissed = isinstance(record.context.delta, DismissError)
    return (effect for effect in record.effects if not (dismissed and isinstance(effect, TurnEnded)))


def _repetition_is_stuck(record: StepRecord) -> Iterator[Effect]:
    stopped = any(isinstance(effect, LoopStopped) for effect in record.effects)
    for effect in record.effects:
        if stopped and isinstance(effect, TurnEnded):
            yield evolve(effect, reason=TurnEndReason.STUCK)
        else:
            yield effect


PLANTED_ENDURANCE = (
    PlantedBug(name="lost-run-goes-on", law="ONE-END", plant=changing_deltas(_lost_goes_on)),
    PlantedBug(name="lost-is-done", law="ONE-END", plant=changing_deltas(_lost_is_done)),
    PlantedBug(name="retries-never-whole-again", law="RETRY-LAW", plant=changing_states(_retries_kept)),
    PlantedBug(name="retry-after-ignored", law="RETRY-LAW", plant=changing_deltas(_server_unheard)),
    PlantedBug(name="retry-after-without-cap", law="RETRY-LAW", plant=changing_deltas(_server_always_waited_for)),
    PlantedBug(name="one-retry-over", law="RETRY-LAW", plant=_retry(lambda retry: evolve(retry, retries=3))),
    PlantedBug(name="waits-less-than-its-base", law="RETRY-LAW", plant=_retry(lambda retry: evolve(retry, base_ms=20))),
    PlantedBug(
        name="waits-more-than-its-jitter", law="RETRY-LAW", plant=_retry(lambda retry: evolve(retry, jitter_ms=400))
    ),
    PlantedBug(name="retry-timed-early", law="RETRY-LAW", plant=changing_steps(_timed_early)),
    PlantedBug(name="auth-is-retried", law="RETRY-LAW", plant=changing_deltas(_auth_as_server)),
    PlantedBug(name="falls-back-at-once", law="RETRY-LAW", plant=_retry(lambda retry: evolve(retry, classes=()))),
    PlantedBug(
        name="withheld-error-shown",
        law="RETRY-LAW",
        plant=under_policy(lambda policy: evolve(policy, errors=ErrorDisplay.SHOWN)),
    ),
    PlantedBug(name="failed-reply-stays-seen", law="RETRY-LAW", plant=changing_effects(_failed_reply_stays_seen)),
    PlantedBug(name="one-token-over", law="BUDGET", plant=under_policy(_one_token_more)),
    PlantedBug(name="one-call-over", law="BUDGET", plant=under_policy(_one_call_more)),
    PlantedBug(name="time-over", law="BUDGET", plant=under_settings(_twice_the_time)),
    PlantedBug(name="output-unpriced", law="BUDGET", plant=under_policy(_output_is_free)),
    PlantedBug(name="failures-unbilled", law="BUDGET", plant=changing_deltas(_failures_unbilled)),
    PlantedBug(name="late-usage-billed-twice", law="BUDGET", plant=changing_states(_late_billed_twice)),
    PlantedBug(name="retracted-reply-counted", law="BUDGET", plant=changing_states(_retracted_counted)),
    PlantedBug(name="limit-untold", law="BUDGET", plant=changing_effects(_limit_untold)),
    PlantedBug(name="raised-limit-uncounted", law="PROGRESS", plant=_uncounted(lambda used: evolve(used, raised=0))),
    PlantedBug(
        name="continuations-uncounted", law="PROGRESS", plant=_uncounted(lambda used: evolve(used, continuations=0))
    ),
    PlantedBug(name="disabled-tool-offered", law="PROGRESS", plant=changing_effects(_disabled_offered)),
    PlantedBug(name="dismissed-turn-open", law="PROGRESS", plant=changing_effects(_dismissed_turn_open)),
    PlantedBug(name="repetition-is-stuck", law="PROGRESS", plant=changing_effects(_repetition_is_stuck)),
    *PLANTED_LIMITS,
)

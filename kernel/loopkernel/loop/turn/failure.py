"""What follows the failure of a model call: a smaller request, a retry, another model, or the end (section RETRY)."""

from typing import Generic, assert_never

from attrs import evolve

from loopkernel.data.choices import CompactionStrategy, ErrorDisplay, OnError
from loopkernel.data.endings import Ending, Failure
from loopkernel.data.events import RetryScheduled
from loopkernel.data.messages import UserOrigin
from loopkernel.data.policy import Policy
from loopkernel.data.sessions import Turn
from loopkernel.data.timers import Timer
from loopkernel.data.value_classes import frozen
from loopkernel.data.words import ErrorClass, RequestReason, TimerPurpose, TurnEndReason
from loopkernel.loop.algorithms.retry import Dice, GiveUp, NextModel, WaitForRetry, recover
from loopkernel.loop.algorithms.wording import failure_text
from loopkernel.loop.draft import Draft, L
from loopkernel.loop.history.compaction import (
    OpenSummary,
    clear_under_pressure,
    clears_under_pressure,
    compact,
    planned_cut,
    shorten_oldest,
)
from loopkernel.loop.history.thread import add_note


@frozen
class Recovered(Generic[L]):
    """Where a failure leads: to an ending, or to a request behind a summary or a timer; None: at once."""

    draft: Draft[L]
    turn: Turn
    way: Ending | OpenSummary | Timer | None = None


def recover_from(draft: Draft[L], turn: Turn, failure: Failure) -> Recovered[L]:
    """The first of the ways out that is open; each can be taken only so often (rules INFER-8, RETRY-1, 2 and 6)."""
    if failure.error is ErrorClass.PROMPT_TOO_LONG:
        clearing = clears_under_pressure(draft.session)
        shorter = shorten_oldest(show_at_once(draft, failure)) if clearing is None else None
        if shorter is not None:
            return Recovered(shorter, evolve(turn, reason=RequestReason.COLLAPSE_DRAIN_RETRY))
        if clearing is None:
            return _compacted(draft, turn, failure)
        draft = clear_under_pressure(show_at_once(draft, failure), clearing)
        return Recovered(draft, evolve(turn, reason=RequestReason.COLLAPSE_DRAIN_RETRY))
    settings, used = draft.session.settings, turn.recovery
    if _helps_unstreamed(settings.policy, turn, failure):
        turn = evolve(turn, reason=RequestReason.ERROR_RETRY, recovery=evolve(used, unstreamed=True))
        return Recovered(show_at_once(draft, failure), turn)
    way = recover(
        settings.policy,
        failure.error,
        retry_after_ms=failure.retry_after_ms,
        attempt=used.retries,
        model=used.model,
        dice=Dice(seed=settings.policy.seed, session_id=settings.session_id, lineage=settings.lineage),
        request=failure.request,
    )
    match way:
        case WaitForRetry(delay_ms, attempt):
            draft = show_at_once(draft, failure).tell(RetryScheduled(delay_ms, attempt))
            draft, timer = draft.start_timer(TimerPurpose.RETRY, draft.stamp.now_ms + delay_ms)
            turn = evolve(turn, reason=RequestReason.ERROR_RETRY, recovery=evolve(used, retries=attempt))
            return Recovered(draft, turn, timer)
        case NextModel(index):
            turn = evolve(
                turn, reason=RequestReason.ERROR_RETRY, recovery=evolve(used, model=index, retries=0, unstreamed=False)
            )
            return Recovered(show_at_once(draft, failure), turn)
        case GiveUp():
            return surface(draft, turn, failure)
        case _:
            assert_never(way)


def _helps_unstreamed(policy: Policy, turn: Turn, failure: Failure) -> bool:
    """Whether a stream that had begun has failed so that policy asks at once for the whole reply (rule INFER-11)."""
    listed = policy.retry is not None and failure.error in policy.retry.unstreamed
    return listed and failure.begun and (failure.retry_after_ms or 0) <= 0 and not turn.recovery.unstreamed


def _compacted(draft: Draft[L], turn: Turn, failure: Failure) -> Recovered[L]:
    """The prompt is too long and nothing is left to clear: one compaction, until a reply is complete (INFER-8).

    A window is cut again, as long as there is something to cut.
    """
    policy = draft.session.settings.policy.compaction
    again = policy is not None and policy.strategy is CompactionStrategy.WINDOW
    cut = planned_cut(draft.session, too_long=True) if again or not turn.recovery.compacted else None
    if cut is None:
        return surface(draft, turn, failure)
    draft, summary = compact(show_at_once(draft, failure), cut)
    used = evolve(turn.recovery, compacted=True)
    return Recovered(draft, evolve(turn, reason=RequestReason.REACTIVE_COMPACT_RETRY, recovery=used), summary)


def show_at_once(draft: Draft[L], failure: Failure) -> Draft[L]:
    """By policy, also an error that is being recovered is shown (rule INFER-9)."""
    if draft.session.settings.policy.errors is ErrorDisplay.WITHHELD:
        return draft
    return draft.show_error(failure.error, failure.message)


def surface(draft: Draft[L], turn: Turn, failure: Failure) -> Recovered[L]:
    """Nothing recovers the failure: what then happens is the policy's choice (rule RETRY-7)."""
    ended = Ending(reason=TurnEndReason.ERROR, error=failure.error, message=failure.message)
    if failure.error is ErrorClass.REFUSED:
        return Recovered(draft, turn, evolve(ended, reason=TurnEndReason.REFUSAL))
    match draft.session.settings.policy.on_error:
        case OnError.REST:
            return Recovered(draft, turn, ended)
        case OnError.END | OnError.RAISE:
            return Recovered(draft, turn, evolve(ended, final=True))
        case OnError.FEED_BACK:
            if turn.recovery.fed_back:
                return Recovered(draft, turn, evolve(ended, final=True))
            draft = add_note(draft, failure_text(failure.error, failure.message), UserOrigin.ERROR_FEEDBACK)
            used = evolve(turn.recovery, retries=0, fed_back=True)
            return Recovered(draft, evolve(turn, reason=RequestReason.ERROR_RETRY, recovery=used))
        case other:
            assert_never(other)

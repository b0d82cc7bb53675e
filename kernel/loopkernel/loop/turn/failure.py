"""What follows the failure of a model call: a smaller request, a retry, another model, or the end (section RETRY)."""

from typing import assert_never

from attrs import evolve, frozen

from loopkernel.data.choices import ErrorDisplay, OnError
from loopkernel.data.compactions import Cut
from loopkernel.data.effects import Effect
from loopkernel.data.endings import Ending, Failure
from loopkernel.data.events import RetryScheduled
from loopkernel.data.ids import SummaryOperation
from loopkernel.data.messages import UserOrigin
from loopkernel.data.sessions import Session, Turn
from loopkernel.data.timers import Timer
from loopkernel.data.words import ErrorClass, RequestReason, TimerPurpose, TurnEndReason
from loopkernel.loop.algorithms.retry import Dice, GiveUp, NextModel, WaitForRetry, recover
from loopkernel.loop.algorithms.wording import failure_text
from loopkernel.loop.gates.shown_error import show_error
from loopkernel.loop.gates.timers import start_timer
from loopkernel.loop.history.clearing import clear_under_pressure
from loopkernel.loop.history.compaction import compact
from loopkernel.loop.history.thread import add_note


@frozen(kw_only=True)
class Recovered:
    """Where a failure leads: to its `ending`; else to a request, at once or when the `timer` has run out.

    Behind a `summary`, the operation that makes it and what is cut, the request comes when that is there.
    """

    session: Session
    turn: Turn
    effects: tuple[Effect, ...] = ()
    ending: Ending | None = None
    timer: Timer | None = None
    summary: tuple[SummaryOperation, Cut] | None = None


def recover_from(session: Session, turn: Turn, failure: Failure, now_ms: int) -> Recovered:
    """The first of the ways out that is open; each can be taken only so often (rules INFER-8, RETRY-1, 2 and 6)."""
    if failure.error is ErrorClass.PROMPT_TOO_LONG:
        smaller, cleared = clear_under_pressure(session)
        if not cleared:
            return _compacted(session, turn, failure)
        smaller, shown = _shown_at_once(smaller, failure)
        again = evolve(turn, reason=RequestReason.COLLAPSE_DRAIN_RETRY)
        return Recovered(session=smaller, turn=again, effects=(*shown, *cleared))
    settings, used = session.settings, turn.recovery
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
            session, shown = _shown_at_once(session, failure)
            operations, timer, started = start_timer(session.operations, TimerPurpose.RETRY, now_ms + delay_ms)
            turn = evolve(turn, reason=RequestReason.ERROR_RETRY, recovery=evolve(used, retries=attempt))
            effects = (*shown, RetryScheduled(delay_ms, attempt), started)
            return Recovered(session=session.with_operations(operations), turn=turn, effects=effects, timer=timer)
        case NextModel(index):
            session, shown = _shown_at_once(session, failure)
            turn = evolve(turn, reason=RequestReason.ERROR_RETRY, recovery=evolve(used, model=index, retries=0))
            return Recovered(session=session, turn=turn, effects=shown)
        case GiveUp():
            return surface(session, turn, failure)
        case _:
            assert_never(way)


def _compacted(session: Session, turn: Turn, failure: Failure) -> Recovered:
    """The prompt is too long and nothing is left to clear: one compaction, until a reply is complete (INFER-8)."""
    opened = None if turn.recovery.compacted else compact(session)
    if opened is None:
        return surface(session, turn, failure)
    session, shown = _shown_at_once(opened.session, failure)
    used = evolve(turn.recovery, compacted=True)
    turn = evolve(turn, reason=RequestReason.REACTIVE_COMPACT_RETRY, recovery=used)
    summary = None if opened.operation is None else (opened.operation, opened.cut)
    return Recovered(session=session, turn=turn, effects=(*shown, *opened.effects), summary=summary)


def _shown_at_once(session: Session, failure: Failure) -> tuple[Session, tuple[Effect, ...]]:
    """By policy, also an error that is being recovered is shown (rule INFER-9)."""
    if session.settings.policy.errors is ErrorDisplay.WITHHELD:
        return session, ()
    return show_error(session, failure.error, failure.message)


def surface(session: Session, turn: Turn, failure: Failure) -> Recovered:
    """Nothing recovers the failure: what then happens is the policy's choice (rule RETRY-7)."""
    ended = Ending(reason=TurnEndReason.ERROR, error=failure.error, message=failure.message)
    if failure.error is ErrorClass.REFUSED:
        return Recovered(session=session, turn=turn, ending=evolve(ended, reason=TurnEndReason.REFUSAL))
    match session.settings.policy.on_error:
        case OnError.REST:
            return Recovered(session=session, turn=turn, ending=ended)
        case OnError.END | OnError.RAISE:
            return Recovered(session=session, turn=turn, ending=evolve(ended, final=True))
        case OnError.FEED_BACK:
            if turn.recovery.fed_back:
                return Recovered(session=session, turn=turn, ending=evolve(ended, final=True))
            session, told = add_note(session, failure_text(failure.error, failure.message), UserOrigin.ERROR_FEEDBACK)
            used = evolve(turn.recovery, retries=0, fed_back=True)
            turn = evolve(turn, reason=RequestReason.ERROR_RETRY, recovery=used)
            return Recovered(session=session, turn=turn, effects=told)
        case other:
            assert_never(other)

"""What the user wants, where it does not depend on the phase: at rest, and while the loop is busy."""

from typing import assert_never

from attrs import evolve

from loopkernel.data.choices import OnBusy
from loopkernel.data.effects import Effect
from loopkernel.data.events import Dequeued, ErrorCleared
from loopkernel.data.ledgers import Ledger
from loopkernel.data.messages import UserOrigin
from loopkernel.data.sessions import Session, Turn
from loopkernel.data.user_deltas import (
    AnswersCall,
    CallAnswer,
    CancelAll,
    CancelCall,
    ChangesSettings,
    CompactNow,
    Discard,
    DismissError,
    EditMessage,
    Enqueue,
    RetryNow,
    Say,
    SettingsChange,
    StartHandoff,
    Steer,
    UserDelta,
)
from loopkernel.data.words import NATURAL_ENDS, CancelReason, RefusalReason, RequestReason, TurnEndReason
from loopkernel.loop.calls.held_runs import abort_all_in_background, abort_in_background, background_run
from loopkernel.loop.gates.refusals import answer_refusal, cancel_refusal, refusal
from loopkernel.loop.gates.settings import change_settings
from loopkernel.loop.history.compaction import request_compaction
from loopkernel.loop.turn.cancelling import edit_refusal
from loopkernel.loop.turn.editing import drop_from, drop_refused_reply
from loopkernel.loop.turn.inbox import (
    discard,
    is_full,
    queue_input,
    seen_before,
    steer_input,
    take_oldest,
    take_receipt,
)
from loopkernel.loop.turn.request import open_turn, open_turn_with

Taken = tuple[Session, tuple[Effect, ...]]
Opened = tuple[Session, Turn | None, tuple[Effect, ...]]


def input_at_rest(session: Session, now_ms: int, delta: UserDelta) -> Opened:
    """User input while nothing is open; a turn comes back when one begins."""
    match delta:
        case Say() | Steer():
            if seen_before(session, delta):
                return session, None, refusal(delta, RefusalReason.DUPLICATE)
            return message_at_rest(session, now_ms, delta)
        case Enqueue():
            if seen_before(session, delta):
                return session, None, refusal(delta, RefusalReason.DUPLICATE)
            return _enqueue_at_rest(session, now_ms, delta)
        case RetryNow():
            if session.last_end is None or session.last_end in NATURAL_ENDS:
                return session, None, refusal(delta, RefusalReason.NOT_NOW)
            dropped: tuple[Effect, ...] = ()
            if session.last_end is TurnEndReason.REFUSAL:
                session, dropped = drop_refused_reply(session, now_ms)
            session, turn = open_turn(session, now_ms, RequestReason.ERROR_RETRY)
            return session, turn, dropped
        case EditMessage():
            refused = edit_refusal(session, delta)
            if refused is not None:
                return session, None, refusal(delta, refused)
            session, aborted = abort_all_in_background(session, CancelReason.EDITED, now_ms)
            session, turn, opened = message_at_rest(session, now_ms, delta)
            return session, turn, (*aborted, *opened)
        case CancelAll():
            return session, None, refusal(delta, RefusalReason.NOT_NOW)
        case CancelCall() | AnswersCall() | ChangesSettings() | Discard() | DismissError():
            session, effects = _input_in_any_phase(session, None, delta, now_ms)
            return session, None, effects
        case CompactNow() | StartHandoff():
            return session, None, refusal(delta, RefusalReason.NOT_NOW)
        case _:
            assert_never(delta)


def message_at_rest(
    session: Session, now_ms: int, delta: Say | Steer | EditMessage
) -> tuple[Session, Turn, tuple[Effect, ...]]:
    """A message that is taken starts a turn; an edit drops what it replaces, and all that follows, first."""
    session, receipt = take_receipt(session, delta.key)
    session, dropped = drop_from(session, delta.message) if isinstance(delta, EditMessage) else (session, ())
    session, turn, added = open_turn_with(session, now_ms, delta.content, receipt, key=delta.key)
    return session, turn, (*dropped, *added)


def _enqueue_at_rest(session: Session, now_ms: int, delta: Enqueue) -> Opened:
    """The oldest queued input starts a turn at once (rule INPUT-2)."""
    if not session.inbox.queue:
        session, receipt = take_receipt(session, delta.key)
        return open_turn_with(session, now_ms, delta.content, receipt, key=delta.key)
    session, queued = queue_input(session, delta.content, delta.key)
    session, turn, dequeued = open_queued_turn(session, now_ms)
    return session, turn, (*queued, *dequeued)


def open_queued_turn(session: Session, now_ms: int) -> tuple[Session, Turn, tuple[Effect, ...]]:
    """The oldest queued input starts a turn; the queue must hold one."""
    session, oldest = take_oldest(session)
    session, turn, added = open_turn_with(session, now_ms, oldest.content, oldest.receipt, origin=UserOrigin.QUEUED)
    return session, turn, (Dequeued(oldest.number), *added)


def input_while_busy(session: Session, ledger: Ledger | None, delta: UserDelta, now_ms: int) -> Taken:
    """User input while a turn is open, but for the cancels, interruptions and answers that apply."""
    match delta:
        case Say() | Enqueue() | Steer():
            if seen_before(session, delta):
                return session, refusal(delta, RefusalReason.DUPLICATE)
            if isinstance(delta, Steer):
                return steer_input(session, delta.content, delta.key)
            if isinstance(delta, Say) and session.settings.policy.on_busy is not OnBusy.QUEUE:
                return session, refusal(delta, RefusalReason.NOT_NOW)
            if is_full(session):
                return session, refusal(delta, RefusalReason.FULL)
            return queue_input(session, delta.content, delta.key)
        case CancelCall() | AnswersCall() | ChangesSettings() | Discard() | DismissError():
            return _input_in_any_phase(session, ledger, delta, now_ms)
        case EditMessage():
            return session, refusal(delta, edit_refusal(session, delta) or RefusalReason.NOT_NOW)
        case CompactNow():
            requested = request_compaction(session)
            return (session, refusal(delta, RefusalReason.NOT_NOW)) if requested is None else (requested, ())
        case RetryNow() | StartHandoff() | CancelAll():
            return session, refusal(delta, RefusalReason.NOT_NOW)
        case _:
            assert_never(delta)


def _input_in_any_phase(
    session: Session,
    ledger: Ledger | None,
    delta: CallAnswer | CancelCall | SettingsChange | Discard | DismissError,
    now_ms: int,
) -> Taken:
    """What is the same at rest and while busy, where no call of the reply is meant."""
    match delta:
        case ChangesSettings():
            return change_settings(session, delta)
        case Discard():
            return discard(session, delta)
        case DismissError():
            if session.error is None:
                return session, refusal(delta, RefusalReason.NOT_NOW)
            return evolve(session, error=None), (ErrorCleared(),)
        case CancelCall():
            run = background_run(session, delta.call)
            if run is not None:
                return abort_in_background(session, run, CancelReason.USER_CANCELLED, now_ms)
            return session, refusal(delta, cancel_refusal(session, ledger, delta.call))
        case AnswersCall():
            return session, refusal(delta, answer_refusal(session, ledger, delta.call))
        case _:
            assert_never(delta)

"""What the user wants, where it does not depend on the phase: at rest, and while the loop is busy."""

from typing import assert_never

from attrs import evolve

from loopkernel.data.choices import OnBusy
from loopkernel.data.events import Dequeued, ErrorCleared, Refused
from loopkernel.data.messages import UserOrigin
from loopkernel.data.sessions import Turn
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
from loopkernel.loop.calls.approvals import answer_call
from loopkernel.loop.calls.children import tell_children
from loopkernel.loop.calls.held_runs import abort_all_in_background, abort_in_background, background_run
from loopkernel.loop.calls.schedule import forget_plan
from loopkernel.loop.calls.stopping import open_place, stop_call
from loopkernel.loop.draft import CallsDraft, Draft, L
from loopkernel.loop.gates.refusals import answer_refusal, cancel_refusal, refusal
from loopkernel.loop.gates.settings import change_settings
from loopkernel.loop.history.compaction import request_compaction
from loopkernel.loop.turn.cancelling import edit_refusal
from loopkernel.loop.turn.editing import cut_from, cut_refused_reply
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


def input_at_rest(draft: Draft[None], delta: UserDelta) -> tuple[Draft[None], Turn | None] | Refused:
    """User input while nothing is open; a turn comes back when one begins."""
    match delta:
        case Say() | Steer():
            if seen_before(draft.session, delta):
                return refusal(delta, RefusalReason.DUPLICATE)
            return message_at_rest(draft, delta)
        case Enqueue():
            if seen_before(draft.session, delta):
                return refusal(delta, RefusalReason.DUPLICATE)
            return _enqueue_at_rest(draft, delta)
        case RetryNow():
            last_end = draft.session.last_end
            if last_end is None or last_end in NATURAL_ENDS:
                return refusal(delta, RefusalReason.NOT_NOW)
            if last_end is TurnEndReason.REFUSAL:
                draft = cut_refused_reply(draft)
            return open_turn(draft, RequestReason.ERROR_RETRY)
        case EditMessage():
            refused = edit_refusal(draft.session, delta)
            if refused is not None:
                return refusal(delta, refused)
            return message_at_rest(abort_all_in_background(draft, CancelReason.EDITED), delta)
        case CancelAll() | CompactNow() | StartHandoff():
            return refusal(delta, RefusalReason.NOT_NOW)
        case CancelCall() | AnswersCall() | ChangesSettings() | Discard() | DismissError():
            taken = _input_in_any_phase(draft, delta)
            return taken if isinstance(taken, Refused) else (taken, None)
        case _:
            assert_never(delta)


def message_at_rest(draft: Draft[L], delta: Say | Steer | EditMessage) -> tuple[Draft[L], Turn]:
    """A message that is taken starts a turn; an edit cuts off what it replaces, and all that follows, first."""
    draft, receipt = take_receipt(draft, delta.key)
    draft = cut_from(draft, delta.message) if isinstance(delta, EditMessage) else draft
    return open_turn_with(draft, delta.content, receipt, key=delta.key)


def _enqueue_at_rest(draft: Draft[L], delta: Enqueue) -> tuple[Draft[L], Turn]:
    """The oldest queued input starts a turn at once (rule INPUT-2)."""
    if not draft.session.inbox.queue:
        draft, receipt = take_receipt(draft, delta.key)
        return open_turn_with(draft, delta.content, receipt, key=delta.key)
    return open_queued_turn(queue_input(draft, delta.content, delta.key))


def open_queued_turn(draft: Draft[L]) -> tuple[Draft[L], Turn]:
    """The oldest queued input starts a turn; the queue must hold one."""
    draft, oldest = take_oldest(draft)
    draft = draft.tell(Dequeued(oldest.number))
    return open_turn_with(draft, oldest.content, oldest.receipt, origin=UserOrigin.QUEUED)


def input_while_busy(draft: Draft[L], delta: UserDelta) -> Draft[L] | Refused:
    """User input while a turn is open, but for the cancels, interruptions and answers that apply."""
    match delta:
        case Say() | Enqueue() | Steer():
            if seen_before(draft.session, delta):
                return refusal(delta, RefusalReason.DUPLICATE)
            if isinstance(delta, Steer):
                return steer_input(draft, delta.content, delta.key)
            if isinstance(delta, Say) and draft.session.settings.policy.on_busy is not OnBusy.QUEUE:
                return refusal(delta, RefusalReason.NOT_NOW)
            if is_full(draft.session):
                return refusal(delta, RefusalReason.FULL)
            return queue_input(draft, delta.content, delta.key)
        case CancelCall() | AnswersCall() | ChangesSettings() | Discard() | DismissError():
            return _input_in_any_phase(draft, delta)
        case EditMessage():
            return refusal(delta, edit_refusal(draft.session, delta) or RefusalReason.NOT_NOW)
        case CompactNow():
            return request_compaction(draft) or refusal(delta, RefusalReason.NOT_NOW)
        case RetryNow() | StartHandoff() | CancelAll():
            return refusal(delta, RefusalReason.NOT_NOW)
        case _:
            assert_never(delta)


def _input_in_any_phase(
    draft: Draft[L], delta: CallAnswer | CancelCall | SettingsChange | Discard | DismissError
) -> Draft[L] | Refused:
    """What is the same at rest and while busy, where no open call of the reply is meant."""
    session, ledger = draft.session, draft.ledger
    match delta:
        case ChangesSettings():
            return change_settings(draft, delta)
        case Discard():
            return discard(draft, delta)
        case DismissError():
            if session.error is None:
                return refusal(delta, RefusalReason.NOT_NOW)
            return draft.with_session(evolve(session, error=None)).tell(ErrorCleared())
        case CancelCall():
            run = background_run(session, delta.call)
            if run is not None:
                return abort_in_background(draft, run, CancelReason.USER_CANCELLED)
            return refusal(delta, cancel_refusal(session, ledger, delta.call))
        case AnswersCall():
            return refusal(delta, answer_refusal(session, ledger, delta.call))
        case _:
            assert_never(delta)


def input_on_calls(draft: CallsDraft, delta: UserDelta) -> CallsDraft | Refused:
    """User input while the reply has calls, but for what cuts the turn short: it may be about one of them."""
    if isinstance(delta, AnswersCall):
        return answer_call(draft, delta)
    place = open_place(draft.ledger, delta.call) if isinstance(delta, CancelCall) else None
    if place is not None:  # one open call is answered as cancelled by the user (rule CANCEL-5)
        return stop_call(draft, place, CancelReason.USER_CANCELLED)
    taken = input_while_busy(draft, delta)
    if isinstance(taken, Refused) or not isinstance(delta, ChangesSettings):
        return taken
    return tell_children(taken.with_ledger(forget_plan(taken.ledger)), delta)

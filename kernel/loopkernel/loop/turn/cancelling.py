"""How a turn is cut short: what stops, what is answered, and in which order (section CANCEL)."""

from typing import assert_never

from attrs import evolve

from loopkernel.data.choices import OnBusy
from loopkernel.data.effects import AbortModel, Effect
from loopkernel.data.endings import Ending, NextInput
from loopkernel.data.events import ReplyAborted, WorkCancelled
from loopkernel.data.ledgers import Ledger
from loopkernel.data.model_deltas import Piece
from loopkernel.data.sessions import OpenReply, Session
from loopkernel.data.thread_deltas import Disposed
from loopkernel.data.user_deltas import CancelAll, EditMessage, Say, UserDelta
from loopkernel.data.vector import Vector
from loopkernel.data.words import CancelReason, RefusalReason, TurnEndReason
from loopkernel.loop.algorithms.replies import assemble
from loopkernel.loop.calls.held_runs import abort_all_in_background
from loopkernel.loop.calls.ledger import results
from loopkernel.loop.calls.stopping import cancel_open, put_down, timers_last, waits_for_person
from loopkernel.loop.history.compaction import was_removed
from loopkernel.loop.history.thread import add_reply, add_results
from loopkernel.loop.turn.editing import index_of_input
from loopkernel.loop.turn.inbox import seen_before, take_receipt

Cause = CancelAll | Disposed | Say | EditMessage


def cutting(session: Session, delta: UserDelta) -> CancelAll | Say | EditMessage | None:
    """What the user wants, if it cuts short a turn in progress; None if it does not."""
    if isinstance(delta, Say):
        interrupts = session.settings.policy.on_busy is OnBusy.INTERRUPT and not seen_before(session, delta)
        return delta if interrupts else None
    if isinstance(delta, EditMessage):
        return delta if edit_refusal(session, delta) is None else None
    return delta if isinstance(delta, CancelAll) else None


def edit_refusal(session: Session, delta: EditMessage) -> RefusalReason | None:
    """Why the edit does not apply: it was sent before, or the user has sent no message of that id that still counts."""
    if seen_before(session, delta):
        return RefusalReason.DUPLICATE
    there = index_of_input(session, delta.message) is not None or was_removed(session, delta.message)
    return None if there else RefusalReason.UNKNOWN


def reason_of(cause: Cause) -> CancelReason:
    """Why everything is cut short."""
    match cause:
        case CancelAll():
            return CancelReason.USER_CANCELLED
        case Say():
            return CancelReason.USER_INTERRUPTED
        case EditMessage():
            return CancelReason.EDITED
        case Disposed():
            return CancelReason.DISPOSED
        case _:
            assert_never(cause)


def end_cut_short(session: Session, cause: Cause, waiting: Ledger | None = None) -> tuple[Session, Ending]:
    """The ending of a turn that is cut short; an interrupting or edited message is accepted here.

    `waiting` are the calls of a released thread that still wait for a person.
    """
    cancel = reason_of(cause)
    match cause:
        case CancelAll():
            return session, Ending(reason=TurnEndReason.USER_ABORT, cancel=cancel)
        case Disposed():
            return session, Ending(reason=TurnEndReason.DISPOSED, cancel=cancel, waiting=waiting)
        case Say():
            session, receipt = take_receipt(session, cause.key)
            then = NextInput(receipt=receipt, content=cause.content, key=cause.key)
            return session, Ending(reason=TurnEndReason.INTERRUPTED, cancel=cancel, then=then)
        case EditMessage():
            session, receipt = take_receipt(session, cause.key)
            then = NextInput(receipt=receipt, content=cause.content, key=cause.key, replaces=cause.message)
            return session, Ending(reason=TurnEndReason.EDITED, cancel=cancel, then=then)
        case _:
            assert_never(cause)


def cut_gates(
    session: Session, reason: CancelReason, now_ms: int, closed: tuple[Effect, ...] = ()
) -> tuple[Session, tuple[Effect, ...]]:
    """No reply and no call is open: what runs in the background is stopped, what else was is told, and one event."""
    session, aborted = abort_all_in_background(session, reason, now_ms)
    return session, (*timers_last((*aborted, *closed)), WorkCancelled(reason))


def cut_calls(
    session: Session, ledger: Ledger, reason: CancelReason, now_ms: int, closed: tuple[Effect, ...] = ()
) -> tuple[Session, Ledger | None, tuple[Effect, ...]]:
    """Every open call is answered, and the answers go into the thread; one event says that all was cancelled.

    When the thread is released, calls that wait for a person stay open, and their ledger comes back (rule CANCEL-2).
    """
    session, aborted = abort_all_in_background(session, reason, now_ms)
    released = reason is CancelReason.DISPOSED and any(waits_for_person(entry) for entry in ledger.entries)
    cut = cancel_open(ledger, session, reason, now_ms, but_waiting=released, closed=closed)
    session = cut.session
    if released:
        kept, session, closed = put_down(cut.ledger, session)
        return session, kept, (*aborted, *cut.effects, *closed, WorkCancelled(reason))
    session, added = add_results(session, ledger.reply, results(cut.ledger))
    return session, None, (*aborted, *cut.effects, *added, WorkCancelled(reason))


def cut_reply(
    session: Session,
    reply: OpenReply,
    pieces: Vector[Piece],
    ledger: Ledger,
    reason: CancelReason,
    now_ms: int,
    closed: tuple[Effect, ...] = (),
) -> tuple[Session, tuple[Effect, ...]]:
    """The reply under way stays in the thread with its text and its complete calls, which are answered (INPUT-5)."""
    session, stopped = stop_reply(session, reply, pieces, ledger)
    if not len(ledger.entries):
        session, cut = cut_gates(session, reason, now_ms, closed)
    else:
        session, _, cut = cut_calls(session, ledger, reason, now_ms, closed)
    return session, (*stopped, *cut)


def stop_reply(
    session: Session, reply: OpenReply, pieces: Vector[Piece], ledger: Ledger, closed: tuple[Effect, ...] = ()
) -> tuple[Session, tuple[Effect, ...]]:
    """The model is stopped; what it has used is billed, what it has said is kept. `closed`: its timers."""
    operations = session.operations.abandon_model(reply.operation, reply.usage)
    session = evolve(session, operations=operations, usage=session.usage.plus(reply.usage))
    session, kept = keep_cut_reply(session, reply, pieces, ledger)
    return session, (AbortModel(reply.operation), *closed, ReplyAborted(reply.operation), *kept)


def keep_cut_reply(
    session: Session, reply: OpenReply, pieces: Vector[Piece], ledger: Ledger
) -> tuple[Session, tuple[Effect, ...]]:
    """What has streamed of a reply goes into the thread, marked as cut: its text, and its complete calls."""
    content = assemble(pieces, (entry.call for entry in ledger.entries), reply.model)
    return add_reply(session, reply, content, None)

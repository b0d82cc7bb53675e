"""How a turn is cut short: what stops, what is answered, and in which order (section CANCEL)."""

from typing import assert_never

from attrs import evolve

from loopkernel.data.effects import AbortModel, Effect
from loopkernel.data.endings import Ending, NextInput
from loopkernel.data.events import ReplyAborted, WorkCancelled
from loopkernel.data.ledgers import Ledger
from loopkernel.data.model_deltas import Piece
from loopkernel.data.sessions import OpenReply, Session
from loopkernel.data.thread_deltas import Disposed
from loopkernel.data.user_deltas import CancelAll, Say
from loopkernel.data.vector import Vector
from loopkernel.data.words import CancelReason, TurnEndReason
from loopkernel.planning.replies import assemble
from loopkernel.regions.conversation import add_reply, add_results
from loopkernel.regions.inbox import take_receipt
from loopkernel.regions.ledger import cancel_open, results

Cause = CancelAll | Disposed | Say


def reason_of(cause: Cause) -> CancelReason:
    """Why everything is cut short."""
    match cause:
        case CancelAll():
            return CancelReason.USER_CANCELLED
        case Say():
            return CancelReason.USER_INTERRUPTED
        case Disposed():
            return CancelReason.DISPOSED
        case _:
            assert_never(cause)


def end_cut_short(session: Session, cause: Cause) -> tuple[Session, Ending]:
    """The ending of a turn that is cut short; an interrupting message is accepted here."""
    cancel = reason_of(cause)
    match cause:
        case CancelAll():
            return session, Ending(reason=TurnEndReason.USER_ABORT, cancel=cancel)
        case Disposed():
            return session, Ending(reason=TurnEndReason.DISPOSED, cancel=cancel)
        case Say():
            session, receipt = take_receipt(session, cause.key)
            then = NextInput(receipt=receipt, content=cause.content, key=cause.key)
            return session, Ending(reason=TurnEndReason.INTERRUPTED, cancel=cancel, then=then)
        case _:
            assert_never(cause)


def cut_calls(session: Session, ledger: Ledger, reason: CancelReason) -> tuple[Session, tuple[Effect, ...]]:
    """Every open call is answered, and the answers go into the thread; one event says that all was cancelled."""
    cut = cancel_open(ledger, session.operations, reason)
    session, added = add_results(session.with_operations(cut.operations), ledger.reply, results(cut.ledger))
    return session, (*cut.effects, *added, WorkCancelled(reason))


def cut_reply(
    session: Session, reply: OpenReply, pieces: Vector[Piece], ledger: Ledger, reason: CancelReason
) -> tuple[Session, tuple[Effect, ...]]:
    """The reply under way stays in the thread with its text and its complete calls, which are answered (INPUT-5)."""
    operations = session.operations.abandon_model(reply.operation, reply.usage)
    session = evolve(session, operations=operations, usage=session.usage.plus(reply.usage))
    content = assemble(pieces, (entry.call for entry in ledger.entries), reply.model)
    session, kept = add_reply(session, reply, content, None)
    aborted: tuple[Effect, ...] = (AbortModel(reply.operation), ReplyAborted(reply.operation), *kept)
    if not len(ledger.entries):
        return session, (*aborted, WorkCancelled(reason))
    session, answered = cut_calls(session, ledger, reason)
    return session, (*aborted, *answered)

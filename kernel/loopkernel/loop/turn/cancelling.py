"""How a turn is cut short, and what becomes of a reply that is not whole (section CANCEL and rule TOOL-9)."""

from typing import assert_never

from attrs import evolve

from loopkernel.data.choices import OnBusy
from loopkernel.data.effects import AbortModel
from loopkernel.data.endings import Ending, NextInput
from loopkernel.data.events import ChildFinished, ReplyAborted, WorkCancelled
from loopkernel.data.hook_calls import OpenHook
from loopkernel.data.ids import OperationKind
from loopkernel.data.ledgers import Ledger
from loopkernel.data.model_deltas import ModelCall, Piece
from loopkernel.data.sessions import OpenReply, Session, Settings
from loopkernel.data.thread_deltas import Disposed
from loopkernel.data.timers import Timer
from loopkernel.data.user_deltas import CancelAll, EditMessage, Say, UserDelta
from loopkernel.data.vector import Vector
from loopkernel.data.words import CancelReason, RefusalReason, TurnEndReason
from loopkernel.loop.algorithms.children import end_of
from loopkernel.loop.algorithms.replies import assemble
from loopkernel.loop.calls.call_hooks import forget_call_hook
from loopkernel.loop.calls.held_runs import abort_all_in_background, forget_background, without_run
from loopkernel.loop.calls.ledger import cancelled_result, close_alone, forget_check, only_reads, results
from loopkernel.loop.calls.stopping import (
    abort_work,
    cancel_open,
    cancel_unstarted,
    release_calls,
    user_cancelled,
    waits_for_person,
)
from loopkernel.loop.draft import CallsDraft, Draft, L
from loopkernel.loop.gates.hooks import Gate, abort_gate
from loopkernel.loop.history.compaction import was_removed
from loopkernel.loop.history.thread import add_reply, add_results
from loopkernel.loop.turn.editing import index_of_input
from loopkernel.loop.turn.inbox import seen_before, take_receipt
from loopkernel.loop.turn.limits import watch_calls

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


def end_cut_short(draft: Draft[L], cause: Cause, waiting: Ledger | None = None) -> tuple[Draft[L], Ending]:
    """The ending of a turn that is cut short; an interrupting or edited message is accepted here.

    `waiting` are the calls of a released thread that still wait for a person.
    """
    cancel = reason_of(cause)
    match cause:
        case CancelAll():
            return draft, Ending(reason=TurnEndReason.USER_ABORT, cancel=cancel)
        case Disposed():
            return draft, Ending(reason=TurnEndReason.DISPOSED, cancel=cancel, waiting=waiting)
        case Say():
            draft, receipt = take_receipt(draft, cause.key)
            then = NextInput(receipt=receipt, content=cause.content, key=cause.key)
            return draft, Ending(reason=TurnEndReason.INTERRUPTED, cancel=cancel, then=then)
        case EditMessage():
            draft, receipt = take_receipt(draft, cause.key)
            then = NextInput(receipt=receipt, content=cause.content, key=cause.key, replaces=cause.message)
            return draft, Ending(reason=TurnEndReason.EDITED, cancel=cancel, then=then)
        case _:
            assert_never(cause)


# --- cut short ------------------------------------------------------------------------------------------


def cut_gates(draft: Draft[L], reason: CancelReason, gate: Gate | None = None) -> Draft[L]:
    """No reply and no call is open: what runs in the background is to stop, who is asked too, and one event says so."""
    return abort_gate(abort_all_in_background(draft, reason), gate).tell(WorkCancelled(reason))


def cut_calls(
    draft: CallsDraft, reason: CancelReason, *, gate: OpenHook | None = None, timers: tuple[Timer | None, ...] = ()
) -> tuple[CallsDraft, Ledger | None]:
    """Every open call is answered, and the answers go into the thread; one event says that all was cancelled.

    When the thread is released, calls that wait for a person stay open, and their ledger comes back (rule CANCEL-2).
    `gate` is a hook that is asked about the reply, and `timers` are those of the reply.
    """
    released = reason is CancelReason.DISPOSED and any(waits_for_person(entry) for entry in draft.ledger.entries)
    draft = abort_all_in_background(draft, reason)
    draft = cancel_open(draft, reason, but_waiting=released, gate=gate, timers=timers)
    if released:
        draft = release_calls(draft)
        return draft.tell(WorkCancelled(reason)), draft.ledger
    if draft.ledger.entries.size:
        draft = add_results(draft, draft.ledger.reply, results(draft.ledger))
    return draft.tell(WorkCancelled(reason)), None


def cut_reply(
    draft: CallsDraft, reply: OpenReply, pieces: Vector[Piece], reason: CancelReason, timers: tuple[Timer | None, ...]
) -> CallsDraft:
    """The reply under way stays in the thread with its text and its complete calls, which are answered (INPUT-5)."""
    draft, _ = cut_calls(stop_reply(draft, reply, pieces), reason, timers=timers)
    return draft


def stop_reply(
    draft: CallsDraft, reply: OpenReply, pieces: Vector[Piece], timers: tuple[Timer | None, ...] = ()
) -> CallsDraft:
    """The model is to stop; what it has used is billed, what it has said is kept."""
    draft = abandon_reply(draft, reply).tell(AbortModel(reply.operation))
    for timer in timers:
        draft = draft.close_timer(timer)
    return keep_cut_reply(draft.tell(ReplyAborted(reply.operation)), reply, pieces)


def abandon_reply(draft: Draft[L], reply: OpenReply) -> Draft[L]:
    """The model call is open no more; what it has used is billed."""
    session = draft.session
    operations = session.operations.abandon_model(reply.operation, reply.usage)
    return draft.with_session(session.updated(operations=operations, usage=session.usage.plus(reply.usage)))


def keep_cut_reply(draft: CallsDraft, reply: OpenReply, pieces: Vector[Piece]) -> CallsDraft:
    """What has streamed of a reply goes into the thread, marked as cut: its text, and its complete calls."""
    content = assemble(pieces, (entry.call for entry in draft.ledger.entries), reply.model)
    return add_reply(draft, reply, content, None)


# --- kept for its effects, or discarded -----------------------------------------------------------------


def is_committed(ledger: Ledger, settings: Settings) -> bool:
    """Whether the reply can not be discarded: a call of it has run that does not only read, or the user cancelled one.

    A cancel is part of the history that the model sees (rule CANCEL-4), and ends the turn (rule TOOL-7).
    """
    started = any(entry.runs > 0 and not only_reads(entry, settings) for entry in ledger.entries)
    return started or user_cancelled(results(ledger))


def keep_for_effect(draft: CallsDraft, reply: OpenReply, pieces: Vector[Piece]) -> CallsDraft:
    """The reply is kept up to its last complete call. Calls that have not started never do; the others go on."""
    whole = [place for place, piece in enumerate(pieces) if isinstance(piece, ModelCall)]
    up_to_last_call = Vector.of(piece for place, piece in enumerate(pieces) if place <= whole[-1])
    draft = draft.with_session(draft.session.updated(watch=watch_calls(draft.session, draft.ledger)))
    return cancel_unstarted(keep_cut_reply(draft, reply, up_to_last_call), CancelReason.SUPERSEDED)


def discard_reply(draft: CallsDraft) -> CallsDraft:
    """The reply is discarded with its calls: checks are forgotten, early runs aborted and answered."""
    for place in range(draft.ledger.entries.size):
        if not draft.ledger.entries[place].is_open:
            continue
        draft, runs = abort_work(draft, place, CancelReason.SUPERSEDED)
        entry = draft.ledger.entries[place]
        if entry.runs:
            draft = close_alone(draft, place, cancelled_result(entry, CancelReason.SUPERSEDED), stopped=not runs)
    draft = abort_all_in_background(draft, CancelReason.SUPERSEDED, reply=draft.ledger.reply)
    return forget_background(draft, draft.ledger.reply)


def discard_dead_reply(draft: CallsDraft) -> CallsDraft:
    """As `discard_reply`, where the process has died and its runs with it: nothing is left to abort."""
    for run in draft.session.held:
        if run.call.reply == draft.ledger.reply:
            draft = draft.abandon(OperationKind.RUN, run.operation)
            draft = draft.with_session(without_run(draft.session, run))
    draft = forget_background(draft, draft.ledger.reply)
    for place in range(draft.ledger.entries.size):
        entry = draft.ledger.entries[place]
        if not entry.is_open:
            continue
        draft = forget_work(draft, place, CancelReason.SUPERSEDED)
        if entry.is_running:
            draft = close_alone(draft, place, cancelled_result(entry, CancelReason.SUPERSEDED))
    return draft


def forget_work(draft: CallsDraft, place: int, reason: CancelReason) -> CallsDraft:
    """What the open call has under way is of no more interest, and nobody is told: neither who runs it, nor a timer."""
    entry = draft.ledger.entries[place]
    draft = forget_call_hook(forget_check(draft, place), place)
    if entry.has_run and entry.operation is not None:
        draft = draft.abandon(OperationKind.RUN, entry.operation)
        if entry.child is not None:
            draft = draft.tell(ChildFinished(entry.call.id, end_of(reason)))
    return draft.put(place, evolve(draft.ledger.entries[place], timer=None))

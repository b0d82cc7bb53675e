"""What becomes of calls that started early, when the reply that holds them fails (rule TOOL-9)."""

from attrs import evolve

from loopkernel.data.effects import Effect
from loopkernel.data.events import ChildFinished
from loopkernel.data.ids import OperationKind
from loopkernel.data.ledgers import Ledger
from loopkernel.data.model_deltas import ModelCall, Piece
from loopkernel.data.sessions import OpenReply, Session, Settings
from loopkernel.data.vector import Vector
from loopkernel.data.words import CancelReason
from loopkernel.loop.algorithms.children import end_of
from loopkernel.loop.calls.call_hooks import forget_call_hook
from loopkernel.loop.calls.claims import only_reads
from loopkernel.loop.calls.held_runs import Ledgered, abort_background_of, forget_background, let_go
from loopkernel.loop.calls.ledger import cancelled_result, drop_check, results, shut
from loopkernel.loop.calls.stopping import abort_work, stop_call, user_cancelled
from loopkernel.loop.turn.cancelling import keep_cut_reply
from loopkernel.loop.turn.repetition import watch_calls


def is_committed(ledger: Ledger, settings: Settings) -> bool:
    """Whether the reply can not be discarded: a call of it has run that does not only read, or the user cancelled one.

    A cancel is part of the history that the model sees (rule CANCEL-4), and ends the turn (rule TOOL-7).
    """
    started = any(entry.runs > 0 and not only_reads(entry, settings) for entry in ledger.entries)
    return started or user_cancelled(results(ledger))


def keep_for_effect(session: Session, reply: OpenReply, pieces: Vector[Piece], ledger: Ledger, now_ms: int) -> Ledgered:
    """The reply is kept up to its last complete call. Calls that have not started never do; the others go on."""
    whole = [place for place, piece in enumerate(pieces) if isinstance(piece, ModelCall)]
    up_to_last_call = Vector.of(piece for place, piece in enumerate(pieces) if place <= whole[-1])
    session = session.updated(watch=watch_calls(session, ledger))
    session, kept = keep_cut_reply(session, reply, up_to_last_call, ledger)
    effects: list[Effect] = [*kept]
    for place in range(ledger.entries.size):
        entry = ledger.entries[place]
        if entry.is_open and not entry.runs:
            stopped = stop_call(ledger, session, place, CancelReason.SUPERSEDED, now_ms)
            ledger, session = stopped.ledger, stopped.session
            effects.extend(stopped.effects)
    return Ledgered(ledger, session, tuple(effects))


def drop(ledger: Ledger, session: Session, now_ms: int) -> tuple[Session, tuple[Effect, ...]]:
    """The reply is discarded with its calls: checks are abandoned, early runs aborted and closed."""
    effects: list[Effect] = []
    for place in range(ledger.entries.size):
        if ledger.entries[place].is_open:
            ledger, session, runs, aborted = abort_work(ledger, session, place, CancelReason.SUPERSEDED, now_ms)
            effects.extend(aborted)
            if ledger.entries[place].runs:
                result = cancelled_result(ledger.entries[place], CancelReason.SUPERSEDED)
                ledger, session, told = shut(ledger, session, place, result, stopped=not runs)
                effects.extend(told)
    session, aborted = abort_background_of(session, ledger.reply, CancelReason.SUPERSEDED, now_ms)
    return session, (*effects, *aborted)


def drop_after_crash(ledger: Ledger, session: Session) -> tuple[Session, tuple[Effect, ...]]:
    """As `drop`, where the process has died and its runs with it: nothing is left to abort."""
    effects: list[Effect] = []
    for run in session.held:
        if run.call.reply == ledger.reply:
            operations = session.operations.abandon(OperationKind.RUN, run.operation)
            session = let_go(session.with_operations(operations), run)
    session = forget_background(session, ledger.reply)
    for place in range(ledger.entries.size):
        entry = ledger.entries[place]
        if not entry.is_open:
            continue
        ledger, session = drop_check(ledger, session, place)
        ledger, session = forget_call_hook(ledger, session, place)
        if entry.has_run and entry.operation is not None:
            session = session.with_operations(session.operations.abandon(OperationKind.RUN, entry.operation))
            if entry.child is not None:
                effects.append(ChildFinished(entry.call.id, end_of(CancelReason.SUPERSEDED)))
        if entry.is_running:
            result = cancelled_result(entry, CancelReason.SUPERSEDED)
            ledger, session, told = shut(ledger.put(place, evolve(entry, timer=None)), session, place, result)
            effects.extend(told)
    return session, tuple(effects)

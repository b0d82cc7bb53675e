"""A fork: the state goes on in a lineage of its own, at rest; what was open stays with the other one (rule RESUME-6).

Nothing is aborted: the runs, calls and timers under way belong to the process of the lineage that was forked.
"""

from attrs import evolve

from loopkernel.data.blocks import TextBlock
from loopkernel.data.effects import Effect
from loopkernel.data.endings import Ending
from loopkernel.data.events import ChildFinished, LineageForked, ReplyAborted
from loopkernel.data.ids import OperationKind
from loopkernel.data.ledgers import Ledger
from loopkernel.data.model_deltas import Piece
from loopkernel.data.sessions import OpenReply, Session
from loopkernel.data.thread_deltas import Forked
from loopkernel.data.tools import EffectClass
from loopkernel.data.vector import Vector
from loopkernel.data.words import CallStatus, CancelReason, TurnEndReason
from loopkernel.loop.algorithms.children import end_of
from loopkernel.loop.algorithms.wording import cancelled_text
from loopkernel.loop.calls.call_hooks import forget_call_hook
from loopkernel.loop.calls.claims import effect_class
from loopkernel.loop.calls.held_runs import lost_in_background
from loopkernel.loop.calls.ledger import answer_of, cancelled_result, drop_check, results, shut
from loopkernel.loop.history.thread import add_results
from loopkernel.loop.turn.cancelling import keep_cut_reply

LEFT_BEHIND = CancelReason.USER_INTERRUPTED
FORKED = Ending(reason=TurnEndReason.INTERRUPTED, forked=True)

Forking = tuple[Session, tuple[Effect, ...]]


def fork_session(session: Session, delta: Forked) -> Forking:
    """The session of the new lineage. Runs that outlast their calls are not in it; the model is told of lost ones."""
    settings = evolve(session.settings, session_id=delta.session_id, lineage=session.settings.lineage + 1)
    session = evolve(session, settings=settings)
    for run in session.held:
        if run.background:
            operations = session.operations.abandon(OperationKind.RUN, run.operation)
            session = lost_in_background(session.with_operations(operations), run, LEFT_BEHIND)
    return evolve(session, held=()), (LineageForked(delta.session_id),)


def fork_calls(session: Session, ledger: Ledger) -> Forking:
    """Every open call is answered: of a dangerous run it is not known what becomes of it."""
    effects: list[Effect] = []
    for place in range(ledger.entries.size):
        entry = ledger.entries[place]
        if not entry.is_open:
            continue
        ledger, session = drop_check(ledger, session, place)
        ledger, session = forget_call_hook(ledger, session, place)
        if entry.has_run and entry.operation is not None:
            session = session.with_operations(session.operations.abandon(OperationKind.RUN, entry.operation))
            if entry.child is not None:
                effects.append(ChildFinished(entry.call.id, end_of(LEFT_BEHIND)))
        ledger = ledger.put(place, evolve(ledger.entries[place], timer=None))
        result = cancelled_result(entry, LEFT_BEHIND)
        if entry.runs and effect_class(entry, session.settings) is EffectClass.DANGEROUS:
            result = answer_of(
                entry, CallStatus.UNKNOWN, (TextBlock(cancelled_text(CancelReason.SAFETY)),), LEFT_BEHIND
            )
        ledger, session, told = shut(ledger, session, place, result)
        effects.extend(told)
    session, added = add_results(session, ledger.reply, results(ledger))
    return session, (*effects, *added)


def fork_reply(session: Session, reply: OpenReply, pieces: Vector[Piece], ledger: Ledger) -> Forking:
    """The reply under way stays in the thread with its text and its complete calls, which are answered (INPUT-5)."""
    operations = session.operations.abandon_model(reply.operation, reply.usage)
    session = evolve(session, operations=operations, usage=session.usage.plus(reply.usage))
    session, kept = keep_cut_reply(session, reply, pieces, ledger)
    effects: tuple[Effect, ...] = (ReplyAborted(reply.operation), *kept)
    if not ledger.entries.size:
        return session, effects
    session, answered = fork_calls(session, ledger)
    return session, (*effects, *answered)

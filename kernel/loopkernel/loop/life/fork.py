"""A fork: the state goes on in a lineage of its own, at rest; what was open stays with the other one (rule RESUME-6).

Nothing is aborted: the runs, calls and timers under way belong to the process of the lineage that was forked.
"""

from attrs import evolve

from loopkernel.data.blocks import TextBlock
from loopkernel.data.endings import Ending
from loopkernel.data.events import LineageForked, ReplyAborted
from loopkernel.data.ids import OperationKind
from loopkernel.data.model_deltas import Piece
from loopkernel.data.sessions import OpenReply
from loopkernel.data.thread_deltas import Forked
from loopkernel.data.tools import EffectClass
from loopkernel.data.vector import Vector
from loopkernel.data.words import CallStatus, CancelReason, TurnEndReason
from loopkernel.loop.algorithms.wording import cancelled_text
from loopkernel.loop.calls.held_runs import give_up_in_background
from loopkernel.loop.calls.ledger import answer_of, cancelled_result, close_alone, effect_class, results
from loopkernel.loop.draft import CallsDraft, Draft, L
from loopkernel.loop.history.thread import add_results
from loopkernel.loop.turn.cancelling import abandon_reply, forget_work, keep_cut_reply

LEFT_BEHIND = CancelReason.USER_INTERRUPTED
FORKED = Ending(reason=TurnEndReason.INTERRUPTED, forked=True)


def fork_session(draft: Draft[L], delta: Forked) -> Draft[L]:
    """The session of the new lineage. Runs that outlast their calls are not in it; the model is told of lost ones."""
    settings = evolve(draft.session.settings, session_id=delta.session_id, lineage=draft.session.settings.lineage + 1)
    draft = draft.with_session(evolve(draft.session, settings=settings))
    for run in draft.session.held:
        if run.background:
            draft = give_up_in_background(draft.abandon(OperationKind.RUN, run.operation), run, LEFT_BEHIND)
    return draft.with_session(evolve(draft.session, held=())).tell(LineageForked(delta.session_id))


def fork_calls(draft: CallsDraft) -> CallsDraft:
    """Every open call is answered, where there are calls: of a dangerous run it is not known what becomes of it."""
    for place in range(draft.ledger.entries.size):
        entry = draft.ledger.entries[place]
        if not entry.is_open:
            continue
        draft = forget_work(draft, place, LEFT_BEHIND)
        result = cancelled_result(entry, LEFT_BEHIND)
        if entry.runs and effect_class(entry, draft.session.settings) is EffectClass.DANGEROUS:
            content = (TextBlock(cancelled_text(CancelReason.SAFETY)),)
            result = answer_of(entry, CallStatus.UNKNOWN, content, LEFT_BEHIND)
        draft = close_alone(draft, place, result)
    if not draft.ledger.entries.size:
        return draft
    return add_results(draft, draft.ledger.reply, results(draft.ledger))


def fork_reply(draft: CallsDraft, reply: OpenReply, pieces: Vector[Piece]) -> CallsDraft:
    """The reply under way stays in the thread with its text and its complete calls, which are answered (INPUT-5)."""
    draft = abandon_reply(draft, reply).tell(ReplyAborted(reply.operation))
    return fork_calls(keep_cut_reply(draft, reply, pieces))

"""A reply whose stream broke behind a whole block: what is whole may stay and be gone on with (rule INFER-11)."""

from attrs import evolve

from loopkernel.data.choices import OnBrokenStream, RunCalls
from loopkernel.data.endings import Failure, GoOn
from loopkernel.data.ledgers import Ledger
from loopkernel.data.model_deltas import Piece
from loopkernel.data.sessions import NO_RECOVERY, OpenReply, Turn
from loopkernel.data.vector import Vector
from loopkernel.data.words import ErrorClass, RequestReason, StopReason
from loopkernel.loop.algorithms.replies import assemble, has_text, whole_pieces
from loopkernel.loop.draft import CallsDraft
from loopkernel.loop.history.thread import add_reply
from loopkernel.loop.turn.failure import Recovered, show_at_once, surface
from loopkernel.loop.turn.limits import watch_calls
from loopkernel.loop.turn.reply import AfterReply, counted, to_calls

# What breaks a stream; after any other failure nobody knows that what has come is sound.
_BREAKS = frozenset(
    {ErrorClass.NETWORK, ErrorClass.STALLED, ErrorClass.OVERLOADED, ErrorClass.RATE_LIMITED, ErrorClass.SERVER}
)


def whole_part(draft: CallsDraft, pieces: Vector[Piece], failure: Failure) -> tuple[Piece, ...] | None:
    """What is whole of the reply, where policy keeps that and it holds a call or says something; None: it is void."""
    policy, has_calls = draft.session.settings.policy, draft.ledger.entries.size > 0
    if policy.on_broken_stream is OnBrokenStream.RETRACT or failure.error not in _BREAKS:
        return None
    if has_calls and policy.run_calls is RunCalls.STOP_REASON:
        return None  # it has none
    whole = whole_pieces(tuple(pieces), failure.unfinished)
    return whole if has_calls or has_text(whole) else None


def keep_whole_part(
    draft: CallsDraft, turn: Turn, reply: OpenReply, whole: tuple[Piece, ...], failure: Failure
) -> AfterReply | Recovered[Ledger]:
    """The whole part stays. Its calls run as those of any reply; without calls the model is prompted to go on.

    That uses up one of the continuations of a truncated reply. Where none is left, the failure surfaces.
    """
    policy, has_calls = draft.session.settings.policy, draft.ledger.entries.size > 0
    content = assemble(whole, (entry.call for entry in draft.ledger.entries), reply.model)
    draft = draft.with_session(draft.session.updated(watch=watch_calls(draft.session, draft.ledger)))
    used = turn.recovery
    if has_calls:
        draft = add_reply(show_at_once(draft, failure), reply, content, StopReason.TOOL_USE)
        return to_calls(draft, counted(policy, turn, has_calls, NO_RECOVERY))
    if used.continuations < policy.on_truncation.continuations:
        draft = add_reply(show_at_once(draft, failure), reply, content, None)
        turn = evolve(turn, recovery=evolve(used, continuations=used.continuations + 1))
        return AfterReply(draft, turn, GoOn(RequestReason.BROKEN_STREAM_RECOVERY))
    return surface(add_reply(draft, reply, content, None), turn, failure)

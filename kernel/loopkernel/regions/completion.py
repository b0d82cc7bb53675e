"""A complete reply: into the thread with it, and on to its calls, the next request, or the end of the turn."""

from typing import Literal, assert_never

from attrs import evolve, frozen

from loopkernel.data.choices import TruncationEnd
from loopkernel.data.effects import Effect
from loopkernel.data.endings import Ending
from loopkernel.data.events import ReplyEnded
from loopkernel.data.ledgers import Ledger
from loopkernel.data.model_deltas import Piece
from loopkernel.data.sessions import OpenReply, Session, Turn
from loopkernel.data.vector import Vector
from loopkernel.data.words import (
    CancelReason,
    ErrorClass,
    RequestReason,
    StopReason,
    TurnEndReason,
)
from loopkernel.planning.budget import counts_as_reply
from loopkernel.planning.replies import MAX_PAUSES, Outcome, assemble, has_text, outcome
from loopkernel.regions.conversation import add_reply, add_results
from loopkernel.regions.errors import show_error
from loopkernel.regions.ledger import answer_all_faulty, results
from loopkernel.regions.schedule import failed_run, forget_plan
from loopkernel.regions.stops import cancel_open, cancel_others, user_cancelled

WithoutCalls = Literal[
    Outcome.SKIP_CALLS,
    Outcome.CONTINUE_PAUSED,
    Outcome.NATURAL_END,
    Outcome.EMPTY,
    Outcome.TRUNCATED,
    Outcome.REFUSED,
    Outcome.BLOCKED,
]


@frozen(kw_only=True)
class AfterReply:
    """Where a complete reply leads: to its `ending`, else to the calls of its `ledger`, else to a request."""

    session: Session
    turn: Turn
    effects: tuple[Effect, ...]
    ending: Ending | None = None
    ledger: Ledger | None = None


def complete_reply(
    session: Session,
    turn: Turn,
    reply: OpenReply,
    pieces: Vector[Piece],
    ledger: Ledger,
    stop: StopReason,
    now_ms: int,
) -> AfterReply:
    """The reply is billed and appended; what follows depends on how it stopped (rules INFER-4, 5 and 13)."""
    policy = session.settings.policy
    calls = len(ledger.entries) > 0
    content = assemble(pieces, (entry.call for entry in ledger.entries), reply.model)
    session, added = add_reply(evolve(session, usage=session.usage.plus(reply.usage)), reply, content, stop)
    effects: tuple[Effect, ...] = (ReplyEnded(reply.operation, stop), *added)
    follows = outcome(policy.run_calls, stop, calls, has_text(pieces))
    counted = turn.replies + 1 if counts_as_reply(policy, calls) else turn.replies
    turn = evolve(turn, replies=counted, pauses=turn.pauses + 1 if follows is Outcome.CONTINUE_PAUSED else 0)
    if follows is Outcome.RUN_CALLS:
        answered = answer_all_faulty(forget_plan(ledger), session)
        effects = (*effects, *answered.effects)
        if failed_run(answered.ledger, session.settings):
            answered = cancel_others(answered.ledger, answered.session, CancelReason.SIBLING, now_ms, running=True)
            effects = (*effects, *answered.effects)
        return AfterReply(session=answered.session, turn=turn, effects=effects, ledger=answered.ledger)
    if calls:
        session, skipped = _skip_calls(session, ledger, now_ms)
        effects = (*effects, *skipped)
    after = AfterReply(session=session, turn=turn, effects=effects)
    if user_cancelled(results(ledger)):
        return evolve(after, ending=Ending(reason=TurnEndReason.USER_ABORT))
    return _follow(after, follows, stop)


def _skip_calls(session: Session, ledger: Ledger, now_ms: int) -> tuple[Session, tuple[Effect, ...]]:
    """The calls of the reply do not run: they are answered so (rule INFER-5)."""
    skipped = cancel_open(ledger, session, CancelReason.SUPERSEDED, now_ms)
    session, added = add_results(skipped.session, ledger.reply, results(skipped.ledger))
    return session, (*skipped.effects, *added)


def _follow(after: AfterReply, follows: WithoutCalls, stop: StopReason) -> AfterReply:
    """What a reply leads to whose calls, if any, do not run."""
    match follows:
        case Outcome.NATURAL_END | Outcome.SKIP_CALLS:
            return _natural(after, stop)
        case Outcome.EMPTY:
            return _after_empty(after, stop)
        case Outcome.CONTINUE_PAUSED:
            if after.turn.pauses > MAX_PAUSES:
                return evolve(after, ending=Ending(reason=TurnEndReason.STUCK))
            return evolve(after, turn=evolve(after.turn, reason=RequestReason.TOKEN_BUDGET_CONTINUATION))
        case Outcome.TRUNCATED:
            return _after_truncation(after)
        case Outcome.REFUSED:
            return _ended_with_error(after, ErrorClass.REFUSED, TurnEndReason.REFUSAL)
        case Outcome.BLOCKED:
            filtered = stop is StopReason.CONTENT_FILTERED
            reason = TurnEndReason.CONTENT_FILTERED if filtered else TurnEndReason.GUARDRAIL
            return evolve(after, ending=Ending(reason=reason))
        case _:
            assert_never(follows)


def _natural(after: AfterReply, stop: StopReason) -> AfterReply:
    """The model has finished (rule INFER-6), unless it owes an output: that is asked for once (rule CALL-5)."""
    if after.session.settings.policy.output_required:
        if after.turn.demanded:
            return _ended_with_error(after, ErrorClass.INVALID_OUTPUT, TurnEndReason.ERROR)
        return evolve(after, turn=evolve(after.turn, demanded=True, reason=RequestReason.NUDGE))
    stopped = stop is StopReason.STOP_SEQUENCE
    reason = TurnEndReason.STOP_SEQUENCE if stopped else TurnEndReason.MODEL_STOP
    return evolve(after, ending=Ending(reason=reason, natural=True, gated=True))


def _after_empty(after: AfterReply, stop: StopReason) -> AfterReply:
    """A reply with neither text nor calls is nudged, so many times a turn (rule INFER-13)."""
    policy, turn = after.session.settings.policy, after.turn
    if policy.empty_reply_nudges == 0 or policy.output_required:
        return _natural(after, stop)
    if turn.nudges >= policy.empty_reply_nudges:
        return evolve(after, ending=Ending(reason=TurnEndReason.STUCK))
    return evolve(after, turn=evolve(turn, nudges=turn.nudges + 1, reason=RequestReason.NUDGE))


def _after_truncation(after: AfterReply) -> AfterReply:
    """The output limit was hit; asking for more is not built yet, so the turn ends as policy says (rule INFER-7)."""
    match after.session.settings.policy.on_truncation.then:
        case TruncationEnd.FAIL:
            return _ended_with_error(after, ErrorClass.MAX_TOKENS, TurnEndReason.MAX_TOKENS)
        case TruncationEnd.STOP:
            return evolve(after, ending=Ending(reason=TurnEndReason.MAX_TOKENS))
        case TruncationEnd.NATURAL:
            return _natural(after, StopReason.END_TURN)
        case other:
            assert_never(other)


def _ended_with_error(after: AfterReply, error: ErrorClass, reason: TurnEndReason) -> AfterReply:
    session, shown = show_error(after.session, error, "")
    return evolve(after, session=session, effects=(*after.effects, *shown), ending=Ending(reason=reason))

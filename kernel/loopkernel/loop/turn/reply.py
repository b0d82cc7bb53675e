"""A complete reply: into the thread with it, and on to its calls, the next request, or the end of the turn."""

from typing import Literal, assert_never

from attrs import evolve, frozen

from loopkernel.data.blocks import AssistantBlock, TextBlock, ToolCall
from loopkernel.data.choices import ErrorDisplay, RunCalls, TruncatedCalls, TruncationEnd
from loopkernel.data.effects import Effect
from loopkernel.data.endings import Ending, GoOn
from loopkernel.data.events import ReplyRetracted
from loopkernel.data.ledgers import Ledger
from loopkernel.data.model_deltas import ModelCompleted, Piece
from loopkernel.data.policy import Policy
from loopkernel.data.sessions import NO_RECOVERY, OpenReply, Recovery, Session, Turn
from loopkernel.data.vector import Vector
from loopkernel.data.words import (
    CancelReason,
    ErrorClass,
    RequestReason,
    StopReason,
    TurnEndReason,
)
from loopkernel.loop.algorithms.budget import counts_as_reply
from loopkernel.loop.algorithms.replies import MAX_PAUSES, Outcome, assemble, has_text, outcome
from loopkernel.loop.algorithms.wording import call_note, cut_call_text
from loopkernel.loop.calls.call_hooks import abort_call_hook
from loopkernel.loop.calls.faults import answer_all_faulty
from loopkernel.loop.calls.held_runs import Ledgered
from loopkernel.loop.calls.ledger import close, drop_check, error_result, results
from loopkernel.loop.calls.schedule import failed_run, forget_plan
from loopkernel.loop.calls.stopping import cancel_open, cancel_others, user_cancelled
from loopkernel.loop.gates.shown_error import show_error
from loopkernel.loop.history.thread import add_reply, add_results
from loopkernel.loop.turn.early_runs import drop, is_committed
from loopkernel.loop.turn.editing import redact_input, redacted_reply
from loopkernel.loop.turn.repetition import watch_calls
from loopkernel.loop.turn.request import output_limit

Following = tuple[Turn, Ending | GoOn]


@frozen(kw_only=True)
class AfterReply:
    """Where a complete reply leads.

    To the calls of its `ledger`, where it has any to answer, and then, else at once, to what is `settled`: an ending or
    a request. None, behind calls: what the answers to them lead to.
    """

    session: Session
    turn: Turn
    effects: tuple[Effect, ...]
    ledger: Ledger | None = None
    settled: Ending | GoOn | None = None


@frozen(kw_only=True)
class Complete:
    """What the reply is, when it is complete."""

    reply: OpenReply
    pieces: Vector[Piece]
    ledger: Ledger
    delta: ModelCompleted

    @property
    def has_calls(self) -> bool:
        """Whether the model has called anything."""
        return self.ledger.entries.size > 0


def complete_reply(
    session: Session, turn: Turn, complete: Complete, now_ms: int, *, blocked: bool = False
) -> AfterReply:
    """The reply is billed; it is appended, or asked again; what follows depends on how it stopped (INFER-4 to 7).

    `blocked`: a hook does not let the turn go on, as a guardrail does not (rule HOOK-2).
    """
    reply, ledger, stop = complete.reply, complete.ledger, complete.delta.stop
    usage = session.usage.plus(reply.usage)
    follows = outcome(session.settings.policy.run_calls, stop, complete.has_calls, has_text(complete.pieces))
    session, redacted = redact_input(session, complete.delta.redaction)
    if follows is Outcome.TRUNCATED and not blocked:
        after = _truncated(session.updated(usage=usage), turn, complete, now_ms)
        return evolve(after, effects=(*redacted, *after.effects)) if redacted else after
    pauses = turn.pauses + 1 if follows is Outcome.CONTINUE_PAUSED else 0
    turn = _counted(session.settings.policy, turn, complete, NO_RECOVERY, pauses)
    session = session.updated(usage=usage, watch=watch_calls(session, ledger))
    session, added = add_reply(session, reply, _content(complete), stop)
    effects: tuple[Effect, ...] = (*redacted, *added)
    if follows is Outcome.RUN_CALLS and not blocked:
        return _with_calls(session, turn, ledger, effects, now_ms)
    if complete.has_calls:
        session, skipped = _skip_calls(session, ledger, now_ms)
        effects = (*effects, *skipped)
    if user_cancelled(results(ledger)):
        settled: Ending | GoOn = Ending(reason=TurnEndReason.USER_ABORT)
    elif blocked or follows is Outcome.RUN_CALLS or follows is Outcome.TRUNCATED:
        settled = Ending(reason=TurnEndReason.GUARDRAIL)
    else:
        turn, settled = _follow(session.settings.policy, turn, follows, stop)
    return AfterReply(session=session, turn=turn, effects=effects, settled=settled)


def keep_completed(session: Session, complete: Complete) -> tuple[Session, tuple[Effect, ...]]:
    """A whole reply goes into the thread, and nothing more is done with it: its turn was cut short."""
    session, redacted = redact_input(session, complete.delta.redaction)
    session, added = add_reply(session, complete.reply, _content(complete), complete.delta.stop)
    return session, (*redacted, *added)


def _content(complete: Complete) -> tuple[AssistantBlock, ...]:
    content = assemble(complete.pieces, (entry.call for entry in complete.ledger.entries), complete.reply.model)
    return redacted_reply(content, complete.delta.redaction)


def _counted(policy: Policy, turn: Turn, complete: Complete, recovery: Recovery, pauses: int = 0) -> Turn:
    """The turn with one more completed reply: retries are counted anew, and the model that was fallen back on stays."""
    used = turn.recovery
    if used is not recovery:
        recovery = evolve(recovery, model=used.model, retries=0, compacted=False, fed_back=used.fed_back)
    replies = turn.replies + 1 if counts_as_reply(policy, complete.has_calls) else turn.replies
    return turn.answered(replies, pauses, recovery)


def _with_calls(
    session: Session,
    turn: Turn,
    ledger: Ledger,
    effects: tuple[Effect, ...],
    now_ms: int,
    settled: Ending | GoOn | None = None,
) -> AfterReply:
    """The calls of the reply are to be answered."""
    answered = answer_all_faulty(forget_plan(ledger), session)
    effects = (*effects, *answered.effects)
    if failed_run(answered.ledger, session.settings):
        answered = cancel_others(answered.ledger, answered.session, CancelReason.SIBLING, now_ms, running=True)
        effects = (*effects, *answered.effects)
    return AfterReply(session=answered.session, turn=turn, effects=effects, ledger=answered.ledger, settled=settled)


def _skip_calls(session: Session, ledger: Ledger, now_ms: int) -> tuple[Session, tuple[Effect, ...]]:
    """The calls of the reply do not run: they are answered so (rule INFER-5)."""
    skipped = cancel_open(ledger, session, CancelReason.SUPERSEDED, now_ms)
    session, added = add_results(skipped.session, ledger.reply, results(skipped.ledger))
    return session, (*skipped.effects, *added)


# --- truncation -----------------------------------------------------------------------------------------


def _truncated(session: Session, turn: Turn, complete: Complete, now_ms: int) -> AfterReply:
    """The output limit was hit: a higher one, then a prompt to go on, then the end that policy chose (rule INFER-7)."""
    policy = session.settings.policy
    committed = is_committed(complete.ledger, session.settings)
    raised = _next_limit(policy, turn, complete.reply.limit)
    if raised is not None and not committed:
        return _asked_again(session, turn, complete, raised, now_ms)
    used, forcing = turn.recovery, turn.forcing
    if raised is not None:
        turn = _counted(policy, turn, complete, evolve(used, raised=raised))
        settled: Ending | GoOn = GoOn(RequestReason.MAX_OUTPUT_TOKENS_ESCALATE)
    elif used.continuations < policy.on_truncation.continuations:
        turn = _counted(policy, turn, complete, evolve(used, continuations=used.continuations + 1))
        settled = GoOn(RequestReason.MAX_OUTPUT_TOKENS_RECOVERY)
    else:
        turn, settled = _given_up(policy, _counted(policy, turn, complete, evolve(used, retries=0)))
    turn = evolve(turn, forcing=turn.forcing or forcing)  # what was demanded is still to come
    stop = complete.delta.stop
    effects: tuple[Effect, ...] = ()
    if isinstance(settled, GoOn):
        session, effects = _shown_at_once(session)
    content = _content(complete)
    if policy.on_truncation.calls is TruncatedCalls.NOTE and not committed:
        session, dropped = drop(complete.ledger, session, now_ms)
        session, added = add_reply(session, complete.reply, _without_calls(content, complete.ledger), stop)
        return AfterReply(session=session, turn=turn, effects=(*effects, *dropped, *added), settled=settled)
    session = session.updated(watch=watch_calls(session, complete.ledger))
    session, added = add_reply(session, complete.reply, content, stop)
    effects = (*effects, *added)
    if not complete.has_calls:
        return AfterReply(session=session, turn=turn, effects=effects, settled=settled)
    if policy.run_calls is RunCalls.STOP_REASON:
        session, skipped = _skip_calls(session, complete.ledger, now_ms)
        effects = (*effects, *skipped)
        if user_cancelled(results(complete.ledger)):
            settled = Ending(reason=TurnEndReason.USER_ABORT)
        return AfterReply(session=session, turn=turn, effects=effects, settled=settled)
    ledger = complete.ledger
    if complete.delta.cut_call:
        answered = _answer_cut_call(ledger, session)
        ledger, session, effects = answered.ledger, answered.session, (*effects, *answered.effects)
    return _with_calls(session, turn, ledger, effects, now_ms, settled)


def _next_limit(policy: Policy, turn: Turn, given: int | None) -> int | None:
    """How many of the higher limits are passed with the next one; None if none is left. `given` was not enough."""
    known = [limit for limit in (given, output_limit(policy, turn)) if limit is not None]
    present = max(known, default=None)
    limits = policy.on_truncation.escalate_to
    later = range(turn.recovery.raised, len(limits))
    return next((place + 1 for place in later if present is None or limits[place] > present), None)


def _asked_again(session: Session, turn: Turn, complete: Complete, raised: int, now_ms: int) -> AfterReply:
    """The reply is taken back, and asked for under a higher limit."""
    operation = complete.reply.operation
    session, dropped = drop(complete.ledger, session, now_ms)
    effects: tuple[Effect, ...] = dropped
    if len(complete.pieces):
        effects = (*effects, ReplyRetracted(operation))
    session, shown = _shown_at_once(session)
    turn = evolve(turn, recovery=evolve(turn.recovery, raised=raised, retries=0))
    settled = GoOn(RequestReason.MAX_OUTPUT_TOKENS_ESCALATE)
    return AfterReply(session=session, turn=turn, effects=(*effects, *shown), settled=settled)


def _shown_at_once(session: Session) -> tuple[Session, tuple[Effect, ...]]:
    """By policy, also a truncation that is being recovered is shown, where it would be shown at the end (INFER-9)."""
    policy = session.settings.policy
    if policy.errors is ErrorDisplay.WITHHELD or policy.on_truncation.then is not TruncationEnd.FAIL:
        return session, ()
    return show_error(session, ErrorClass.MAX_TOKENS, "")


def _without_calls(content: tuple[AssistantBlock, ...], ledger: Ledger) -> tuple[AssistantBlock, ...]:
    """The reply with a note in the place of each call, which says of one that had started early that it has run."""
    ran = frozenset(entry.call.id for entry in ledger.entries if entry.runs)
    return tuple(
        TextBlock(call_note(block.tool, ran=block.id in ran)) if isinstance(block, ToolCall) else block
        for block in content
    )


def _answer_cut_call(ledger: Ledger, session: Session) -> Ledgered:
    """The last call has arguments that were cut: it never runs."""
    place = ledger.entries.size - 1
    entry = ledger.entries[place]
    if not entry.is_open or entry.runs:
        return Ledgered(ledger, session)
    ledger, session = drop_check(ledger, session, place)
    ledger, session, aborted = abort_call_hook(ledger, session, place)
    closed = close(ledger, session, place, error_result(ledger.entries[place], cut_call_text(entry.tool)))
    return evolve(closed, effects=(*aborted, *closed.effects))


def _given_up(policy: Policy, turn: Turn) -> Following:
    """No way is left to get the whole reply."""
    match policy.on_truncation.then:
        case TruncationEnd.FAIL:
            return turn, Ending(reason=TurnEndReason.MAX_TOKENS, error=ErrorClass.MAX_TOKENS)
        case TruncationEnd.STOP:
            return turn, Ending(reason=TurnEndReason.MAX_TOKENS)
        case TruncationEnd.NATURAL:
            return _natural(policy, turn, StopReason.END_TURN)
        case other:
            assert_never(other)


# --- a reply without calls to answer --------------------------------------------------------------------

WithoutCalls = Literal[
    Outcome.SKIP_CALLS,
    Outcome.CONTINUE_PAUSED,
    Outcome.NATURAL_END,
    Outcome.EMPTY,
    Outcome.REFUSED,
    Outcome.BLOCKED,
]


def _follow(policy: Policy, turn: Turn, follows: WithoutCalls, stop: StopReason) -> Following:
    """What a reply leads to whose calls, if any, do not run."""
    match follows:
        case Outcome.NATURAL_END | Outcome.SKIP_CALLS:
            return _natural(policy, turn, stop)
        case Outcome.EMPTY:
            return _after_empty(policy, turn, stop)
        case Outcome.CONTINUE_PAUSED:
            if turn.pauses > MAX_PAUSES:
                return turn, Ending(reason=TurnEndReason.STUCK)
            return turn, GoOn(RequestReason.TOKEN_BUDGET_CONTINUATION)
        case Outcome.REFUSED:
            return turn, Ending(reason=TurnEndReason.REFUSAL, error=ErrorClass.REFUSED)
        case Outcome.BLOCKED:
            filtered = stop is StopReason.CONTENT_FILTERED
            return turn, Ending(reason=TurnEndReason.CONTENT_FILTERED if filtered else TurnEndReason.GUARDRAIL)
        case _:
            assert_never(follows)


def _natural(policy: Policy, turn: Turn, stop: StopReason) -> Following:
    """The model has finished (rule INFER-6), unless it owes an output: that is asked for once (rule CALL-5)."""
    if policy.output_required:
        if turn.demanded:
            return turn, Ending(reason=TurnEndReason.ERROR, error=ErrorClass.INVALID_OUTPUT)
        return evolve(turn, demanded=True, forcing=True), GoOn(RequestReason.NUDGE)
    stopped = stop is StopReason.STOP_SEQUENCE
    reason = TurnEndReason.STOP_SEQUENCE if stopped else TurnEndReason.MODEL_STOP
    return turn, Ending(reason=reason, natural=True, gated=True)


def _after_empty(policy: Policy, turn: Turn, stop: StopReason) -> Following:
    """A reply with neither text nor calls is nudged, so many times a turn (rule INFER-13)."""
    if policy.empty_reply_nudges == 0 or policy.output_required:
        return _natural(policy, turn, stop)
    if turn.nudges >= policy.empty_reply_nudges:
        return turn, Ending(reason=TurnEndReason.STUCK)
    return evolve(turn, nudges=turn.nudges + 1), GoOn(RequestReason.NUDGE)

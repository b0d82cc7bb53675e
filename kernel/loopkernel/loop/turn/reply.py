"""A complete reply: into the thread with it, and on to its calls, the next request, or the end of the turn."""

from typing import Literal, assert_never

from attrs import evolve

from loopkernel.data.blocks import AssistantBlock, TextBlock, ToolCall
from loopkernel.data.choices import ErrorDisplay, NudgesCount, RunCalls, StillEmpty, TruncatedCalls, TruncationEnd
from loopkernel.data.endings import Ending, GoOn
from loopkernel.data.events import ReplyRetracted
from loopkernel.data.ledgers import Ledger
from loopkernel.data.model_deltas import ModelCompleted, Piece
from loopkernel.data.policy import Policy
from loopkernel.data.sessions import NO_RECOVERY, OpenReply, Recovery, Turn
from loopkernel.data.value_classes import frozen
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
from loopkernel.loop.calls.ledger import results
from loopkernel.loop.calls.schedule import failed_run, forget_plan
from loopkernel.loop.calls.stopping import (
    answer_all_faulty,
    cancel_open,
    cancel_others,
    close_unstarted,
    user_cancelled,
)
from loopkernel.loop.draft import CallsDraft
from loopkernel.loop.history.thread import add_reply, add_results
from loopkernel.loop.turn.cancelling import discard_reply, is_committed
from loopkernel.loop.turn.editing import redact_input, redacted_reply
from loopkernel.loop.turn.limits import watch_calls
from loopkernel.loop.turn.request import output_limit

Following = tuple[Turn, Ending | GoOn]


@frozen
class AfterReply:
    """Where a complete reply leads.

    `answering`: to its calls, which are to be answered, and then, else at once, to what is `settled`: an ending or a
    request. None, behind calls: what the answers to them lead to.
    """

    draft: CallsDraft
    turn: Turn
    settled: Ending | GoOn | None = None
    answering: bool = False


@frozen(kw_only=True)
class Complete:
    """What the reply is, when it is complete; its calls stand in the draft."""

    reply: OpenReply
    pieces: Vector[Piece]
    delta: ModelCompleted


def complete_reply(draft: CallsDraft, turn: Turn, complete: Complete, *, blocked: bool = False) -> AfterReply:
    """The reply is billed; it is appended, or asked again; what follows depends on how it stopped (INFER-4 to 7).

    `blocked`: a hook does not let the turn go on, as a guardrail does not (rule HOOK-2).
    """
    policy, stop, has_calls = draft.session.settings.policy, complete.delta.stop, draft.ledger.entries.size > 0
    says = not has_calls and has_text(complete.pieces)  # beside calls it is not asked for
    follows = outcome(policy.run_calls, stop, has_calls, says, policy.on_pause)
    usage = draft.session.usage.plus(complete.reply.usage)
    draft = redact_input(draft, complete.delta.redaction)
    if follows is Outcome.TRUNCATED and not blocked:
        return _truncated(draft.with_session(draft.session.updated(usage=usage)), turn, complete)
    if _misses_calls(policy, complete, has_calls) and not blocked:
        return _without_calls_asked_for(draft.with_session(draft.session.updated(usage=usage)), turn, complete)
    pauses = turn.pauses + 1 if follows is Outcome.CONTINUE_PAUSED else 0
    turn = counted(policy, turn, has_calls, NO_RECOVERY, pauses)
    watch = watch_calls(draft.session, draft.ledger)
    draft = add_reply(draft, complete.reply, _content(draft.ledger, complete), stop, usage=usage, watch=watch)
    if follows is Outcome.RUN_CALLS and not blocked:
        return to_calls(draft, turn)
    cancelled = user_cancelled(results(draft.ledger))
    if has_calls:
        draft = _skip_calls(draft)
    if cancelled:
        settled: Ending | GoOn = Ending(reason=TurnEndReason.USER_ABORT)
    elif blocked or follows is Outcome.RUN_CALLS or follows is Outcome.TRUNCATED:
        settled = Ending(reason=TurnEndReason.GUARDRAIL)
    else:
        turn, settled = _follow(policy, turn, follows, stop)
    return AfterReply(draft, turn, settled)


def keep_completed(draft: CallsDraft, complete: Complete) -> CallsDraft:
    """A whole reply goes into the thread, and nothing more is done with it: its turn was cut short."""
    draft = redact_input(draft, complete.delta.redaction)
    return add_reply(draft, complete.reply, _content(draft.ledger, complete), complete.delta.stop)


def _content(ledger: Ledger, complete: Complete) -> tuple[AssistantBlock, ...]:
    content = assemble(complete.pieces, [entry.call for entry in ledger.entries], complete.reply.model)
    return redacted_reply(content, complete.delta.redaction)


def counted(policy: Policy, turn: Turn, has_calls: bool, recovery: Recovery, pauses: int = 0) -> Turn:
    """The turn with one more completed reply: retries are counted anew, and the model that was fallen back on stays."""
    used = turn.recovery
    if used is not recovery:
        recovery = evolve(
            recovery, model=used.model, retries=0, compacted=False, fed_back=used.fed_back, unstreamed=False
        )
    replies = turn.replies + 1 if counts_as_reply(policy, has_calls) else turn.replies
    nudges = 0 if has_calls and policy.nudges_count is NudgesCount.ROUND else turn.nudges
    return turn.answered(replies, nudges, pauses, 0 if has_calls else turn.missing, recovery)


def to_calls(draft: CallsDraft, turn: Turn, settled: Ending | GoOn | None = None) -> AfterReply:
    """The calls of the reply are to be answered."""
    if draft.ledger.plan is not None:
        draft = draft.with_ledger(forget_plan(draft.ledger))
    draft = answer_all_faulty(draft)
    if failed_run(draft.ledger, draft.session.settings):
        draft = cancel_others(draft, CancelReason.SIBLING)
    return AfterReply(draft, turn, settled, answering=True)


def _skip_calls(draft: CallsDraft) -> CallsDraft:
    """The calls of the reply do not run: they are answered so (rule INFER-5)."""
    draft = cancel_open(draft, CancelReason.SUPERSEDED)
    return add_results(draft, draft.ledger.reply, results(draft.ledger))


# --- truncation -----------------------------------------------------------------------------------------


def _truncated(draft: CallsDraft, turn: Turn, complete: Complete) -> AfterReply:
    """The output limit was hit: a higher one, then a prompt to go on, then the end that policy chose (rule INFER-7)."""
    policy, ledger, stop = draft.session.settings.policy, draft.ledger, complete.delta.stop
    committed, has_calls = is_committed(ledger, draft.session.settings), ledger.entries.size > 0
    raised = _next_limit(policy, turn, complete.reply.limit)
    runs = ledger.entries.size > complete.delta.cut_call and _runs_its_calls(policy)
    if raised is not None and not committed and not runs:
        return _asked_again(draft, turn, complete, raised)
    used, forcing = turn.recovery, turn.forcing
    settled: Ending | GoOn | None
    if runs:
        turn, settled = counted(policy, turn, has_calls, NO_RECOVERY), None
    elif raised is not None:
        turn = counted(policy, turn, has_calls, evolve(used, raised=raised))
        settled = GoOn(RequestReason.MAX_OUTPUT_TOKENS_ESCALATE)
    elif used.continuations < policy.on_truncation.continuations:
        turn = counted(policy, turn, has_calls, evolve(used, continuations=used.continuations + 1))
        settled = GoOn(RequestReason.MAX_OUTPUT_TOKENS_RECOVERY)
    else:
        turn, settled = _given_up(policy, counted(policy, turn, has_calls, evolve(used, retries=0)))
    turn = evolve(turn, forcing=turn.forcing or (forcing and not runs))  # what was demanded is still to come
    if isinstance(settled, GoOn):
        draft = _shown_at_once(draft)
    content = _content(ledger, complete)
    if policy.on_truncation.calls is TruncatedCalls.NOTE and not committed:
        draft = add_reply(discard_reply(draft), complete.reply, _without_calls(content, ledger), stop)
        return AfterReply(draft, turn, settled)
    draft = draft.with_session(draft.session.updated(watch=watch_calls(draft.session, ledger)))
    draft = add_reply(draft, complete.reply, content, stop)
    if not has_calls:
        return AfterReply(draft, turn, settled)
    if policy.run_calls is RunCalls.STOP_REASON:
        if user_cancelled(results(ledger)):
            settled = Ending(reason=TurnEndReason.USER_ABORT)
        return AfterReply(_skip_calls(draft), turn, settled)
    return to_calls(_answer_cut_call(draft) if complete.delta.cut_call else draft, turn, settled)


def _runs_its_calls(policy: Policy) -> bool:
    """Whether the whole calls of a truncated reply lead on as those of any other reply do."""
    return policy.on_truncation.calls is TruncatedCalls.RUN and policy.run_calls is not RunCalls.STOP_REASON


def _next_limit(policy: Policy, turn: Turn, given: int | None) -> int | None:
    """How many of the higher limits are passed with the next one; None if none is left. `given` was not enough."""
    known = [limit for limit in (given, output_limit(policy, turn)) if limit is not None]
    present = max(known, default=None)
    limits = policy.on_truncation.escalate_to
    later = range(turn.recovery.raised, len(limits))
    return next((place + 1 for place in later if present is None or limits[place] > present), None)


def _asked_again(draft: CallsDraft, turn: Turn, complete: Complete, raised: int) -> AfterReply:
    """The reply is taken back, and asked for under a higher limit."""
    draft = _taken_back(draft, complete)
    turn = evolve(turn, recovery=evolve(turn.recovery, raised=raised, retries=0, unstreamed=False))
    return AfterReply(_shown_at_once(draft), turn, GoOn(RequestReason.MAX_OUTPUT_TOKENS_ESCALATE))


def _taken_back(draft: CallsDraft, complete: Complete) -> CallsDraft:
    """The reply is discarded, and what was seen of it is void."""
    draft = discard_reply(draft)
    return draft.tell(ReplyRetracted(complete.reply.operation)) if len(complete.pieces) else draft


def _shown_at_once(draft: CallsDraft) -> CallsDraft:
    """By policy, also a truncation that is being recovered is shown, where it would be shown at the end (INFER-9)."""
    policy = draft.session.settings.policy
    if policy.errors is ErrorDisplay.WITHHELD or policy.on_truncation.then is not TruncationEnd.FAIL:
        return draft
    return draft.show_error(ErrorClass.MAX_TOKENS, "")


def _without_calls(content: tuple[AssistantBlock, ...], ledger: Ledger) -> tuple[AssistantBlock, ...]:
    """The reply with a note in the place of each call, which says of one that had started early that it has run."""
    ran = frozenset(entry.call.id for entry in ledger.entries if entry.runs)
    return tuple(
        TextBlock(call_note(block.tool, ran=block.id in ran)) if isinstance(block, ToolCall) else block
        for block in content
    )


def _answer_cut_call(draft: CallsDraft) -> CallsDraft:
    """The last call has arguments that were cut: it never runs."""
    place = draft.ledger.entries.size - 1
    entry = draft.ledger.entries[place]
    if not entry.is_open or entry.runs:
        return draft
    return close_unstarted(draft, place, cut_call_text(entry.tool))


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


# --- a stop for calls, and no calls ---------------------------------------------------------------------


def _misses_calls(policy: Policy, complete: Complete, has_calls: bool) -> bool:
    """Whether the reply stopped for calls that did not come, and policy has it asked again (rule INFER-13)."""
    return policy.missing_call_retries is not None and complete.delta.stop is StopReason.TOOL_USE and not has_calls


def _without_calls_asked_for(draft: CallsDraft, turn: Turn, complete: Complete) -> AfterReply:
    """The reply is taken back and asked for again, so many times; then it stays, and the turn ends with an error."""
    policy = draft.session.settings.policy
    if policy.missing_call_retries is not None and turn.missing < policy.missing_call_retries:
        used = evolve(turn.recovery, retries=0, unstreamed=False)
        turn = evolve(turn, missing=turn.missing + 1, pauses=0, recovery=used)
        return AfterReply(_taken_back(draft, complete), turn, GoOn(RequestReason.MISSING_CALLS))
    turn = counted(policy, turn, False, NO_RECOVERY)
    draft = add_reply(draft, complete.reply, _content(draft.ledger, complete), complete.delta.stop)
    return AfterReply(draft, turn, Ending(reason=TurnEndReason.ERROR, error=ErrorClass.INVALID_OUTPUT))


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
            if turn.refusals < policy.refusal_notes:
                return evolve(turn, refusals=turn.refusals + 1), GoOn(RequestReason.REFUSAL)
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
        if policy.still_empty is StillEmpty.NATURAL:
            return _natural(policy, turn, stop)
        return turn, Ending(reason=TurnEndReason.STUCK)
    return evolve(turn, nudges=turn.nudges + 1), GoOn(RequestReason.NUDGE)

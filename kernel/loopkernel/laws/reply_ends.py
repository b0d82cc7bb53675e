"""Of laws PREFIX and PROGRESS: what a complete reply leads to, by what the policy says of redactions and of ends.

A reply is acted on once: when it is complete, or when the hooks that look at it have let it go.
"""

from collections.abc import Iterator

from attrs import evolve, frozen

from loopkernel.data.blocks import TextBlock, ToolCall
from loopkernel.data.choices import OnPause, Redacts, StillEmpty
from loopkernel.data.effects import CallModel
from loopkernel.data.events import MessageReplaced, TurnEnded
from loopkernel.data.json_text import Json
from loopkernel.data.messages import AssistantMessage, Message, ResultMessage, UserMessage
from loopkernel.data.model_deltas import ModelCompleted, ModelText
from loopkernel.data.policy import Policy
from loopkernel.data.sessions import Turn
from loopkernel.data.states import Compacting, Finishing, Streaming, Thinking
from loopkernel.data.words import RequestReason, StopReason, TurnEndReason
from loopkernel.laws.accounts.cutting import is_sent_by_user
from loopkernel.laws.recoveries import LONGEST_PAUSE
from loopkernel.laws.shadow.step import JudgedStep

_NATURAL = frozenset({TurnEndReason.MODEL_STOP, TurnEndReason.STOP_SEQUENCE})
_MAY_BE_EMPTY = frozenset({StopReason.END_TURN, StopReason.TOOL_USE, StopReason.STOP_SEQUENCE})


def _acted_on(step: JudgedStep) -> ModelCompleted | None:
    """The end of a complete reply that the step may act on."""
    if isinstance(step.taken, ModelCompleted):
        return step.taken
    before = step.before
    if isinstance(before, Streaming) and before.after is not None and isinstance(before.after.end, ModelCompleted):
        return before.after.end
    return None


# --- redactions (INFER-10) --------------------------------------------------------------------------------


def redactions_as_told(step: JudgedStep) -> Iterator[str]:
    """Once a reply goes into the thread, it and the message that policy names read as the guardrail says; no other."""
    end, session = _acted_on(step), step.session_before
    if end is None or session is None or step.policy is None:
        return
    text = None if end.redaction is None else end.redaction.user_text
    due = None if text is None else _to_redact(tuple(session.thread.messages), step.policy.redacts)
    told = {effect.message.id: effect.message for effect in step.told(MessageReplaced)}
    yield from (
        f"message {message} reads otherwise, and no guardrail has said so of it"
        for message in told
        if due is None or message != due.id
    )
    reply = next((one for one in step.added if isinstance(one, AssistantMessage) and one.reply == end.operation), None)
    if reply is None:
        return
    if due is not None and text is not None and told.get(due.id) != _reading(due, text):
        yield f"a guardrail has message {due.id} read {text!r}, and it is told as {told.get(due.id)}"
    if end.redaction is not None and end.redaction.reply_text is not None:
        calls = (evolve(block, input=Json.of({})) for block in reply.content if isinstance(block, ToolCall))
        if reply.content != (TextBlock(end.redaction.reply_text), *calls):
            yield f"a guardrail has reply {reply.reply} read otherwise than {reply.content}"


def _to_redact(messages: tuple[Message, ...], redacts: Redacts) -> UserMessage | ResultMessage | None:
    """The last message of the user, or the last that is not a reply; None: a compaction has taken it out."""
    last: UserMessage | ResultMessage | None = None
    for message in messages:
        if isinstance(message, AssistantMessage):
            continue
        if redacts is Redacts.LAST_MESSAGE or is_sent_by_user(message):
            last = message
    return last


def _reading(message: UserMessage | ResultMessage, text: str) -> Message:
    """The message with that text in the place of what it held, of results in each."""
    if isinstance(message, ResultMessage):
        return evolve(message, results=tuple(evolve(each, content=(TextBlock(text),)) for each in message.results))
    return evolve(message, content=(TextBlock(text),))


# --- ends (INFER-4 and INFER-13) --------------------------------------------------------------------------


@frozen
class _Judged:
    """A complete reply that was acted on, and what follows it."""

    end: ModelCompleted
    turn: Turn
    says: bool
    calls: bool
    follows: RequestReason | TurnEndReason | None


def ended_as_due(step: JudgedStep) -> Iterator[str]:
    """A pause without calls is gone on with or is an end, and a reply that says nothing is nudged, stuck, or an end.

    A stop for calls without any is asked again, or an error, and a refusal is told to the model, or is an end.
    """
    judged = _judged(step)
    if judged is None or step.policy is None:
        return
    yield from _refused(judged, step.policy)
    yield from _missing(judged, step.policy)
    if judged.calls or _misses_calls(judged, step.policy):
        return
    if judged.end.stop is StopReason.PAUSE:
        yield from _paused(judged, step.policy)
    elif judged.end.stop in _MAY_BE_EMPTY and not judged.says and not step.policy.output_required:
        yield from _empty(judged, step.policy)


def _judged(step: JudgedStep) -> _Judged | None:
    end, before, turn = _acted_on(step), step.before, step.turn_before
    if end is None or turn is None or not isinstance(before, Streaming):
        return None
    if isinstance(step.after, Streaming) and step.after.reply.operation == end.operation:
        return None  # hooks look at it
    says = any(isinstance(piece, ModelText) and piece.text.strip() for piece in before.pieces)
    return _Judged(end, turn, says, before.ledger.entries.size > 0, _follows(step))


def _follows(step: JudgedStep) -> RequestReason | TurnEndReason | None:
    """Why the next request is made, or how the turn ends; None: the step does not say."""
    for effect in step.effects:
        if isinstance(effect, CallModel):
            return effect.request.reason
        if isinstance(effect, TurnEnded):
            return effect.reason
    after = step.after
    if isinstance(after, Finishing):
        return after.ending.reason
    if isinstance(after, Thinking) or (isinstance(after, Compacting) and isinstance(after.within, Turn)):
        return None if step.turn is None else step.turn.reason
    return None


def _refused(judged: _Judged, policy: Policy) -> Iterator[str]:
    reply, left = judged.end.operation, policy.refusal_notes - judged.turn.refusals
    refused = judged.end.stop is StopReason.REFUSAL
    if judged.follows is RequestReason.REFUSAL and (not refused or left <= 0):
        yield f"the model is told that reply {reply} was a refusal, which is an end"
    if refused and left > 0 and judged.follows is TurnEndReason.REFUSAL:
        yield f"reply {reply} was refused, which the model is to be told, and was taken for an end"


def _misses_calls(judged: _Judged, policy: Policy) -> bool:
    """Whether the reply stopped for calls and has none, which policy has asked again."""
    return policy.missing_call_retries is not None and judged.end.stop is StopReason.TOOL_USE and not judged.calls


def _missing(judged: _Judged, policy: Policy) -> Iterator[str]:
    reply, again = judged.end.operation, judged.follows is RequestReason.MISSING_CALLS
    if not _misses_calls(judged, policy):
        if again:
            yield f"reply {reply} is asked again for the calls that it lacks, and it lacks none"
        return
    left = (policy.missing_call_retries or 0) - judged.turn.missing
    if left <= 0 and again:
        yield f"reply {reply} lacks its calls once too often, and is asked again"
    others = {RequestReason.NUDGE, TurnEndReason.STUCK, *_NATURAL, *({TurnEndReason.ERROR} if left > 0 else ())}
    if judged.follows in others:
        yield f"reply {reply} stopped for calls and has none, and was not asked again"


def _paused(judged: _Judged, policy: Policy) -> Iterator[str]:
    reply, follows = judged.end.operation, judged.follows
    nudged, stuck = follows is RequestReason.NUDGE, follows is TurnEndReason.STUCK
    if policy.on_pause is OnPause.END:
        demanded = nudged and policy.output_required  # as after any natural end
        if stuck or follows is RequestReason.TOKEN_BUDGET_CONTINUATION or (nudged and not demanded):
            yield f"reply {reply} paused without calls, which is an end, and was gone on with"
        return
    if follows in _NATURAL:
        yield f"reply {reply} paused, which is to be gone on with, and was taken for an end"
    if nudged:
        yield f"reply {reply} paused, which is to be gone on with, and was nudged"
    if stuck and judged.turn.pauses < LONGEST_PAUSE:
        yield f"reply {reply} is pause {judged.turn.pauses + 1} in a row, and its turn ends as stuck"


def _empty(judged: _Judged, policy: Policy) -> Iterator[str]:
    left, stays_stuck = policy.empty_reply_nudges - judged.turn.nudges, policy.still_empty is StillEmpty.STUCK
    is_end = policy.empty_reply_nudges == 0 or (left <= 0 and not stays_stuck)
    if judged.follows in _NATURAL and not is_end:
        yield f"reply {judged.end.operation} says nothing, and was taken for an end"
    if judged.follows is TurnEndReason.STUCK and (is_end or left > 0):
        yield f"reply {judged.end.operation} says nothing, and its turn ends as stuck"

"""Of law RETRY-LAW: what becomes of a reply whose stream broke behind a whole block, by what policy says (INFER-11)."""

from collections.abc import Iterable, Iterator
from typing import final

from attrs import frozen

from loopkernel.data.blocks import ReasoningBlock, TextBlock
from loopkernel.data.choices import OnBrokenStream, RunCalls
from loopkernel.data.endings import Ending, Failure
from loopkernel.data.events import ReplyFailed, TurnEnded
from loopkernel.data.messages import AssistantMessage
from loopkernel.data.model_deltas import ModelFailed, ModelInput, ModelReasoning, ModelText, Piece
from loopkernel.data.outside_deltas import HookAnswered, TimerFired
from loopkernel.data.states import Finishing, Streaming
from loopkernel.data.words import CancelReason, ErrorClass, StopReason, TurnEndReason
from loopkernel.laws.shadow.step import JudgedStep
from loopkernel.laws.turn_hooks import asks_again
from loopkernel.laws.views import Answering

_NOT_BROKEN = frozenset(
    {
        ErrorClass.INVALID_OUTPUT,
        ErrorClass.PROMPT_TOO_LONG,
        ErrorClass.AUTH,
        ErrorClass.BAD_REQUEST,
        ErrorClass.REFUSED,
        ErrorClass.UNKNOWN,
        ErrorClass.MAX_TOKENS,
    }
)


@final
@frozen
class Whole:
    """What is to be kept of a reply: its text and reasoning, each in one, and how many calls it has."""

    text: str
    reasoning: str
    calls: int


def to_keep(step: JudgedStep) -> Whole | None:
    """What the step is to keep of a reply whose stream broke; None: nothing for being whole."""
    before, policy, failed = step.before, step.policy, _acted_on(step)
    if failed is None or policy is None or not isinstance(before, Streaming):
        return None
    error, unfinished = failed
    calls = before.ledger.entries.size
    if policy.on_broken_stream is OnBrokenStream.RETRACT or error in _NOT_BROKEN:
        return None
    if calls and policy.run_calls is RunCalls.STOP_REASON:
        return None
    pieces = tuple(before.pieces)
    tail = len(pieces)
    while tail and isinstance(pieces[tail - 1], ModelText | ModelReasoning | ModelInput):
        tail -= 1
    said = [piece for piece in pieces[tail:] if isinstance(piece, ModelText | ModelReasoning)]
    left = 0 if unfinished is None else max(sum(len(piece.text) for piece in said) - max(unfinished, 0), 0)
    whole = list(_first(said, left))
    head = [piece for piece in pieces[:tail] if isinstance(piece, ModelText | ModelReasoning)]
    text = _joined(head, ModelText) + "".join(part for kind, part in whole if kind is ModelText)
    if not calls and not text.strip():
        return None
    reasoning = _joined(head, ModelReasoning) + "".join(part for kind, part in whole if kind is ModelReasoning)
    return Whole(text, reasoning, calls)


def _first(said: Iterable[ModelText | ModelReasoning], left: int) -> Iterator[tuple[type[Piece], str]]:
    """So many characters from the front."""
    for piece in said:
        yield type(piece), piece.text[: max(left, 0)]
        left -= len(piece.text)


def _joined(pieces: Iterable[Piece], kind: type[ModelText] | type[ModelReasoning]) -> str:
    return "".join(piece.text for piece in pieces if isinstance(piece, kind))


def _acted_on(step: JudgedStep) -> tuple[ErrorClass, int | None] | None:
    """The failure that the step acts on, and how much of what came last was not whole; None: it acts on none."""
    before, after, delta = step.before, step.after, step.taken
    if not isinstance(before, Streaming) or _is_guardrail(step):
        return None
    if isinstance(after, Streaming) and after.reply.operation == before.reply.operation:
        return None  # hooks look at it, or nothing has come of it
    failed = step.told(ReplyFailed)
    if failed:
        return failed[0].error, delta.unfinished if isinstance(delta, ModelFailed) else None
    end = None if before.after is None else before.after.end
    if isinstance(end, Failure) and isinstance(delta, HookAnswered | TimerFired) and not asks_again(step):
        return end.error, end.unfinished
    return None


def _is_guardrail(step: JudgedStep) -> bool:
    """Whether a hook does not let the turn go on."""
    after = step.after
    if any(ended.reason is TurnEndReason.GUARDRAIL for ended in step.told(TurnEnded)):
        return True
    settled = after.settled if isinstance(after, Answering) else after.ending if isinstance(after, Finishing) else None
    return isinstance(settled, Ending) and settled.reason is TurnEndReason.GUARDRAIL


def kept_as_due(step: JudgedStep) -> Iterator[str]:
    """What is whole stays, and no more; its calls are not taken for superseded."""
    due = to_keep(step)
    if due is None or not isinstance(step.before, Streaming):
        return
    operation = step.before.reply.operation
    kept = next((one for one in step.added if isinstance(one, AssistantMessage) and one.reply == operation), None)
    if kept is None:
        yield f"the stream of reply {operation} broke behind a whole block, and nothing of it is kept"
        return
    text = "".join(block.text for block in kept.content if isinstance(block, TextBlock))
    reasoning = "".join(block.text for block in kept.content if isinstance(block, ReasoningBlock))
    if (text, reasoning, len(kept.calls)) != (due.text, due.reasoning, due.calls):
        yield f"of reply {operation}, whose stream broke, {kept.content} is kept, and {due} is whole"
    if kept.stop is not (StopReason.TOOL_USE if due.calls else None):
        yield f"reply {operation}, whose stream broke, is kept as one that stopped as {kept.stop}"
    superseded = [
        one.call for one in step.ends if one.reason is CancelReason.SUPERSEDED and one.call.reply == operation
    ]
    if superseded:
        yield f"calls {superseded} of reply {operation} are whole, and are not run"

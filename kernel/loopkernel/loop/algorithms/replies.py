"""What a reply holds, how long it is, and what follows from how it stopped (rules INFER-4, 5, 7, 10, 13, LIMIT-4)."""

import enum
from collections.abc import Iterable, Sequence
from typing import assert_never

from attrs import evolve

from loopkernel.data.blocks import (
    AssistantBlock,
    OpaqueBlock,
    ReasoningBlock,
    ServerCall,
    TextBlock,
    ToolCall,
)
from loopkernel.data.choices import OnPause, RunCalls
from loopkernel.data.model_deltas import (
    ModelCall,
    ModelInput,
    ModelOpaque,
    ModelReasoning,
    ModelServerCall,
    ModelText,
    Piece,
)
from loopkernel.data.reply_sizes import ReplySize, new_reply_size
from loopkernel.data.words import StopReason

MAX_PAUSES = 10  # rule INFER-4


class Outcome(enum.Enum):
    """What a complete reply leads to."""

    RUN_CALLS = "run_calls"
    SKIP_CALLS = "skip_calls"
    CONTINUE_PAUSED = "continue_paused"
    NATURAL_END = "natural_end"
    EMPTY = "empty"
    TRUNCATED = "truncated"
    REFUSED = "refused"
    BLOCKED = "blocked"


def outcome(
    run_calls: RunCalls, stop: StopReason, calls: bool, text: bool, on_pause: OnPause = OnPause.CONTINUE
) -> Outcome:
    """The outcome of a reply that stopped as `stop`, with or without calls and text."""
    match stop:
        case StopReason.END_TURN | StopReason.TOOL_USE | StopReason.STOP_SEQUENCE:
            if calls:
                return Outcome.RUN_CALLS if _calls_run(run_calls, stop) else Outcome.SKIP_CALLS
            return Outcome.NATURAL_END if text else Outcome.EMPTY
        case StopReason.PAUSE:
            if calls:
                return Outcome.RUN_CALLS
            return Outcome.CONTINUE_PAUSED if on_pause is OnPause.CONTINUE else Outcome.NATURAL_END
        case StopReason.MAX_TOKENS:
            return Outcome.TRUNCATED
        case StopReason.REFUSAL:
            return Outcome.REFUSED
        case StopReason.CONTENT_FILTERED | StopReason.GUARDRAIL_INTERVENED:
            return Outcome.BLOCKED
        case _:
            assert_never(stop)


def _calls_run(run_calls: RunCalls, stop: StopReason) -> bool:
    """Whether the policy runs the calls of a reply with this stop reason (rule INFER-5)."""
    match run_calls:
        case RunCalls.CONTENT:
            return True
        case RunCalls.EITHER:
            return stop is not StopReason.STOP_SEQUENCE
        case RunCalls.STOP_REASON:
            return stop is StopReason.TOOL_USE
        case _:
            assert_never(run_calls)


def has_text(pieces: Iterable[Piece]) -> bool:
    """Whether the reply says anything: blank text and reasoning do not count (rule INFER-13)."""
    return any(isinstance(piece, ModelText) and piece.text.strip() != "" for piece in pieces)


def whole_pieces(pieces: Sequence[Piece], unfinished: int | None) -> tuple[Piece, ...]:
    """The pieces without those at their end that belong to a block that had not ended (rule INFER-11).

    These are the fragments of a call, and the last `unfinished` characters of text and reasoning; None: all of them.
    """
    place, left = len(pieces), unfinished
    while place:
        piece = pieces[place - 1]
        if isinstance(piece, ModelText | ModelReasoning):
            if left is not None and len(piece.text) > left:
                return (*pieces[: place - 1], evolve(piece, text=piece.text[: len(piece.text) - left]))
            left = None if left is None else left - len(piece.text)
        elif not isinstance(piece, ModelInput):
            break
        place -= 1
    return tuple(pieces[:place])


def longer(size: ReplySize, piece: Piece) -> ReplySize:
    """How much a reply has brought, with one more piece; an empty one counts as a character, for it is kept as well."""
    match piece:
        case ModelText() | ModelReasoning():
            return new_reply_size(size.said + max(len(piece.text), 1), size.written, size.called)
        case ModelInput():
            return new_reply_size(size.said, size.written + max(len(piece.text), 1), size.called)
        case ModelCall():
            return new_reply_size(size.said, size.written, size.called + len(piece.input.text))
        case ModelOpaque():
            return new_reply_size(size.said + len(piece.payload.text), size.written, size.called)
        case ModelServerCall():
            result = 0 if piece.result is None else len(piece.result.text)
            return new_reply_size(size.said + len(piece.input.text) + result, size.written, size.called)
        case _:
            assert_never(piece)


def assemble(pieces: Iterable[Piece], calls: Iterable[ToolCall], model: str) -> tuple[AssistantBlock, ...]:
    """The blocks of a reply: neighbouring increments joined once, half-written calls left out.

    `calls` are the complete calls in the order of their pieces.
    """
    blocks: list[AssistantBlock] = []
    written: list[str] = []
    reasoned: list[str] = []
    remaining = iter(calls)

    def flush() -> None:
        if reasoned:
            blocks.append(ReasoningBlock("".join(reasoned)))
            reasoned.clear()
        if written:
            blocks.append(TextBlock("".join(written)))
            written.clear()

    for piece in pieces:
        match piece:
            case ModelText():
                if reasoned:
                    flush()
                written.append(piece.text)
            case ModelReasoning():
                if written:
                    flush()
                reasoned.append(piece.text)
            case ModelInput():
                continue
            case ModelCall():
                if reasoned or written:
                    flush()
                blocks.append(next(remaining))
            case ModelOpaque():
                flush()
                blocks.append(OpaqueBlock(model, piece.payload))
            case ModelServerCall():
                flush()
                blocks.append(
                    ServerCall(provider_id=piece.provider_id, tool=piece.tool, input=piece.input, result=piece.result)
                )
            case _:
                assert_never(piece)
    if reasoned or written:
        flush()
    return tuple(blocks)

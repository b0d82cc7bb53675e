"""A round of a recording: a reply with all that came until the next one, and its blocks as a model reports them."""

from typing import assert_never

from attrs import Factory, define, evolve
from loopkernel.data.blocks import OpaqueBlock, ReasoningBlock, ServerCall, TextBlock, UserBlock
from loopkernel.data.foreign import ForeignBlock, ForeignCall
from loopkernel.data.ids import ModelOperation
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import ModelCall, ModelDelta, ModelOpaque, ModelReasoning, ModelServerCall, ModelText
from loopkernel.data.tools import Tool, ValidCall

from loopkernel_adapters.transcripts.entries import CallStarted, Interrupted, Outcome, ReplyPart, ResultSeen, UserSaid

MOST_OFFERED = 128  # tools at a time: each one that is new has all that are offered written once more


@define
class Offer:
    """The tools that the model was offered, as far as its calls tell; the latest of them, in their order."""

    names: dict[str, None] = Factory(dict)

    def changed_by(self, called: set[str]) -> tuple[Tool, ...] | None:
        """What is offered from now on, since it is called; None where all of that was offered already."""
        if called <= self.names.keys():
            return None
        self.names |= dict.fromkeys(called)
        for name in tuple(self.names)[: max(0, len(self.names) - MOST_OFFERED)]:
            if name not in called:
                del self.names[name]
        return tuple(Tool(name=name) for name in sorted(self.names))


@define
class Round:
    """A reply, and all that came until the next one, or until the user spoke."""

    reply: str
    parts: list[ReplyPart] = Factory(list)
    events: list[ResultSeen | CallStarted | Interrupted | UserSaid] = Factory(list)

    @property
    def calls(self) -> list[ForeignCall]:
        """The calls of the reply, in order."""
        return [block for part in self.parts for block in part.content if isinstance(block, ForeignCall)]

    def done(self) -> set[str | None]:
        """The ids of the calls that are told to have been done."""
        return {event.call for event in self.events if isinstance(event, ResultSeen) and event.outcome is Outcome.DONE}

    def unanswered(self) -> int:
        """How many of its calls have no result yet."""
        return len(self.calls) - sum(isinstance(event, ResultSeen) for event in self.events)


def ran(call: ForeignCall, done: set[str | None]) -> ForeignCall:
    """The call; arguments that do not parse, although it was done, are given as a text (some owners blacken theirs)."""
    if isinstance(call.input, Json) or call.provider_id not in done:
        return call
    return evolve(call, input=Json.of({"arguments": call.input.text}))


def delta_of(operation: ModelOperation, block: ForeignBlock) -> ModelDelta:
    """The block as the model reports it; a call brings a verdict with it, since it was judged when it was recorded."""
    match block:
        case TextBlock():
            return ModelText(operation, block.text)
        case ReasoningBlock():
            return ModelReasoning(operation, block.text)
        case OpaqueBlock():
            return ModelOpaque(operation, block.payload)
        case ServerCall():
            return ModelServerCall(
                operation=operation,
                provider_id=block.provider_id,
                tool=block.tool,
                input=block.input,
                result=block.result,
            )
        case ForeignCall():
            return ModelCall(
                operation=operation,
                provider_id=block.provider_id,
                tool=block.tool,
                input=block.input,
                verdict=ValidCall(),
            )
        case _:
            assert_never(block)


def is_blank(block: UserBlock) -> bool:
    """Whether the block says nothing."""
    return isinstance(block, TextBlock) and not block.text.strip()

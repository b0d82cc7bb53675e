"""Threads for the tests of compaction: whole turns of rounds, each with its calls and their results."""

from collections.abc import Iterator

from hypothesis import strategies as st
from loopkernel.data.blocks import TextBlock, ToolCall, ToolResult
from loopkernel.data.choices import CompactionStrategy
from loopkernel.data.ids import CallId, MessageId, ModelOperation
from loopkernel.data.json_text import Json
from loopkernel.data.messages import AssistantMessage, Message, ResultMessage, UserMessage, UserOrigin
from loopkernel.data.policy import Compaction
from loopkernel.data.vector import Vector
from loopkernel.data.words import CallStatus

SPOKEN = (UserOrigin.SAID, UserOrigin.QUEUED)
NOTES = (UserOrigin.STEERED, UserOrigin.NUDGE, UserOrigin.BACKGROUND_RESULT, UserOrigin.CORRECTION)
# A turn: how it begins, and how many calls each of its replies makes; a note may stand before a reply.
Turns = list[tuple[UserOrigin, list[tuple[int, UserOrigin | None]]]]

rounds = st.lists(st.tuples(st.integers(0, 3), st.none() | st.sampled_from(NOTES)), max_size=5)
turns: st.SearchStrategy[Turns] = st.lists(st.tuples(st.sampled_from(SPOKEN), rounds), max_size=5)


def _messages(given: Turns, words: str) -> Iterator[Message]:
    number = reply = 0
    for opened, replies in given:
        number += 1
        yield UserMessage(id=MessageId(number), content=(TextBlock(words),), origin=opened)
        for calls, note in replies:
            if note is not None:
                number += 1
                yield UserMessage(id=MessageId(number), content=(TextBlock(words),), origin=note)
            reply += 1
            number += 1
            made = tuple(_call(reply, position) for position in range(1, calls + 1))
            yield AssistantMessage(
                id=MessageId(number),
                reply=ModelOperation(reply),
                model="m",
                content=(TextBlock(words), *made),
                stop=None,
            )
            if made:
                number += 1
                yield ResultMessage(
                    id=MessageId(number), reply=ModelOperation(reply), results=tuple(_result(each) for each in made)
                )


def _call(reply: int, position: int) -> ToolCall:
    return ToolCall(
        id=CallId(ModelOperation(reply), position), provider_id=f"p{position}", tool="read", input=Json.of({"a": 1})
    )


def _result(call: ToolCall) -> ToolResult:
    return ToolResult(
        call=call.id,
        provider_id=call.provider_id,
        tool=call.tool,
        status=CallStatus.DONE,
        content=(TextBlock("out"),),
        ran=True,
    )


def thread_of(given: Turns, words: str = "words") -> Vector[Message]:
    """The messages of these turns."""
    return Vector.of(list(_messages(given, words)))


threads = st.builds(thread_of, turns, st.sampled_from(("", "words", "longer words")))


@st.composite
def keeping(draw: st.DrawFn, *strategies: CompactionStrategy) -> Compaction:
    """A policy that keeps some turns, some messages or a ratio of them."""
    strategy = draw(st.sampled_from(strategies or tuple(CompactionStrategy)))
    kept = draw(st.sampled_from(("keep_turns", "keep_messages", "keep_ratio")))
    how = draw(st.sampled_from((0.0, 0.1, 0.5, 1.0)) if kept == "keep_ratio" else st.integers(1, 6))
    return Compaction(
        strategy=strategy,
        keep_turns=int(how) if kept == "keep_turns" else None,
        keep_messages=int(how) if kept == "keep_messages" else None,
        keep_ratio=float(how) if kept == "keep_ratio" else None,
    )

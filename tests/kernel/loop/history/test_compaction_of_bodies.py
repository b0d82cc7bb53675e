"""What a compaction finds in a thread: results that it can clear, and the models that left opaque blocks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.blocks import OpaqueBlock
from loopkernel.data.choices import CompactionStrategy
from loopkernel.data.ids import MessageId, ModelOperation
from loopkernel.data.messages import AssistantMessage, UserMessage
from loopkernel.data.model_deltas import ModelText
from loopkernel.data.vector import Vector
from loopkernel.data.words import StopReason
from loopkernel.loop.history.compaction import planned_cut, with_messages

from tests.kernel.building import (
    NOTHING,
    ONE,
    TWO,
    after,
    at_rest,
    completed,
    made_call,
    say,
    session_of,
    succeeded,
    text,
)
from tests.kernel.gates import compacting

CLEARING = compacting(CompactionStrategy.CLEAR, messages=1, tokens=None)


@pytest.mark.rule("COMPACT-5")
def test_nothing_is_to_be_cleared_where_no_tool_has_returned() -> None:
    talked = after(at_rest(CLEARING), say("hello"), ModelText(ONE, "done"), completed())
    assert planned_cut(session_of(talked)) is None
    called = (made_call(), completed(StopReason.TOOL_USE), succeeded(1), ModelText(TWO, "done"), completed(reply=2))
    assert planned_cut(session_of(after(at_rest(CLEARING), say("hello"), *called))) is not None


@pytest.mark.rule("COMPACT-2")
@given(st.lists(st.sampled_from("abc"), max_size=5))
def test_the_models_of_the_opaque_blocks_are_those_of_the_messages_that_are_left(models: list[str]) -> None:
    """Each once, in the order in which it first left one; other messages than replies leave none."""
    session = at_rest().session
    spoken = UserMessage(id=MessageId(1), content=text("hello"))
    replies = [
        AssistantMessage(
            id=MessageId(number),
            reply=ModelOperation(number),
            model="m",
            content=(*text("well"), OpaqueBlock(model, NOTHING)),
            stop=None,
        )
        for number, model in enumerate(models, 2)
    ]
    thread = with_messages(session, Vector.of([spoken, *replies])).thread
    assert thread.opaque_models == tuple(dict.fromkeys(models))

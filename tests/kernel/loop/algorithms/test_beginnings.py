"""A thread as what another session begins from: the model is sent the same again, and nothing of it is mended."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopkernel import Machine, project, start_from
from loopkernel.data.blocks import TextBlock
from loopkernel.data.events import ThreadRepaired
from loopkernel.data.foreign import ForeignReply, ForeignUser
from loopkernel.data.ids import MessageId, ModelOperation, ReceiptId
from loopkernel.data.messages import AssistantMessage, Message, ReplyState, UserMessage, UserOrigin
from loopkernel.data.projected import ProjectedMessage
from loopkernel.data.thread_deltas import Created
from loopkernel.data.threads import Thread
from loopkernel.data.vector import Vector
from loopkernel.loop.algorithms.wording import STOPPED_REPLY

from tests.kernel.loop.algorithms.threads import thread_of, turns


def begun(thread: Thread) -> tuple[Thread, bool]:
    """The thread of a session that begins from this one, and whether anything was repaired."""
    machine = Machine()
    events = machine.deliver(Created(session_id="s", start=start_from(thread)), 0)
    session = machine.state.session
    assert session is not None
    return session.thread, any(isinstance(event, ThreadRepaired) for event in events)


def shapes(messages: tuple[ProjectedMessage, ...]) -> list[tuple[str, list[str]]]:
    return [(message.role.value, [type(block).__name__ for block in message.content]) for message in messages]


@pytest.mark.rule("RESUME-5")
@given(st.builds(thread_of, turns))
def test_a_session_that_begins_from_a_thread_is_sent_the_same(messages: Vector[Message]) -> None:
    thread = Thread(messages)
    again, repaired = begun(thread)
    assert not repaired
    assert shapes(project(again, "m")) == shapes(project(thread, "m"))


@pytest.mark.rule("CANCEL-4")
def test_a_reply_that_was_stopped_is_said_to_be() -> None:
    cut = AssistantMessage(
        id=MessageId(1),
        reply=ModelOperation(1),
        model="m",
        content=(TextBlock("I was"),),
        stop=None,
        state=ReplyState.CANCELLED,
    )
    told = ForeignReply(content=(TextBlock("I was"),), model="m"), ForeignUser((TextBlock(STOPPED_REPLY),))
    assert start_from(Thread().append(cut)) == told
    said = [
        UserMessage(id=MessageId(number), content=(TextBlock(text),), origin=UserOrigin.SAID, receipt=ReceiptId(number))
        for number, text in ((2, "Go on."), (3, "Now."))
    ]
    whole = Thread().append(cut).append(said[0]).append(said[1])
    assert start_from(whole) == (*told, ForeignUser((TextBlock("Go on."),)), ForeignUser((TextBlock("Now."),)))

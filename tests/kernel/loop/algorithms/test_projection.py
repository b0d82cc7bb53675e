"""The request is a projection of the thread: results behind their calls, nothing blank, safe names, only grown."""

import re
from collections.abc import Iterator

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.blocks import (
    MediaBlock,
    OpaqueBlock,
    ReasoningBlock,
    ServerCall,
    TextBlock,
    ToolCall,
    ToolResult,
    UserBlock,
)
from loopkernel.data.ids import MessageId
from loopkernel.data.messages import AssistantMessage, ReplyState, ResultMessage, UserMessage
from loopkernel.data.projected import ProjectedBlock, ProjectedMessage, Role
from loopkernel.data.threads import Thread
from loopkernel.data.vector import Vector
from loopkernel.data.words import CallStatus, StopReason
from loopkernel.loop.algorithms.projection import project, safe_tool_name
from loopkernel.loop.algorithms.wording import STOPPED_REPLY
from loopkernel.testing.strategies.conversation import threads
from loopkernel.testing.strategies.values import MODELS, raw_texts

from tests.kernel.building import NOTHING, ONE, recorded_call, text

SAFE_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
rounds = threads(max_rounds=3)
models = st.sampled_from(MODELS)


def blocks_of(projected: tuple[ProjectedMessage, ...]) -> Iterator[ProjectedBlock | UserBlock]:
    """Every block of the request, and the blocks within its results."""
    for message in projected:
        for block in message.content:
            yield block
            if isinstance(block, ToolResult):
                yield from block.content


@pytest.mark.rule("INFER-2")
@pytest.mark.rule("TOOL-8")
@given(rounds, models)
def test_results_stand_right_behind_their_reply_in_the_order_of_its_calls(thread: Thread, model: str) -> None:
    projected = project(thread, model)
    for place, message in enumerate(projected):
        results = [block.call for block in message.content if isinstance(block, ToolResult)]
        calls = [block.id for block in message.content if isinstance(block, ToolCall)]
        if calls:
            following = projected[place + 1]
            assert following.role is Role.USER
            assert [block.call for block in following.content if isinstance(block, ToolResult)] == calls
        if results:
            assert len(results) == len(message.content)
            made = [block.id for block in projected[place - 1].content if isinstance(block, ToolCall)]
            assert made == results


@pytest.mark.rule("INFER-2")
@given(rounds, models)
def test_nothing_in_a_request_is_blank(thread: Thread, model: str) -> None:
    projected = project(thread, model)
    assert all(message.content for message in projected)
    for block in blocks_of(projected):
        if isinstance(block, TextBlock | ReasoningBlock):
            assert block.text.strip() != ""


@pytest.mark.rule("INFER-2")
@given(rounds, models)
def test_every_tool_name_in_a_request_is_safe(thread: Thread, model: str) -> None:
    blocks = list(blocks_of(project(thread, model)))
    named = [block for block in blocks if isinstance(block, ToolCall | ServerCall | ToolResult)]
    assert all(SAFE_NAME.fullmatch(block.tool) for block in named)


@pytest.mark.rule("INFER-2")
@given(rounds, models, st.data())
def test_a_later_request_begins_with_the_earlier_one(thread: Thread, model: str, data: st.DataObject) -> None:
    messages = list(thread)
    count = data.draw(st.integers(0, len(messages)))
    earlier = project(Thread(Vector.of(messages[:count])), model)
    if earlier and earlier[-1] == ProjectedMessage(Role.USER, text(STOPPED_REPLY)):
        earlier = earlier[:-1]  # what the user says next is joined to it
    assert project(thread, model)[: len(earlier)] == earlier


@pytest.mark.rule("INFER-2")
@pytest.mark.rule("INFER-15")
@given(rounds, models)
def test_all_else_is_sent_in_its_order_and_unchanged(thread: Thread, model: str) -> None:
    kept: list[object] = []
    for message in thread:
        if isinstance(message, ResultMessage):
            for result in message.results:
                kept += [result.call, *_worth_sending(result.content, model)]
        else:
            kept += _worth_sending(message.content, model)
    found = [_identity(block) for block in blocks_of(project(thread, model)) if block != TextBlock(STOPPED_REPLY)]
    assert found == kept


def _worth_sending(content: tuple[object, ...], model: str) -> list[object]:
    blank = (block for block in content if isinstance(block, TextBlock | ReasoningBlock) and not block.text.strip())
    left_out = [*blank, *(block for block in content if isinstance(block, OpaqueBlock) and block.model != model)]
    return [_identity(block) for block in content if block not in left_out]


def _identity(block: object) -> object:
    """A block without the name that is made safe: a call or result by its id."""
    if isinstance(block, ToolCall):
        return block.id, block.provider_id, block.input
    if isinstance(block, ServerCall):
        return block.provider_id, block.input, block.result
    return block.call if isinstance(block, ToolResult) else block


# --- examples -------------------------------------------------------------------------------------------


def reply(*content: OpaqueBlock | TextBlock | ToolCall, cut: bool = False, number: int = 2) -> AssistantMessage:
    return AssistantMessage(
        id=MessageId(number),
        reply=ONE,
        model="default",
        content=content,
        stop=None if cut else StopReason.END_TURN,
        state=ReplyState.CANCELLED if cut else ReplyState.COMPLETE,
    )


def said(words: str, number: int = 1) -> UserMessage:
    return UserMessage(id=MessageId(number), content=text(words))


@pytest.mark.rule("CANCEL-4")
def test_the_next_user_message_tells_that_the_reply_was_stopped() -> None:
    thread = Thread(Vector.of([said("go"), reply(TextBlock("well"), cut=True), said("on", 3), said("and on", 4)]))
    assert project(thread, "default")[2:] == (
        ProjectedMessage(Role.USER, (TextBlock(STOPPED_REPLY), TextBlock("on"))),
        ProjectedMessage(Role.USER, text("and on")),
    )


@pytest.mark.rule("CANCEL-4")
@pytest.mark.rule("INPUT-5")
def test_a_reply_that_was_stopped_before_it_said_anything_is_told_of_too() -> None:
    call = recorded_call()
    result = ToolResult(call=call.id, provider_id="p", tool="read", status=CallStatus.CANCELLED, content=text("cut"))
    answers = ResultMessage(id=MessageId(3), reply=ONE, results=(result,))
    thread = Thread(Vector.of([said("go"), reply(call, cut=True), answers, reply(cut=True, number=4), said(" ", 5)]))
    assert project(thread, "default") == (
        ProjectedMessage(Role.USER, text("go")),
        ProjectedMessage(Role.ASSISTANT, (call,)),
        ProjectedMessage(Role.USER, (result,)),
        ProjectedMessage(Role.USER, text(STOPPED_REPLY)),
    )


@pytest.mark.rule("INFER-2")
def test_blank_text_is_left_out_of_a_result_and_the_result_stays() -> None:
    call = recorded_call()
    blank = (TextBlock(" "), TextBlock("out"), TextBlock(""))
    result = ToolResult(call=call.id, provider_id="p", tool="a tool", status=CallStatus.DONE, content=blank)
    thread = Thread(Vector.of([said("go"), reply(call), ResultMessage(id=MessageId(3), reply=ONE, results=(result,))]))
    (shown,) = project(thread, "default")[-1].content
    assert shown == evolve(result, tool="a_tool", content=text("out"))


@pytest.mark.rule("INFER-15")
def test_opaque_blocks_go_to_their_own_model_alone() -> None:
    own, other = OpaqueBlock("default", NOTHING), OpaqueBlock("other", NOTHING)
    thread = Thread(Vector.of([said("go"), reply(own, other)]))
    assert project(thread, "default")[1:] == (ProjectedMessage(Role.ASSISTANT, (own,)),)
    assert project(thread, "other")[1:] == (ProjectedMessage(Role.ASSISTANT, (other,)),)
    assert project(thread, "third") == (ProjectedMessage(Role.USER, text("go")),)


@pytest.mark.rule("INPUT-6")
def test_user_messages_in_a_row_stay_apart() -> None:
    media = UserMessage(id=MessageId(2), content=(MediaBlock("image/png", "aGk="),))
    projected = project(Thread(Vector.of([said("one"), media, said(" ", 3)])), "default")
    assert projected == (ProjectedMessage(Role.USER, text("one")), ProjectedMessage(Role.USER, media.content))


@pytest.mark.rule("INFER-2")
@given(raw_texts)
def test_a_safe_name_is_kept_and_any_other_made_safe(name: str) -> None:
    safe = safe_tool_name(name)
    assert SAFE_NAME.fullmatch(safe)
    assert safe_tool_name(safe) == safe
    if SAFE_NAME.fullmatch(name):
        assert safe == name


@pytest.mark.rule("INFER-2")
@pytest.mark.parametrize(
    ("name", "safe"), [("read file", "read_file"), ("", "invalid_tool_name"), ("a" * 70, "a" * 64)]
)
def test_names_that_no_provider_takes(name: str, safe: str) -> None:
    assert safe_tool_name(name) == safe


def test_a_reply_of_another_turn_is_not_marked_again() -> None:
    thread = Thread(
        Vector.of([said("go"), reply(cut=True), said("on", 3), reply(TextBlock("fine"), number=4), said("more", 5)])
    )
    assert project(thread, "default")[-1] == ProjectedMessage(Role.USER, text("more"))


@pytest.mark.rule("CANCEL-4")
def test_a_stopped_reply_is_told_of_even_when_another_came_before_the_user_spoke() -> None:
    thread = Thread(Vector.of([said("go"), reply(cut=True), reply(TextBlock("fine"), number=3), said("on", 4)]))
    assert project(thread, "default")[1:] == (
        ProjectedMessage(Role.USER, text(STOPPED_REPLY)),
        ProjectedMessage(Role.ASSISTANT, text("fine")),
        ProjectedMessage(Role.USER, text("on")),
    )


@pytest.mark.rule("CANCEL-4")
def test_a_request_after_a_stopped_reply_ends_with_what_happened_to_it() -> None:
    thread = Thread(Vector.of([said("go"), reply(TextBlock("half"), cut=True)]))
    assert project(thread, "default")[-1] == ProjectedMessage(Role.USER, text(STOPPED_REPLY))

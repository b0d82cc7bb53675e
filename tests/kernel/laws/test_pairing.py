"""The laws PAIR and ORDER against requests judged by hand; and the laws' own repair, by hand and beside the loop's."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from loopkernel.data.blocks import MediaBlock, OpaqueBlock, ReasoningBlock, ServerCall, TextBlock, ToolCall, ToolResult
from loopkernel.data.effects import Request
from loopkernel.data.foreign import (
    ForeignCall,
    ForeignMessage,
    ForeignReply,
    ForeignResult,
    ForeignResults,
    ForeignUser,
)
from loopkernel.data.ids import CallId, ModelOperation
from loopkernel.data.json_text import Json
from loopkernel.data.projected import ProjectedMessage, Role
from loopkernel.data.threads import Thread
from loopkernel.data.words import CallStatus, RequestReason
from loopkernel.laws.accounts import repairs as slow
from loopkernel.laws.request_laws import Shown, order, pair
from loopkernel.loop.algorithms.projection import project
from loopkernel.loop.algorithms.repair import repair
from loopkernel.loop.algorithms.wording import LOST
from loopkernel.testing.strategies.conversation import threads

NOTHING = Json.of({})


# --- requests -------------------------------------------------------------------------------------------


def call(reply: int, position: int) -> ToolCall:
    return ToolCall(id=CallId(ModelOperation(reply), position), provider_id="p", tool="read", input=NOTHING)


def result(reply: int, position: int) -> ToolResult:
    identity = CallId(ModelOperation(reply), position)
    return ToolResult(call=identity, provider_id="p", tool="read", status=CallStatus.DONE)


def model(*blocks: ToolCall | ToolResult | TextBlock) -> ProjectedMessage:
    return ProjectedMessage(Role.ASSISTANT, blocks)


def user(*blocks: ToolCall | ToolResult | TextBlock) -> ProjectedMessage:
    return ProjectedMessage(Role.USER, blocks)


HELLO = TextBlock("hello")
ASKED = model(HELLO, call(1, 1), call(1, 2))


def broken(messages: Sequence[ProjectedMessage]) -> tuple[bool, bool]:
    """Whether a request with these messages breaks PAIR, and whether ORDER."""
    request = Request(
        number=ModelOperation(1),
        reason=RequestReason.USER,
        model="default",
        instructions="",
        tools=(),
        thread=Thread(),
        max_output_tokens=None,
    )
    news = [Shown(request, tuple(messages), request.thread)]
    return bool(pair(news)), bool(order(news))


@pytest.mark.parametrize(
    ("request_made", "breaks_pair", "breaks_order"),
    [
        ([user(HELLO), ASKED, user(result(1, 1), result(1, 2)), model(HELLO)], False, False),
        ([ASKED, user(result(1, 1), result(1, 2), HELLO)], False, False),
        ([ASKED, user(result(1, 1))], True, False),
        ([ASKED], True, False),
        ([ASKED, user(result(1, 1), result(1, 1), result(1, 2))], True, False),
        ([ASKED, user(result(1, 1)), user(result(1, 2))], True, False),
        ([ASKED, user(HELLO), user(result(1, 1), result(1, 2))], True, False),
        ([user(result(1, 1)), model(call(1, 1))], True, False),
        ([ASKED, user(result(1, 1), result(1, 2), result(2, 1))], True, False),
        ([model(call(1, 1), call(1, 1)), user(result(1, 1))], True, False),
        ([ASKED, model(result(1, 1), result(1, 2))], True, False),
        ([user(call(1, 1)), user(result(1, 1))], True, False),
        ([ASKED, user(result(1, 2), result(1, 1))], False, True),
        ([model(call(1, 2), call(1, 1)), user(result(1, 2), result(1, 1))], False, True),
        ([model(call(1, 2), call(1, 1)), user(result(1, 1), result(1, 2))], False, True),
    ],
    ids=[
        "whole",
        "whole, with a word behind the results",
        "one call unanswered",
        "no call answered",
        "one call answered twice",
        "results in two messages",
        "a word between",
        "a result before its call",
        "a result of no call",
        "a call made twice",
        "results told by the model",
        "a call made by the user",
        "results in another order",
        "calls in another order",
        "both in other orders",
    ],
)
def test_a_request(request_made: list[ProjectedMessage], breaks_pair: bool, breaks_order: bool) -> None:
    assert broken(request_made) == (breaks_pair, breaks_order)


@given(threads())
def test_no_fault_is_found_in_a_coherent_thread(thread: Thread) -> None:
    assert broken(project(thread, "default")) == (False, False)


# --- repairs --------------------------------------------------------------------------------------------


def foreign_call(name: str) -> ForeignCall:
    return ForeignCall(provider_id=name, tool="read", input=NOTHING)


def answer(name: str, text: str = "out") -> ForeignResult:
    return ForeignResult(provider_id=name, status=CallStatus.DONE, content=(TextBlock(text),))


def lost(name: str) -> ForeignResult:
    return ForeignResult(provider_id=name, status=CallStatus.LOST, content=(TextBlock(LOST),))


def reply(*names: str) -> ForeignReply:
    return ForeignReply(content=tuple(map(foreign_call, names)))


def results(*given: ForeignResult) -> ForeignResults:
    return ForeignResults(given)


SAID = ForeignUser((HELLO,))
BLANK = ForeignUser((TextBlock(" "),))

names = st.sampled_from(("c1", "c2", "c3"))
words = st.sampled_from(("a", "b", " ", ""))
said_blocks = st.one_of(
    names.map(foreign_call),
    names.map(foreign_call),
    words.map(TextBlock),
    words.map(ReasoningBlock),
    st.just(OpaqueBlock("default", NOTHING)),
    st.just(ServerCall(provider_id="c1", tool="search", input=NOTHING)),
)
user_blocks = words.map(TextBlock) | st.just(MediaBlock("image/png", ""))
recorded = st.builds(answer, names, words)
messages: SearchStrategy[ForeignMessage] = st.one_of(
    st.builds(ForeignUser, st.lists(user_blocks, max_size=2).map(tuple)),
    st.builds(ForeignReply, content=st.lists(said_blocks, max_size=3).map(tuple)),
    st.builds(ForeignReply, content=st.lists(names.map(foreign_call), max_size=3).map(tuple)),
    st.builds(ForeignResults, st.lists(recorded, max_size=3).map(tuple)),
    st.builds(ForeignResults, st.lists(recorded, max_size=3).map(tuple)),
)
conversations: SearchStrategy[list[ForeignMessage]] = st.lists(messages, max_size=9)


@pytest.mark.parametrize(
    ("conversation", "repaired", "repairs"),
    [
        ([SAID, reply("c1"), results(answer("c1"))], [SAID, reply("c1"), results(answer("c1"))], 0),
        ([reply("c1")], [reply("c1"), results(lost("c1"))], 1),
        ([BLANK, results()], [], 2),
        ([results(answer("c1")), reply("c1")], [reply("c1"), results(answer("c1"))], 1),
        (
            [results(answer("c1", "early")), reply("c1"), results(answer("c1", "late"))],
            [reply("c1"), results(answer("c1", "late"))],
            1,
        ),
        ([results(answer("c2")), reply("c1")], [reply("c1"), results(lost("c1"))], 2),
        (
            [reply("c1", "c2"), results(answer("c2")), results(answer("c1"))],
            [reply("c1", "c2"), results(answer("c1"), answer("c2"))],
            0,
        ),
        (
            [reply("c1", "c2"), SAID, results(answer("c2"), answer("c1"))],
            [reply("c1", "c2"), results(answer("c1"), answer("c2")), SAID],
            2,
        ),
        ([reply("c1"), BLANK, results(answer("c1"))], [reply("c1"), results(answer("c1"))], 1),
        (
            [reply("c1"), reply("c1"), results(answer("c1", "a"), answer("c1", "b"), answer("c1", "c"))],
            [reply("c1"), results(answer("c1", "b")), reply("c1"), results(answer("c1", "a"))],
            2,
        ),
        (
            [reply("c1", "c1"), results(answer("c1", "a"), answer("c1", "b"))],
            [reply("c1", "c1"), results(answer("c1", "a"), answer("c1", "b"))],
            0,
        ),
    ],
    ids=[
        "whole",
        "an answer lost",
        "empty messages",
        "a result before its call",
        "two results, one before its call",
        "a result of no call",
        "results in two messages and another order",
        "results behind a word",
        "results behind a blank",
        "one id in two replies, and an answer too many",
        "one id twice in a reply",
    ],
)
def test_a_repair(conversation: list[ForeignMessage], repaired: list[ForeignMessage], repairs: int) -> None:
    assert slow.repaired(conversation) == (tuple(repaired), repairs)


@pytest.mark.rule("RESUME-5")
@given(conversations)
def test_the_fast_repair_is_the_slow_one(conversation: list[ForeignMessage]) -> None:
    fast = repair(conversation)
    assert (fast.messages, len(fast.repairs)) == slow.repaired(conversation)

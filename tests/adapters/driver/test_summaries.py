"""The default summariser: what it asks the model of the session, what counts as a summary, and what a failure costs."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest
from loopkernel.data.blocks import (
    MediaBlock,
    OpaqueBlock,
    RawInput,
    ReasoningBlock,
    ServerCall,
    TextBlock,
    ToolCall,
    ToolResult,
)
from loopkernel.data.compactions import Cut
from loopkernel.data.effects import Request, Summarise
from loopkernel.data.ids import CallId, MessageId, ModelOperation, SummaryOperation
from loopkernel.data.json_text import Json
from loopkernel.data.messages import AssistantMessage, Message, ResultMessage, UserMessage
from loopkernel.data.model_deltas import ModelCompleted, ModelDelta, ModelFailed, ModelReasoning, ModelText, ModelUsage
from loopkernel.data.states import Initial
from loopkernel.data.threads import Thread
from loopkernel.data.usage import Usage
from loopkernel.data.words import CallStatus, ErrorClass, StopReason
from loopkernel.loop.algorithms.projection import project
from loopkernel_adapters.driver import summaries
from loopkernel_adapters.driver.summaries import LONGEST_PART, ProviderSummariser, model_of, summary_request, told
from loopkernel_adapters.optional_ports import SummaryError
from loopkernel_adapters.providers.scripted import ANY, Reply, ScriptedProvider, text_reply
from typing_extensions import override

from tests.adapters.driver.driver_world import FunctionProvider


def user(number: int, text: str) -> UserMessage:
    return UserMessage(id=MessageId(number), content=(TextBlock(text),))


def command(*messages: Message, until: int, opening: int | None = None) -> Summarise:
    thread = Thread()
    for message in messages:
        thread = thread.append(message)
    return Summarise(operation=SummaryOperation(2), thread=thread, cut=Cut(until, opening))


def asked_for(asked: Summarise) -> str:
    """All that the model is told, in one text."""
    request = summary_request(asked, "large")
    (message,) = project(request.thread, request.model)
    return "".join(block.text for block in message.content if isinstance(block, TextBlock))


def summary_of(reply: Reply) -> tuple[str, Usage]:
    """What the summariser makes of a reply."""
    asked = command(user(1, "one"), user(2, "two"), until=1)
    return asyncio.run(ProviderSummariser(ScriptedProvider([reply]), "large").summarise(asked))


@pytest.mark.rule("COMPACT-3")
def test_the_model_is_given_what_the_cut_leaves_out_and_nothing_else() -> None:
    messages = [user(number, f"say {number}") for number in range(1, 6)]
    text = asked_for(command(*messages, until=3, opening=1))
    assert [f"USER: say {number}" in text for number in range(1, 6)] == [True, False, True, False, False]
    provider = ScriptedProvider([text_reply("short", Usage(input=9, output=2))])
    summariser = ProviderSummariser(provider, "large")
    assert asyncio.run(summariser.summarise(command(*messages, until=3))) == ("short", Usage(input=9, output=2))
    (request,) = provider.requests
    assert (request.model, request.tools, request.forced_tool) == ("large", (), None)
    assert request.number < 0  # no request of the session has that number


def test_calls_results_and_media_are_told_as_text_and_thoughts_are_not() -> None:
    call = CallId(ModelOperation(1), 1)
    reply = AssistantMessage(
        id=MessageId(2),
        reply=ModelOperation(1),
        model="large",
        content=(
            ReasoningBlock("secretly"),
            OpaqueBlock("large", Json.of("signed")),
            TextBlock("I look."),
            ToolCall(id=call, provider_id="a", tool="read", input=Json.of({"path": "x"})),
            ToolCall(id=call, provider_id="b", tool="read", input=RawInput("{broken")),
            ServerCall(provider_id="c", tool="search", input=Json.of("q"), result=Json.of("found")),
            ServerCall(provider_id="d", tool="search", input=Json.of("other")),
        ),
        stop=StopReason.TOOL_USE,
    )
    text = told(reply)
    assert text.splitlines() == [
        "ASSISTANT:",
        "I look.",
        '[calls read with {"path":"x"}]',
        "[calls read with {broken]",
        '[called search with "q", which gave "found"]',
        '[called search with "other"]',
    ]
    picture = MediaBlock("image/png", "data")
    result = ToolResult(
        call=call, provider_id="a", tool="read", status=CallStatus.DONE, content=(TextBlock("milk"), picture)
    )
    answer = ResultMessage(id=MessageId(3), reply=ModelOperation(1), results=(result, result))
    assert told(answer) == "\n".join(["RESULT of read (done): milk [with image/png]"] * 2)


def test_a_long_part_is_told_by_its_ends() -> None:
    text = told(user(1, "a" * LONGEST_PART + "middle" + "z" * LONGEST_PART))
    assert len(text) < LONGEST_PART + 100
    assert text.endswith("zzz")
    assert "characters left out" in text
    assert "middle" not in text


@pytest.mark.parametrize("stop", [StopReason.END_TURN, StopReason.STOP_SEQUENCE, StopReason.MAX_TOKENS])
def test_the_text_of_a_reply_is_the_summary(stop: StopReason) -> None:
    reply: Sequence[ModelDelta] = (
        ModelReasoning(ANY, "hm"),
        ModelUsage(ANY, Usage(input=5)),
        ModelText(ANY, "the "),
        ModelText(ANY, "gist"),
        ModelCompleted(ANY, stop, Usage(input=5, output=2)),
    )
    assert summary_of(reply) == ("the gist", Usage(input=5, output=2))


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ((ModelFailed(operation=ANY, error=ErrorClass.OVERLOADED, message="busy"),), "overloaded: busy"),
        ((ModelText(ANY, "I will not"), ModelCompleted(ANY, StopReason.REFUSAL)), "stopped as refusal"),
        ((ModelText(ANY, " "), ModelCompleted(ANY, StopReason.END_TURN)), "wrote none"),
        ((ModelText(ANY, "half"),), "without saying that it is complete"),
        ((ModelText(ANY, "half"), ValueError("broken")), "ValueError: broken"),
    ],
)
@pytest.mark.rule("COMPACT-4")
def test_what_is_no_summary_fails_with_what_it_has_used(reply: Reply, why: str) -> None:
    with pytest.raises(SummaryError, match=why) as failure:
        summary_of((ModelUsage(ANY, Usage(input=7)), *reply))
    assert failure.value.usage == Usage(input=7)


def test_a_model_that_falls_silent_gives_no_summary(monkeypatch: pytest.MonkeyPatch) -> None:
    async def silent(operation: ModelOperation) -> AsyncIterator[ModelDelta]:
        yield ModelUsage(operation, Usage(input=7))
        await asyncio.Event().wait()

    monkeypatch.setattr(summaries, "SILENCE_SECONDS", 0.0)
    with pytest.raises(SummaryError, match="fallen silent"):
        asyncio.run(ProviderSummariser(FunctionProvider(silent), "large").summarise(command(user(1, "one"), until=1)))


def test_a_summary_that_is_cancelled_lets_go_of_its_stream() -> None:
    async def run() -> None:
        closed = asyncio.Event()
        begun = asyncio.Event()

        class Endless(ScriptedProvider):
            @override
            async def stream(self, request: Request, operation: ModelOperation) -> AsyncIterator[ModelDelta]:
                begun.set()
                try:
                    while True:
                        yield ModelText(operation, "and ")
                finally:
                    closed.set()

        asking = asyncio.ensure_future(
            ProviderSummariser(Endless([]), "large").summarise(command(user(1, "one"), until=1))
        )
        await begun.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert closed.is_set()

    asyncio.run(run())


def test_without_a_session_there_is_no_model_to_ask() -> None:
    assert model_of(Initial()) == ""

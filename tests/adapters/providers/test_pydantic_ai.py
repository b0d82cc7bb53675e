"""Models of pydantic-ai behind the provider port: its own test models, asked as any vendor's are."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.blocks import MediaBlock
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import (
    ModelCall,
    ModelCompleted,
    ModelDelta,
    ModelFailed,
    ModelInput,
    ModelOpaque,
    ModelReasoning,
    ModelText,
)
from loopkernel.data.tools import EffectClass, Tool
from loopkernel.data.words import ErrorClass, StopReason
from loopkernel_adapters.agent import Agent
from loopkernel_adapters.ports import ProviderUnavailable
from loopkernel_adapters.providers.named import opened
from loopkernel_adapters.providers.pydantic_ai import PydanticAIProvider
from loopkernel_adapters.tools.functions import tool
from pydantic_ai import exceptions, messages
from pydantic_ai.models.function import AgentInfo, DeltaThinkingPart, DeltaToolCall, FunctionModel
from pydantic_ai.models.test import TestModel

from tests.adapters.providers.asked_requests import request_of, whole_reply

Piece = str | dict[int, DeltaToolCall] | dict[int, DeltaThinkingPart]
READ = Tool(name="read.file", description="Read.", input_schema=Json.of({"type": "object", "properties": {}}))


def saying(
    *pieces: Piece | Exception,
) -> tuple[PydanticAIProvider, list[tuple[list[messages.ModelMessage], AgentInfo]]]:
    asked: list[tuple[list[messages.ModelMessage], AgentInfo]] = []

    async def stream(thread: list[messages.ModelMessage], info: AgentInfo) -> AsyncIterator[Piece]:
        asked.append((thread, info))
        for piece in pieces:
            if isinstance(piece, Exception):
                raise piece
            yield piece

    return PydanticAIProvider(FunctionModel(stream_function=stream)), asked


def reply_of(*pieces: Piece | Exception) -> list[ModelDelta]:
    return asyncio.run(whole_reply(saying(*pieces)[0], request_of("hello", model="m", tools=(READ,))))


def text_of_reply(deltas: list[ModelDelta]) -> str:
    return "".join(delta.text for delta in deltas if isinstance(delta, ModelText))


@given(st.lists(st.text(min_size=1, max_size=5), min_size=1, max_size=4))
def test_the_text_is_told_piece_by_piece_and_whole(pieces: list[str]) -> None:
    deltas = reply_of(*pieces)
    assert text_of_reply(deltas) == "".join(pieces)
    assert isinstance(deltas[-1], ModelCompleted)
    assert deltas[-1].stop is StopReason.END_TURN


def test_a_call_is_told_as_it_is_written_under_the_name_that_was_offered() -> None:
    deltas = reply_of(
        {0: DeltaToolCall(name="read_file", json_args='{"path"', tool_call_id="c1")},
        {0: DeltaToolCall(json_args=': "a"}')},
    )
    assert any(isinstance(delta, ModelInput) for delta in deltas)
    (call,) = (delta for delta in deltas if isinstance(delta, ModelCall))
    assert (call.provider_id, call.tool, call.input) == ("c1", "read.file", Json.of({"path": "a"}))
    assert isinstance(deltas[-1], ModelCompleted)
    assert deltas[-1].stop is StopReason.TOOL_USE


def test_signed_reasoning_goes_back_as_it_came() -> None:
    deltas = reply_of({0: DeltaThinkingPart(content="Hm.", signature="signed")}, "Yes.")
    assert [delta.text for delta in deltas if isinstance(delta, ModelReasoning)] == ["Hm."]
    assert any(isinstance(delta, ModelOpaque) for delta in deltas)

    provider, asked = saying({0: DeltaThinkingPart(content="Hm.", signature="signed")}, "Yes.")
    agent = Agent(provider, model="m")

    async def twice() -> None:
        async with agent.session() as session:
            await session.say("a")
            await session.say("b")

    asyncio.run(twice())
    (thought,) = (
        part
        for message in asked[-1][0]
        if isinstance(message, messages.ModelResponse)
        for part in message.parts
        if isinstance(part, messages.ThinkingPart)
    )
    assert (thought.content, thought.signature) == ("Hm.", "signed")


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (exceptions.ModelHTTPError(429, "m", headers={"retry-after": "3"}), ErrorClass.RATE_LIMITED),
        (exceptions.ModelHTTPError(401, "m"), ErrorClass.AUTH),
        (exceptions.ModelHTTPError(503, "m"), ErrorClass.OVERLOADED),
        (exceptions.ModelConnectionError("m", "no connection"), ErrorClass.NETWORK),
        (exceptions.UserError("no such setting"), ErrorClass.BAD_REQUEST),
        (ConnectionResetError("gone"), ErrorClass.NETWORK),
    ],
)
def test_what_is_raised_is_a_failure_of_its_class(error: Exception, kind: ErrorClass) -> None:
    failed = reply_of("Half an", error)[-1]
    assert isinstance(failed, ModelFailed)
    assert failed.error is kind
    assert failed.retry_after_ms == (3_000 if kind is ErrorClass.RATE_LIMITED else None)


def test_the_thread_is_asked_with_its_instructions_tools_and_limit() -> None:
    provider, asked = saying("Yes.")
    picture = MediaBlock("image/png", "iVBORw0KGgo=")
    request = request_of(
        "hello",
        picture,
        model="m",
        instructions="Be kind.",
        tools=(READ,),
        max_output_tokens=9,
        forced_tool="read.file",
    )
    asyncio.run(whole_reply(provider, request))
    ((thread, info),) = asked
    assert info.instructions == "Be kind."
    assert [each.name for each in info.function_tools] == ["read_file"]
    assert info.model_settings is not None
    assert (info.model_settings.get("max_tokens"), info.model_settings.get("tool_choice")) == (9, ["read_file"])
    content = [part for message in thread for part in message.parts if isinstance(part, messages.UserPromptPart)]
    assert "hello" in content[0].content
    assert isinstance(content[-1].content[-1], messages.BinaryContent)


def test_an_agent_works_with_its_test_model_from_end_to_end() -> None:
    """It calls each tool once, and then says what they gave."""

    @tool(effect=EffectClass.READ_ONLY)
    def weather(town: str) -> str:
        """The weather of a town."""
        return f"rain in {town}"

    result = Agent(PydanticAIProvider(TestModel()), [weather]).run_sync("How is it?")
    assert [call.tool for call in result.calls] == ["weather"]
    assert "rain in a" in result.text_or_raise()
    assert result.usage.output > 0


def test_it_is_opened_by_name_or_told_why_not(monkeypatch: pytest.MonkeyPatch) -> None:
    with opened("pydantic-ai:test") as (provider, model):
        assert isinstance(provider, PydanticAIProvider)
        assert model == "test"
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    for name in ("pydantic-ai:openai-chat:m", "pydantic-ai:nobody:m"):
        with pytest.raises(ProviderUnavailable, match="pydantic-ai has no model"):
            opened(name)

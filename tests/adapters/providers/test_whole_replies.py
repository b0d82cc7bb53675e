"""A reply that is wanted whole is asked for so, and says what the same reply says as a stream (rule INFER-11)."""

import asyncio
import json

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.model_deltas import ModelDelta, ModelFailed
from loopkernel.data.usage import Usage
from loopkernel.data.words import ErrorClass, StopReason

from tests.adapters.providers import anthropic_world, openai_world
from tests.adapters.providers.anthropic_world import block, delta, start, stop, text, tool_use, wire
from tests.adapters.providers.openai_world import Api

CALL = {"id": "c1", "type": "function", "function": {"name": "read_file", "arguments": '{"path": "a"}'}}
CHAT = {
    "object": "chat.completion",
    "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {"content": "I read.", "tool_calls": [CALL]}}],
    "usage": {"prompt_tokens": 7, "completion_tokens": 3},
}
OUTPUT = [
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I read."}]},
    {
        "type": "function_call",
        "call_id": "c1",
        "name": "read_file",
        "arguments": '{"path": "a"}',
        "status": "completed",
    },
]
RESPONSE = {
    "object": "response",
    "status": "completed",
    "error": None,
    "output": OUTPUT,
    "usage": {"input_tokens": 7, "output_tokens": 3},
}
MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-test",
    "content": [
        {"type": "text", "text": "I read."},
        {"type": "tool_use", "id": "c1", "name": "read_file", "input": {"path": "a"}},
    ],
    "stop_reason": "tool_use",
    "usage": {"input_tokens": 7, "output_tokens": 3},
}


def of_anthropic(body: bytes, *, stream: bool = False) -> tuple[list[ModelDelta], dict[str, object]]:
    """The reply that Anthropic's API gives so, and what was asked."""

    async def run() -> tuple[list[ModelDelta], dict[str, object]]:
        world = anthropic_world.InMemory()
        deltas = await world.reply([body], request=evolve(anthropic_world.asking(), stream=stream))
        return deltas, json.loads(world.asked[0].content)

    return asyncio.run(run())


def of_openai(api: Api, body: object) -> tuple[list[ModelDelta], dict[str, object]]:
    """The same of one of OpenAI's."""

    async def run() -> tuple[list[ModelDelta], dict[str, object]]:
        world = openai_world.InMemory(api)
        deltas = await world.reply([json.dumps(body).encode()], request=evolve(openai_world.asking(), stream=False))
        return deltas, json.loads(world.asked[0].content)

    return asyncio.run(run())


@pytest.mark.rule("INFER-11")
def test_anthropic_gives_a_whole_reply() -> None:
    deltas, asked = of_anthropic(json.dumps(MESSAGE).encode())
    assert asked["stream"] is False
    assert anthropic_world.text_in(deltas) == "I read."
    assert [(call.provider_id, call.tool) for call in anthropic_world.calls_in(deltas)] == [("c1", "read_file")]
    end = anthropic_world.completed(deltas)
    assert (end.stop, end.usage) == (StopReason.TOOL_USE, Usage(input=7, output=3))


@pytest.mark.rule("INFER-11")
@pytest.mark.parametrize(("api", "body"), [("chat", CHAT), ("responses", RESPONSE)])
def test_openai_gives_a_whole_reply(api: Api, body: object) -> None:
    deltas, asked = of_openai(api, body)
    assert asked["stream"] is False
    assert "stream_options" not in asked
    assert openai_world.text_in(deltas) == "I read."
    assert [(call.provider_id, call.tool) for call in openai_world.calls_in(deltas)] == [("c1", "read_file")]
    end = openai_world.completed(deltas)
    assert (end.stop, end.usage) == (StopReason.TOOL_USE, Usage(input=7, output=3))


@pytest.mark.rule("INFER-7")
def test_a_response_that_is_incomplete_tells_what_there_is() -> None:
    cut = {
        **RESPONSE,
        "status": "incomplete",
        "incomplete_details": {"reason": "max_output_tokens"},
        "output": OUTPUT[:1],
    }
    deltas, _ = of_openai("responses", cut)
    assert openai_world.text_in(deltas) == "I read."
    assert openai_world.completed(deltas).stop is StopReason.MAX_TOKENS


@pytest.mark.rule("RETRY-3")
@pytest.mark.parametrize("body", [b"", b"<html>", b'{"type": "message"', b"[]", b"7"])
def test_what_is_not_a_reply_is_a_failure(body: bytes) -> None:
    deltas, _ = of_anthropic(body)
    assert isinstance(deltas[-1], ModelFailed)
    for api in ("chat", "responses"):
        assert isinstance(of_openai(api, body.decode())[0][-1], ModelFailed)


# --- how much of a reply that broke was not whole ---------------------------------------------------------


def unfinished(events: list[dict[str, object]]) -> int | None:
    deltas, _ = of_anthropic(wire(events), stream=True)
    return anthropic_world.failed(deltas).unfinished


@pytest.mark.rule("INFER-11")
@given(whole=st.lists(st.text("ab", min_size=1), max_size=2), begun=st.lists(st.text("ab", min_size=1), max_size=2))
def test_what_an_open_block_has_said_is_not_whole(whole: list[str], begun: list[str]) -> None:
    open_block = [block(1, type="text", text=""), *(delta(1, type="text_delta", text=part) for part in begun)]
    assert unfinished([start(), *text(0, *whole), *open_block]) == len("".join(begun))


@pytest.mark.rule("INFER-11")
def test_of_a_call_that_is_open_nothing_that_was_said_is_unfinished() -> None:
    assert unfinished([start(), *text(0, "I read."), *tool_use(1, '{"pa', ends=False)]) == 0


@pytest.mark.rule("INFER-11")
def test_an_error_within_a_stream_tells_it_too_and_a_block_that_ends_is_whole() -> None:
    told: dict[str, object] = {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}
    thought = [block(0, type="thinking", thinking="", signature=""), delta(0, type="thinking_delta", thinking="hm")]
    deltas, _ = of_anthropic(wire([start(), *thought, told]), stream=True)
    assert (anthropic_world.failed(deltas).error, anthropic_world.failed(deltas).unfinished) == (
        ErrorClass.OVERLOADED,
        2,
    )
    assert unfinished([start(), *thought, stop(0), told]) == 0

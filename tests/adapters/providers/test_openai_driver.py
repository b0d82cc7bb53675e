"""Whole rounds of both APIs through the real driver, as the server sees them; and the duties of a provider."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from loopkernel.data.blocks import OpaqueBlock, TextBlock
from loopkernel.data.events import RetryScheduled
from loopkernel.data.json_text import Json
from loopkernel.data.messages import AssistantMessage
from loopkernel.data.policy import Policy
from loopkernel.data.states import State
from loopkernel.data.usage import Usage
from loopkernel.data.words import ErrorClass, TurnEndReason
from loopkernel_adapters.driver.clocks import ManualClock
from loopkernel_adapters.providers.openai.chat import OpenAIChatProvider
from loopkernel_adapters.providers.openai.responses import OpenAIResponsesProvider
from loopkernel_adapters.testing.provider_check import Situation, Staged, check_provider

from tests.adapters.driver.driver_world import World, say
from tests.adapters.providers.openai_rules import demand_chat, demand_responses
from tests.adapters.providers.openai_world import MODEL, Api, calling, chunk, fragment, wire
from tests.adapters.providers.wire_server import Answer, WireServer, problem, stream_of

Event = dict[str, object]

APIS: tuple[Api, ...] = ("chat", "responses")
USED = {"prompt_tokens": 12, "completion_tokens": 5}
USED_OF_RESPONSE = {"input_tokens": 12, "output_tokens": 5, "input_tokens_details": {"cached_tokens": 2}}
REASONING: Event = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "c2Vj"}


def _item(kind: str, item: Event, place: int = 0) -> Event:
    return {"type": f"response.output_item.{kind}", "output_index": place, "item": item}


def _end(usage: object = None) -> Event:
    return {"type": "response.completed", "response": {"usage": usage}}


def _written(delta: str, place: int = 1) -> Event:
    return {"type": "response.function_call_arguments.delta", "output_index": place, "delta": delta}


def _said(delta: str) -> Event:
    return {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": delta}


ECHO: Event = {"type": "function_call", "id": "fc", "call_id": "one", "name": "echo", "arguments": ""}
WHOLE_ECHO: Event = {**ECHO, "arguments": '{"word":"hello"}'}
CALLS: dict[Api, tuple[bytes, ...]] = {
    "chat": (
        wire(calling(fragment('{"word"', 0, "one", "echo")), calling(fragment(':"hello"}', 0))),
        wire(chunk("tool_calls"), {"choices": [], "usage": USED}, "[DONE]"),
    ),
    "responses": (
        wire(_item("done", REASONING), _item("added", ECHO, 1), _written('{"word"'), _written(':"hello"}')),
        wire(_item("done", WHOLE_ECHO, 1), _end(USED_OF_RESPONSE)),
    ),
}
ANSWERS: dict[Api, bytes] = {
    "chat": wire(chunk(content="It said "), chunk(content="hello."), chunk("stop"), "[DONE]"),
    "responses": wire(_said("It said "), _said("hello."), _end()),
}
KEY = "sk-checked-0815"
BUSY = problem(503, {"error": {"message": f"busy, {KEY}"}}, ("retry-after", "9"))


def provider_at(api: Api, url: str) -> OpenAIChatProvider | OpenAIResponsesProvider:
    made = OpenAIChatProvider if api == "chat" else OpenAIResponsesProvider
    return made(api_key=KEY, base_url=f"{url}/v1")


async def _turn(api: Api, url: str) -> tuple[World, State]:
    clock = ManualClock(1_000)
    async with provider_at(api, url) as provider:
        world = World(provider=provider, clock=clock, policy=Policy(model=MODEL))
        async with await world.open() as driver:
            await driver.send(say("Echo hello"))
            resting = asyncio.create_task(driver.rest())
            for count in (1, 2):
                while len(world.seen(RetryScheduled)) < count:
                    await asyncio.sleep(0)
                clock.advance(60_000)
            await resting
            return world, driver.state


@pytest.mark.rule("RETRY-2")
@pytest.mark.rule("INFER-15")
@pytest.mark.parametrize("api", APIS)
def test_a_round_with_a_call_a_lost_connection_and_an_overload_ends_with_the_answer(api: Api) -> None:
    lost = stream_of(CALLS[api][0], ends="reset")
    with WireServer([lost, BUSY, stream_of(*CALLS[api]), stream_of(ANSWERS[api])]) as server:
        world, state = asyncio.run(_turn(api, server.url))
    assert world.endings() == [TurnEndReason.MODEL_STOP]
    assert world.results() == [("done", '{"word":"hello"}')]
    assert [run.input.value() for run in world.tools.started] == [{"word": "hello"}]
    bodies: list[dict[str, Any]] = [json.loads(request.body) for request in server.requests]  # Any: JSON
    assert len(bodies) == 4
    assert bodies[0] == bodies[1] == bodies[2]
    for body in bodies:
        (demand_chat if api == "chat" else demand_responses)(body)
    if api == "chat":
        assert [message["role"] for message in bodies[3]["messages"]] == ["user", "assistant", "tool"]
        assert bodies[3]["messages"][-1]["tool_call_id"] == "one"
    else:
        assert [item["type"] for item in bodies[3]["input"]][1:] == [
            "reasoning",
            "function_call",
            "function_call_output",
        ]
        assert bodies[3]["input"][1] == REASONING
    assert state.session is not None
    first, last = (message for message in state.session.thread if isinstance(message, AssistantMessage))
    assert first.usage == (Usage(12, 5) if api == "chat" else Usage(10, 5, 2))
    assert any(isinstance(part, OpaqueBlock) for part in first.content) is (api == "responses")
    assert last.content == (TextBlock("It said hello."),)


# --- duties -------------------------------------------------------------------------------------------

READ_ITEM: Event = {"type": "function_call", "id": "fc", "call_id": "one", "name": "read_file", "arguments": ""}
PATH = '{"path": "a.txt"}'
SITUATIONS: dict[Api, dict[Situation, Answer]] = {
    "chat": {
        Situation.TEXT: stream_of(ANSWERS["chat"]),
        Situation.CALLS: stream_of(
            wire(calling(fragment(PATH[:6], 0, "one", "read_file")), calling(fragment(PATH[6:])), chunk("tool_calls"))
        ),
        Situation.FAILING: BUSY,
        Situation.CUT: stream_of(wire(calling(fragment(PATH[:6], 0, "one", "read_file"))), ends="cut"),
        Situation.STOPPED: stream_of(wire(chunk(content="It"))),
        Situation.SILENT: stream_of(wire(chunk(content="It")), ends="silent"),
    },
    "responses": {
        Situation.TEXT: stream_of(ANSWERS["responses"]),
        Situation.CALLS: stream_of(
            wire(_item("added", READ_ITEM, 1), _written(PATH[:6]), _written(PATH[6:]), _item("done", READ_ITEM, 1)),
            wire(_end()),
        ),
        Situation.FAILING: BUSY,
        Situation.CUT: stream_of(wire(_item("added", READ_ITEM, 1), _written(PATH[:6])), ends="cut"),
        Situation.STOPPED: stream_of(wire(_said("It"))),
        Situation.SILENT: stream_of(wire(_said("It")), ends="silent"),
    },
}


@pytest.mark.parametrize("api", APIS)
def test_the_providers_keep_their_duties(api: Api) -> None:
    @asynccontextmanager
    async def staged(situation: Situation) -> AsyncIterator[Staged | None]:
        with WireServer([SITUATIONS[api][situation]]) as server:
            async with provider_at(api, server.url) as provider:
                yield Staged(
                    provider=provider,
                    asked=lambda: len(server.requests),
                    told=lambda: asyncio.to_thread(server.wait_until_told),
                    text={Situation.TEXT: "It said hello."}.get(situation),
                    calls={Situation.CALLS: (("read_file", Json.of({"path": "a.txt"})),)}.get(situation),
                    error=ErrorClass.OVERLOADED if situation is Situation.FAILING else None,
                    retry_after_ms=9_000 if situation is Situation.FAILING else None,
                    keys=(KEY,),
                )

    assert check_provider(staged) == ()

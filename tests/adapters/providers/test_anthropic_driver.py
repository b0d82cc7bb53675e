"""A whole round through the real driver: call, result, answer, with a retry in between, as the service sees it."""

import asyncio
import json

import pytest
from loopkernel.data.blocks import OpaqueBlock, TextBlock
from loopkernel.data.events import Event, RetryScheduled
from loopkernel.data.messages import AssistantMessage
from loopkernel.data.policy import Policy
from loopkernel.data.states import Idle
from loopkernel.data.usage import Usage
from loopkernel.data.words import TurnEndReason
from loopkernel_adapters.driver.clocks import ManualClock
from loopkernel_adapters.providers.anthropic.provider import AnthropicProvider

from tests.adapters.driver.driver_world import World, say
from tests.adapters.providers.anthropic_world import block, delta, ending, start, stop, text, tool_use, wire
from tests.adapters.providers.messages_api import faults_of
from tests.adapters.providers.wire_server import WireServer, problem, stream_of

THOUGHT = [
    block(0, type="thinking", thinking="", signature=""),
    delta(0, type="thinking_delta", thinking="I shall echo."),
    delta(0, type="signature_delta", signature="c2ln"),
    stop(0),
]
CALL = wire([start(), *THOUGHT, *tool_use(1, '{"word": ', '"hello"}', name="echo"), *ending("tool_use")])
ANSWER = wire([start(), *text(0, "It said ", "hello."), *ending("end_turn")])
BUSY = problem(
    529, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, ("retry-after", "9")
)


@pytest.mark.rule("RETRY-2")
@pytest.mark.rule("INFER-15")
def test_a_round_with_a_call_a_lost_connection_and_an_overload_ends_with_the_answer() -> None:
    lost = stream_of(CALL[: len(CALL) * 2 // 3], ends="reset")
    clock = ManualClock(1_000)

    async def run(url: str) -> tuple[World, list[AssistantMessage]]:
        def wait_no_longer(event: Event) -> None:
            if isinstance(event, RetryScheduled):
                asyncio.get_running_loop().call_soon(clock.advance, 60_000)

        async with AnthropicProvider(api_key="k", base_url=url, thinking=2_000) as provider:
            world = World(provider=provider, clock=clock, policy=Policy(model="claude-test"))
            async with await world.open(wait_no_longer) as driver:
                await driver.send(say("Echo hello"))
                await driver.rest()
                state = driver.state
        assert isinstance(state, Idle)
        return world, [message for message in state.session.thread if isinstance(message, AssistantMessage)]

    with WireServer([lost, BUSY, stream_of(CALL), stream_of(ANSWER)]) as server:
        world, (first, last) = asyncio.run(run(server.url))
    assert len(world.seen(RetryScheduled)) == 2
    assert world.endings() == [TurnEndReason.MODEL_STOP]
    assert world.results() == [("done", '{"word":"hello"}')]
    bodies = [json.loads(request.body) for request in server.requests]
    assert len(bodies) == 4
    assert all(faults_of(body) == [] for body in bodies)
    assert bodies[0] == bodies[1] == bodies[2]
    _, called, answered = bodies[3]["messages"]
    assert called["content"] == [
        {"type": "thinking", "thinking": "I shall echo.", "signature": "c2ln"},
        {"type": "tool_use", "id": "toolu_1", "name": "echo", "input": {"word": "hello"}},
    ]
    assert [part["tool_use_id"] for part in answered["content"]] == ["toolu_1"]
    assert first.usage == Usage(input=12, output=5)
    assert any(isinstance(part, OpaqueBlock) for part in first.content)
    assert last.content == (TextBlock("It said hello."),)

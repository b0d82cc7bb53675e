"""The agent as an MCP server over HTTP, spoken to by the SDK's own client, behind the guard of the whole server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal

import httpx2
import pytest
from loopkernel_adapters.agent import Agent
from loopkernel_adapters.providers.scripted import text_reply
from mcp import Client
from mcp.client.session import ElicitationFnT
from mcp.client.streamable_http import streamable_http_client

from tests.adapters.server.server_world import ALLOWED_ORIGIN, LOOPBACK, TOKEN, Till, agent_of, pay, serving
from tests.adapters.server.server_world import Client as Http
from tests.adapters.server.test_mcp_server import DONE, MODES, result, saying

INITIALIZE = (
    b'{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25", '
    b'"capabilities": {}, "clientInfo": {"name": "a test", "version": "1"}}}'
)
ACCEPTS = {"Accept": "application/json, text/event-stream"}


@asynccontextmanager
async def speaking(
    http: Http, mode: Literal["auto", "legacy"] = "auto", person: ElicitationFnT | None = None, token: str = TOKEN
) -> AsyncIterator[Client]:
    """The SDK's client, which sends the token in a header."""
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(headers=headers, timeout=60) as sending:
        transport = streamable_http_client(f"http://{LOOPBACK}:{http.port}/mcp", http_client=sending)
        async with Client(transport, mode=mode, elicitation_callback=person) as client:
            yield client


@pytest.mark.parametrize("mode", MODES)
def test_a_task_is_done_and_its_run_is_one_of_the_server(mode: Literal["auto", "legacy"]) -> None:
    till, heard = Till(), list[str]()

    async def play(agent: Agent) -> None:
        async with serving(agent) as http:
            async with speaking(http, mode, saying(heard, "accept", answer="yes")) as client:
                done = result(await client.call_tool("run_task", {"task": "Pay"}))
            assert (done["text"], till.paid, len(heard)) == ("Done.", [{"amount": 5}], 1)
            assert (await http.get(f"/runs/{done['run']}"))["reason"] == "model_stop"

    asyncio.run(play(agent_of([pay(5), DONE], tools=[till.tool])))


def test_what_waits_over_one_door_is_answered_over_the_other() -> None:
    till = Till()

    async def play() -> None:
        async with serving(agent_of([pay(5), text_reply("Paid.")], tools=[till.tool])) as http:
            async with speaking(http) as client:
                waits = result(await client.call_tool("run_task", {"task": "Pay"}))
            assert waits["waiting"] == ["1.1 pay"]
            (asked,) = (await http.get(f"/runs/{waits['run']}"))["waiting"]
            await http.post(f"/runs/{waits['run']}/answer", {"asked": asked["asked"], "answer": "yes"})
            assert (await http.until(waits["run"], "Idle"))["text"] == "Paid."

    asyncio.run(play())


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (200, {}),
        (200, {"Origin": ALLOWED_ORIGIN}),
        (401, {"Authorization": "Bearer another"}),
        (401, {"Authorization": ""}),
        (403, {"Origin": "http://evil.example"}),
        (421, {"Host": "rebound.example"}),
    ],
)
def test_nobody_else_comes_in(status: int, headers: dict[str, str]) -> None:
    async def play() -> None:
        async with serving(agent_of([])) as http:
            given, told, _ = await http.ask("POST", "/mcp", INITIALIZE, {**ACCEPTS, **headers})
            assert given == status
            if headers.get("Origin") == ALLOWED_ORIGIN:
                assert told["access-control-expose-headers"] == "Mcp-Session-Id"

    asyncio.run(play())

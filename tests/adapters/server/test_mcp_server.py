"""The agent as an MCP server, spoken to by the SDK's own client: progress, approvals by a person, and cancelling."""

import asyncio
import json
from typing import Literal

import pytest
from loopkernel_adapters.providers.scripted import text_reply
from loopkernel_adapters.server.mcp_server import mcp_server_of
from loopkernel_adapters.server.open_runs import OpenRuns
from mcp import Client
from mcp import types as protocol
from mcp.client import ClientRequestContext
from mcp.client.session import ElicitationFnT

from tests.adapters.server.server_world import Answer, Till, agent_of, pay

DONE = text_reply("Done.")
MODES = ("auto", "legacy")  # asked by the tool's answer, as of 2026-07-28, and while it is under way


def saying(heard: list[str], action: str, **content: str) -> ElicitationFnT:
    """A person who always says that."""

    async def asked(
        context: ClientRequestContext, params: protocol.ElicitRequestParams
    ) -> protocol.ElicitResult | protocol.ErrorData:
        heard.append(params.message)
        return protocol.ElicitResult.model_validate({"action": action, "content": content or None})

    return asked


def result(answer: Answer) -> Answer:
    assert not answer.is_error, answer.content
    return answer.structured_content


def test_a_task_is_done_told_and_gone_on_with() -> None:
    async def play() -> None:
        told: list[str | None] = []

        async def progress(progress: float, total: float | None, message: str | None) -> None:
            told.append(message)

        runs = OpenRuns(agent_of([DONE, text_reply("Again.")]))
        async with Client(mcp_server_of(runs)) as client:
            (tool,) = (await client.list_tools()).tools
            assert tool.name == "run_task"
            first = result(await client.call_tool("run_task", {"task": "Hello"}, progress_callback=progress))
            assert (first["text"], first["reason"], first["waiting"]) == ("Done.", "model_stop", [])
            assert any(message is not None and "Done." in message for message in told)
            again = result(await client.call_tool("run_task", {"task": "And now?", "run": first["run"]}))
            assert (again["run"], again["text"]) == (first["run"], "Again.")
            for wrong in ({"task": " "}, {"task": "x", "run": "../x"}, {"task": "x", "run": "none"}):
                assert (await client.call_tool("run_task", wrong)).is_error
        await runs.close()

    asyncio.run(play())


@pytest.mark.parametrize("mode", MODES)
def test_an_approval_is_asked_of_the_person_with_all_that_will_run(mode: Literal["auto", "legacy"]) -> None:
    till, heard = Till(), list[str]()

    async def play() -> None:
        runs = OpenRuns(agent_of([pay(5), DONE], tools=[till.tool]))
        person = saying(heard, "accept", answer="yes")
        async with Client(mcp_server_of(runs), mode=mode, elicitation_callback=person) as client:
            assert result(await client.call_tool("run_task", {"task": "Pay"}))["reason"] == "model_stop"
        assert till.paid == [{"amount": 5}]
        assert len(heard) == 1 and '"pay"' in heard[0] and json.dumps({"amount": 5}, indent=2) in heard[0]
        await runs.close()

    asyncio.run(play())


@pytest.mark.parametrize("mode", MODES)
def test_nothing_but_yes_lets_it_run(mode: Literal["auto", "legacy"]) -> None:
    till, heard = Till(), list[str]()

    async def play(person: ElicitationFnT | None) -> Answer:
        runs = OpenRuns(agent_of([pay(5), DONE], tools=[till.tool]))
        async with Client(mcp_server_of(runs), mode=mode, elicitation_callback=person) as client:
            found = result(await client.call_tool("run_task", {"task": "Pay"}))
        await runs.close()
        return found

    people = (
        saying(heard, "decline"),
        saying(heard, "cancel"),
        saying(heard, "accept", answer="no", why="too much"),
        saying(heard, "accept", answer="YES"),
        saying(heard, "accept"),
        None,  # a client that cannot ask
    )
    for person in people:
        found = asyncio.run(play(person))
        assert till.paid == []
        assert found["waiting"] == ([] if person is not None else ["1.1 pay"])
        assert found["reason"] == ("model_stop" if person is not None else None)


def test_a_client_that_cancels_stops_the_turn() -> None:
    till, heard = Till(), list[str]()

    async def play() -> None:
        till.held = asyncio.Event()
        agent = agent_of([pay(5), DONE], tools=[till.tool])
        runs = OpenRuns(agent)
        person = saying(heard, "accept", answer="yes")
        async with Client(mcp_server_of(runs), mode="legacy", elicitation_callback=person) as client:
            calling = asyncio.create_task(client.call_tool("run_task", {"task": "Pay"}))
            while not till.paid:
                await asyncio.sleep(0)
            (entry,) = (await agent.runs.latest(None)).entries
            calling.cancel()
            await asyncio.wait({calling})
            feed, place = await runs.feed(entry.run), 0
            while not any(type(each.event).__name__ == "WorkCancelled" for each in feed.told):
                place = len(feed.told)
                await feed.more_than(place, 60)
        await runs.close()

    asyncio.run(play())

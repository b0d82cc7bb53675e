"""A client follows a sub-agent: while it works, while it waits, from any event on, and when it is long over."""

import asyncio
from contextlib import suppress

from loopkernel.data.choices import Lifetime
from loopkernel.data.json_text import Json
from loopkernel.data.policy import ChildLimits, Policy
from loopkernel.data.tools import EffectClass, Tool, ToolProfile
from loopkernel_adapters.agent import Agent
from loopkernel_adapters.ports import RunContext
from loopkernel_adapters.providers.scripted import Reply, ScriptedProvider, call_reply, text_reply
from loopkernel_adapters.tools.input_schema import JsonObject
from loopkernel_adapters.tools.registry import FunctionTool

from tests.adapters.server.server_world import Client, Cut, Till, events_in, pay, serving, words

CHILD = "run/1/1.1"
INNER = "run/1/1.1/1/1.1"


async def _never(given: JsonObject, context: RunContext) -> str:
    raise AssertionError("a sub-agent was started as a tool")


def family(till: Till, *replies: Reply) -> Agent:
    """An agent that may have sub-agents, two deep."""
    profile = ToolProfile(effect=EffectClass.IDEMPOTENT, child=True)
    task = FunctionTool(tool=Tool(name="task", profile=profile), function=_never)
    policy = Policy(lifetime=Lifetime.SESSION, max_turns=100, child=ChildLimits(depth=2))
    return Agent(ScriptedProvider(replies), [till.tool, task], policy=policy)


TASK = call_reply(("task", Json.of({"prompt": "do it"})))


async def ids_of(agent: Agent, session_id: str) -> list[str]:
    return [told for told, _ in events_in(await agent.runs.read(session_id))]


async def heard_from(client: Client, within: str, last: str | None = None) -> list[str]:
    """The ids of all events behind that one, of a sub-agent that is over."""
    async with client.following("run", last, within) as events:
        return [each.id for each in await events.until("turn-ended")]


def test_a_sub_agent_is_followed_while_it_waits_and_works() -> None:
    till = Till()

    async def play() -> None:
        agent = family(till, TASK, pay(5), words("I ", "have ", "paid"), text_reply("Done."))
        async with serving(agent) as client:
            await client.post("/runs", {"run": "run", "text": "Pay"}, 201)
            async with client.following("run") as events:
                await events.until("child-asked")
            async with client.following("run", within="1.1") as events:
                before = await events.until("approval-asked")
                (asked,) = (await client.get("/runs/run"))["waiting"]
                assert asked["call"] == "1.1/1.1"
                await client.post("/runs/run/answer", {"asked": asked["asked"], "answer": "yes"})
                heard = [each.id for each in [*before, *await events.until("turn-ended")]]
            await client.until("run", "Idle")
            whole = await ids_of(agent, CHILD)
            assert heard == whole
            for last in (None, whole[0], whole[len(whole) // 2], whole[-2]):
                rest = whole[0 if last is None else whole.index(last) + 1 :]
                assert await heard_from(client, "1.1", last) == rest

    asyncio.run(play())


def test_a_sub_agent_within_a_sub_agent_is_followed_too_and_after_a_restart_of_the_server() -> None:
    till = Till()

    async def play() -> None:
        agent = family(till, TASK, TASK, words("deep ", "down"), text_reply("Half."), text_reply("Done."))
        async with serving(agent) as client:
            await client.post("/runs", {"run": "run", "text": "Go"}, 201)
            await client.until("run", "Idle")
            assert await heard_from(client, "1.1") == await ids_of(agent, CHILD)
            assert await heard_from(client, "1.1/1.1") == await ids_of(agent, INNER)
        async with serving(agent) as client:  # which has opened nothing yet
            assert await heard_from(client, "1.1/1.1") == await ids_of(agent, INNER)

    asyncio.run(play())


def test_what_was_read_before_the_run_was_open_here_ends_when_more_comes() -> None:
    """A server that only reads cannot know what another writes: the stream ends, and the client comes again."""
    till = Till()

    async def play() -> None:
        agent = family(till, TASK, pay(5), text_reply("Paid."), text_reply("Done."))
        async with serving(agent) as client:
            await client.post("/runs", {"run": "run", "text": "Pay"}, 201)
            async with client.following("run") as events:
                await events.until("child-asked")
        async with serving(agent) as client, client.following("run", within="1.1") as events:
            heard = [(await events.until("approval-asked"))[-1].id]
            (asked,) = (await client.get("/runs/run"))["waiting"]
            assert (asked["call"], asked["tool"]) == ("1.1/1.1", "pay")
            await client.post("/runs/run/answer", {"asked": asked["asked"], "answer": "yes"})  # opens the run here
            with suppress(Cut):
                while True:
                    heard.append((await events.next()).id)
            heard += await heard_from(client, "1.1", heard[-1])
            await client.until("run", "Idle")
            whole = await ids_of(agent, CHILD)
            assert heard == whole[whole.index(heard[0]) :]
            assert till.paid == [{"amount": 5}]

    asyncio.run(play())


def test_what_is_no_sub_agent_is_said_so() -> None:
    async def play() -> None:
        async with serving(family(Till(), text_reply("Done."))) as client:
            await client.post("/runs", {"run": "run", "text": "Go"}, 201)
            for within, status in (("9.9", 404), ("all", 400), ("1.1/", 400), ("", 400)):
                assert (await client.ask("GET", f"/runs/run/events?within={within}"))[0] == status

    asyncio.run(play())

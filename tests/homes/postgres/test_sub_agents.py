"""Sub-agents in a fleet: a session whose sub-agent waits for a person is let go of, and goes on with the answer."""

import asyncio
from collections import Counter
from functools import partial
from pathlib import Path

import pytest
from loopkernel.data.states import Confirming, Done
from loopkernel.data.thread_deltas import Acquired, Resumed
from loopkernel.data.tools import EffectClass
from loopkernel_adapters.agent import Agent
from loopkernel_adapters.fleet.running import FleetRun
from loopkernel_adapters.fleet.worker import Worker
from loopkernel_adapters.optional_ports import NoSuchAgent
from loopkernel_adapters.stores.postgres import PostgresRuns
from loopkernel_adapters.tools.delegation import delegate_tool
from loopkernel_adapters.tools.functions import tool

from tests.adapters.driver.lawful import breaches
from tests.homes.postgres.clerk import PAID, Clerk, paying
from tests.homes.postgres.test_workers import answers, at_rest, payments, seen, serving
from tests.homes.postgres.world import World


def delegating(runs: PostgresRuns, file: Path) -> Agent:
    """The clerk, who may have others do the work."""
    return Agent(Clerk(), [*paying(file), delegate_tool()], runs=runs)


async def waits(world: World, run: FleetRun, fleet: PostgresRuns) -> bool:
    """Whether it has come to rest, and a call in it waits."""
    return await at_rest(world, fleet, run.run) and bool(await run.waiting())


async def has_begun(fleet: PostgresRuns, run: str) -> bool:
    return any(entry.run == run for entry in await fleet.entries())


async def demand_lawful(fleet: PostgresRuns, *runs: str) -> None:
    for run in runs:
        assert breaches(await fleet.read(run)) == []


@pytest.mark.rule("CHILD-2")
def test_a_session_whose_sub_agents_wait_is_held_by_nobody_and_goes_on_with_the_answers(
    world: World, tmp_path: Path
) -> None:
    async def play() -> None:
        fleet, file = world.worker(), tmp_path / "payments"
        run = FleetRun(fleet, "s")
        await run.say("delegate wire 1")
        await FleetRun(fleet, "t").say("delegate wire 2")
        async with serving(Worker(delegating(world.worker(), file))):
            for each in (run, FleetRun(fleet, "t")):
                await seen(partial(waits, world, each, fleet))
        assert await world.sql("SELECT count(*) FROM runs WHERE holder IS NOT NULL") == [(0,)]
        assert isinstance(await run.state(), Confirming) and payments(file) == Counter()
        (call,) = await run.waiting()
        assert len(call.within) == 1 and call.tool == "wire"
        async with serving(Worker(delegating(world.worker(), file)), Worker(delegating(world.worker(), file))):
            await run.approve(call)

            async def paid() -> bool:
                return await answers(fleet, "s") == [PAID] and await at_rest(world, fleet, "s")

            await seen(paid)
        assert payments(file) == Counter({"wire 1": 1})
        child = f"s/1/{call.within[0]}"
        for log in (await fleet.read("s"), await fleet.read(child)):
            assert sum(isinstance(record.delta, Acquired | Resumed) for record in log) == 2, "it was held only for work"
        assert isinstance(await FleetRun(fleet, "t").state(), Confirming)
        with pytest.raises(NoSuchAgent):
            await run.approve(call)
        await demand_lawful(fleet, "s", "t", child)

    world.play(play)


def test_what_is_said_to_a_sub_agent_that_has_ended_is_left_out(world: World, tmp_path: Path) -> None:
    async def play() -> None:
        fleet, file, told = world.worker(), tmp_path / "payments", list[tuple[str | None, Exception]]()
        run = FleetRun(fleet, "s")
        await run.say("delegate wire 1")
        async with serving(Worker(delegating(world.worker(), file))):
            await seen(lambda: waits(world, run, fleet))
        (call,) = await run.waiting()
        child = f"s/1/{call.within[0]}"
        await run.cancel()
        await run.approve(call)
        worker = Worker(delegating(world.worker(), file), complain=lambda run, error: told.append((run, error)))
        async with serving(worker):

            async def left_out() -> bool:
                return bool(told) and await at_rest(world, fleet, "s")

            await seen(left_out)
        assert [(run, type(error)) for run, error in told] == [(child, NoSuchAgent)]
        assert await fleet.inboxes_within("s") == () and payments(file) == Counter()
        assert isinstance(await FleetRun(fleet, child).state(), Done)

    world.play(play)


def test_an_answer_reaches_a_sub_agent_while_its_run_is_at_work(world: World, tmp_path: Path) -> None:
    """Another call of the same reply goes on meanwhile; the answer does not wait for its end."""

    async def play() -> None:
        fleet, file, free = world.worker(), tmp_path / "payments", asyncio.Event()

        @tool(effect=EffectClass.READ_ONLY)
        async def pay(what: str) -> str:
            """Take as long as it takes."""
            await free.wait()
            return "paid"

        agent = Agent(Clerk(), [paying(file)[1], pay, delegate_tool()], policy="default", runs=world.worker())
        run = FleetRun(fleet, "s")
        await run.say("delegate wire 1 and pay 2")
        async with serving(Worker(agent, look_seconds=600)):

            async def is_asked() -> bool:
                return await has_begun(fleet, "s") and bool(await run.waiting())

            await seen(is_asked)
            (call,) = await run.waiting()
            await run.approve(call)

            async def wired() -> bool:
                return payments(file) == Counter({"wire 1": 1})

            await seen(wired)
            free.set()
            await seen(lambda: at_rest(world, fleet, "s"))

    world.play(play)

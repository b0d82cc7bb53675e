"""Sub-agents in Temporal: workflows of their own, which run tools, ask, are stopped, and outlive a worker."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from attrs import evolve
from loopkernel.data.choices import RestartChild
from loopkernel.data.deltas import Delta
from loopkernel.data.policy import ChildLimits, OnRestart
from loopkernel.data.states import Confirming, Done
from loopkernel.data.thread_deltas import Created, Forked, Resumed
from loopkernel.data.tool_deltas import ToolChecked
from loopkernel.data.words import CallStatus, TurnEndReason
from loopkernel_adapters.driver.pacing import joined
from loopkernel_adapters.optional_ports import NoSuchAgent
from loopkernel_adapters.temporal import InputRefused, Pace, TemporalRun, start, temporal_worker
from temporalio.client import Client

from tests.homes.temporal.clerk import POLICY, clerk
from tests.homes.temporal.crash_worker import QUEUE
from tests.homes.temporal.server import MISSING, PROGRAM, TemporalServer
from tests.homes.temporal.world import QUICK, demand_lawful, home, last_statuses, play, started, until

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason=MISSING)
LONG = ChildLimits(timeout_ms=600_000)  # a sub-agent outlives its worker, however busy the machine is
PATIENT = evolve(POLICY, child=LONG)
DEEP = evolve(POLICY, child=evolve(LONG, depth=2))
CALL = "1.1"  # the first call of a run


@asynccontextmanager
async def served(server: TemporalServer, folder: Path) -> AsyncIterator[Client]:
    """While a worker in this process serves the queue that is named like the folder."""
    client = await Client.connect(server.address)
    async with temporal_worker(client, folder.name, clerk(folder)):
        yield client


def child_of(client: Client, run: TemporalRun, call: str = CALL) -> TemporalRun:
    """The sub-agent that was begun for that call."""
    return TemporalRun(client, f"{run.run}/1/{call}")


def comparable(deltas: list[Delta]) -> tuple[Delta, ...]:
    """With replies in one piece, without what is drawn by chance, and without checks, which are told in their turn."""
    told = (delta for delta in deltas if not isinstance(delta, ToolChecked))
    return tuple(evolve(delta, nonce="") if isinstance(delta, Created) else delta for delta in joined(list(told)))


@pytest.mark.rule("CHILD-1")
@pytest.mark.rule("CHILD-2")
def test_a_sub_agent_runs_tools_and_its_logs_are_those_of_the_process(server: TemporalServer, tmp_path: Path) -> None:
    (tmp_path / "go").touch()

    async def whole() -> None:
        agent = clerk(tmp_path)
        async with agent.session("s") as session:
            at_home = await session.say("delegate look")
        async with served(server, tmp_path) as client:
            run = await start(client, tmp_path.name, agent, "s")
            await run.say("delegate look")
            assert await run.rest() == at_home.text == "delegate: look: seen"
            for there in (run, child_of(client, run)):
                here = [record.delta for record in await agent.runs.read(there.run)]
                assert comparable([record.delta for record in await there.log()]) == comparable(here)
            assert (await child_of(client, run).over()).reason is TurnEndReason.MODEL_STOP
            await demand_lawful(run, child_of(client, run))

    play(whole)


@pytest.mark.rule("CHILD-2")
def test_a_sub_agent_is_cancelled_with_its_parent(server: TemporalServer, tmp_path: Path) -> None:
    async def whole() -> None:
        async with served(server, tmp_path) as client:
            run = await start(client, tmp_path.name, clerk(tmp_path), "cancelled")
            await run.say("delegate wire")
            child = child_of(client, run)

            async def wires() -> bool:
                return started(tmp_path)["wire"] == 1

            await until(wires)
            await run.cancel()
            assert (await child.over()).reason is TurnEndReason.USER_ABORT
            await run.rest()
            assert await last_statuses(run) == await last_statuses(child) == [CallStatus.CANCELLED]
            await demand_lawful(run, child)

    play(whole)


@pytest.mark.rule("CHILD-2")
def test_a_sub_agent_whose_history_is_long_goes_on_as_a_new_one_while_it_waits(
    server: TemporalServer, tmp_path: Path
) -> None:
    async def whole() -> None:
        async with served(server, tmp_path) as client:
            run = await start(client, tmp_path.name, clerk(tmp_path), "long", pace=Pace(most_events=15))
            await run.say("delegate pay")
            await run.rest()
            handle = client.get_workflow_handle(child_of(client, run).run)

            async def goes_on() -> bool:
                first = (await handle.describe()).raw_description.workflow_execution_info.first_run_id
                return first != (await handle.describe()).run_id

            await until(goes_on)
            (call,) = await run.waiting()
            await run.approve(call)
            assert not isinstance(await run.state(), Confirming), "the run has not heard of the answer"
            assert await run.rest() == "delegate: pay: paid"
            await demand_lawful(run, child_of(client, run))

    play(whole)


@pytest.mark.rule("CHILD-2")
@pytest.mark.parametrize(("words", "depth"), [("delegate pay", 1), ("delegate delegate pay", 2)])
def test_a_sub_agent_waits_for_approval(server: TemporalServer, tmp_path: Path, words: str, depth: int) -> None:
    async def whole() -> None:
        async with served(server, tmp_path) as client:
            run = await start(client, tmp_path.name, clerk(tmp_path, DEEP), f"asks-{depth}")
            await run.say(words)
            await run.rest()
            assert isinstance(await run.state(), Confirming)
            (call,) = await run.waiting()
            assert (call.tool, len(call.within), started(tmp_path)["pay"]) == ("pay", depth, 0)
            await run.approve(call)
            assert not isinstance(await run.state(), Confirming), "the run has not heard of the answer"
            assert await run.rest() == "delegate: " * depth + "pay: paid"
            assert started(tmp_path)["pay"] == 1
            with pytest.raises(NoSuchAgent):
                await run.approve(call)
            await demand_lawful(run, child_of(client, run))

    play(whole)


def test_what_a_sub_agent_refuses_is_told(server: TemporalServer, tmp_path: Path) -> None:
    async def whole() -> None:
        async with served(server, tmp_path) as client:
            run = await start(client, tmp_path.name, clerk(tmp_path), "refused")
            await run.say("delegate pay and pay")
            await run.rest()
            (within, own) = await run.waiting()
            with pytest.raises(InputRefused, match="approve was refused"):
                await run.approve(evolve(own, path=(*within.within, evolve(own.path[0], position=7))))
            for call in (within, own):
                await run.reject(call, "too dear")
            assert (await run.rest()).count("They said: too dear") == 2

    play(whole)


@pytest.mark.rule("RESUME-6")
def test_a_sub_agent_of_a_lineage_that_was_left_is_stopped(server: TemporalServer, tmp_path: Path) -> None:
    async def whole() -> None:
        async with served(server, tmp_path) as client:
            run = await start(client, tmp_path.name, clerk(tmp_path), "forked")
            await run.say("delegate wire")

            async def wires() -> bool:
                return started(tmp_path)["wire"] == 1

            await until(wires)
            await run.send(Forked(session_id="a fork"))
            assert (await child_of(client, run).over()).reason is TurnEndReason.USER_ABORT
            await run.say("hello")
            assert await run.rest() == "I heard: hello"
            await demand_lawful(run)

    play(whole)


@pytest.mark.rule("RESUME-3")
def test_a_worker_is_killed_in_the_midst_of_sub_agents(tmp_path: Path) -> None:
    """One waits for its model, one for a safe tool, one for a dangerous one, and one for a person."""

    async def whole() -> None:
        async with home(tmp_path) as (_, client, worker):
            agent = clerk(tmp_path, PATIENT)
            runs = {
                word: await start(client, QUEUE, agent, word, pace=QUICK) for word in ("wait", "look", "wire", "pay")
            }
            for word, run in runs.items():
                await run.say(f"delegate {word}")

            async def there() -> bool:
                return sorted(started(tmp_path)) == ["look", "wait", "wire"] and bool(await runs["pay"].waiting())

            await until(there)
            worker.kill()
            worker.start()
            children = {word: child_of(client, run) for word, run in runs.items()}

            async def noticed() -> bool:
                logs = [await children[word].log() for word in ("wait", "look", "wire")]
                return all(any(isinstance(record.delta, Resumed) for record in log) for log in logs)

            await until(noticed)
            (tmp_path / "go").touch()
            assert await runs["wait"].rest() == "delegate: I heard: wait"
            assert await runs["look"].rest() == "delegate: look: seen"
            assert started(tmp_path)["look"] == 2, "a safe call runs again"
            await runs["wire"].rest()
            assert await last_statuses(children["wire"]) == [CallStatus.CANCELLED]
            assert started(tmp_path)["wire"] == 1, "a dangerous one never does"
            (call,) = await runs["pay"].waiting()
            await runs["pay"].approve(call)
            assert await runs["pay"].rest() == "delegate: pay: paid"
            assert started(tmp_path)["pay"] == 1
            await demand_lawful(*runs.values(), *children.values())

    play(whole)


@pytest.mark.rule("RESUME-3")
def test_a_worker_is_killed_that_a_run_and_its_sub_agent_need(tmp_path: Path) -> None:
    """The run hears of it, and goes on with its sub-agent; or, by policy, it gives that up, which then stops."""

    async def whole() -> None:
        async with home(tmp_path) as (_, client, worker):
            gives_up = evolve(PATIENT, on_restart=OnRestart(child=RestartChild.CANCEL))
            policies = {"goes-on": PATIENT, "gives-up": gives_up}
            runs = {
                name: await start(client, QUEUE, clerk(tmp_path, policy), name, pace=QUICK)
                for name, policy in policies.items()
            }
            for run in runs.values():
                await run.say("delegate wait and look")

            async def there() -> bool:
                return started(tmp_path) == {"wait": 2, "look": 2}

            await until(there)
            worker.kill()
            worker.start()

            async def noticed() -> bool:
                logs = [await run.log() for run in runs.values()]
                return all(any(isinstance(record.delta, Resumed) for record in log) for log in logs)

            await until(noticed)
            stopped = await child_of(client, runs["gives-up"]).over()
            assert stopped.reason is TurnEndReason.USER_ABORT
            (tmp_path / "go").touch()
            assert await runs["goes-on"].rest() == "delegate: I heard: wait; look: seen"
            await runs["gives-up"].rest()
            assert await last_statuses(runs["gives-up"]) == [CallStatus.CANCELLED, CallStatus.DONE]
            assert isinstance(await child_of(client, runs["goes-on"]).state(), Done)
            await demand_lawful(*runs.values(), *(child_of(client, run) for run in runs.values()))

    play(whole)

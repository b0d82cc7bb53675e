"""Workers and servers are killed while runs are in each phase. What was acknowledged is there, and goes on."""

import asyncio
import base64
import re
from collections import Counter
from pathlib import Path

import pytest
from loopkernel.data.states import Backoff, Idle
from loopkernel.data.thread_deltas import Resumed
from loopkernel.data.words import CallStatus
from loopkernel_adapters.temporal import Pace, TemporalRun, start
from temporalio.client import Client

from tests.adapters.driver.lawful import breaches
from tests.homes.temporal.clerk import SECRET, clerk
from tests.homes.temporal.crash_worker import QUEUE
from tests.homes.temporal.server import MISSING, PROGRAM
from tests.homes.temporal.world import QUICK, demand_lawful, home, last_statuses, play, started, until

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason=MISSING)
PATIENT = Pace(heartbeat_seconds=30.0)  # so the death of a server is outlived
SHORT = Pace(heartbeat_seconds=3.0, most_events=25)  # a history of one turn


async def in_each_phase(client: Client, folder: Path, pace: Pace) -> dict[str, TemporalRun]:
    """A run that waits for its model, one for a safe tool, for a dangerous one, for a person, for a timer."""
    agent = clerk(folder)
    runs = {
        word: await start(client, QUEUE, agent, word, pace=pace) for word in ("wait", "look", "wire", "pay", "fail")
    }
    for word, run in runs.items():
        await run.say(word)

    async def there() -> bool:
        waiting = await runs["pay"].waiting()
        backoff = await runs["fail"].state()
        return (
            started(folder) >= Counter(wait=1, look=1, wire=1)
            and len(waiting) == 1
            and isinstance(backoff, Backoff | Idle)
        )

    await until(there)
    return runs


@pytest.mark.rule("RESUME-3")
def test_a_worker_is_killed_in_each_phase(tmp_path: Path) -> None:
    async def whole() -> None:
        async with home(tmp_path) as (_, client, worker):
            runs = await in_each_phase(client, tmp_path, QUICK)
            worker.kill()
            worker.start()

            async def noticed() -> bool:
                logs = [await runs[word].log() for word in ("wait", "look", "wire")]
                return all(any(isinstance(record.delta, Resumed) for record in log) for log in logs)

            await until(noticed)
            (tmp_path / "go").touch()
            texts = {word: await run.rest() for word, run in runs.items()}
            assert texts["wait"] == "I heard: wait"
            assert texts["look"] == "look: seen"
            assert texts["fail"] == "I heard: fail"
            assert started(tmp_path)["look"] == 2, "a safe call runs again"
            assert started(tmp_path)["wire"] == 1, "a dangerous one never does"
            assert await last_statuses(runs["wire"]) == [CallStatus.CANCELLED]
            (call,) = await runs["pay"].waiting()
            await runs["pay"].approve(call)
            assert await runs["pay"].rest() == "pay: paid"
            assert started(tmp_path)["pay"] == 1
            await demand_lawful(*runs.values())

    play(whole)


@pytest.mark.rule("RESUME-2")
def test_a_server_is_killed_in_each_phase(tmp_path: Path) -> None:
    async def whole() -> None:
        async with home(tmp_path) as (server, client, _):
            runs = await in_each_phase(client, tmp_path, PATIENT)
            server.kill()
            await server.start()
            (tmp_path / "go").touch()
            texts = {word: await run.rest() for word, run in runs.items() if word != "pay"}
            assert texts == {
                "wait": "I heard: wait",
                "look": "look: seen",
                "wire": "wire: wired",
                "fail": "I heard: fail",
            }
            assert started(tmp_path) == Counter(wait=1, look=1, wire=1), "what is under way outlives the server"
            (call,) = await runs["pay"].waiting()
            await runs["pay"].approve(call)
            assert await runs["pay"].rest() == "pay: paid"
            await demand_lawful(*runs.values())

    play(whole)


def test_a_worker_is_killed_while_histories_follow_each_other(tmp_path: Path) -> None:
    """Each turn ends a history, and each third one a worker; nothing that was said is missing."""
    turns = 9

    async def whole() -> None:
        async with home(tmp_path) as (_, client, worker):
            run = await start(client, QUEUE, clerk(tmp_path), "long", pace=SHORT)
            for turn in range(turns):
                said = asyncio.ensure_future(run.say(f"number {turn}"))
                if turn % 3 == 1:
                    worker.kill()
                    worker.start()
                await said
                assert await run.rest() == f"I heard: number {turn}"
            log = await run.log()
            said_words = [record.delta for record in log if type(record.delta).__name__ == "Say"]
            assert len(said_words) == turns
            assert breaches(log) == []
            history = await client.get_workflow_handle("long").fetch_history()
            first = (await client.get_workflow_handle("long").describe()).raw_description
            assert first.workflow_execution_info.first_run_id != history.run_id, "there was one history alone"
            assert len(history.events) < 100

    play(whole)


@pytest.mark.rule("TOOL-12")
def test_no_secret_gets_into_a_history(tmp_path: Path) -> None:
    async def whole() -> None:
        async with home(tmp_path) as (_, client, _worker):
            run = await start(client, QUEUE, clerk(tmp_path), "secret")
            await run.say("tell")
            assert await run.rest() == "tell: the word is {{secret:WORD}}"
            await run.say(f"it is {SECRET}")
            await run.rest()
            stranger = TemporalRun(client, "secret")  # who does not know the secrets
            with pytest.raises(Exception, match="holds the value of a registered secret"):
                await stranger.say(f"it is {SECRET}")
            history = await client.get_workflow_handle("secret").fetch_history()
            assert "the word is" in _decoded(history.to_json())
            assert SECRET not in _decoded(history.to_json())

    play(whole)


def _decoded(history: str) -> str:
    """The history with its payloads as text."""
    return re.sub(r'"data":\s*"([^"]*)"', lambda found: base64.b64decode(found[1]).decode(), history)

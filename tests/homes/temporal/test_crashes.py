"""Workers and servers are killed while runs are in each phase. What was acknowledged is there, and goes on."""

import asyncio
import base64
import re
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from loopkernel.data.messages import ResultMessage
from loopkernel.data.states import Backoff, Idle
from loopkernel.data.thread_deltas import Resumed
from loopkernel.data.words import CallStatus
from loopkernel_adapters.temporal import Pace, TemporalRun, start
from temporalio.client import Client

from tests.adapters.driver.lawful import breaches
from tests.homes.temporal.clerk import SECRET, clerk
from tests.homes.temporal.crash_worker import QUEUE
from tests.homes.temporal.server import MISSING, PROGRAM, TemporalServer

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason=MISSING)
PATIENCE_S = 120.0  # on a busy machine
QUICK = Pace(heartbeat_seconds=3.0)  # the death of a worker is noticed soon
PATIENT = Pace(heartbeat_seconds=30.0)  # and that of a server is outlived
SHORT = Pace(heartbeat_seconds=3.0, most_events=25)  # a history of one turn
HERE = Path(__file__).resolve().parents[3]


class Killable:
    """A worker in a process of its own."""

    def __init__(self, address: str, folder: Path) -> None:
        self._command = [sys.executable, "-m", "tests.homes.temporal.crash_worker", address, str(folder)]
        self.start()

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, cwd=HERE, stderr=subprocess.DEVNULL)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


@asynccontextmanager
async def home(folder: Path) -> AsyncIterator[tuple[TemporalServer, Client, Killable]]:
    server = TemporalServer(folder)
    client = await server.start()
    print(f"\n{server.how}")
    worker = Killable(server.address, folder)
    try:
        yield server, client, worker
    finally:
        worker.kill()
        server.kill()


async def until(ready: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not await ready():
            await asyncio.sleep(0.1)


def started(folder: Path) -> Counter[str]:
    journal = folder / "journal"
    return Counter(line.split()[0] for line in journal.read_text().splitlines()) if journal.exists() else Counter()


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


async def last_status(run: TemporalRun) -> CallStatus:
    session = (await run.state()).session
    assert session is not None
    results = [message for message in session.thread if isinstance(message, ResultMessage)]
    return results[-1].results[-1].status


async def lawful(runs: dict[str, TemporalRun]) -> None:
    for run in runs.values():
        assert breaches(await run.log()) == []


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
            assert await last_status(runs["wire"]) is CallStatus.CANCELLED
            (call,) = await runs["pay"].waiting()
            await runs["pay"].approve(call)
            assert await runs["pay"].rest() == "pay: paid"
            assert started(tmp_path)["pay"] == 1
            await lawful(runs)

    asyncio.run(whole())


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
            await lawful(runs)

    asyncio.run(whole())


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

    asyncio.run(whole())


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

    asyncio.run(whole())


def _decoded(history: str) -> str:
    """The history with its payloads as text."""
    return re.sub(r'"data":\s*"([^"]*)"', lambda found: base64.b64decode(found[1]).decode(), history)

"""What tests of runs in Temporal share: a server and a worker that can be killed, and what is seen of a run."""

import asyncio
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path

from loopkernel.data.messages import ResultMessage
from loopkernel.data.words import CallStatus
from loopkernel_adapters.temporal import Pace, TemporalRun
from temporalio.client import Client

from tests.adapters.driver.lawful import breaches
from tests.homes.temporal.server import TemporalServer

PATIENCE_S = 120.0  # for one thing, on a busy machine
WHOLE_PATIENCE_S = 400.0  # for a test
QUICK = Pace(heartbeat_seconds=3.0)  # the death of a worker is noticed soon
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


def play(acts: Callable[[], Coroutine[object, object, None]]) -> None:
    """Run what a test does. What never comes fails it."""

    async def bounded() -> None:
        async with asyncio.timeout(WHOLE_PATIENCE_S):
            await acts()

    asyncio.run(bounded())


@asynccontextmanager
async def home(folder: Path) -> AsyncIterator[tuple[TemporalServer, Client, Killable]]:
    """A server whose runs lie in the folder, and a worker, each in a process of its own."""
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
    """Wait until it is so."""
    async with asyncio.timeout(PATIENCE_S):
        while not await ready():
            await asyncio.sleep(0.1)


def started(folder: Path) -> Counter[str]:
    """How often each tool of the clerk, and each reply that lasts, was started."""
    journal = folder / "journal"
    return Counter(line.split()[0] for line in journal.read_text().splitlines()) if journal.exists() else Counter()


async def last_statuses(run: TemporalRun) -> list[CallStatus]:
    """How the calls of the last reply that had any were answered."""
    session = (await run.state()).session
    assert session is not None
    results = [message for message in session.thread if isinstance(message, ResultMessage)]
    return [result.status for result in results[-1].results]


async def demand_lawful(*runs: TemporalRun) -> None:
    """Hold the log of each against the laws."""
    for run in runs:
        assert breaches(await run.log()) == []

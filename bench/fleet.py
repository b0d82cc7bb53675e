"""A fleet on this machine: many runs that rest, some that are active, over two workers, one of which is killed.

    python -m bench.fleet DSN [--resting N] [--active N]

Each run that rests waits for a person (a call that asks); each active one has a tool at work for some seconds, in the
midst of which a worker is killed. Told are the time that it all took, and how often each active tool was begun.
"""

import argparse
import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from loopkernel.data.blocks import TextBlock, text_of
from loopkernel.data.effects import Request
from loopkernel.data.ids import ModelOperation
from loopkernel.data.json_text import Json
from loopkernel.data.messages import ResultMessage, UserMessage
from loopkernel.data.model_deltas import ModelDelta
from loopkernel.data.tools import Decision, EffectClass
from loopkernel.data.user_deltas import Say
from loopkernel.later_typing import override
from loopkernel_adapters.agent import Agent
from loopkernel_adapters.fleet.worker import Worker
from loopkernel_adapters.ports import Provider
from loopkernel_adapters.providers.scripted import ScriptedProvider, call_reply, text_reply
from loopkernel_adapters.stores.postgres import PostgresRuns
from loopkernel_adapters.stores.seals import Seals
from loopkernel_adapters.tools.functions import tool

SECRET, LEASE_SECONDS, SENDERS, WORK_SECONDS = bytes(32), 5.0, 16, 5.0
AT_REST = (
    "SELECT count(*) FROM runs WHERE records > 0 AND holder IS NULL AND NOT unfinished AND position(%s IN run) = 1"
)


class Clerk(Provider):
    """Calls the tool that the message names, and then says that it is done."""

    @override
    async def stream(self, request: Request, operation: ModelOperation) -> AsyncIterator[ModelDelta]:
        *_, last = request.thread
        name = text_of(last.content) if isinstance(last, UserMessage) else ""
        reply = text_reply("Done.") if isinstance(last, ResultMessage) else call_reply((name, Json.of({"run": name})))
        async for delta in ScriptedProvider([reply]).stream(request, operation):
            yield delta


async def serve(dsn: str, folder: Path) -> None:
    """One worker."""

    @tool(effect=EffectClass.DANGEROUS)
    async def ask(run: str) -> str:
        """Never begun: nobody answers."""
        return run

    @tool(effect=EffectClass.DANGEROUS, approval=Decision.ALLOW)
    async def work(run: str) -> str:
        """Be at work for a while."""
        with (folder / "begun").open("a") as file:
            file.write(f"{os.getpid()}\n")
        await asyncio.sleep(WORK_SECONDS)
        return run

    runs = PostgresRuns(dsn, seals=Seals(folder / str(os.getpid()), SECRET), lease_seconds=LEASE_SECONDS)
    worker = Worker(Agent(Clerk(), [ask, work], runs=runs))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
    try:
        await worker.serve()
    finally:
        await runs.close()


async def measure(dsn: str, resting: int, active: int) -> None:
    """Send everything, kill a worker, and print what was seen."""
    with tempfile.TemporaryDirectory(prefix="bench-fleet-") as name:
        folder = Path(name)
        fleet = PostgresRuns(dsn, seals=Seals(folder / "sender", SECRET))
        workers = [_worker(dsn, folder) for _ in range(2)]
        try:
            begun = time.monotonic()
            await _send(fleet, [f"resting-{n}" for n in range(resting)], "ask")
            print(f"{resting:,} inputs sent in {time.monotonic() - begun:.1f} s")
            await _until(dsn, "resting-", resting)
            print(f"{resting:,} runs asked and at rest after {time.monotonic() - begun:.1f} s")
            begun = time.monotonic()
            await _send(fleet, [f"active-{n}" for n in range(active)], "work")
            while not (folder / "begun").exists() or len((folder / "begun").read_text().splitlines()) < active * 0.9:
                await asyncio.sleep(0.05)
            workers[0].kill()
            killed = time.monotonic()
            await _until(dsn, "active-", active)
            print(
                f"{active:,} active runs over two workers, one killed {killed - begun:.1f} s after the first input: "
                f"all at rest {time.monotonic() - killed:.1f} s later"
            )
            by = Counter((folder / "begun").read_text().splitlines())
            print(f"tools begun: {sum(by.values()):,} for {active:,} runs (by worker: {sorted(by.values())})")
        finally:
            await fleet.close()
            for worker in workers:
                worker.terminate()
                worker.wait()


def _worker(dsn: str, folder: Path) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-m", "bench.fleet", dsn, "--worker", str(folder)])


async def _send(fleet: PostgresRuns, runs: Sequence[str], words: str) -> None:
    left = iter(runs)

    async def sender() -> None:
        for run in left:
            await fleet.send(run, Say(content=(TextBlock(words),)))

    await asyncio.gather(*(sender() for _ in range(SENDERS)))


async def _until(dsn: str, prefix: str, count: int) -> None:
    """Wait until so many runs of that prefix are at rest."""
    import psycopg

    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        await connection.execute("SET search_path TO loopkernel")
        while True:
            row = await (await connection.execute(AT_REST, (prefix,))).fetchone()
            if row is not None and row[0] >= count:
                return
            await asyncio.sleep(0.2)


def main(arguments: list[str]) -> None:
    """Measure what the arguments say, or be one of its workers."""
    parser = argparse.ArgumentParser(prog="python -m bench.fleet", description=__doc__)
    parser.add_argument("dsn", help="an empty database")
    parser.add_argument("--resting", type=int, default=10_000)
    parser.add_argument("--active", type=int, default=200)
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.worker is not None:
        asyncio.run(serve(given.dsn, given.worker))
    else:
        asyncio.run(measure(given.dsn, given.resting, given.active))


if __name__ == "__main__":
    main(sys.argv[1:])

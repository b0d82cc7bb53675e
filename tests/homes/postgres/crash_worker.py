"""A worker in a process of its own that writes several sessions at once, and says what was acknowledged.

Record n of a run says its own number, unless it is an input, so that a record that is lost or doubled shows.
"""

import asyncio
import os
import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from loopkernel.data.blocks import TextBlock
from loopkernel.data.ids import ModelOperation
from loopkernel.data.model_deltas import ModelText
from loopkernel.data.user_deltas import Say
from loopkernel.replaying import LogRecord
from loopkernel_adapters.ports import StoreError
from loopkernel_adapters.stores.postgres import PostgresRuns
from loopkernel_adapters.stores.postgres_store import PostgresStore
from loopkernel_adapters.stores.seals import Seals

RUNS = tuple(f"run {n}" for n in range(5))
PASSING = frozenset(RUNS[3:])  # of these, only every third append is durable; of the others, each is
LEASE_SECONDS = 600.0


class Acknowledged:
    """What a worker has said: how many records of each run are durable, and what should not have been."""

    def __init__(self, descriptor: int) -> None:
        self.counts = dict.fromkeys(RUNS, 0)
        self.problems: list[str] = []
        self.lines = 0
        self._descriptor = descriptor
        self._rest = b""

    def read_lines(self, most: int | None) -> None:
        """Read so many lines more; for None all that a worker that is dead has said."""
        wanted = None if most is None else self.lines + most
        while wanted is None or self.lines < wanted:
            content = os.read(self._descriptor, 4_096)
            if not content:
                assert wanted is None, f"the worker has ended by itself: {self.problems}"
                return
            *lines, self._rest = (self._rest + content).split(b"\n")
            for line in lines:
                run, _, said = line.decode().partition(": ")
                self.lines += 1
                if said.isdigit():
                    self.counts[run] = max(self.counts[run], int(said))
                else:
                    self.problems.append(line.decode())


@contextmanager
def working(dsn: str, schema: str, folder: Path) -> Iterator[tuple[int, Acknowledged]]:
    """A worker that writes until it is killed, and what it says. Killed at the end at the latest."""
    reads, writes = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside the thread that reads the server's log
        process = os.fork()
    if process == 0:
        try:
            os.close(reads)
            asyncio.run(_work(dsn, schema, folder, lambda line: os.write(writes, f"{line}\n".encode())))
        finally:
            os._exit(1)
    os.close(writes)
    try:
        yield process, Acknowledged(reads)
    finally:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        os.close(reads)


async def _work(dsn: str, schema: str, folder: Path, say: Callable[[str], object]) -> None:
    seals = Seals(folder, bytes(32))
    runs = PostgresRuns(dsn, schema=schema, seals=seals, lease_seconds=LEASE_SECONDS, connections=3)
    await asyncio.gather(*(_session(runs, run, say) for run in RUNS))


async def _session(runs: PostgresRuns, run: str, say: Callable[[str], object]) -> None:
    while True:
        store = await runs.open(run)
        store.vouch()
        try:
            if (doubt := await runs.doubt(run)) is not None:
                say(f"{run}: it is doubted: {doubt}")
            await _write(runs, store, run, say)
        except StoreError as error:
            if run not in PASSING or "the server has lost those that were not durable" not in str(error):
                say(f"{run}: {error}")
                raise
            await store.close()


async def _write(runs: PostgresRuns, store: PostgresStore, run: str, say: Callable[[str], object]) -> None:
    count = len(await store.load())
    while True:
        waiting = (await runs.inbox(run))[:2] if count % 4 == 0 else ()
        records = [LogRecord(delta, 0) for _, delta in waiting]
        records += [numbered(count + len(records) + more) for more in range(1 + count % 2)]
        durable = run not in PASSING or count % 3 == 0
        await store.append(records, durable, [number for number, _ in waiting])
        count += len(records)
        if durable:
            say(f"{run}: {count}")


def numbered(number: int) -> LogRecord:
    return LogRecord(ModelText(ModelOperation(1), str(number)), 0)


def input_of(text: str) -> Say:
    return Say(content=(TextBlock(text),))

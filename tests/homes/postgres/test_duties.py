"""The runs of a PostgreSQL server keep the duties of the page on ports, as far as they can be seen from outside."""

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from itertools import count
from pathlib import Path
from typing import TypeVar

from loopkernel.data.states import State
from loopkernel.later_typing import override
from loopkernel.replaying import LogRecord
from loopkernel_adapters.blocking_ports import BlockingRuns, BlockingStore
from loopkernel_adapters.ports import Restored, RunEntry, RunPage, Runs, Store
from loopkernel_adapters.stores.postgres import PostgresRuns
from loopkernel_adapters.stores.seals import Seals
from loopkernel_adapters.testing import check_store

from tests.homes.postgres.server import PostgresServer

T = TypeVar("T")
PATIENCE_SECONDS = 120.0  # for one check: a server on a busy machine


class Loop:
    """An event loop in a thread of its own, for a check that awaits nothing."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def done(self, act: Coroutine[object, object, T]) -> T:
        return asyncio.run_coroutine_threadsafe(act, self._loop).result()

    def end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Awaited(BlockingRuns):
    """Runs whose methods are awaited, for who cannot."""

    def __init__(self, runs: Runs, loop: Loop) -> None:
        self._runs, self._loop = runs, loop

    @override
    def open(self, run: str) -> BlockingStore:
        return AwaitedStore(self._loop.done(self._runs.open(run)), self._loop)

    @override
    def read(self, run: str) -> tuple[LogRecord, ...]:
        return self._loop.done(self._runs.read(run))

    @override
    def entries(self) -> tuple[RunEntry, ...]:
        return self._loop.done(self._runs.entries())

    @override
    def latest(self, most: int | None) -> RunPage:
        return self._loop.done(self._runs.latest(most))

    @override
    def close(self) -> None:
        self._loop.done(self._runs.close())


class AwaitedStore(BlockingStore):
    def __init__(self, store: Store, loop: Loop) -> None:
        self._store, self._loop = store, loop

    @override
    def append(self, records: Sequence[LogRecord], durable: bool) -> None:
        self._loop.done(self._store.append(records, durable))

    @override
    def load(self) -> tuple[LogRecord, ...]:
        return self._loop.done(self._store.load())

    @override
    def restore(self) -> Restored:
        return self._loop.done(self._store.restore())

    @override
    def save_snapshot(self, state: State) -> None:
        self._loop.done(self._store.save_snapshot(state))

    @override
    def close(self) -> None:
        self._loop.done(self._store.close())


def test_they_keep_the_duties_of_a_store(server: PostgresServer) -> None:
    """Those of logs that are files are not asked: a process that dies is waited for until its lease ends."""
    schemas: dict[Path, str] = {}
    numbers = count(1)
    loop, opened = Loop(), list[PostgresRuns]()

    def runs_of(folder: Path) -> BlockingRuns:
        schema = schemas.setdefault(folder, f"duties_{next(numbers)}")
        opened.append(PostgresRuns(server.dsn, schema=schema, seals=Seals(folder / "seals")))
        return Awaited(opened[-1], loop)

    try:
        check_store(runs_of, lasting=False, patience_seconds=PATIENCE_SECONDS)
    finally:
        for runs in opened:
            loop.done(runs.close())
        loop.end()

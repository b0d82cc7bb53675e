"""Blocking stores in threads: each log keeps its order, appends that wait together share a sync, each ends alone."""

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Hashable, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.states import State
from loopkernel.replaying import LogRecord
from loopkernel_adapters.blocking_ports import BlockingRuns, BlockingStore
from loopkernel_adapters.ports import Restored, RunEntry, StoreError
from loopkernel_adapters.stores.folders import JsonlFolder
from loopkernel_adapters.stores.memory import MemoryRuns
from loopkernel_adapters.stores.sqlite import SqliteRuns
from loopkernel_adapters.stores.threaded import ThreadedRuns, ThreadedStore
from typing_extensions import override

from tests.adapters.stores.log_lines import some_records

RECORDS = tuple(some_records(40))


class Disk:
    """What stores that share their syncs have in common: a gate before every call, and what was called."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.entered = threading.Event()
        self.syncs = 0
        self.failing = False

    def pass_gate(self) -> None:
        self.entered.set()
        assert self.gate.wait(60)


class SharingStore(BlockingStore):
    """Keeps its records in a list; `fenced`: another writer has it now."""

    def __init__(self, disk: Disk, *, fenced: bool = False) -> None:
        self.disk = disk
        self.fenced = fenced
        self.records: list[LogRecord] = []
        self.durable = 0
        self.broken = False

    @override
    def append(self, records: Sequence[LogRecord], durable: bool) -> None:
        self.disk.pass_gate()
        if self.fenced or self.broken:
            raise StoreError("another writer has it")
        self.records += records
        if durable:
            self.sync()
            self.durable = len(self.records)

    @property
    def sync_key(self) -> Hashable:
        return id(self.disk)

    def sync(self) -> None:
        self.disk.syncs += 1
        if self.disk.failing:
            raise OSError(5, "Input/output error")

    def sync_ended(self, done: bool) -> None:
        self.broken = self.broken or not done
        if done:
            self.durable = len(self.records)

    @override
    def load(self) -> tuple[LogRecord, ...]:
        return tuple(self.records)

    @override
    def restore(self) -> Restored:
        return Restored(records=self.load())

    @override
    def save_snapshot(self, state: State) -> None:
        """Keeps none."""

    @override
    def close(self) -> None:
        """Has nothing."""


class SharingRuns(BlockingRuns):
    """Opens what it was given."""

    def __init__(self, **stores: SharingStore) -> None:
        self.stores = stores

    @override
    def open(self, run: str) -> SharingStore:
        return self.stores[run]

    @override
    def read(self, run: str) -> tuple[LogRecord, ...]:
        return self.stores[run].load()

    @override
    def entries(self) -> tuple[RunEntry, ...]:
        return ()

    @override
    def close(self) -> None:
        """Has nothing."""


def threads_of_stores() -> int:
    return sum("loopkernel store" in thread.name for thread in threading.enumerate())


async def until_entered(disk: Disk) -> None:
    """Until the first append is in its thread."""
    while not disk.entered.is_set():
        await asyncio.sleep(0)


async def waiting_together(
    disk: Disk, stores: Sequence[SharingStore], meanwhile: Callable[[], None] = lambda: None
) -> list[BaseException | None]:
    """How the appends of the stores end that wait behind one which is under way; each is of two records."""
    first = SharingStore(disk)
    runs = ThreadedRuns(SharingRuns(first=first, **{f"s{place}": store for place, store in enumerate(stores)}))
    ahead = await runs.open("first")
    opened = [await runs.open(f"s{place}") for place in range(len(stores))]
    under_way = asyncio.ensure_future(ahead.append(RECORDS[:1], False))
    await until_entered(disk)
    appends = [asyncio.ensure_future(store.append(RECORDS[:2], True)) for store in opened]
    await asyncio.sleep(0)
    meanwhile()
    disk.gate.set()
    await under_way
    ends = await asyncio.gather(*appends, return_exceptions=True)
    for store in (ahead, *opened):
        await store.close()
    return [end if isinstance(end, BaseException) else None for end in ends]


@pytest.mark.rule("RESUME-2")
@given(fenced=st.lists(st.booleans(), min_size=2, max_size=30))
def test_appends_that_wait_together_share_one_sync_and_one_that_fails_fails_alone(fenced: list[bool]) -> None:
    disk = Disk()
    stores = [SharingStore(disk, fenced=each) for each in fenced]
    ends = asyncio.run(waiting_together(disk, stores))
    assert [end is not None for end in ends] == fenced
    assert [store.durable for store in stores] == [0 if each else 2 for each in fenced]
    assert disk.syncs == (not all(fenced))
    assert threads_of_stores() == 0


@given(many=st.integers(2, 10))
def test_where_the_sync_fails_all_fail_that_it_was_to_cover_and_none_writes_again(many: int) -> None:
    disk = Disk()
    stores = [SharingStore(disk) for _ in range(many)]

    def fails() -> None:
        disk.failing = True

    ends = asyncio.run(waiting_together(disk, stores, fails))
    assert all(isinstance(end, OSError) for end in ends)
    assert disk.syncs == 1  # one that is tried again might tell of what is lost
    assert all(store.broken for store in stores)
    assert threads_of_stores() == 0


MOVES = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3), st.booleans(), st.booleans()), max_size=25)


@pytest.mark.parametrize("kind", ["jsonl", "sqlite", "memory"])
@given(moves=MOVES)
def test_each_log_has_its_appends_in_the_order_of_their_calls(
    tmp_path_factory: pytest.TempPathFactory, kind: str, moves: list[tuple[int, int, bool, bool]]
) -> None:
    """A move: which run, how many records, whether they are to last, and whether whoever waits gives up."""
    folder = tmp_path_factory.mktemp("runs")
    place: dict[str, BlockingRuns] = {
        "jsonl": JsonlFolder(folder),
        "sqlite": SqliteRuns(folder / "runs.sqlite"),
        "memory": MemoryRuns(),
    }

    async def run() -> None:
        runs = ThreadedRuns(place[kind])
        stores = [await runs.open(f"r{number}") for number in range(3)]
        written: list[list[LogRecord]] = [[], [], []]
        begun: list[asyncio.Future[None]] = []
        for which, many, durable, gives_up in moves:
            records = RECORDS[len(begun) : len(begun) + many]
            written[which] += records
            begun.append(asyncio.ensure_future(stores[which].append(records, durable)))
            if gives_up:
                await asyncio.sleep(0)
                begun[-1].cancel()
        await asyncio.gather(*begun, return_exceptions=True)
        for number, store in enumerate(stores):
            assert list(await store.load()) == written[number]
            await store.close()
            assert list(await runs.read(f"r{number}")) == written[number]
            with pytest.raises(StoreError):
                await store.append(RECORDS[:1], True)
        assert threads_of_stores() == 0

    asyncio.run(run())


def test_a_run_that_is_fenced_off_in_a_database_does_not_harm_those_it_shares_a_sync_with(tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite"

    async def run() -> None:
        runs = ThreadedRuns(SqliteRuns(path))
        stores = [await runs.open(f"r{number}") for number in range(12)]
        with closing(sqlite3.connect(path)) as connection, connection:  # another writer has taken one run over
            connection.execute("UPDATE runs SET epoch = epoch + 1 WHERE run = 'r7'")
        ends = await asyncio.gather(*(store.append(RECORDS[:2], True) for store in stores), return_exceptions=True)
        assert [isinstance(end, StoreError) for end in ends] == [number == 7 for number in range(12)]
        for store in stores:
            await store.close()

    asyncio.run(run())
    runs = SqliteRuns(path)
    assert [runs.read(f"r{number}") for number in range(12)] == [
        () if number == 7 else RECORDS[:2] for number in range(12)
    ]


def test_whoever_gives_up_opening_leaves_nothing_open(tmp_path: Path) -> None:
    opening = threading.Event()
    goes_on = threading.Event()

    class Slow(JsonlFolder):
        @override
        def open(self, run: str) -> BlockingStore:  # type: ignore[override]  # a wider type, for this test
            opening.set()
            assert goes_on.wait(60)
            return super().open(run)

    async def run() -> None:
        runs = ThreadedRuns(Slow(tmp_path))
        task = asyncio.ensure_future(runs.open("r"))
        while not opening.is_set():
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        goes_on.set()
        while threads_of_stores():
            await asyncio.sleep(0)
        store = await ThreadedRuns(JsonlFolder(tmp_path)).open("r")  # it is not locked
        await store.close()

    asyncio.run(run())


def test_a_close_that_is_cancelled_closes_all_the_same() -> None:
    async def run() -> None:
        memory = MemoryRuns()
        store = ThreadedStore(memory.open("r"))
        closing = asyncio.ensure_future(store.close())
        await asyncio.sleep(0)
        closing.cancel()
        await asyncio.wait({closing})
        while threads_of_stores():
            await asyncio.sleep(0)
        memory.open("r").close()

    asyncio.run(run())

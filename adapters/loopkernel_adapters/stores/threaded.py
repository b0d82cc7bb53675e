"""Blocking stores as asynchronous ones: each call is made in a thread, in its turn, and the event loop goes on.

    runs = ThreadedRuns(SqliteRuns(path))       # one set of threads, and shared syncs, for all sessions

`asynchronous` and `asynchronous_runs` are what a driver and an agent take either kind of store through.
"""

import asyncio
import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from loopkernel.data.states import State
from loopkernel.later_typing import TypeIs, override
from loopkernel.replaying import LogRecord

from loopkernel_adapters.blocking_ports import BlockingRuns, BlockingStore, SharesSyncs
from loopkernel_adapters.ports import Restored, RunEntry, RunPage, Runs, Sealing, Store, StoreError
from loopkernel_adapters.stores.in_place import InPlaceRuns, InPlaceStore
from loopkernel_adapters.stores.store_threads import Append, Lane, Order, StoreThreads

T = TypeVar("T")


class ThreadedStore(Store):
    """A blocking store, each of whose calls is made in a thread, one after the other.

    It holds the threads, which are its own where none are given, until it is closed.
    """

    def __init__(self, blocking: BlockingStore, threads: StoreThreads | None = None) -> None:
        self._blocking = blocking
        self._threads = StoreThreads(1) if threads is None else threads
        self._threads.hold()
        self._held = True
        self._order = Order()
        self._own = self._appends = Lane()
        if isinstance(blocking, SharesSyncs):
            self._appends = self._threads.shared_lane(blocking.sync_key)

    @override
    async def append(self, records: Sequence[LogRecord], durable: bool, taken: Sequence[int] = ()) -> None:
        self._demand_open()
        await self._threads.put(self._order, self._appends, Append(self._blocking, records, durable))

    @override
    async def load(self) -> tuple[LogRecord, ...]:
        return await self._own_call(self._blocking.load)

    @override
    async def restore(self) -> Restored:
        return await self._own_call(self._blocking.restore)

    def vouch(self) -> None:
        """As the store that it stands for."""
        if isinstance(self._blocking, Sealing):
            self._blocking.vouch()

    @override
    async def save_snapshot(self, state: State) -> None:
        await self._own_call(partial(self._blocking.save_snapshot, state))

    @override
    async def close(self) -> None:
        if not self._held:
            return
        self._held = False
        closing = self._threads.put(self._order, self._own, self._blocking.close)
        closing.add_done_callback(lambda _: self._threads.let_go())
        await asyncio.shield(closing)  # cancelled, it closes all the same, and then lets go

    async def _own_call(self, act: Callable[[], T]) -> T:
        self._demand_open()
        return await self._threads.call(self._order, self._own, act)

    def _demand_open(self) -> None:
        if not self._held:
            raise StoreError("this log is closed; open it again to go on")


class ThreadedRuns(Runs):
    """Many logs in one place that blocks. All of their stores share a few threads, and where they can, their syncs."""

    def __init__(self, blocking: BlockingRuns) -> None:
        self._blocking = blocking
        self._threads = StoreThreads()

    @override
    async def open(self, run: str) -> ThreadedStore:
        opened: list[BlockingStore] = []
        order, lane = Order(), Lane()
        self._threads.hold()
        try:
            await self._threads.put(order, lane, lambda: opened.append(self._blocking.open(run)))
            return ThreadedStore(opened[0], self._threads)
        except asyncio.CancelledError:  # it is opened all the same, and nobody would close it
            self._threads.put(order, lane, lambda: close_all(opened))
            raise
        finally:
            self._threads.let_go()

    @override
    async def read(self, run: str) -> tuple[LogRecord, ...]:
        return await self._call(partial(self._blocking.read, run))

    @override
    async def doubt(self, run: str) -> str | None:
        return await self._call(partial(self._blocking.doubt, run))

    @override
    async def entries(self) -> tuple[RunEntry, ...]:
        return await self._call(self._blocking.entries)

    @override
    async def latest(self, most: int | None) -> RunPage:
        return await self._call(partial(self._blocking.latest, most))

    @override
    async def close(self) -> None:
        await self._call(self._blocking.close)

    async def _call(self, act: Callable[[], T]) -> T:
        """Beside all others: whatever is not of one open store keeps no order."""
        self._threads.hold()
        try:
            return await self._threads.call(Order(), Lane(), act)
        finally:
            self._threads.let_go()


def close_all(stores: Sequence[BlockingStore]) -> None:
    """Close what was opened, if anything was."""
    for store in stores:
        store.close()


# --- either kind -----------------------------------------------------------------------------------------


def blocks(store: Store | BlockingStore) -> TypeIs[BlockingStore]:
    """Whether the store is of the blocking kind: its `append` is not an `async def`."""
    return not inspect.iscoroutinefunction(store.append)


def runs_block(runs: Runs | BlockingRuns) -> TypeIs[BlockingRuns]:
    """Whether the runs are of the blocking kind: their `open` is not an `async def`."""
    return not inspect.iscoroutinefunction(runs.open)


def asynchronous(store: Store | BlockingStore) -> Store:
    """The store as an asynchronous one: itself, or in place where it returns at once, or in a thread of its own."""
    if not blocks(store):
        return store
    return InPlaceStore(store) if store.returns_at_once else ThreadedStore(store)


def asynchronous_runs(runs: Runs | BlockingRuns) -> Runs:
    """The runs as asynchronous ones: themselves, or in place where they return at once, or in a few threads."""
    if not runs_block(runs):
        return runs
    return InPlaceRuns(runs) if runs.returns_at_once else ThreadedRuns(runs)

"""Stores as somebody writes them who has yet to learn the port: each does at once what no store may do."""

import threading
from collections.abc import Sequence
from typing import NoReturn

from loopkernel.data.states import State
from loopkernel.replaying import LogRecord
from loopkernel_adapters.blocking_ports import BlockingStore
from loopkernel_adapters.ports import Restored, StoreError
from loopkernel_adapters.stores.folders import JsonlFolder
from loopkernel_adapters.stores.in_place import InPlaceRuns, InPlaceStore
from loopkernel_adapters.stores.jsonl import JsonlStore
from loopkernel_adapters.stores.memory import MemoryRuns
from typing_extensions import override

from tests.adapters.stores.altered_stores import Altered, Faults


class Losing(Faults):
    @override
    def load(self, store: JsonlStore) -> tuple[LogRecord, ...]:
        return store.load()[:-1]


class LoadingLists(Faults):
    @override
    def load(self, store: JsonlStore) -> tuple[LogRecord, ...]:
        return list(store.load())  # type: ignore[return-value]  # that is what is broken


class ReadingLists(Faults):
    @override
    def read(self, runs: JsonlFolder, run: str) -> tuple[LogRecord, ...]:
        return list(runs.read(run))  # type: ignore[return-value]  # that is what is broken


class RestoringNothing(Faults):
    @override
    def restore(self, store: JsonlStore) -> Restored:
        return None  # type: ignore[return-value]  # that is what is broken


class OpeningNothing(Faults):
    @override
    def open(self, runs: JsonlFolder, run: str) -> BlockingStore:
        return None  # type: ignore[return-value]  # that is what is broken


class TakingIdsForPaths(Faults):
    @override
    def open(self, runs: JsonlFolder, run: str) -> BlockingStore:
        raise FileNotFoundError(run)


class Raising(Faults):
    @override
    def append(self, store: JsonlStore, records: Sequence[LogRecord], durable: bool) -> NoReturn:
        raise RuntimeError("boom")


class Refusing(Faults):
    @override
    def append(self, store: JsonlStore, records: Sequence[LogRecord], durable: bool) -> NoReturn:
        raise StoreError("not today")


class RaisingAtSnapshots(Faults):
    @override
    def save_snapshot(self, store: JsonlStore, state: State) -> NoReturn:
        raise LookupError("no such table")


class HangingAtItsClose(Faults):
    """Until it is set free."""

    def __init__(self) -> None:
        self.free = threading.Event()

    @override
    def close(self, store: Altered) -> None:
        self.free.wait(60)
        super().close(store)


class Narrow(Altered):
    @override
    def append(self, records: Sequence[LogRecord]) -> None:  # type: ignore[override]  # that is what is broken
        self.inner.append(records, durable=True)


class Narrowing(Faults):
    @override
    def open(self, runs: JsonlFolder, run: str) -> BlockingStore:
        return Narrow(runs.open(run), self)


class RunsThatDoNotClose(MemoryRuns):
    @override
    def close(self) -> NoReturn:
        raise LookupError("no such place")


class HalfAwaitedRuns(InPlaceRuns):
    """Awaits what opens a store, and has it block."""

    @override
    async def open(self, run: str) -> InPlaceStore:
        opened = await super().open(run)
        return opened.blocking  # type: ignore[return-value]  # that is what is broken


class OverAwaitedRuns(MemoryRuns):
    """Opens at once what has to be awaited."""

    @override
    def open(self, run: str) -> InPlaceStore:  # type: ignore[override]  # that is what is broken
        return InPlaceStore(super().open(run))

"""Logs in memory, for tests and for sessions that need not survive."""

from collections.abc import Iterable, Sequence
from threading import Lock

from loopkernel.data.states import State
from loopkernel.later_typing import override
from loopkernel.replaying import LogRecord

from loopkernel_adapters.blocking_ports import BlockingRuns, BlockingStore
from loopkernel_adapters.ports import NoSuchRun, Restored, RunEntry, StoreError, StoreLocked


class MemoryStore(BlockingStore):
    """Keeps the records in a list. Closed, it can still be read, but not written.

    `doubt`: why the records that it begins with are not to be believed (see `Restored.doubt`).
    """

    returns_at_once = True

    def __init__(self, records: Iterable[LogRecord] = (), *, doubt: str | None = None) -> None:
        self._records = list(records)
        self._doubt = doubt
        self._closed = False

    @override
    def append(self, records: Sequence[LogRecord], durable: bool) -> None:
        if self._closed:
            raise StoreError("this log is closed; nothing can be added to it")
        self._records.extend(records)

    @override
    def load(self) -> tuple[LogRecord, ...]:
        return tuple(self._records)

    @override
    def restore(self) -> Restored:
        return Restored(records=self.load(), doubt=self._doubt)

    def vouch(self) -> None:
        """The driver goes on under what it was given, whatever the records say."""
        self._doubt = None

    @override
    def save_snapshot(self, state: State) -> None:
        """Keeps none: what ends with the process need not be found again."""

    @override
    def close(self) -> None:
        self._closed = True


class MemoryRuns(BlockingRuns):
    """Many logs in memory. One that was closed can be opened again, and goes on, as long as this object lives."""

    returns_at_once = True

    def __init__(self) -> None:
        self._stores: dict[str, MemoryStore] = {}
        self._guard = Lock()

    @override
    def open(self, run: str) -> MemoryStore:
        with self._guard:
            before = self._stores.get(run)
            if before is not None and not before._closed:
                raise StoreLocked(
                    f"run {run!r} is open for writing elsewhere; close the other session, or begin another"
                )
            store = self._stores[run] = MemoryStore(() if before is None else before.load())
            return store

    @override
    def read(self, run: str) -> tuple[LogRecord, ...]:
        store = self._stores.get(run)
        if store is None:
            raise NoSuchRun(f"there is no run {run!r} in memory; what was kept there ended with its process")
        return store.load()

    @override
    def entries(self) -> tuple[RunEntry, ...]:
        with self._guard:
            logs = {run: store.load() for run, store in self._stores.items()}
        found = [
            RunEntry(run=run, records=len(log), first_ms=log[0].now_ms, last_ms=log[-1].now_ms)
            for run, log in logs.items()
            if log
        ]
        return tuple(sorted(found, key=lambda entry: (entry.last_ms, entry.run)))

    @override
    def close(self) -> None:
        """There is nothing to let go of."""

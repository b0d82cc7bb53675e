"""Stores that are careless about what production brings: equal records, long texts, other writers, ids alike."""

import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from attrs import evolve
from loopkernel.data.model_deltas import ModelText
from loopkernel.data.states import State
from loopkernel.replaying import LogRecord
from loopkernel_adapters.blocking_ports import BlockingStore
from loopkernel_adapters.ports import Restored, StoreCorrupt, StoreLocked
from loopkernel_adapters.stores.folders import JsonlFolder
from loopkernel_adapters.stores.jsonl import JsonlStore
from typing_extensions import override

from tests.adapters.stores.altered_stores import Altered, Faults


class ByTime(Faults):
    """Sorts by the time of a record, which may stand still and go back."""

    @override
    def load(self, store: JsonlStore) -> tuple[LogRecord, ...]:
        return tuple(sorted(store.load(), key=lambda record: record.now_ms))

    @override
    def restore(self, store: JsonlStore) -> Restored:
        return Restored(records=self.load(store))


class Deduplicating(Faults):
    """Takes the same words said twice for one record that was sent twice."""

    @override
    def append(self, store: JsonlStore, records: Sequence[LogRecord], durable: bool) -> None:
        known = store.load()
        store.append([record for record in records if record not in known], durable)


class Shortening(Faults):
    """Keeps texts as a column of 65,535 characters would."""

    @override
    def append(self, store: JsonlStore, records: Sequence[LogRecord], durable: bool) -> None:
        store.append([_with_text(record, lambda text: text[:65_535]) for record in records], durable)


class EndingAtNul(Faults):
    """Keeps texts as C does."""

    @override
    def append(self, store: JsonlStore, records: Sequence[LogRecord], durable: bool) -> None:
        store.append([_with_text(record, lambda text: text.partition("\0")[0]) for record in records], durable)


def _with_text(record: LogRecord, change: Callable[[str], str]) -> LogRecord:
    delta = record.delta
    return evolve(record, delta=evolve(delta, text=change(delta.text))) if isinstance(delta, ModelText) else record


class CountingChanges(Faults):
    """Takes the version of a state for the number of records behind it, though some records change nothing."""

    def __init__(self) -> None:
        self.kept: dict[Path, State] = {}

    @override
    def save_snapshot(self, store: JsonlStore, state: State) -> None:
        self.kept[store._path] = state

    @override
    def restore(self, store: JsonlStore) -> Restored:
        state = self.kept.get(store._path)
        if state is None:
            return store.restore()
        return Restored(state=state, records=store.load()[state.stamp.version :])


class Waiting(Faults):
    """Waits for the other writer, instead of refusing the second one."""

    def __init__(self) -> None:
        self.free = threading.Event()

    @override
    def open(self, runs: JsonlFolder, run: str) -> BlockingStore:
        try:
            return Altered(runs.open(run), self)
        except StoreLocked:
            self.free.wait()
            raise


class LeavingItsLock(Faults):
    """Its lock is a file that is there, also when whoever made it has died."""

    @override
    def open(self, runs: JsonlFolder, run: str) -> BlockingStore:
        store = Altered(runs.open(run), self)
        try:
            os.close(os.open(_lock_of(store), os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            store.inner.close()
            raise StoreLocked(f"{_lock_of(store).name} is there") from None
        return store

    @override
    def close(self, store: Altered) -> None:
        if not store.closed:
            _lock_of(store).unlink(missing_ok=True)
        store.closed = True
        store.inner.close()


def _lock_of(store: Altered) -> Path:
    return store.inner._path.with_suffix(".lock")


class Trimming(Faults):
    """Takes ids for one that differ only in the spaces behind them, as a column of fixed width does."""

    @override
    def open(self, runs: JsonlFolder, run: str) -> BlockingStore:
        return Altered(runs.open(run.rstrip()), self)

    @override
    def read(self, runs: JsonlFolder, run: str) -> tuple[LogRecord, ...]:
        return runs.read(run.rstrip())


class Unruly(Faults):
    """Raises what nobody expects where a file is damaged."""

    @override
    def open(self, runs: JsonlFolder, run: str) -> BlockingStore:
        try:
            return Altered(runs.open(run), self)
        except StoreCorrupt as error:
            raise LookupError("file is not a database") from error

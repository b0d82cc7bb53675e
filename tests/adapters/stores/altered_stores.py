"""Stores that break one duty each, for the check of stores: a folder of JSONL logs that does one thing wrong."""

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from loopkernel.data.states import State
from loopkernel.replaying import LogRecord
from loopkernel_adapters.blocking_ports import BlockingRuns, BlockingStore
from loopkernel_adapters.ports import NoSuchRun, Restored, RunEntry, StoreCorrupt, StoreError, StoreLocked
from loopkernel_adapters.stores import durable_files, jsonl, operating_systems
from loopkernel_adapters.stores.folders import JsonlFolder
from loopkernel_adapters.stores.jsonl import JsonlStore
from loopkernel_adapters.stores.seals import Seals
from loopkernel_adapters.stores.snapshots import read_snapshot
from typing_extensions import override


class Altered(BlockingStore):
    """A JSONL log that does one thing wrong: each method can be given another body."""

    def __init__(self, inner: JsonlStore, faults: "Faults") -> None:
        self.inner = inner
        self.faults = faults
        self.closed = False

    @override
    def append(self, records: Sequence[LogRecord], durable: bool) -> None:
        self.faults.append(self.inner, records, durable)

    @override
    def load(self) -> tuple[LogRecord, ...]:
        return self.faults.load(self.inner)

    @override
    def restore(self) -> Restored:
        return self.faults.restore(self.inner)

    @override
    def save_snapshot(self, state: State) -> None:
        self.faults.save_snapshot(self.inner, state)

    @override
    def close(self) -> None:
        self.faults.close(self)


class Faults:
    """What an altered store does; as it is, nothing is altered. The factory of `AlteredRuns`."""

    def append(self, store: JsonlStore, records: Sequence[LogRecord], durable: bool) -> None:
        store.append(records, durable)

    def load(self, store: JsonlStore) -> tuple[LogRecord, ...]:
        return store.load()

    def restore(self, store: JsonlStore) -> Restored:
        return store.restore()

    def save_snapshot(self, store: JsonlStore, state: State) -> None:
        store.save_snapshot(state)

    def close(self, store: Altered) -> None:
        store.inner.close()

    def open(self, runs: JsonlFolder, run: str) -> BlockingStore:
        return Altered(runs.open(run), self)

    def read(self, runs: JsonlFolder, run: str) -> tuple[LogRecord, ...]:
        return runs.read(run)

    def entries(self, runs: JsonlFolder) -> tuple[RunEntry, ...]:
        return runs.entries()

    @contextmanager
    def around(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        yield


class AlteredRuns(BlockingRuns):
    """A folder of altered logs."""

    def __init__(self, folder: Path, faults: Faults) -> None:
        self.inner = JsonlFolder(folder)
        self.faults = faults

    @override
    def open(self, run: str) -> BlockingStore:
        return self.faults.open(self.inner, run)

    @override
    def read(self, run: str) -> tuple[LogRecord, ...]:
        return self.faults.read(self.inner, run)

    @override
    def entries(self) -> tuple[RunEntry, ...]:
        return self.faults.entries(self.inner)

    @override
    def close(self) -> None:
        self.inner.close()


class Reversed(Faults):
    @override
    def append(self, store: JsonlStore, records: Sequence[LogRecord], durable: bool) -> None:
        store.append(records[::-1], durable)


class Held(Faults):
    """Hands records over only when there are many, or at the end."""

    def __init__(self) -> None:
        self.held: dict[JsonlStore, list[LogRecord]] = {}

    @override
    def append(self, store: JsonlStore, records: Sequence[LogRecord], durable: bool) -> None:
        if store._descriptor is None:
            raise StoreError("closed")
        self.held.setdefault(store, []).extend(records)

    @override
    def load(self, store: JsonlStore) -> tuple[LogRecord, ...]:
        return (*store.load(), *self.held.get(store, []))

    @override
    def restore(self, store: JsonlStore) -> Restored:
        return Restored(records=self.load(store))

    @override
    def read(self, runs: JsonlFolder, run: str) -> tuple[LogRecord, ...]:
        waiting = [held for store, held in self.held.items() if store._path == runs.file_of(run)]
        return (*runs.read(run), *(record for held in waiting for record in held))

    @override
    def close(self, store: Altered) -> None:
        records = self.held.pop(store.inner, [])
        if records:
            store.inner.append(records, durable=True)
        store.inner.close()


class Stubborn(Faults):
    """Tries again after a failure."""

    @override
    def append(self, store: JsonlStore, records: Sequence[LogRecord], durable: bool) -> None:
        store._broken = False
        store.append(records, durable)


class Unlocked(Faults):
    @override
    @contextmanager
    def around(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        monkeypatch.setattr(fcntl, "flock", lambda descriptor, operation: None)
        yield


class Trusting(Faults):
    """Believes every line, whatever its checksum."""

    @override
    @contextmanager
    def around(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        monkeypatch.setattr(jsonl, "_checksum", lambda number, text, seal: 0)
        yield


class Forgetful(Faults):
    """Leaves out what it cannot read, instead of refusing it."""

    @override
    def open(self, runs: JsonlFolder, run: str) -> BlockingStore:
        try:
            return Altered(runs.open(run), self)
        except StoreCorrupt as error:
            os.truncate(error.source, error.position)
            return Altered(runs.open(run), self)


class Strict(Faults):
    """Takes a torn tail for damage."""

    @override
    def open(self, runs: JsonlFolder, run: str) -> BlockingStore:
        store = runs.open(run)
        if store.torn_tail is not None:
            store.close()
            raise StoreCorrupt("log", store.torn_tail.line, store.torn_tail.position, "torn")
        return Altered(store, self)


class Rash(Faults):
    """Cuts more than the torn tail."""

    @override
    def open(self, runs: JsonlFolder, run: str) -> BlockingStore:
        store = runs.open(run)
        if store.torn_tail is not None:
            store.close()
            path = runs.file_of(run)
            lines = path.read_bytes().splitlines(keepends=True)
            path.write_bytes(b"".join(lines[:-3]))
            store = runs.open(run)
        return Altered(store, self)


class Clinging(Faults):
    """Does not let go of its file."""

    @override
    def close(self, store: Altered) -> None:
        store.inner.append((), durable=True)


class Impatient(Faults):
    """Cannot be closed twice."""

    @override
    def close(self, store: Altered) -> None:
        if store.closed:
            raise OSError(9, "Bad file descriptor")
        store.closed = True
        store.inner.close()


class Doubling(Faults):
    """Gives the snapshot, and every record as well."""

    @override
    def restore(self, store: JsonlStore) -> Restored:
        found = store.restore()
        return Restored(state=found.state, records=store.load())


class Ignorant(Faults):
    """Gives the tail without the snapshot that it stands behind."""

    @override
    def restore(self, store: JsonlStore) -> Restored:
        return Restored(records=store.restore().records)


class Credulous(Faults):
    """Believes a snapshot without a look at the log."""

    @override
    def restore(self, store: JsonlStore) -> Restored:
        snapshot = read_snapshot(store._path, Seals.of_user(), doubted=True)
        state = None if snapshot is None else snapshot.state()
        if snapshot is None or state is None:
            return Restored(records=store.load())
        return Restored(state=state, records=store.load()[snapshot.records :])


class Open(Faults):
    """Lets everybody read."""

    @override
    @contextmanager
    def around(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        monkeypatch.setattr(operating_systems, "OWNER_ONLY", 0o644)
        yield


class OpenFolder(Faults):
    @override
    @contextmanager
    def around(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        monkeypatch.setattr(durable_files, "FOLDER_OWNER_ONLY", 0o755)
        yield


class Sharing(Faults):
    """Two ids lead to one log."""

    @override
    def open(self, runs: JsonlFolder, run: str) -> BlockingStore:
        return Altered(runs.open(run.replace("%2F", "/")), self)

    @override
    def read(self, runs: JsonlFolder, run: str) -> tuple[LogRecord, ...]:
        return runs.read(run.replace("%2F", "/"))


class Locking(Faults):
    """Reads only what nobody writes."""

    @override
    def read(self, runs: JsonlFolder, run: str) -> tuple[LogRecord, ...]:
        if not runs.file_of(run).exists():
            raise NoSuchRun(run)
        try:
            store = runs.open(run)
        except StoreLocked:
            return ()
        records = store.load()
        store.close()
        return records


class Creating(Faults):
    """Makes the run that is read."""

    @override
    def read(self, runs: JsonlFolder, run: str) -> tuple[LogRecord, ...]:
        return runs.read(run) if runs.file_of(run).exists() else ()


class Unsorted(Faults):
    @override
    def entries(self, runs: JsonlFolder) -> tuple[RunEntry, ...]:
        return runs.entries()[::-1]


class Blunt(Faults):
    """Says that a log is locked as if anything were wrong."""

    @override
    def open(self, runs: JsonlFolder, run: str) -> BlockingStore:
        try:
            return Altered(runs.open(run), self)
        except StoreLocked as error:
            raise StoreError(str(error)) from error


class AloneInItsProcess(Faults):
    """Its lock is known within the process alone."""

    def __init__(self) -> None:
        self.opened: dict[BlockingStore, Path] = {}

    @override
    @contextmanager
    def around(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        monkeypatch.setattr(jsonl, "_lock", lambda descriptor, path: None)
        yield

    @override
    def open(self, runs: JsonlFolder, run: str) -> BlockingStore:
        path = runs.file_of(run)
        if path in self.opened.values():
            raise StoreLocked("it is open here")
        store = Altered(runs.open(run), self)
        self.opened[store] = path
        return store

    @override
    def close(self, store: Altered) -> None:
        self.opened.pop(store, None)
        store.inner.close()


class Blind(Faults):
    """Does not look whether its file is still the one of that name."""

    @override
    @contextmanager
    def around(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        monkeypatch.setattr(jsonl, "_demand_same_file", lambda descriptor, path: None)
        yield

"""A store of your own: here the texts lie in a dict, in the place of a service that keeps lists of texts by a key."""

from collections.abc import Sequence
from pathlib import Path

from loopkernel import LogRecord, State
from loopkernel.codec import record_from_text, record_to_text
from loopkernel_adapters import BlockingRuns, BlockingStore, NoSuchRun, Restored, RunEntry, StoreError, StoreLocked
from loopkernel_adapters.testing import check_store


class ListRuns(BlockingRuns):
    def __init__(self) -> None:
        self.lists: dict[str, list[str]] = {}
        self.writers: dict[str, ListStore] = {}

    def open(self, run: str) -> "ListStore":
        if run in self.writers:
            raise StoreLocked(f"run {run!r} is open elsewhere")
        self.lists.setdefault(run, [])
        return self.writers.setdefault(run, ListStore(self, run))

    def read(self, run: str) -> tuple[LogRecord, ...]:
        if run not in self.lists:
            raise NoSuchRun(f"there is no run {run!r}")
        return tuple(map(record_from_text, self.lists[run]))

    def entries(self) -> tuple[RunEntry, ...]:
        return tuple(entry_of(run, self.read(run)) for run, texts in self.lists.items() if texts)

    def close(self) -> None:
        """Nothing is held."""


def entry_of(run: str, log: tuple[LogRecord, ...]) -> RunEntry:
    return RunEntry(run=run, records=len(log), first_ms=log[0].now_ms, last_ms=log[-1].now_ms)


class ListStore(BlockingStore):
    def __init__(self, runs: ListRuns, run: str) -> None:
        self.runs, self.run = runs, run

    def append(self, records: Sequence[LogRecord], durable: bool) -> None:
        if self.runs.writers.get(self.run) is not self:
            raise StoreError(f"the log of {self.run!r} is closed")
        self.runs.lists[self.run] += map(record_to_text, records)

    def load(self) -> tuple[LogRecord, ...]:
        return self.runs.read(self.run)

    def restore(self) -> Restored:
        return Restored(records=self.load())

    def save_snapshot(self, state: State) -> None:
        """Keep none: a log is read from its beginning."""

    def close(self) -> None:
        if self.runs.writers.get(self.run) is self:
            del self.runs.writers[self.run]


by_folder: dict[Path, ListRuns] = {}
check_store(lambda folder: by_folder.setdefault(folder, ListRuns()), lasting=False)
print("all duties of a store are kept")

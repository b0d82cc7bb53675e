"""One writer a run: a second is refused at once, and one that was fenced off while it stood still writes nothing."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from loopkernel_adapters.blocking_ports import BlockingRuns, BlockingStore
from loopkernel_adapters.ports import StoreError, StoreLocked
from loopkernel_adapters.stores import database
from loopkernel_adapters.stores.folders import JsonlFolder
from loopkernel_adapters.stores.memory import MemoryRuns
from loopkernel_adapters.stores.run_rows import RunRows
from loopkernel_adapters.stores.sqlite import SqliteRuns

from tests.adapters.stores.fault_world import ROOT
from tests.adapters.stores.log_lines import some_records

RECORDS = tuple(some_records(20))
KINDS = ("jsonl", "sqlite")

# Opens the run, appends a record, and then one for each line that it reads; says each time what came of it.
WRITER = """
import sys
from pathlib import Path
from tests.adapters.stores.fault_child import FAULTS, INTENDED, STOP, runs_in
kind, folder, stops_at = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
try:
    store = runs_in(kind, folder).open("s")
    written = len(store.load())
    store.append(INTENDED[written : written + 1], durable=True)
    print("ready", flush=True)
    for line in sys.stdin:
        written += 1
        if stops_at:
            FAULTS.faults_arm(b"w", stops_at, STOP, 0, 1)
        store.append(INTENDED[written : written + 1], durable=True)
        print("written", flush=True)
    store.close()
except Exception as error:
    print(type(error).__name__, error, flush=True)
"""


def runs_in(kind: str, folder: Path) -> BlockingRuns:
    return JsonlFolder(folder / "logs") if kind == "jsonl" else SqliteRuns(folder / "runs.sqlite")


class Writer:
    """Another process that writes the run `s`."""

    def __init__(self, kind: str, folder: Path, library: Path | None, stops_at: int) -> None:
        environment = {**os.environ, **({} if library is None else {"LD_PRELOAD": str(library)})}
        self.process = subprocess.Popen(
            [sys.executable, "-c", WRITER, kind, folder, str(stops_at)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=environment,
        )
        self.first = self.said()

    def said(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().rstrip("\n")

    def go_on(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def wait_until_stopped(self) -> None:
        _, status = os.waitpid(self.process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)

    def stand_still(self) -> None:
        self.process.send_signal(signal.SIGSTOP)
        self.wait_until_stopped()


@contextmanager
def writer(kind: str, folder: Path, library: Path | None = None, stops_at: int = 0) -> Iterator[Writer]:
    started = Writer(kind, folder, library, stops_at)
    try:
        yield started
    finally:
        started.process.send_signal(signal.SIGCONT)
        started.process.communicate()


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    named: str = request.param
    return named


# --- a second one ---


def test_another_process_is_refused_at_once_and_so_is_this_one(tmp_path: Path, kind: str) -> None:
    runs = runs_in(kind, tmp_path)
    with closing(runs.open("s")) as store:
        store.append(RECORDS[:2], durable=True)
        with writer(kind, tmp_path) as other:
            assert other.first.startswith("StoreLocked")
            assert "is open for writing elsewhere" in other.first
        for again in (runs, runs_in(kind, tmp_path)):
            with pytest.raises(StoreLocked, match="is open for writing elsewhere"):
                again.open("s")
        assert runs.read("s") == RECORDS[:2]
        store.append(RECORDS[2:3], durable=True)
    with writer(kind, tmp_path) as other:
        assert other.first == "ready"
        with pytest.raises(StoreLocked):
            runs.open("s")
        other.process.kill()  # which leaves no lock
        other.process.wait()
        with closing(runs.open("s")) as store:
            assert len(store.load()) == 4
            store.append(RECORDS[4:], durable=True)


@pytest.mark.parametrize("make", [lambda folder: MemoryRuns(), *(lambda f, k=k: runs_in(k, f) for k in KINDS)])
def test_of_many_threads_one_gets_the_run(tmp_path: Path, make: "object") -> None:
    assert callable(make)
    runs: BlockingRuns = make(tmp_path)
    runs.open("other").close()
    opened: list[BlockingStore] = []
    refused: list[Exception] = []
    begin = threading.Barrier(8)

    def attempt() -> None:
        begin.wait()
        try:
            opened.append(runs.open("s"))
        except Exception as error:
            refused.append(error)

    threads = [threading.Thread(target=attempt) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(opened), [type(error) for error in refused]) == (1, [StoreLocked] * 7)
    opened[0].append(RECORDS, durable=True)
    opened[0].close()
    assert runs.read("s") == RECORDS


def test_a_run_that_another_begins_while_it_is_looked_up_is_locked_and_not_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs, demand_absent = SqliteRuns(tmp_path / "runs.sqlite"), RunRows._demand_absent
    others: list[BlockingStore] = []

    def begun_meanwhile(rows: RunRows) -> None:
        monkeypatch.setattr(RunRows, "_demand_absent", demand_absent)
        others.append(runs.open("s"))
        demand_absent(rows)

    monkeypatch.setattr(RunRows, "_demand_absent", begun_meanwhile)
    with pytest.raises(StoreLocked):
        runs.open("s")
    others[0].append(RECORDS, durable=True)
    others[0].close()
    assert runs.read("s") == RECORDS


def test_a_fork_does_not_write_what_its_parent_writes(tmp_path: Path, kind: str) -> None:
    with closing(runs_in(kind, tmp_path).open("s")) as store:
        store.append(RECORDS[:1], durable=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # a runner of tests may have threads
            child = os.fork()
        if child == 0:
            try:
                store.append(RECORDS[1:2], durable=True)
                os._exit(3)
            except StoreError:
                store.close()
                os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        store.append(RECORDS[1:2], durable=True)
        with pytest.raises(StoreLocked):  # nor does it take the lock away
            runs_in(kind, tmp_path).open("s")
    assert runs_in(kind, tmp_path).read("s") == RECORDS[:2]


# --- one that was fenced off ---


def take_away(kind: str, folder: Path, how: str) -> None:
    """Make room for a second writer while the first one stands still."""
    lock = folder / "logs" / "s.jsonl" if kind == "jsonl" else folder / "runs.sqlite-locks" / "1.lock"
    if how == "replaced":
        copy = lock.with_name("copy")
        shutil.copy(lock, copy)
        copy.replace(lock)
    elif kind == "jsonl":
        lock.rename(lock.with_name("moved"))
    else:
        lock.unlink()


@pytest.mark.parametrize(("kind", "how"), [("jsonl", "removed"), ("sqlite", "removed"), ("sqlite", "replaced")])
def test_a_writer_that_stood_still_while_its_lock_was_taken_away_writes_nothing(
    tmp_path: Path, kind: str, how: str
) -> None:
    with writer(kind, tmp_path) as old:
        assert old.first == "ready"
        old.stand_still()
        take_away(kind, tmp_path, how)
        with closing(runs_in(kind, tmp_path).open("s")) as store:
            before = store.load()
            store.append(RECORDS[len(before) : 5], durable=True)
            old.process.send_signal(signal.SIGCONT)
            old.go_on()
            assert old.said().startswith("StoreError")
            store.append(RECORDS[5:6], durable=True)
    assert runs_in(kind, tmp_path).read("s") == RECORDS[:6]


def test_the_epoch_fences_a_writer_off_whose_lock_file_was_put_back(tmp_path: Path) -> None:
    """As if the lock had failed altogether: the number in the database alone keeps the old writer from writing."""
    runs = SqliteRuns(tmp_path / "runs.sqlite")
    lock = tmp_path / "runs.sqlite-locks" / "1.lock"
    old = runs.open("s")
    old.append(RECORDS[:2], durable=True)
    lock.rename(tmp_path / "kept")
    runs.open("s").close()
    (tmp_path / "kept").rename(lock)
    for _ in range(2):
        with pytest.raises(StoreError, match=r"fenced off|an earlier write"):
            old.append(RECORDS[2:3], durable=True)
    old.close()
    assert runs.read("s") == RECORDS[:2]


def test_a_writer_without_its_lock_file_writes_nothing_even_before_another_one_comes(tmp_path: Path) -> None:
    runs = SqliteRuns(tmp_path / "runs.sqlite")
    old = runs.open("s")
    (tmp_path / "runs.sqlite-locks" / "1.lock").unlink()
    with pytest.raises(StoreError, match="the lock of run 's' was taken away"):
        old.append(RECORDS, durable=True)
    old.close()
    assert runs.read("s") == ()


def test_a_writer_that_stands_still_within_a_transaction_does_not_make_others_wait_for_long(
    tmp_path: Path, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.05)
    runs = SqliteRuns(tmp_path / "runs.sqlite")
    with writer("sqlite", tmp_path, library, stops_at=2) as old, closing(runs.open("t")) as other:
        assert old.first == "ready"
        old.go_on()
        old.wait_until_stopped()  # in the middle of its commit
        with pytest.raises(StoreLocked, match="kept busy by another program"):
            other.append(RECORDS[:1], durable=True)
        (tmp_path / "runs.sqlite-locks" / "1.lock").unlink()
        with pytest.raises(StoreLocked, match="kept busy by another program"):
            runs.open("s")
        assert runs.read("s") == RECORDS[:1]  # reading needs no lock
        old.process.send_signal(signal.SIGCONT)
        assert old.said() == "written"  # the transaction was begun while it was the writer
    assert runs.read("s") == RECORDS[:2]
    assert runs.read("t") == ()


def test_a_database_that_was_replaced_or_copied_is_no_longer_written(tmp_path: Path) -> None:
    runs = SqliteRuns(tmp_path / "runs.sqlite")
    old = runs.open("s")
    old.append(RECORDS[:2], durable=True)
    with closing(sqlite3.connect(tmp_path / "runs.sqlite")) as connection:
        connection.execute("VACUUM INTO ?", (str(tmp_path / "copy.sqlite"),))
    copied = SqliteRuns(tmp_path / "copy.sqlite")
    with closing(copied.open("s")) as store:  # a copy is a log of its own, with a lock of its own
        assert store.load() == RECORDS[:2]
        store.append(RECORDS[2:3], durable=True)
    (tmp_path / "copy.sqlite").replace(tmp_path / "runs.sqlite")
    with pytest.raises(StoreError, match="was replaced by another file"):
        old.append(RECORDS[5:6], durable=True)
    old.close()


def test_several_processes_write_several_runs_of_one_file_at_once(tmp_path: Path) -> None:
    script = """
import sys
from pathlib import Path
from tests.adapters.stores.fault_child import INTENDED, runs_in
store = runs_in("sqlite", Path(sys.argv[1])).open(sys.argv[2])
for number in range(60):
    store.append(INTENDED[number : number + 1], durable=number % 5 == 4)
store.close()
"""
    names = ("a", "b")
    started = [subprocess.Popen([sys.executable, "-c", script, tmp_path, name], cwd=ROOT) for name in names]
    assert [process.wait() for process in started] == [0, 0]
    runs = SqliteRuns(tmp_path / "runs.sqlite")
    assert {entry.run: entry.records for entry in runs.entries()} == dict.fromkeys(names, 60)
    assert all(runs.read(name) == tuple(some_records(60)) for name in names)
    assert sorted(os.listdir(tmp_path)) == ["runs.sqlite", "runs.sqlite-locks", "seals"]
    assert os.listdir(tmp_path / "runs.sqlite-locks") == []

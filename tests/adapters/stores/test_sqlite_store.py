"""Many runs in one SQLite file: what goes in comes out, only the owner reads it, and foreign files stay untouched."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import mkdtemp

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.replaying import LogRecord
from loopkernel_adapters.ports import NoSuchRun, RunEntry, StoreError, StoreLocked
from loopkernel_adapters.stores import database
from loopkernel_adapters.stores.database import APPLICATION, SCHEMA
from loopkernel_adapters.stores.seals import OLDER, Seals
from loopkernel_adapters.stores.sqlite import SqliteRuns, SqliteStore

from tests.adapters.driver.driver_world import descriptors
from tests.adapters.stores.log_lines import some_records
from tests.adapters.stores.test_jsonl_store import RECORDS
from tests.adapters.stores.together import append_together

LOG = tuple(some_records(30))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.sqlite"


@pytest.fixture
def runs(path: Path) -> Iterator[SqliteRuns]:
    opened = SqliteRuns(path)
    yield opened
    opened.close()
    opened.close()


def fill(runs: SqliteRuns, **logs: tuple[LogRecord, ...]) -> None:
    for run, records in logs.items():
        with closing(runs.open(run)) as store:
            store.append(records, durable=True)


# --- what goes in comes out ---


@given(batches=st.lists(st.tuples(st.sampled_from("ab"), RECORDS, st.booleans()), max_size=5))
@pytest.mark.rule("RESUME-1")
def test_every_record_is_read_back_as_it_was(
    shared_folder: Path, batches: list[tuple[str, list[LogRecord], bool]]
) -> None:
    path = Path(mkdtemp(dir=shared_folder)) / "runs.sqlite"
    runs = SqliteRuns(path)
    stores = {name: runs.open(name) for name in "ab"}
    expected: dict[str, tuple[LogRecord, ...]] = {"a": (), "b": ()}
    for name, records, durable in batches:
        stores[name].append(records, durable)
        expected[name] += tuple(records)
        assert runs.read(name) == stores[name].load() == expected[name]
    for name, store in stores.items():
        store.close()
        with closing(runs.open(name)) as again:
            assert again.load() == again.restore().records == expected[name]


@given(run=st.text(max_size=20))
def test_any_text_is_an_id(shared_folder: Path, run: str) -> None:
    runs = SqliteRuns(shared_folder / "any.sqlite")
    try:
        run.encode()
    except UnicodeEncodeError:
        with pytest.raises(StoreError, match="cannot be kept"):
            runs.open(run)
        return
    with closing(runs.open(run)) as store:
        store.append(LOG[:1], durable=True)
    assert run in {entry.run for entry in runs.entries()}
    assert runs.read(run)[0] == LOG[0]


def test_runs_are_listed_the_latest_last(runs: SqliteRuns) -> None:
    assert runs.entries() == ()
    with pytest.raises(NoSuchRun, match="there is no run 'a'"):
        runs.read("a")
    fill(runs, late=LOG[20:], early=LOG[:5], empty=())
    assert runs.entries() == (
        RunEntry(run="early", records=5, first_ms=0, last_ms=4),
        RunEntry(run="late", records=10, first_ms=20, last_ms=29),
    )
    with pytest.raises(NoSuchRun):
        runs.read("lat")
    assert runs.read("empty") == ()


def test_a_closed_log_takes_nothing_and_an_empty_append_is_none(runs: SqliteRuns) -> None:
    store = runs.open("a")
    for durable in (False, True):
        store.append((), durable)
    assert store.load() == ()
    store.close()
    store.close()
    for attempt in (lambda: store.append(LOG, durable=True), store.load, store.restore):
        with pytest.raises(StoreError, match="is closed"):
            attempt()


def test_reading_looks_at_one_instant(runs: SqliteRuns) -> None:
    with closing(runs.open("a")) as store:
        for size in range(1, 20):
            store.append(LOG[size - 1 : size], durable=size % 3 == 0)
            assert runs.read("a") == LOG[:size]
            assert runs.entries()[0].records == size


# --- syncs that are shared, and the mark of what is durable ---


def test_a_run_that_is_removed_before_the_shared_sync_harms_no_other(
    runs: SqliteRuns, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync = SqliteStore.sync

    def too_late(store: SqliteStore) -> None:
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("DELETE FROM records WHERE run = (SELECT id FROM runs WHERE run = 'c')")
            connection.execute("DELETE FROM runs WHERE run = 'c'")
        sync(store)

    monkeypatch.setattr(SqliteStore, "sync", too_late)
    stores = [runs.open(name) for name in "abc"]
    assert append_together(*((store, LOG[:2], True) for store in stores)) == [None] * 3
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT sum(syncs) FROM runs").fetchone() == (1,)  # something was there to commit
    for store in stores[:2]:
        store.append(LOG[2:3], durable=True)
        store.close()
    stores[2].close()
    assert [runs.read(name) for name in "ab"] == [LOG[:3]] * 2


APPENDS = st.lists(
    st.tuples(st.integers(1, 3), st.sampled_from(("passing", "alone", "shared"))), min_size=1, max_size=6
)


@given(appends=APPENDS)
def test_a_loss_of_power_does_not_make_an_older_copy_of_what_it_leaves(
    shared_folder: Path, appends: list[tuple[int, str]]
) -> None:
    """What lies there after the latest sync is believed, and what lay there before it is an older copy."""
    folder = Path(mkdtemp(dir=shared_folder))
    runs = SqliteRuns(folder / "runs.sqlite", Seals(folder / "seals"))
    other, store = runs.open("other"), runs.open("a")
    store.vouch()
    store.append(LOG[:1], durable=True)
    left, written = [copied(folder, 0)], 1
    for many, how in appends:
        records = LOG[written : written + many]
        if how == "shared":
            assert append_together((store, records, True), (other, LOG[:1], True)) == [None, None]
        else:
            store.append(records, how == "alone")
        written += many
        if how != "passing":
            left.append(copied(folder, len(left)))
    marks = {path: path.read_bytes() for path in (folder / "seals" / "marks").iterdir()}
    store.close()  # makes what is left durable, which a loss of power does not
    other.close()
    for path, content in marks.items():
        path.write_bytes(content)
    doubts = [SqliteRuns(copy, Seals(folder / "seals")).doubt("a") for copy in left]
    assert doubts == [OLDER] * (len(left) - 1) + [None]


def test_the_mark_is_not_noted_before_the_sync(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(store: SqliteStore) -> None:
        raise OSError(5, "Input/output error")

    runs = SqliteRuns(path, Seals(tmp_path / "seals"))
    stores = [runs.open("a"), runs.open("b")]
    for store in stores:
        store.vouch()
        store.append(LOG[:1], durable=True)
    left = copied(tmp_path, 0)
    monkeypatch.setattr(SqliteStore, "sync", fails)
    assert None not in append_together(*((store, LOG[1:3], True) for store in stores))
    for store in stores:
        store.close()
    assert SqliteRuns(left, Seals(tmp_path / "seals")).doubt("a") is None


def copied(folder: Path, number: int) -> Path:
    """What the database holds now, in a file of its own."""
    copy = folder / f"copy{number}.sqlite"
    with closing(sqlite3.connect(folder / "runs.sqlite")) as connection, closing(sqlite3.connect(copy)) as target:
        connection.backup(target)
    return copy


# --- files ---


def test_only_the_owner_may_read_any_of_the_files(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        runs = SqliteRuns(tmp_path / "new" / "runs.sqlite")
        with closing(runs.open("a")) as store:
            store.append(LOG, durable=True)
            files = [file for file in (tmp_path / "new").rglob("*") if file.is_file()]
            assert {file.name for file in files} == {"runs.sqlite", "runs.sqlite-wal", "runs.sqlite-shm", "1.lock"}
            assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
            for folder in (tmp_path / "new", tmp_path / "new" / "runs.sqlite-locks"):
                assert folder.stat().st_mode & 0o777 == 0o700
    finally:
        os.umask(before)


def test_nothing_is_left_open_and_no_file_is_left_lying_about(tmp_path: Path, runs: SqliteRuns) -> None:
    fill(runs, a=LOG)
    before = descriptors()
    for _ in range(3):
        store = runs.open("a")
        with pytest.raises(StoreLocked):
            runs.open("a")
        store.close()
        runs.read("a")
        runs.entries()
        with pytest.raises(NoSuchRun):
            runs.read("b")
    assert descriptors() == before
    assert sorted(file.name for file in tmp_path.rglob("*")) == ["runs.sqlite", "runs.sqlite-locks"]


def test_a_path_that_leads_through_a_link_leads_to_the_same_locks(tmp_path: Path, runs: SqliteRuns) -> None:
    fill(runs, a=LOG)
    (tmp_path / "link").symlink_to(tmp_path)
    with closing(runs.open("a")), pytest.raises(StoreLocked):
        SqliteRuns(tmp_path / "link" / "runs.sqlite").open("a")


@pytest.mark.parametrize("content", [b"", b"buy milk", b'{"n":1}\n', b"SQLite format 3\0" + bytes(4_080), bytes(8_192)])
def test_a_file_that_is_no_database_of_ours_is_refused_and_left_alone(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(StoreError, match="is not a database of loopkernel"):
        SqliteRuns(path)
    assert path.read_bytes() == content
    assert os.listdir(path.parent) == ["runs.sqlite"]


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_a_database_of_another_application_is_refused_and_left_alone(path: Path, mode: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA journal_mode = {mode}")
        connection.execute("CREATE TABLE notes (text)")
        connection.execute("INSERT INTO notes VALUES ('milk')")
        connection.commit()
        files = {file.name: file.read_bytes() for file in path.parent.iterdir()}
        with pytest.raises(StoreError, match="is not a database of loopkernel"):
            SqliteRuns(path)
        assert {file.name: file.read_bytes() for file in path.parent.iterdir()} == files


def test_what_is_no_file_is_refused(tmp_path: Path, path: Path) -> None:
    os.mkfifo(path)
    with pytest.raises(StoreError, match="not a regular file"):
        SqliteRuns(path)
    with pytest.raises(StoreError, match="not a regular file"):
        SqliteRuns(tmp_path)
    with pytest.raises(FileNotFoundError):
        SqliteRuns(tmp_path / "no" / "folder" / "runs.sqlite").open("a")


def test_a_write_ahead_log_without_its_database_is_not_taken_for_that_of_a_new_one(
    path: Path, runs: SqliteRuns
) -> None:
    store = runs.open("a")
    store.append(LOG, durable=True)
    path.unlink()
    with pytest.raises(StoreError, match=r"runs\.sqlite-wal was left behind"):
        runs.open("b")
    assert not path.exists()
    with pytest.raises(FileNotFoundError):
        store.append(LOG, durable=True)
    store.close()


# --- versions ---


def test_the_database_of_a_newer_release_is_refused_in_words(path: Path, runs: SqliteRuns) -> None:
    fill(runs, a=LOG)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {len(SCHEMA) + 1}")
    content = path.read_bytes()
    for attempt in (lambda: SqliteRuns(path), lambda: runs.open("a"), lambda: runs.read("a"), runs.entries):
        with pytest.raises(StoreError, match=r"written by a newer loopkernel .* Nothing was changed"):
            attempt()
    assert path.read_bytes() == content


def test_the_database_of_an_older_release_is_upgraded_whole_or_not_at_all(
    path: Path, runs: SqliteRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(runs, a=LOG)
    broken = (*SCHEMA, ("CREATE TABLE more (text)", "CREATE TABLE more (text)"))
    monkeypatch.setattr(database, "SCHEMA", broken)
    with pytest.raises(StoreError, match="already exists"):
        runs.open("a")
    monkeypatch.setattr(database, "SCHEMA", SCHEMA)
    assert runs.read("a") == LOG
    monkeypatch.setattr(database, "SCHEMA", (*SCHEMA, ("CREATE TABLE more (text)",)))
    assert runs.read("a") == LOG
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (len(SCHEMA) + 1,)
        assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION,)
        assert connection.execute("SELECT count(*) FROM more").fetchone() == (0,)


def test_a_database_that_is_kept_busy_is_refused_in_words(
    path: Path, runs: SqliteRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(runs, a=LOG)
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.02)
    store = runs.open("a")
    assert store._connection is not None
    assert store._connection.execute("PRAGMA busy_timeout").fetchone() == (20,)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        for attempt in (lambda: store.append(LOG, durable=True), lambda: runs.open("b")):
            with pytest.raises(StoreLocked, match=r"kept busy by another program for more than 0\.02 seconds"):
                attempt()
        assert runs.read("a") == LOG
    with pytest.raises(StoreError, match="an earlier write"):
        store.append(LOG, durable=True)
    store.close()

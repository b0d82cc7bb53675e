"""A database that others made: nothing of it runs, and nothing of it is written, unless its schema is exactly ours."""

import sqlite3
import struct
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from loopkernel_adapters.ports import StoreCorrupt, StoreError
from loopkernel_adapters.stores import database
from loopkernel_adapters.stores import database as bounded_connection
from loopkernel_adapters.stores.database import expected
from loopkernel_adapters.stores.seals import Seals
from loopkernel_adapters.stores.sqlite import SqliteRuns

from tests.adapters.stores.log_lines import some_records

LOG = tuple(some_records(12))
ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)"


def made(path: Path) -> Path:
    """A database of ours with one run, closed."""
    with closing(SqliteRuns(path).open("s")) as store:
        store.append(LOG, durable=True)
    return path


def altered(path: Path, *statements: str) -> Path:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)
    return path


# Each bears our mark and our version.
HOSTILE = {
    "a view that never ends in the place of the runs": (
        ["DROP TABLE runs",
         f"CREATE VIEW runs AS {ENDLESS} SELECT x AS id, 'r' AS run, 1 AS epoch, 1 AS syncs, 1 AS records, "
         "1 AS first_ms, 1 AS last_ms FROM n"],
        "view 'runs' is not as ours",
    ),
    "a view that never ends in the place of the records": (
        ["DROP TABLE records",
         f"CREATE VIEW records AS {ENDLESS} SELECT 1 AS run, x AS n, zeroblob(16) AS digest, 't' AS text FROM n"],
        "view 'records' is not as ours",
    ),
    "a view that makes a huge value": (
        ["DROP TABLE snapshots",
         "CREATE VIEW snapshots AS SELECT 1 AS run, zeroblob(900000000) AS snapshot"],
        "view 'snapshots' is not as ours",
    ),
    "a trigger": (
        [f"CREATE TRIGGER t AFTER UPDATE ON runs BEGIN INSERT INTO records {ENDLESS} SELECT 9, x, '', '' FROM n; END"],
        "trigger 't' is none of ours",
    ),
    "a trigger that changes the records": (
        ["CREATE TRIGGER t AFTER INSERT ON records BEGIN DELETE FROM records; END"],
        "trigger 't' is none of ours",
    ),
    "another index": (["CREATE INDEX i ON runs (abs(epoch))"], "index 'i' is none of ours"),
    "another table": (["CREATE TABLE more (x)"], "table 'more' is none of ours"),
    "statistics": (["ANALYZE"], "table 'sqlite_stat"),
    "a table that a program feeds": (["CREATE VIRTUAL TABLE v USING fts5(x)"], "table 'v' is none of ours"),
    "a generated column": (
        ["ALTER TABLE runs ADD COLUMN more GENERATED ALWAYS AS (zeroblob(900000000)) VIRTUAL"],
        "table 'runs' is not as ours",
    ),
    "a check that calls a function": (
        ["DROP TABLE snapshots",
         "CREATE TABLE snapshots (run INTEGER PRIMARY KEY REFERENCES runs (id), "
         "snapshot BLOB NOT NULL CHECK (length(zeroblob(900000000)) > 0))"],
        "table 'snapshots' is not as ours",
    ),
    "a table without its constraints": (
        ["DROP TABLE runs",
         "CREATE TABLE runs (id, run, epoch, syncs, records, first_ms, last_ms)"],
        "table 'runs' is not as ours",
    ),
    "a table less": (["DROP TABLE snapshots"], "'snapshots' is missing"),
    "a name without end": ([f"CREATE TABLE {'x' * 5_000} (x)"], "xxx...' is none of ours"),
    "a name with escapes": (["CREATE TABLE \"\x1b[2J\" (x)"], r"table '\\x1b[2J' is none of ours"),
}  # fmt: skip


def attempts(path: Path) -> tuple[Callable[[], object], ...]:
    """Every way in: the list, a run of it, and its one writer."""
    runs = object.__new__(SqliteRuns)
    runs._seals = Seals.of_user()
    runs._path = path
    return (
        lambda: SqliteRuns(path),
        runs.entries,
        lambda: runs.latest(3),
        lambda: runs.read("s"),
        lambda: runs.open("s"),
    )


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_not_of_our_schema_is_refused_and_nothing_is_changed(tmp_path: Path, name: str) -> None:
    statements, told = HOSTILE[name]
    path = altered(made(tmp_path / "runs.sqlite"), *statements)
    before = files(tmp_path)
    for attempt in attempts(path):
        with pytest.raises(StoreError) as refused:
            attempt()
        assert told.replace("\\\\", "\\") in str(refused.value)
        assert "is not as loopkernel makes its databases" in str(refused.value)
        assert len(str(refused.value)) < 400 + len(str(path))
        assert files(tmp_path) == before


def test_an_older_schema_is_upgraded_only_where_it_is_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = made(tmp_path / "ours.sqlite")
    strange = altered(made(tmp_path / "strange.sqlite"), "CREATE TABLE later (x)")
    monkeypatch.setattr(database, "SCHEMA", (*database.SCHEMA, ("ALTER TABLE runs ADD COLUMN later TEXT",)))
    assert SqliteRuns(path).read("s") == LOG
    assert SqliteRuns(path).read("s") == LOG  # of the new schema, whose text SQLite has put together
    before = strange.read_bytes()
    for attempt in attempts(strange):
        with pytest.raises(StoreError, match="table 'later' is none of ours"):
            attempt()
    assert strange.read_bytes() == before


def test_what_is_demanded_is_what_the_steps_make() -> None:
    kinds = {(kind, name) for kind, name, _, _ in expected(database.SCHEMA)}
    assert {("table", "runs"), ("table", "records"), ("table", "snapshots")} <= kinds
    assert expected(()) == frozenset()


def test_a_write_ahead_log_that_brings_another_schema_is_refused_and_left(tmp_path: Path) -> None:
    path = made(tmp_path / "runs.sqlite")
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("CREATE VIEW more AS SELECT 1")
        planted = files(tmp_path)
    for name in ("runs.sqlite", "runs.sqlite-wal"):
        (tmp_path / name).write_bytes(planted[name])
    for attempt in attempts(path):
        with pytest.raises(StoreError, match="view 'more' is none of ours"):
            attempt()
    assert path.read_bytes() == planted["runs.sqlite"]
    assert (tmp_path / "runs.sqlite-wal").read_bytes() == planted["runs.sqlite-wal"]


def test_a_tree_of_pages_that_leads_to_the_same_rows_for_ever_is_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_connection, "STEPS", 10_000)
    path = made(tmp_path / "runs.sqlite")
    multiplied(path, "runs")
    assert path.stat().st_size < 100_000
    runs = object.__new__(SqliteRuns)
    runs._seals = Seals.of_user()
    runs._path = path
    for attempt in (runs.entries, lambda: runs.latest(3)):
        with pytest.raises(StoreCorrupt, match="its tables do not end where a file of its size must"):
            attempt()


def multiplied(path: Path, table: str, levels: int = 8, times: int = 400) -> None:
    """Put pages over the root of a table, each of which leads to the one beneath so many times."""
    with closing(sqlite3.connect(path)) as connection:
        (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    content = bytearray(path.read_bytes())

    def page(number: int) -> slice:
        return slice((number - 1) * size, number * size)

    content += content[page(root)]  # the rows
    for level in range(levels):
        child = len(content) // size
        cells = b"".join(struct.pack(">L", child) + bytes([1 + each % 100]) for each in range(times))
        offsets = [size - len(cells) + 5 * each for each in range(times)]
        head = struct.pack(">BHHHBL", 5, 0, times, size - len(cells), 0, child)
        pointers = struct.pack(f">{times}H", *offsets)
        made = (head + pointers).ljust(size - len(cells), b"\0") + cells
        if level + 1 < levels:
            content += made
        else:
            content[page(root)] = made
    content[28:32] = struct.pack(">L", len(content) // size)
    content[92:96] = content[24:28]  # the size in the header counts
    path.write_bytes(content)


@pytest.mark.parametrize("suffix", ["-wal", "-journal", "-shm"])
@pytest.mark.parametrize("hard", [True, False], ids=["hard", "symbolic"])
def test_a_planted_link_beside_the_database_is_not_written_through(tmp_path: Path, suffix: str, hard: bool) -> None:
    path = made(tmp_path / "runs.sqlite")
    precious = tmp_path / "precious"
    precious.write_bytes(b"buy milk\n")
    planted = path.with_name(path.name + suffix)
    if hard:
        planted.hardlink_to(precious)
    else:
        planted.symlink_to(precious)
    for attempt in attempts(path):
        with pytest.raises(StoreError, match=f"runs.sqlite{suffix} is a link"):
            attempt()
    assert precious.read_bytes() == b"buy milk\n"

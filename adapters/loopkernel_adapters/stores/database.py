"""The database file of many runs: how it is made, recognised, opened and upgraded, and its errors in words.

It is made whole under another name and then put in its place, so what lies there is a database of this kind, or some
other file, which is refused and not touched. Only SQLite itself opens it: to close a descriptor of one's own would take
the locks away that SQLite holds on the same file in this process.
"""

import os
import sqlite3
import stat
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from urllib.parse import quote

from loopkernel_adapters.ports import StoreError, StoreLocked
from loopkernel_adapters.stores.operating_systems import open_file, sync_folder
from loopkernel_adapters.stores.record_chain import DatabaseCorrupt
from loopkernel_adapters.stores.run_locks import lock_folder, locked_folder

# --- connections whose queries end -----------------------------------------------------------------------
# A damaged or hostile tree of pages may lead to the same rows again.


STEPS = 1_000_000  # of SQLite between two looks at how many there were
SPARE_LOOKS = 32
BYTES_FOR_A_LOOK = 1 << 15  # of the file: 30 steps a byte, and no query of ours takes one a byte of what is there


class BoundedConnection(sqlite3.Connection):
    """Interrupts (SQLITE_INTERRUPT) what takes more steps since `renew` than a file of that size can be worth."""

    path: Path | None = None
    _left: int | None = None

    def bound(self, path: Path) -> None:
        """From now on, by the size of that file."""
        self.path = path
        self.set_progress_handler(self._look, STEPS)

    def renew(self) -> None:
        """What follows is counted anew."""
        self._left = None

    def _look(self) -> bool:
        if self._left is None:
            self._left = SPARE_LOOKS + self._size() // BYTES_FOR_A_LOOK
        self._left -= 1
        return self._left < 0

    def _size(self) -> int:
        size = 0
        for suffix in ("", "-wal"):
            with suppress(OSError):
                size += os.stat(f"{self.path}{suffix}").st_size
        return size


# --- nothing but our own tables --------------------------------------------------------------------------
# Each object of the schema is as our steps make it, or it is refused.
# A file that others made may bear our mark and hold views in the place of tables, triggers, tables that programs
# feed, or generated columns, all of which run within a harmless query. Only the list of its objects is read to tell.

Steps = tuple[tuple[str, ...], ...]
Objects = frozenset[tuple[str, str, str, str]]

LIST = "SELECT type, name, tbl_name, sql FROM sqlite_master LIMIT ?"
MOST_OBJECTS = 100  # that are looked at: more than any schema of ours has
LONGEST_SHOWN = 60  # characters of a name


def demand_schema(connection: sqlite3.Connection, path: Path, steps: Steps) -> None:
    """Raises StoreError where the schema is not exactly what those steps make. Changes nothing."""
    found = _objects(connection.execute(LIST, (MOST_OBJECTS,)).fetchall())
    demanded = expected(steps)
    if found == demanded:
        return
    strange = sorted(found - demanded)
    names = {name for _, name, _, _ in demanded}
    if strange:
        kind, name, _, _ = strange[0]
        shown = name if len(name) <= LONGEST_SHOWN else f"{name[:LONGEST_SHOWN]}..."
        what = f"{kind} {shown!r} is {'not as ours' if name in names else 'none of ours'}"
    else:
        missing = sorted(name for _, name, _, _ in demanded - found)
        what = f"{missing[0]!r} is missing"
    raise StoreError(
        f"{path} is not as loopkernel makes its databases: the {what}. Nothing of it was read or run, and nothing was "
        "changed. Others may have made it: name another path, or restore a copy of your own"
        if strange
        else f"{path} is not as loopkernel makes its databases: {what}. Nothing was changed: restore it from a copy"
    )


@lru_cache(maxsize=16)
def expected(steps: Steps) -> Objects:
    """The objects that the steps make, as this SQLite writes them down."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        for step in steps:
            for statement in step:
                connection.execute(statement)
        return _objects(connection.execute(LIST, (MOST_OBJECTS,)).fetchall())


def _objects(rows: Sequence[tuple[object, ...]]) -> Objects:
    return frozenset((_text(row[0]), _text(row[1]), _text(row[2]), _text(row[3])) for row in rows)


def _text(value: object) -> str:
    """What a row says, of whatever type; spaces count as one."""
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    return " ".join(text.split())


# --- the file of the database ----------------------------------------------------------------------------

APPLICATION = 0x6C6F6F70  # "loop": whose database it is
BUSY_SECONDS = 5.0  # so long a writer waits for those of other runs, each of whom needs a few milliseconds
UNFINISHED = ".new"
JOURNALS = ("-journal", "-wal", "-shm")

# The schema, step by step: version n of it is what the first n steps lead to. A step that was released stays as it is.
SCHEMA: tuple[tuple[str, ...], ...] = (
    (
        # `records`, `first_ms` and `last_ms` tell what the records of the run tell too, for lists, and so that records
        # that are missing at the end are missed. `epoch` counts the writers: only the latest may write. `syncs` is
        # counted when there is nothing to commit but what was committed without a sync.
        """CREATE TABLE runs (
            id INTEGER PRIMARY KEY,
            run TEXT NOT NULL UNIQUE,
            epoch INTEGER NOT NULL,
            syncs INTEGER NOT NULL,
            records INTEGER NOT NULL,
            first_ms INTEGER NOT NULL,
            last_ms INTEGER NOT NULL
        )""",
        """CREATE TABLE records (
            run INTEGER NOT NULL REFERENCES runs (id),
            n INTEGER NOT NULL,
            digest BLOB NOT NULL,
            text TEXT NOT NULL,
            PRIMARY KEY (run, n)
        ) WITHOUT ROWID""",
        """CREATE TABLE snapshots (
            run INTEGER PRIMARY KEY REFERENCES runs (id),
            snapshot BLOB NOT NULL
        )""",
    ),
    ("ALTER TABLE runs ADD COLUMN seal BLOB",),  # of all records of the run (see `seals`)
)


def connect(path: Path, *, reading: bool = False) -> sqlite3.Connection:
    """A connection to the database that is there, whose schema is the present one.

    Raises FileNotFoundError, StoreError for what is not such a database (and then nothing was changed), StoreLocked
    while it is busy. It may be used by one thread after the other. Texts come back as bytes.
    """
    _demand_ours(path)
    _demand_own_files(path)
    connection = _connection(path, "mode=rw")  # for readers too: one that may not write leaves files lying about
    try:
        with told(path):
            connection.execute("PRAGMA query_only = ON")
            version = _demand_schema(connection, path)
            connection.execute("PRAGMA query_only = OFF")
            if version < len(SCHEMA):
                _upgrade(connection, path)
            connection.execute("PRAGMA query_only = ON" if reading else "PRAGMA synchronous = FULL")
        return connection
    except StoreError as error:
        if error.__cause__ is None and _has_content(path.with_name(f"{path.name}-wal")):
            close_untouched(connection, path)  # what is refused is not written into the database either
        connection.close()
        raise
    except BaseException:
        connection.close()
        raise


def connect_still(path: Path) -> sqlite3.Connection:
    """A connection to the file as it lies there, without locks, journals or recovery: nobody may write it meanwhile.

    Raises FileNotFoundError, and StoreError for what is not such a database, or is of an older schema.
    """
    _demand_ours(path)
    connection = _connection(path, "mode=ro&immutable=1")
    try:
        with told(path):
            if _demand_schema(connection, path) < len(SCHEMA):
                raise StoreError(
                    f"{path} is of an older schema, which is upgraded when it is read, and may not be written by you: "
                    "copy it into a folder of your own, and name the copy"
                )
        return connection
    except BaseException:
        connection.close()
        raise


def make(path: Path) -> None:
    """Have a database at the path, for its owner only, in a folder that exists. Raises OSError, StoreError."""
    if path.exists():
        return
    with locked_folder(lock_folder(path), BUSY_SECONDS):
        if path.exists():
            return
        for left in (path.with_name(path.name + each) for each in ("-journal", "-wal")):
            if _has_content(left):
                raise StoreError(
                    f"{path} is missing, and {left.name} was left behind, which may hold the last records. Nothing was "
                    "changed: bring the database back, or move that file away, or name another path"
                )
        unfinished = path.with_name(path.name + UNFINISHED)
        for name in (unfinished, *(unfinished.with_name(unfinished.name + each) for each in JOURNALS)):
            name.unlink(missing_ok=True)  # what a process left that died here
        os.close(open_file(unfinished, os.O_RDWR | os.O_CREAT | os.O_EXCL))
        with told(path), closing(_connection(unfinished, "mode=rw")) as connection:
            connection.execute("PRAGMA synchronous = FULL")
            _upgrade(connection, path)
            (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        if mode != b"wal":
            raise StoreError(f"{path.parent} cannot hold a database with a write-ahead log; name another folder")
        unfinished.rename(path)
        sync_folder(path.parent)


def close_untouched(connection: sqlite3.Connection, path: Path) -> None:
    """Close the connection without the checkpoint that SQLite makes of the last one to go.

    After an error of the disk nothing shall be written, and no sync tried again: one that succeeds could tell of data
    that is lost. A connection that may only read is there meanwhile, and makes no checkpoint when it goes.
    """
    with suppress(sqlite3.Error, StoreError), closing(_connection(path, "mode=ro")) as witness:
        witness.execute("PRAGMA schema_version").fetchone()
        connection.close()
    connection.close()


@contextmanager
def told(path: Path) -> Iterator[None]:
    """What SQLite raises, in words and as the errors of the port."""
    try:
        yield
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", "")
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            raise StoreLocked(
                f"{path} was kept busy by another program for more than {BUSY_SECONDS:g} seconds; try again, "
                "or end that program"
            ) from error
        if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_CONSTRAINT", "SQLITE_MISMATCH")):
            raise DatabaseCorrupt(str(path), 0, 0, f"the database is damaged ({error})") from error
        if name == "SQLITE_INTERRUPT":
            raise DatabaseCorrupt(str(path), 0, 0, "its tables do not end where a file of its size must") from error
        if name.startswith("SQLITE_READONLY"):
            raise StoreError(f"{path} may not be written by you: have it writable, or name another place") from error
        raise StoreError(
            f"{path} cannot be used ({error}): look after the disk and the rights there, then open it again"
        ) from error
    except (OverflowError, UnicodeError) as error:
        raise StoreError(f"this cannot be kept in {path}: {error}") from error


@contextmanager
def transaction(connection: sqlite3.Connection, begin: str = "BEGIN IMMEDIATE") -> Iterator[None]:
    """Everything within happens, or nothing of it does."""
    if isinstance(connection, BoundedConnection):
        connection.renew()
    connection.execute(begin)
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        raise


def database_size(connection: sqlite3.Connection) -> int:
    """How many bytes there are in the database, so that nothing in it can be longer."""
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    (page_size,) = connection.execute("PRAGMA page_size").fetchone()
    return int(pages) * int(page_size)


def _connection(path: Path, options: str) -> sqlite3.Connection:
    with told(path):
        connection = sqlite3.connect(
            f"file:{quote(str(path.absolute()))}?{options}",
            uri=True,
            timeout=BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
            factory=BoundedConnection,
        )
    connection.bound(path)
    connection.execute("PRAGMA trusted_schema = OFF")  # no function with effects in what a schema says
    connection.text_factory = bytes  # a text that was damaged is not a reason to fail before its checksum is looked at
    return connection


def _demand_ours(path: Path) -> None:
    """Look at the file without locks, journals or recovery: what is not ours is not even begun to be read properly."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise StoreError(f"{path} is not a regular file, so it cannot hold runs; name another path")
    try:
        with closing(_connection(path, "mode=ro&immutable=1")) as connection:
            connection.execute("PRAGMA writable_schema = ON")  # else a file that a checkpoint is growing is refused
            (application,) = connection.execute("PRAGMA application_id").fetchone()
    except sqlite3.Error:
        application = None
    if application != APPLICATION:
        raise StoreError(f"{path} is not a database of loopkernel. Nothing was changed; name another path")


def _has_content(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


def _demand_own_files(path: Path) -> None:
    """Raises StoreError where a file that SQLite would write beside the database is a file of another name, too."""
    for beside in (path.with_name(path.name + each) for each in JOURNALS):
        try:
            found = beside.lstat()
        except FileNotFoundError:
            continue
        if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
            raise StoreError(
                f"{beside} is a link, or no regular file, so nothing is written there. Nothing was changed: look where "
                "it leads, and remove it, or name another path"
            )


def _demand_schema(connection: sqlite3.Connection, path: Path) -> int:
    """The version of the schema, which is as that version has it. Raises StoreError."""
    with transaction(connection, "BEGIN"):  # else it may be upgraded between the two looks
        version = _version(connection, path)
        demand_schema(connection, path, SCHEMA[:version])
        return version


def _version(connection: sqlite3.Connection, path: Path) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if not isinstance(version, int) or not 0 <= version <= len(SCHEMA):
        raise StoreError(
            f"{path} was written by a newer loopkernel (version {version} of its schema, and this one knows versions "
            f"up to {len(SCHEMA)}). Nothing was changed: use that loopkernel, or name another path"
        )
    return version


def _upgrade(connection: sqlite3.Connection, path: Path) -> None:
    """Take the missing steps, all of them or none."""
    with transaction(connection):
        for step in SCHEMA[_version(connection, path) :]:
            for statement in step:
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute(f"PRAGMA user_version = {len(SCHEMA)}")

"""Many runs in one SQLite file, each with one writer; several processes may write different runs at once.

A record is a row: the number of its run, its own number, its text, and a digest of the text and the digest before it.
So no row can be changed, lost, moved or added without the rest of its run showing it. A durable append is a commit with
one sync (write-ahead log, `synchronous = FULL`), which covers all earlier ones; any other is a commit without a sync.

That there is one writer a run is held twice. A lock on a file beside the database refuses a second one at once. And
each writer has a number of its own, the epoch, which every transaction compares with the one in the database: so a
writer whose lock file was deleted while it stood still writes nothing any more.
"""

import os
import sqlite3
import threading
from collections.abc import Hashable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from weakref import WeakValueDictionary

from attrs import define
from loopkernel.data.states import State
from loopkernel.later_typing import override
from loopkernel.replaying import LogRecord

from loopkernel_adapters.blocking_ports import BlockingRuns, BlockingStore
from loopkernel_adapters.ports import (
    NoSuchRun,
    Restored,
    RunEntry,
    RunPage,
    StoreCorrupt,
    StoreError,
    StoreLocked,
    is_of_these_rules,
)
from loopkernel_adapters.stores.database import close_untouched, connect, connect_still, make, told, transaction
from loopkernel_adapters.stores.durable_files import make_folder
from loopkernel_adapters.stores.run_locks import RunLock, lock_folder, make_lock_folder
from loopkernel_adapters.stores.run_rows import RunRows
from loopkernel_adapters.stores.seals import Mark, Seals
from loopkernel_adapters.stores.snapshots import snapshot_of

# --- reading ---------------------------------------------------------------------------------------------
# One instant of it, beside whoever writes; and as it lies there, where it is read-only.
# SQLite reads a write-ahead log only where it may write a file beside it. So of a database that may not be written, the
# file alone is read, which is all of it as long as there is no such log; and that nobody has written it meanwhile is
# looked after here.

READ = "BEGIN"
_UNWRITABLE = ("SQLITE_READONLY", "SQLITE_CANTOPEN")


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that sees one and the same instant, takes no lock of a writer, and is let go of.

    Raises what `connect` raises, and StoreError where the latest records can only be read by who may write, too.
    """
    try:
        connection = connect(path, reading=True)
    except StoreError as error:
        if not getattr(error.__cause__, "sqlite_errorname", "").startswith(_UNWRITABLE):
            raise
    else:
        with closing(connection), told(path), transaction(connection, READ):
            yield connection
        return
    with _unchanged(path), closing(connect_still(path)) as connection, told(path), transaction(connection, READ):
        yield connection


@contextmanager
def _unchanged(path: Path) -> Iterator[None]:
    """Raises StoreError where there is a write-ahead log, StoreLocked where the file is changed within."""
    log = path.with_name(f"{path.name}-wal")
    if log.exists() and log.stat().st_size:
        raise StoreError(
            f"{path} may not be written by you, and its latest records are in {log.name}, which can only be read where "
            "the folder may be written: copy both files into a folder of your own, and name the copy"
        )
    before = _stamp(path)
    try:
        yield
    except StoreCorrupt as error:
        if _stamp(path) == before:
            raise
        raise _written_meanwhile(path) from error
    if _stamp(path) != before:
        raise _written_meanwhile(path)


def _stamp(path: Path) -> tuple[int, int, int]:
    found = path.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns


def _written_meanwhile(path: Path) -> StoreLocked:
    return StoreLocked(f"{path} was written while it was read, and you may not write it: try again, or read a copy")


# --- runs, opened and written ----------------------------------------------------------------------------

FAILED_SYNC = "SQLITE_IOERR_FSYNC"
LASTING, PASSING = "PRAGMA synchronous = FULL", "PRAGMA synchronous = NORMAL"  # a commit with a sync, and one without


class SqliteRuns(BlockingRuns):
    """The runs in the database at `path`, which is made, for its owner only, when the first of them is opened.

    `seals` are those of the user who runs this, if no others are given. Raises StoreError when something else lies
    there, or the database of a newer release.
    """

    def __init__(self, path: Path | str, seals: Seals | None = None) -> None:
        self._seals = Seals.of_user() if seals is None else seals
        self._path = Path(path).resolve()  # two names of one file shall lead to the same locks
        if self._path.exists():
            with reading(self._path):
                pass

    @override
    def open(self, run: str) -> "SqliteStore":
        make_folder(self._path.parent)
        make(self._path)
        return SqliteStore(self._path, run, self._seals)

    @override
    def read(self, run: str) -> tuple[LogRecord, ...]:
        if self._path.exists():
            with reading(self._path) as connection:
                rows = RunRows(connection, self._path, run, self._seals)
                if rows.find():
                    return rows.all_records()
        raise self._no_such_run(run)

    @override
    def doubt(self, run: str) -> str | None:
        if self._path.exists():
            with reading(self._path) as connection:
                rows = RunRows(connection, self._path, run, self._seals)
                if rows.find():
                    return rows.doubt()
        raise self._no_such_run(run)

    def _no_such_run(self, run: str) -> NoSuchRun:
        return NoSuchRun(f"there is no run {run!r} in {self._path}; list those that are there")

    @override
    def entries(self) -> tuple[RunEntry, ...]:
        if not self._path.exists():
            return ()
        with reading(self._path) as connection:
            found = connection.execute(
                "SELECT run, records, first_ms, last_ms FROM runs WHERE records > 0 ORDER BY last_ms, id"
            )
            return tuple(entry for row in found if (entry := _entry(*row)) is not None)

    @override
    def latest(self, most: int | None) -> RunPage:
        if not self._path.exists():
            return RunPage(entries=(), total=0)
        listed = "FROM runs WHERE records > 0 AND instr(run, '/') = 0"
        with reading(self._path) as connection:
            (total,) = connection.execute(f"SELECT count(*) {listed}").fetchone()
            found = connection.execute(
                f"SELECT run, records, first_ms, last_ms {listed} ORDER BY last_ms DESC, id DESC LIMIT ?",
                (-1 if most is None else most,),
            )
            entries = [entry for row in found if (entry := _entry(*row)) is not None]
            return RunPage(entries=tuple(reversed(entries)), total=total)

    @override
    def close(self) -> None:
        """There is nothing to let go of: a connection lives as long as one store, or one reading."""


@define(eq=False)
class SharedLog:
    """The write-ahead log that the open stores of one database share; gone when all of them are closed.

    Once a sync of it has failed, the system may have dropped what it was to write, and calls the next sync a success.
    So nothing more is written behind that, whoever asked for the sync.
    """

    failed: bool = False

    def demand_whole(self, path: Path) -> None:
        """Raises StoreError where a sync has failed."""
        if self.failed:
            raise StoreError(
                f"a sync of {path} failed, so what its last writes have left on the disk is not known: look after the "
                "disk, close all runs of this database, and open them again, which checks them"
            )


_SHARED_LOGS: WeakValueDictionary[Hashable, SharedLog] = WeakValueDictionary()
_SHARED_LOGS_GUARD = threading.Lock()


def shared_log(sync_key: Hashable) -> SharedLog:
    """The one that all stores of that key share which are open in this process."""
    with _SHARED_LOGS_GUARD:
        return _SHARED_LOGS.setdefault(sync_key, SharedLog())


class SqliteStore(BlockingStore):
    """The log of one run in a database, which `SqliteRuns.open` opens for its one writer."""

    def __init__(self, path: Path, run: str, seals: Seals) -> None:
        self._path = path
        self._seals = seals
        self._vouched = False
        self._mark: Mark | None = None
        self._owner = os.getpid()
        self._broken = False
        self._unsynced = False
        self._lock: RunLock | None = None
        connection = connect(path)
        self._connection: sqlite3.Connection | None = connection
        self._shared = SharedLog()
        try:
            self._file = path.stat()
            self._shared = shared_log(self.sync_key)
            with told(path):
                self._rows = rows = RunRows(connection, path, run, seals)
                connection.execute(PASSING)  # the first durable append makes these rows durable too
                with transaction(connection, READ):  # else who begins the run meanwhile makes it look damaged
                    found = rows.find()
                if not found:
                    with self._transaction(connection):
                        rows.add()
                folder = lock_folder(path)
                make_lock_folder(folder)
                self._lock = RunLock(folder / f"{rows.number}.lock", run)
                with self._transaction(connection):
                    self._epoch = rows.take_over()
                connection.execute(LASTING)
        except BaseException:
            self.close()
            raise

    @override
    def load(self) -> tuple[LogRecord, ...]:
        with self._present() as rows:
            return rows.all_records()

    @override
    def restore(self) -> Restored:
        with self._present() as rows:
            snapshot, doubt = rows.snapshot(), rows.doubt()
            state = None if snapshot is None else snapshot.state()
            if snapshot is None or state is None:
                return Restored(records=rows.all_records(), doubt=doubt)
            if doubt is not None and is_of_these_rules(records := rows.all_records()):
                return Restored(records=records, doubt=doubt)  # the state may be any
            behind = rows.records_behind(snapshot)
            return Restored(state=state, rules_version=snapshot.rules_version, records=behind, doubt=doubt)

    def vouch(self) -> None:
        """See `Sealing`."""
        self._vouched = True

    @override
    def save_snapshot(self, state: State) -> None:
        connection = self._demand_writable()
        snapshot = snapshot_of(state, records=self._rows.records, digest=self._rows.digest.hex())
        with told(self._path), self._writing(connection, PASSING):  # it is worth no sync
            self._rows.keep(snapshot, vouched=self._vouched)

    @override
    def append(self, records: Sequence[LogRecord], durable: bool) -> None:
        connection = self._demand_writable()
        self._broken = True  # until all of it is done: after a failure nobody knows what the file holds
        with told(self._path), self._writing(connection, LASTING if durable else PASSING):
            count, digest = self._rows.add_records(records, vouched=self._vouched)
            if durable and self._unsynced and not records:
                self._rows.touch()
        self._rows.records, self._rows.digest = count, digest
        self._unsynced = not durable
        self._broken = False
        if self._vouched and count and self._mark is None:
            with told(self._path):
                self._mark = self._rows.mark()
        if durable:
            self._note_mark()

    def _note_mark(self) -> None:
        """How many records are durable is noted beside the secret, if the run is sealed.

        Others may be lost, and what is left of the run is then not an older copy of it.
        """
        if self._mark is not None:
            self._mark.note(self._rows.records)

    @property
    def sync_key(self) -> Hashable:
        """All that was committed to one database is in one write-ahead log, which a sync makes durable."""
        return SqliteStore, self._file.st_dev, self._file.st_ino

    def sync(self) -> None:
        """See `SharesSyncs`. Whose run it is, and who writes it, makes no difference to a sync."""
        connection = self._demand_writable()
        with told(self._path), self._transaction(connection):
            self._rows.touch()

    def sync_ended(self, done: bool) -> None:
        """See `SharesSyncs`."""
        self._unsynced = not done
        if done:
            self._note_mark()
        else:
            self._broken = self._shared.failed = True

    @override
    def close(self) -> None:
        connection = self._connection
        if self._mark is not None:
            self._mark.close()
        try:
            if connection is not None and self._unsynced and not self._broken and self._owner == os.getpid():
                self.append((), durable=True)
        finally:
            self._connection = None
            try:
                if connection is not None and (self._broken or self._shared.failed):
                    close_untouched(connection, self._path)
                elif connection is not None:
                    connection.close()
            finally:
                self._shared = SharedLog()
                if self._lock is not None:
                    self._lock.release()

    @contextmanager
    def _present(self) -> Iterator[RunRows]:
        """The rows as they are now, whoever wrote them."""
        connection = self._demand_open()
        with told(self._path), transaction(connection, READ):
            rows = RunRows(connection, self._path, self._rows.run, self._seals)
            if not rows.find():
                raise StoreError(f"run {self._rows.run!r} was removed from {self._path} while it was open")
            yield rows

    @contextmanager
    def _writing(self, connection: sqlite3.Connection, mode: str) -> Iterator[None]:
        """A transaction of the one writer, and of nobody who was it once."""
        if not os.path.samestat(self._file, self._path.stat()):
            raise StoreError(f"{self._path} was replaced by another file while it was open; open the run again")
        if self._lock is not None:
            self._lock.demand_held()
        if mode != LASTING:
            connection.execute(mode)
        try:
            with self._transaction(connection):
                self._rows.demand_epoch(self._epoch)
                yield
        finally:
            if mode != LASTING:
                connection.execute(LASTING)

    @contextmanager
    def _transaction(self, connection: sqlite3.Connection) -> Iterator[None]:
        """A transaction that nothing which may be lost lies before. If its own sync fails, all others are to know."""
        try:
            with transaction(connection):
                self._shared.demand_whole(self._path)
                yield
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorname", "") == FAILED_SYNC:
                self._shared.failed = True
            raise

    def _demand_open(self) -> sqlite3.Connection:
        if self._connection is None:
            raise StoreError(f"run {self._rows.run!r} of {self._path} is closed; open it again to go on")
        return self._connection

    def _demand_writable(self) -> sqlite3.Connection:
        connection = self._demand_open()
        if self._broken:
            raise StoreError(
                f"an earlier write to run {self._rows.run!r} of {self._path} failed, so what it holds is not known; "
                "open the run again, which checks it"
            )
        if self._owner != os.getpid():
            raise StoreError(
                f"run {self._rows.run!r} of {self._path} was opened by the process that this one was forked from, "
                "which writes it"
            )
        return connection


def _entry(run: object, records: object, first_ms: object, last_ms: object) -> RunEntry | None:
    """A row of the list; None where it is damaged, which reading the run will say."""
    if not (isinstance(run, bytes) and type(records) is int and type(first_ms) is int and type(last_ms) is int):
        return None
    return RunEntry(run=run.decode("utf-8", "replace"), records=records, first_ms=first_ms, last_ms=last_ms)

"""Reading the database of runs: one instant of it, beside whoever writes; and as it lies there, where it is read-only.

SQLite reads a write-ahead log only where it may write a file beside it. So of a database that may not be written, the
file alone is read, which is all of it as long as there is no such log; and that nobody has written it meanwhile is
looked after here.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from loopkernel_adapters.ports import StoreCorrupt, StoreError, StoreLocked
from loopkernel_adapters.stores.database import connect, connect_still, told, transaction

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

"""The rows of one run in a SQLite database: found, checked, read and added. Whoever calls holds a transaction."""

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

from attrs import evolve
from loopkernel.replaying import LogRecord

from loopkernel_adapters.ports import StoreError
from loopkernel_adapters.stores.database import database_size
from loopkernel_adapters.stores.record_chain import (
    DatabaseCorrupt,
    chained,
    checked_digest,
    checked_records,
    demand_count,
    origin,
    row_time,
    sealed_ending,
)
from loopkernel_adapters.stores.seals import OLDER, Mark, Seals
from loopkernel_adapters.stores.snapshots import Snapshot, opened_content, sealed_content


class RunRows:
    """One run of a database. `number` stands for it in all tables; `records` and `digest` are where it ends."""

    def __init__(self, connection: sqlite3.Connection, path: Path, run: str, seals: Seals) -> None:
        self._connection = connection
        self._source = f"{path}, run {run!r}"
        self._name = run.encode("utf-8")  # a name that no text can hold is refused, as UnicodeEncodeError
        self._seals = seals
        self._origin = origin(self._name)
        self.run = run
        self.number = 0
        self.records = 0
        self.digest = self._origin

    def find(self) -> bool:
        """Look the run up; False where it is not there. Raises DatabaseCorrupt."""
        found = self._connection.execute("SELECT id FROM runs WHERE run = ?", (self.run,)).fetchone()
        if found is None:
            self._demand_absent()
            return False
        row = self._connection.execute("SELECT run, records FROM runs WHERE id = ?", found).fetchone()
        if row is None or row[0] != self._name or not isinstance(row[1], int):
            raise self._corrupt(0, "the list of runs is damaged")
        (self.number,) = found
        self.records = row[1]
        return True

    def add(self) -> None:
        """Enter the run, without records, unless it is there."""
        if not self.find():
            self._connection.execute(
                "INSERT INTO runs (run, epoch, syncs, records, first_ms, last_ms) VALUES (?, 0, 0, 0, 0, 0)",
                (self.run,),
            )
            self.find()

    def take_over(self) -> int:
        """Begin to write behind the last record: from now on no writer before this one can. The number of this one."""
        if not self.find():
            raise StoreError(f"{self._source} was removed while it was opened; open it again")
        highest, count = self._connection.execute(
            "SELECT max(n), ? FROM records WHERE run = ?", (self.records, self.number)
        ).fetchone()
        demand_count(self._source, count, highest or 0)
        if self.records:
            self.digest = self._digest_of(self.records)
        self._connection.execute("UPDATE runs SET epoch = epoch + 1 WHERE id = ?", (self.number,))
        return self._epoch()

    def demand_epoch(self, epoch: int) -> None:
        """Raises StoreError where the run was opened by another writer since, or was written by anyone else."""
        row = self._connection.execute("SELECT epoch, records FROM runs WHERE id = ?", (self.number,)).fetchone()
        if row != (epoch, self.records):
            raise StoreError(
                f"{self._source} was opened by another writer, so this one is fenced off and writes nothing more; "
                "open the run again when the other one is done"
            )

    def add_records(self, records: Sequence[LogRecord], *, vouched: bool) -> tuple[int, bytes]:
        """Add the records at the end, sealed if they are `vouched` for. How many there are then, the last's digest."""
        rows = [(self.number, *row) for row in chained(records, self.records, self.digest)]
        digest = rows[-1][2] if rows else self.digest
        if rows:
            self._connection.executemany("INSERT INTO records (run, n, digest, text) VALUES (?, ?, ?, ?)", rows)
            self._connection.execute(
                "UPDATE runs SET first_ms = CASE records WHEN 0 THEN ? ELSE first_ms END, last_ms = ?, records = ?, "
                "seal = ? WHERE id = ?",
                (
                    row_time(records[0]),
                    row_time(records[-1]),
                    self.records + len(rows),
                    self._seals.seal(self._sealed_content(self.records + len(rows), digest)) if vouched else None,
                    self.number,
                ),
            )
        return self.records + len(rows), digest

    def doubt(self) -> str | None:
        """Why the run is not believed (see `Restored.doubt`); None: it is sealed, or empty."""
        if not self.records:
            return None
        row = self._connection.execute("SELECT seal FROM runs WHERE id = ?", (self.number,)).fetchone()
        seal = row[0] if row is not None and isinstance(row[0], bytes) else None
        doubt = self._seals.doubt(seal, self._sealed_content(self.records, self._digest_of(self.records)))
        return doubt or (OLDER if self.mark().read() > self.records else None)

    def mark(self) -> Mark:
        """The mark of the run, by its name and its first record, which is there."""
        return self._seals.mark(self._name + b"\0" + self._digest_of(1))

    def _sealed_content(self, records: int, digest: bytes) -> bytes:
        """What the seal is made of: the last digest covers all records and the name of the run."""
        return sealed_ending(b"sqlite", records, digest)

    def touch(self) -> None:
        """Change something, so that the commit syncs: a commit of nothing does not.

        In any run that is there: this one may have been removed, and others wait for the sync. Without runs there is
        nothing to sync.
        """
        self._connection.execute("UPDATE runs SET syncs = syncs + 1 WHERE id = (SELECT min(id) FROM runs)")

    def all_records(self) -> tuple[LogRecord, ...]:
        """Every record. Raises DatabaseCorrupt at the first that cannot be trusted."""
        return self._records_behind(0, self._origin)

    def records_behind(self, snapshot: Snapshot) -> tuple[LogRecord, ...]:
        """The records behind a snapshot that fits."""
        return self._records_behind(snapshot.records, bytes.fromhex(snapshot.digest))

    def snapshot(self) -> Snapshot | None:
        """The snapshot of the run; None where there is none that can be read and that fits the records."""
        try:
            row = self._connection.execute("SELECT snapshot FROM snapshots WHERE run = ?", (self.number,)).fetchone()
            content = row[0] if row is not None and isinstance(row[0], bytes) else b""
            snapshot = opened_content(content, self._seals, doubted=self.doubt() is not None)
            if snapshot is None or not 0 < snapshot.records <= self.records:
                return None
            fits = self._digest_of(snapshot.records).hex() == snapshot.digest
            return evolve(snapshot, size=database_size(self._connection)) if fits else None
        except (sqlite3.DatabaseError, DatabaseCorrupt):
            return None  # if more is damaged than the snapshot, reading the records will say so

    def keep(self, snapshot: Snapshot, *, vouched: bool) -> None:
        """Put a snapshot in the place of the one before it, sealed where it is `vouched` for."""
        content = (self.number, sealed_content(snapshot, self._seals if vouched else None))
        self._connection.execute("INSERT OR REPLACE INTO snapshots (run, snapshot) VALUES (?, ?)", content)

    def _records_behind(self, number: int, digest: bytes) -> tuple[LogRecord, ...]:
        rows = self._rows_behind(number)
        return checked_records(rows, self._source, behind=number, digest=digest, count=self.records)

    def _rows_behind(self, number: int) -> Iterator[tuple[object, object, object]]:
        """Numbers, digests and texts, as they are found: nothing vouches for their types."""
        return self._connection.execute(
            "SELECT n, digest, text FROM records WHERE run = ? AND n > ? ORDER BY n", (self.number, number)
        )

    def _digest_of(self, number: int) -> bytes:
        row = self._connection.execute(
            "SELECT digest FROM records WHERE run = ? AND n = ?", (self.number, number)
        ).fetchone()
        return checked_digest(None if row is None else row[0], self._source, number)

    def _epoch(self) -> int:
        (epoch,) = self._connection.execute("SELECT epoch FROM runs WHERE id = ?", (self.number,)).fetchone()
        if not isinstance(epoch, int):
            raise self._corrupt(0, "the list of runs is damaged")
        return epoch

    def _demand_absent(self) -> None:
        """Nothing by that name is in the index; see that this is not because the index, or the list, is damaged."""
        names = self._connection.execute("SELECT run FROM runs NOT INDEXED WHERE +run = ?", (self.run,)).fetchall()
        (listed,) = self._connection.execute("SELECT max(id) FROM runs").fetchone()
        (recorded,) = self._connection.execute("SELECT max(run) FROM records").fetchone()
        if names or (recorded or 0) > (listed or 0):
            raise self._corrupt(0, "the list of runs is damaged")

    def _corrupt(self, number: int, problem: str) -> DatabaseCorrupt:
        return DatabaseCorrupt(self._source, number, 0, problem)

"""The rows of one run in a database: found, checked, read and added. Whoever calls holds a transaction.

The digest of a record is the BLAKE2b of the digest before it, its number, a colon and its text; that before the first
is made of the name of the run. It finds damage, not forgery.
"""

import hashlib
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

from attrs import evolve
from loopkernel.codec import record_from_text, record_to_text
from loopkernel.data.errors import CodecError
from loopkernel.replaying import LogRecord

from loopkernel_adapters.ports import StoreError
from loopkernel_adapters.stores.database import DatabaseCorrupt, database_size
from loopkernel_adapters.stores.seals import OLDER, Mark, Seals
from loopkernel_adapters.stores.snapshots import Snapshot, opened_content, paused_collection, sealed_content

DIGEST_SIZE = 16  # bytes
HIGHEST_TIME = 2**63 - 1  # what a row can hold


class RunRows:
    """One run of a database. `number` stands for it in all tables; `records` and `digest` are where it ends."""

    def __init__(self, connection: sqlite3.Connection, path: Path, run: str, seals: Seals) -> None:
        self._connection = connection
        self._source = f"{path}, run {run!r}"
        self._name = run.encode("utf-8")  # a name that no text can hold is refused, as UnicodeEncodeError
        self._seals = seals
        self._origin = _digest(b"", 0, self._name)
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
        if (highest or 0) != count:
            raise self._corrupt(
                min(highest or 0, count) + 1, f"{count} records were written, and the last is {highest}"
            )
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
        rows: list[tuple[int, int, bytes, str]] = []
        digest = self.digest
        for number, record in enumerate(records, start=self.records + 1):
            text = record_to_text(record)
            digest = _digest(digest, number, text.encode("ascii"))
            rows.append((self.number, number, digest, text))
        if rows:
            self._connection.executemany("INSERT INTO records (run, n, digest, text) VALUES (?, ?, ?, ?)", rows)
            self._connection.execute(
                "UPDATE runs SET first_ms = CASE records WHEN 0 THEN ? ELSE first_ms END, last_ms = ?, records = ?, "
                "seal = ? WHERE id = ?",
                (
                    _time(records[0]),
                    _time(records[-1]),
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
        return b"sqlite\0%d:%b" % (records, digest)

    def touch(self) -> None:
        """Change something, so that the commit syncs: a commit of nothing does not. Raises StoreError."""
        changed = self._connection.execute("UPDATE runs SET syncs = syncs + 1 WHERE id = ?", (self.number,)).rowcount
        if changed != 1:
            raise StoreError(f"{self._source} was removed while it was open; open it again")

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
        records: list[LogRecord] = []
        with paused_collection():
            for found_number, found_digest, text in self._rows_behind(number):
                number += 1
                if found_number != number:
                    raise self._corrupt(number, f"this is record {found_number}, and record {number} belongs here")
                if not isinstance(text, bytes) or (digest := _digest(digest, number, text)) != found_digest:
                    raise self._corrupt(number, "the digest does not fit the record and those before it")
                records.append(self._parsed(number, text))
        if number != self.records:
            problem = f"{self.records} records were written, and {number} are there"
            raise self._corrupt(min(number, self.records) + 1, problem)
        return tuple(records)

    def _rows_behind(self, number: int) -> Iterator[tuple[object, object, object]]:
        """Numbers, digests and texts, as they are found: nothing vouches for their types."""
        return self._connection.execute(
            "SELECT n, digest, text FROM records WHERE run = ? AND n > ? ORDER BY n", (self.number, number)
        )

    def _parsed(self, number: int, text: bytes) -> LogRecord:
        try:
            return record_from_text(text.decode("ascii"))
        except (CodecError, UnicodeDecodeError) as error:
            problem = f"the record is whole, but this version cannot read it: {error}"
            raise self._corrupt(number, problem) from error

    def _digest_of(self, number: int) -> bytes:
        row = self._connection.execute(
            "SELECT digest FROM records WHERE run = ? AND n = ?", (self.number, number)
        ).fetchone()
        if row is None or not isinstance(row[0], bytes) or len(row[0]) != DIGEST_SIZE:
            raise self._corrupt(number, "the record is missing, or its digest is damaged")
        return row[0]

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


def _digest(before: bytes, number: int, text: bytes) -> bytes:
    return hashlib.blake2b(b"%b%d:%b" % (before, number, text), digest_size=DIGEST_SIZE).digest()


def _time(record: LogRecord) -> int:
    """The time for a list of runs: the record itself keeps any number."""
    return max(-HIGHEST_TIME, min(record.now_ms, HIGHEST_TIME))

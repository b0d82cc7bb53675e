"""The rows of one run in a PostgreSQL database, read and checked. Nothing here holds a lease or writes.

A run is only ever added to. So what its row counted at one instant is whole, however much is added behind it meanwhile.
"""

import asyncio
from uuid import UUID

from attrs import evolve, frozen
from loopkernel.replaying import LogRecord

from loopkernel_adapters.ports import Restored, is_of_these_rules
from loopkernel_adapters.stores.postgres_connections import Connection
from loopkernel_adapters.stores.record_chain import (
    DatabaseCorrupt,
    checked_digest,
    checked_records,
    demand_count,
    origin,
    sealed_ending,
)
from loopkernel_adapters.stores.seals import OLDER, Mark, Seals
from loopkernel_adapters.stores.snapshots import Snapshot, opened_content

FIND = """
SELECT id, identity, records, bytes, seal,
    (SELECT digest FROM records WHERE run = runs.id AND n = 1),
    (SELECT digest FROM records WHERE run = runs.id AND n = runs.records),
    (SELECT max(n) FROM records WHERE run = runs.id)
FROM runs WHERE run = %s"""
RECORDS_BEHIND = "SELECT n, digest, text FROM records WHERE run = %s AND n > %s AND n <= %s ORDER BY n"
SNAPSHOT = "SELECT content FROM snapshots WHERE run = %s"
DIGEST = "SELECT digest FROM records WHERE run = %s AND n = %s"


@frozen(kw_only=True)
class RunRow:
    """What the row of a run says, and the digests of its first and last record (before any: that of its name)."""

    number: int
    identity: UUID
    records: int
    size: int
    seal: bytes | None
    first_digest: bytes
    digest: bytes


class RunRows:
    """One run of a database. `source` is how it is called in words."""

    def __init__(self, run: str, kept: str, place: str, seals: Seals) -> None:
        self.run = run
        self.kept = kept
        self.source = f"{place}, run {run!r}"
        self._name = run.encode("utf-8")
        self._seals = seals

    async def find(self, connection: Connection) -> RunRow | None:
        """The run as it is now; None where it is not there. Raises DatabaseCorrupt."""
        cursor = connection.cursor(binary=True)
        found: tuple[object, ...] | None = await (await cursor.execute(FIND, (self.kept,))).fetchone()
        if found is None:
            return None
        number, identity, records, size, seal, first, last, highest = found
        if not (
            isinstance(number, int)
            and isinstance(identity, UUID)
            and isinstance(records, int)
            and isinstance(size, int)
            and records >= 0
        ):
            raise DatabaseCorrupt(self.source, 0, 0, "the list of runs is damaged")
        demand_count(self.source, records, highest if isinstance(highest, int) else 0)
        begun = origin(self._name)
        return RunRow(
            number=number,
            identity=identity,
            records=records,
            size=size,
            seal=seal if isinstance(seal, bytes) else None,
            first_digest=checked_digest(first, self.source, 1) if records else begun,
            digest=checked_digest(last, self.source, records) if records else begun,
        )

    async def all_records(self, connection: Connection, row: RunRow) -> tuple[LogRecord, ...]:
        """Every record. Raises DatabaseCorrupt at the first that cannot be trusted."""
        return await self._records_behind(connection, row, 0, origin(self._name))

    async def restored(self, connection: Connection, row: RunRow) -> Restored:
        """The snapshot, where one fits and can be believed, and the records behind it; or all records."""
        doubt = self.doubt(row)
        snapshot = await self._snapshot(connection, row, doubted=doubt is not None)
        state = None if snapshot is None else await asyncio.to_thread(snapshot.state)
        if snapshot is None or state is None:
            return Restored(records=await self.all_records(connection, row), doubt=doubt)
        if doubt is not None and is_of_these_rules(records := await self.all_records(connection, row)):
            return Restored(records=records, doubt=doubt)  # the state may be any
        behind = await self._records_behind(connection, row, snapshot.records, bytes.fromhex(snapshot.digest))
        return Restored(state=state, rules_version=snapshot.rules_version, records=behind, doubt=doubt)

    def doubt(self, row: RunRow) -> str | None:
        """Why the run is not believed (see `Restored.doubt`); None: it is sealed, or empty."""
        if not row.records:
            return None
        doubt = self._seals.doubt(row.seal, sealed_ending(b"postgres", row.records, row.digest))
        return doubt or (OLDER if self.mark(row.first_digest).read() > row.records else None)

    def mark(self, first_digest: bytes) -> Mark:
        """The mark of the run, by its name and its first record."""
        return self._seals.mark(self._name + b"\0" + first_digest)

    def seal(self, records: int, digest: bytes) -> bytes | None:
        """The seal of the run that ends so."""
        return self._seals.seal(sealed_ending(b"postgres", records, digest))

    async def _snapshot(self, connection: Connection, row: RunRow, *, doubted: bool) -> Snapshot | None:
        """The snapshot of the run; None where there is none that can be read and that fits the records."""
        cursor = connection.cursor(binary=True)
        found: tuple[object, ...] | None = await (await cursor.execute(SNAPSHOT, (row.number,))).fetchone()
        if found is None or not isinstance(found[0], bytes):
            return None
        snapshot = opened_content(found[0], self._seals, doubted=doubted)
        if snapshot is None or not 0 < snapshot.records <= row.records:
            return None
        found = await (await cursor.execute(DIGEST, (row.number, snapshot.records))).fetchone()
        if found is None or not isinstance(found[0], bytes) or found[0].hex() != snapshot.digest:
            return None
        return evolve(snapshot, size=row.size)

    async def _records_behind(
        self, connection: Connection, row: RunRow, behind: int, digest: bytes
    ) -> tuple[LogRecord, ...]:
        cursor = connection.cursor(binary=True)
        await cursor.execute(RECORDS_BEHIND, (row.number, behind, row.records))
        found: list[tuple[object, ...]] = await cursor.fetchall()
        rows = ((n, digest, text.encode("utf-8") if isinstance(text, str) else text) for n, digest, text in found)
        return await asyncio.to_thread(
            checked_records, rows, self.source, behind=behind, digest=digest, count=row.records
        )

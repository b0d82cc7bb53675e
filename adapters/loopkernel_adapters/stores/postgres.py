"""Many runs in a PostgreSQL database, written by workers on as many machines as there are. Needs the extra `postgres`.

Records are rows, each with a digest of its text and the digest before it, as in the SQLite store. That there is one
writer a run is held by a lease in its row (`postgres_leases.py`), and by each append, which takes place only where the
run is still held and ends where its writer left it (`postgres_appends.py`). What a fleet needs besides is in
`postgres_fleet.py`.
"""

import asyncio
import time

from loopkernel.data.deltas import Delta
from loopkernel.later_typing import override
from loopkernel.replaying import LogRecord

from loopkernel_adapters.fleet_ports import Input
from loopkernel_adapters.ports import NoSuchRun, RunEntry, RunPage, Runs, StoreCorrupt, StoreLocked
from loopkernel_adapters.stores.postgres_connections import Connection, Connections
from loopkernel_adapters.stores.postgres_fleet import FleetTables
from loopkernel_adapters.stores.postgres_inputs import Inputs
from loopkernel_adapters.stores.postgres_leases import Lease, Leases
from loopkernel_adapters.stores.postgres_names import id_of, kept_id
from loopkernel_adapters.stores.postgres_rows import RunRow, RunRows
from loopkernel_adapters.stores.postgres_store import PostgresStore
from loopkernel_adapters.stores.seals import Seals

SCHEMA = "loopkernel"
LEASE_SECONDS = 30.0
CONNECTIONS = 10
LOCKED_PAUSE_SECONDS = 0.1  # between two attempts to take what is held

LISTED = "SELECT run, records, first_ms, last_ms FROM runs WHERE records > 0"
ALL = f"{LISTED} ORDER BY last_ms, id"
LATEST = f"{LISTED} AND position('/' IN run) = 0 ORDER BY last_ms DESC, id DESC LIMIT %s"
TOTAL = "SELECT count(*) FROM runs WHERE records > 0 AND position('/' IN run) = 0"


class PostgresRuns(Runs):
    """The runs in the database that the DSN names, in tables of the given schema, which are made when they are needed.

    `seals` are those of the user who runs this, if no others are given; workers of several machines share one secret
    (`Seals.of_user(secret=...)`). A run that is open is held for `lease_seconds`, and longer as long as this process
    renews it. Used in one event loop. At most `connections` are open, one more while somebody waits for
    work, and one that renews what is held.
    """

    def __init__(
        self,
        dsn: str,
        *,
        schema: str = SCHEMA,
        seals: Seals | None = None,
        lease_seconds: float = LEASE_SECONDS,
        connections: int = CONNECTIONS,
    ) -> None:
        self._seals = Seals.of_user() if seals is None else seals
        self._connections = Connections(dsn, schema, connections, patience_seconds=lease_seconds)
        self._leases = Leases(self._connections, lease_seconds)
        self._fleet = FleetTables(self._connections, self._leases, schema)
        self._inputs = Inputs(self._connections, self._seals)

    # --- runs ---

    @override
    async def open(self, run: str) -> PostgresStore:
        rows = self._rows(run)
        lease = await self._taken(run, rows.kept)
        try:
            row = await self._found(rows)
        except StoreCorrupt:
            self._leases.forget(lease)  # so that no worker takes up at once what none can go on with
            raise
        except BaseException:
            await self._leases.release(lease)
            raise
        return PostgresStore(self._connections, self._leases, lease, rows, row, self._seals)

    async def _taken(self, run: str, kept: str) -> Lease:
        """The lease of the run. That of a sub-agent is waited for: whoever had it before has died, or is about to end.

        Else who takes up a run could find its sub-agents held for some moments more than the run itself.
        """
        deadline = time.monotonic() + self._leases.seconds
        while True:
            try:
                return await self._leases.take(run, kept)
            except StoreLocked:
                if "/" not in run or self._leases.holds(kept) or time.monotonic() > deadline:
                    raise
            await asyncio.sleep(LOCKED_PAUSE_SECONDS)

    @override
    async def read(self, run: str) -> tuple[LogRecord, ...]:
        rows = self._rows(run)

        async def records(connection: Connection) -> tuple[LogRecord, ...]:
            return await rows.all_records(connection, await self._row(connection, rows))

        return await self._connections.run(records)

    @override
    async def doubt(self, run: str) -> str | None:
        rows = self._rows(run)
        return rows.doubt(await self._found(rows))

    @override
    async def entries(self) -> tuple[RunEntry, ...]:
        async def listed(connection: Connection) -> tuple[RunEntry, ...]:
            return _entries(await (await connection.execute(ALL)).fetchall())

        return await self._connections.run(listed)

    @override
    async def latest(self, most: int | None) -> RunPage:
        async def listed(connection: Connection) -> RunPage:
            total = await (await connection.execute(TOTAL)).fetchone()
            found = await (await connection.execute(LATEST, (most,))).fetchall()
            return RunPage(entries=_entries(found[::-1]), total=0 if total is None else total[0])

        return await self._connections.run(listed)

    @override
    async def close(self) -> None:
        self._leases.stop()
        await self._fleet.close()
        await self._connections.close()

    # --- a fleet (see `fleet.ports.Fleet`) ---

    async def send(self, run: str, delta: Delta) -> int:
        """See `Fleet`."""
        return await self._inputs.send(run, delta)

    async def inbox(self, run: str) -> tuple[tuple[int, Input], ...]:
        """See `Fleet`."""
        return await self._inputs.inbox(run)

    async def inboxes_within(self, run: str) -> tuple[str, ...]:
        """See `Fleet`."""
        return await self._inputs.within(run)

    async def claim(self, most: int) -> tuple[str, ...]:
        """See `Fleet`."""
        return await self._fleet.claim(most)

    async def rest(self, run: str, wake_seconds: float | None, unfinished: bool) -> None:
        """See `Fleet`."""
        await self._leases.rest(run, kept_id(run), wake_seconds, unfinished)

    def holds(self, run: str) -> bool:
        """See `Fleet`."""
        return self._leases.holds(kept_id(run))

    async def lost(self) -> tuple[str, ...]:
        """See `Fleet`."""
        return tuple(map(id_of, await self._leases.over()))

    async def set_aside(self, run: str) -> None:
        """See `Fleet`."""
        await self._leases.set_aside(kept_id(run))

    async def wait_for_work(self, seconds: float) -> tuple[str, ...]:
        """See `Fleet`."""
        return await self._fleet.wait_for_work(seconds)

    def _rows(self, run: str) -> RunRows:
        return RunRows(run, kept_id(run), self._connections.place, self._seals)

    async def _found(self, rows: RunRows) -> RunRow:
        async def found(connection: Connection) -> RunRow:
            return await self._row(connection, rows)

        return await self._connections.run(found)

    async def _row(self, connection: Connection, rows: RunRows) -> RunRow:
        row = await rows.find(connection)
        if row is None:
            place = self._connections.place
            raise NoSuchRun(f"there is no run {rows.run!r} in {place}; list those that are there")
        return row


def _entries(rows: list[tuple[object, ...]]) -> tuple[RunEntry, ...]:
    """The rows of the list; those that are damaged are left to `read` to complain about."""
    return tuple(entry for row in rows if (entry := _entry(*row)) is not None)


def _entry(run: object, records: object, first_ms: object, last_ms: object) -> RunEntry | None:
    if not (
        isinstance(run, str) and isinstance(records, int) and isinstance(first_ms, int) and isinstance(last_ms, int)
    ):
        return None
    return RunEntry(run=id_of(run), records=records, first_ms=first_ms, last_ms=last_ms)

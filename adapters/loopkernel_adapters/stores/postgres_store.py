"""The log of one run in a PostgreSQL database, while its one writer holds it.

Appends are written in the order of their calls. Those that are called while one is on its way go together with the next
one, so a session waits for the disk as often as it must, and never holds a transaction open.
"""

import asyncio
import os
from collections.abc import Sequence

from attrs import frozen
from loopkernel.data.states import State
from loopkernel.later_typing import override
from loopkernel.replaying import LogRecord

from loopkernel_adapters.ports import Restored, Store, StoreError
from loopkernel_adapters.stores.postgres_appends import Append, Ending
from loopkernel_adapters.stores.postgres_connections import Connection, Connections
from loopkernel_adapters.stores.postgres_inputs import taken_mark
from loopkernel_adapters.stores.postgres_leases import Lease, Leases, lease_ended
from loopkernel_adapters.stores.postgres_rows import RunRow, RunRows
from loopkernel_adapters.stores.record_chain import chained, row_time
from loopkernel_adapters.stores.seals import Mark, Seals
from loopkernel_adapters.stores.snapshots import sealed_content, snapshot_of

KEEP = """
WITH mode AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true))
INSERT INTO snapshots (run, content) SELECT id, %(content)s FROM runs, mode
WHERE id = %(number)s AND epoch = %(epoch)s AND holder = %(holder)s AND lease_until > clock_timestamp()
ON CONFLICT (run) DO UPDATE SET content = EXCLUDED.content"""


@frozen(kw_only=True, eq=False)
class _Waiting:
    """An append that was called: its rows, and where the run ends behind them."""

    rows: Sequence[tuple[int, bytes, str]]
    times: Sequence[int]
    after: Ending
    taken: Sequence[int]
    durable: bool
    vouched: bool
    written: "asyncio.Future[None]"


class PostgresStore(Store):
    """The log of one run, which `PostgresRuns.open` opens for its one writer."""

    def __init__(
        self, connections: Connections, leases: Leases, lease: Lease, rows: RunRows, row: RunRow, seals: Seals
    ) -> None:
        self._connections = connections
        self._leases = leases
        self._lease = lease
        self._rows = rows
        self._seals = seals
        self._written = Ending(records=row.records, digest=row.digest, size=row.size)
        self._called = self._written  # where the run ends when all appends that were called are written
        self._first_digest = row.first_digest
        self._waiting: list[_Waiting] = []
        self._writing: asyncio.Task[None] | None = None
        self._vouched = False
        self._mark: Mark | None = None
        self._taken_mark = taken_mark(seals, rows.run, row.identity)
        self._highest_taken = 0
        self._owner = os.getpid()
        self._broken = False
        self._unsynced = False
        self._closed = False

    @override
    async def load(self) -> tuple[LogRecord, ...]:
        async def loaded(connection: Connection) -> tuple[LogRecord, ...]:
            return await self._rows.all_records(connection, await self._present(connection))

        self._demand_open()
        return await self._connections.run(loaded)

    @override
    async def restore(self) -> Restored:
        async def restored(connection: Connection) -> Restored:
            return await self._rows.restored(connection, await self._present(connection))

        self._demand_open()
        return await self._connections.run(restored)

    def vouch(self) -> None:
        """See `Sealing`."""
        self._vouched = True

    @override
    async def save_snapshot(self, state: State) -> None:
        self._demand_writable()
        end, seals = self._called, self._seals if self._vouched else None
        snapshot = await asyncio.to_thread(
            snapshot_of, state, records=end.records, digest=end.digest.hex(), size=end.size
        )
        await self._all_written()
        self._demand_writable()
        content = sealed_content(snapshot, seals)
        values = {
            "number": self._lease.number,
            "epoch": self._lease.epoch,
            "holder": self._lease.holder,
            "content": content,
        }

        async def kept(connection: Connection) -> None:
            if not (await connection.execute(KEEP, values)).rowcount:
                raise StoreError(f"{self._rows.source} is not held any more, so no snapshot of it was kept")

        await self._connections.run(kept)

    @override
    async def append(self, records: Sequence[LogRecord], durable: bool, taken: Sequence[int] = ()) -> None:
        self._demand_writable()
        if not records and not taken and not durable:
            return
        end = self._called
        try:
            rows = chained(records, end.records, end.digest)
        except BaseException:
            self._broken = True
            raise
        if rows:
            size = end.size + sum(len(text) for _, _, text in rows)
            self._called = Ending(records=rows[-1][0], digest=rows[-1][1], size=size)
        if not end.records and rows:
            self._first_digest = rows[0][1]
        waiting = _Waiting(
            rows=rows,
            times=[row_time(record) for record in records],
            after=self._called,
            taken=taken,
            durable=durable,
            vouched=self._vouched,
            written=asyncio.get_running_loop().create_future(),
        )
        self._waiting.append(waiting)
        if self._writing is None:
            self._writing = asyncio.create_task(self._write_all())
        await waiting.written

    @override
    async def close(self) -> None:
        if self._closed or self._owner != os.getpid():
            return
        self._closed = True
        await self._all_written()
        if self._mark is not None:
            self._mark.close()
        self._taken_mark.close()
        try:
            await self._leases.release(self._lease)
        except StoreError as error:
            if self._unsynced and not self._broken:
                raise StoreError(
                    f"{self._rows.source} was closed, and whether its last records would survive a loss of power is "
                    f"not known: {error}"
                ) from error

    async def _write_all(self) -> None:
        """Write what waits, all of it together, until nothing does. After a failure nothing more is written."""
        group: list[_Waiting] = []
        try:
            while self._waiting:
                group, self._waiting = self._waiting, []
                await self._write(group)
                for each in group:
                    if not each.written.done():
                        each.written.set_result(None)
        except BaseException as error:
            self._broken = True
            group, self._waiting = group + self._waiting, []
            for each in group:
                if each.written.done():
                    continue
                if isinstance(error, Exception):
                    each.written.set_exception(error)
                else:
                    each.written.cancel()
            if not isinstance(error, Exception):
                raise
        finally:
            self._writing = None

    async def _write(self, group: Sequence[_Waiting]) -> None:
        after = group[-1].after
        rows = [row for each in group for row in each.rows]
        taken = [number for each in group for number in each.taken]
        durable = any(each.durable for each in group)
        if not rows and not taken and not self._unsynced:
            return
        vouched = next((each.vouched for each in reversed(group) if each.rows), False)
        append = Append(
            source=self._rows.source,
            lease=self._lease,
            seconds=self._leases.seconds,
            before=self._written,
            after=after,
            rows=rows,
            times=[time for each in group for time in each.times],
            seal=self._rows.seal(after.records, after.digest) if vouched else None,
            taken=taken,
            durable=durable,
        )
        await self._connections.run(append.make)
        self._lease.was_renewed(append.sent_at)
        if not self._lease.lasts:  # the answer was too long on its way: somebody else may have the run by now
            raise lease_ended(self._rows.source, "what was to be written is kept")
        self._written = after
        self._unsynced = not durable
        self._lease.goes_on()
        self._highest_taken = max([self._highest_taken, *taken])
        if durable and self._highest_taken:
            self._taken_mark.note(self._highest_taken)
            self._highest_taken = 0
        if vouched and durable:  # a run that has lost what was not durable is not an older copy: no call began on that
            if self._mark is None:
                self._mark = self._rows.mark(self._first_digest)
            self._mark.note(after.records)

    async def _all_written(self) -> None:
        """Returns when nothing is on its way any more, whatever came of it."""
        if self._writing is not None:
            await asyncio.wait([self._writing])

    async def _present(self, connection: Connection) -> RunRow:
        """The run as it is now, whoever wrote it."""
        row = await self._rows.find(connection)
        if row is None:
            raise StoreError(f"{self._rows.source} was removed while it was open")
        return row

    def _demand_open(self) -> None:
        if self._closed:
            raise StoreError(f"{self._rows.source} is closed; open it again to go on")

    def _demand_writable(self) -> None:
        self._demand_open()
        if self._broken:
            raise StoreError(
                f"an earlier write to {self._rows.source} failed, so what it holds is not known; open the run again, "
                "which checks it"
            )
        if self._lease.is_lost:
            raise lease_ended(self._rows.source, "nothing more is written")
        if self._owner != os.getpid():
            raise StoreError(
                f"{self._rows.source} was opened by the process that this one was forked from, which writes it"
            )

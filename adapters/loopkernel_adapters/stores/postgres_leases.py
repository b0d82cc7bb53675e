"""Who holds a run: a lease in its row, with a number that counts the holders and an end by the server's clock.

A lease that has ended is over: nothing renews it, and whoever had it writes nothing more, also where nobody else has
taken the run meanwhile. So nobody has to ask whether a writer that stood still is one still.
"""

import asyncio
import os
import socket
from contextlib import suppress
from uuid import UUID, uuid4

from attrs import define

from loopkernel_adapters.ports import StoreError, StoreLocked
from loopkernel_adapters.stores.postgres_connections import Connection, Connections

BEATS = 3  # so often a lease is renewed before it would end
CHANNEL = "loopkernel"  # of the notifications, each of which names the schema and the run

ENTER = "INSERT INTO runs (run) VALUES (%s) ON CONFLICT DO NOTHING"
# An attempt that is made anew, since no answer came, finds its own holder.
TAKE = """
WITH before AS (SELECT id, unfinished FROM runs WHERE run = %(run)s FOR UPDATE)
UPDATE runs SET epoch = epoch + 1, holder = %(holder)s, owner = %(owner)s, unfinished = true,
    lease_until = clock_timestamp() + make_interval(secs => %(seconds)s)
FROM before
WHERE runs.id = before.id
    AND (runs.lease_until IS NULL OR runs.lease_until <= clock_timestamp() OR runs.holder = %(holder)s)
RETURNING runs.id, runs.epoch, before.unfinished"""
WHO = "SELECT owner, ceil(extract(epoch FROM lease_until - clock_timestamp()))::bigint FROM runs WHERE run = %s"
RENEW = """
UPDATE runs SET lease_until = clock_timestamp() + make_interval(secs => %(seconds)s)
FROM unnest(%(numbers)s::bigint[], %(epochs)s::bigint[]) AS held (id, epoch)
WHERE runs.id = held.id AND runs.epoch = held.epoch AND lease_until > clock_timestamp()"""
RELEASE = """
WITH released AS (
    UPDATE runs SET holder = NULL, owner = NULL, lease_until = NULL, unfinished = %(unfinished)s
    WHERE id = %(number)s AND epoch = %(epoch)s RETURNING id, run)
SELECT pg_notify(%(channel)s, current_schema() || ':' || run) FROM released
WHERE %(unfinished)s OR EXISTS (SELECT FROM inbox WHERE inbox.run = released.id)"""
REST = """
UPDATE runs SET wake_ms = %(wake_ms)s, unfinished = %(unfinished)s
WHERE id = %(number)s AND epoch = %(epoch)s AND lease_until > clock_timestamp()"""


@define(eq=False)
class Lease:
    """One holding of a run. `unfinished`: whether its holder, letting go now, leaves something to do."""

    kept: str
    number: int
    epoch: int
    unfinished: bool
    has_rested: bool = False

    def goes_on(self) -> None:
        """Something was written: what was said of a rest before does not hold any more."""
        if self.has_rested:
            self.has_rested = False
            self.unfinished = True


class Leases:
    """The leases of one `PostgresRuns`, which one task renews as long as there are any."""

    def __init__(self, connections: Connections, seconds: float) -> None:
        self.seconds = seconds
        self.owner = f"process {os.getpid()} on {socket.gethostname()}"
        self.claimed: dict[str, UUID] = {}  # taken by a claim, and not opened yet
        self._connections = connections
        self._held: dict[str, Lease] = {}
        self._beating: asyncio.Task[None] | None = None

    async def take(self, run: str, kept: str) -> Lease:
        """Hold the run, which is entered where it is new. Raises StoreLocked where somebody else does."""
        holder = self.claimed.pop(kept, None) or uuid4()

        async def taken(connection: Connection) -> Lease:
            await connection.execute(ENTER, (kept,))
            values = {"run": kept, "holder": holder, "owner": self.owner, "seconds": self.seconds}
            row: tuple[object, ...] | None = await (await connection.execute(TAKE, values)).fetchone()
            if row is None:
                row = await (await connection.execute(WHO, (kept,))).fetchone()
                who = "" if row is None or row[0] is None else f" ({row[0]}; the lease is for {row[1]} s more)"
                raise StoreLocked(
                    f"run {run!r} is open for writing elsewhere{who}; close the other session first, or wait until its "
                    "lease has ended"
                )
            number, epoch, unfinished = row
            if not (isinstance(number, int) and isinstance(epoch, int) and isinstance(unfinished, bool)):
                raise StoreError(
                    f"{self._connections.place} is not as loopkernel makes its tables; name another schema"
                )
            return Lease(kept, number, epoch, unfinished)

        lease = await self._connections.run(taken)
        self._held[kept] = lease
        if self._beating is None or self._beating.done():
            self._beating = asyncio.create_task(self._renew_them())
        return lease

    async def release(self, lease: Lease) -> None:
        """Let go, durably, with all that was written before. Nothing happens where somebody else holds the run."""
        self.forget(lease)
        values = {
            "number": lease.number,
            "epoch": lease.epoch,
            "unfinished": lease.unfinished,
            "channel": CHANNEL,
        }

        async def released(connection: Connection) -> None:
            await connection.execute(RELEASE, values)

        await self._connections.run(released)

    def forget(self, lease: Lease) -> None:
        """Renew the lease no more: it ends by itself."""
        if self._held.get(lease.kept) is lease:
            del self._held[lease.kept]
        if not self._held:
            self.stop()

    async def rest(self, run: str, kept: str, wake_ms: int | None, unfinished: bool) -> None:
        """Note what the holder knows when it lets go. Raises StoreError where it does not hold the run."""
        lease = self._held.get(kept)
        claimed = lease is None and kept in self.claimed
        if claimed:
            lease = await self.take(run, kept)
        if lease is None:
            raise StoreError(
                f"run {run!r} is not held here, so nothing is known of it; say it before its log is closed"
            )
        values = {"number": lease.number, "epoch": lease.epoch, "wake_ms": wake_ms, "unfinished": unfinished}

        async def rested(connection: Connection) -> int:
            return (await connection.execute(REST, values)).rowcount

        if not await self._connections.run(rested):
            raise StoreError(f"the lease of run {run!r} has ended, so another worker goes on with it")
        lease.unfinished, lease.has_rested = unfinished, True
        if claimed:
            await self.release(lease)

    def stop(self) -> None:
        """Renew nothing any more."""
        task, self._beating = self._beating, None
        if task is not None:
            task.cancel()

    async def _renew_them(self) -> None:
        while True:
            await asyncio.sleep(self.seconds / BEATS)
            with suppress(StoreError):  # a lease that could not be renewed has its append say so
                await self._connections.run(self._renew)

    async def _renew(self, connection: Connection) -> None:
        held = tuple(self._held.values())
        numbers, epochs = [lease.number for lease in held], [lease.epoch for lease in held]
        await connection.execute(RENEW, {"seconds": self.seconds, "numbers": numbers, "epochs": epochs})

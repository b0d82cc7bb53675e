"""Who holds a run: a lease in its row, with a number that counts the holders and an end by the server's clock.

A lease that has ended is over: nothing renews it, and whoever had it writes nothing more, also where nobody else has
taken the run meanwhile. So nobody has to ask whether a writer that stood still is one still.
"""

import asyncio
import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from math import inf
from time import monotonic
from uuid import UUID, uuid4

from attrs import define, frozen

from loopkernel_adapters.ports import StoreError, StoreLocked
from loopkernel_adapters.stores.postgres_connections import Connection, Connections

BEATS = 3  # so often a lease is renewed before it would end
LONGEST_REST_SECONDS = 100 * 366 * 86_400.0  # what is later than that is as late as that
LOCK_SHARE = 0.25  # of a beat: so long a renewal waits for a lock
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
WHO = """
SELECT owner, CASE WHEN isfinite(lease_until)
    THEN ceil(extract(epoch FROM lease_until - clock_timestamp()))::bigint END FROM runs WHERE run = %s"""
HELD = """
SELECT runs.id FROM runs JOIN unnest(%(numbers)s::bigint[], %(epochs)s::bigint[], %(holders)s::uuid[])
    AS mine (id, epoch, holder) USING (id, epoch, holder)
WHERE lease_until > clock_timestamp()"""
# A row that is locked is left out, so that it holds up no other; its lease has two beats more.
RENEW = f"""
WITH held AS ({HELD} FOR UPDATE OF runs SKIP LOCKED)
UPDATE runs SET lease_until = clock_timestamp() + make_interval(secs => %(seconds)s)
FROM held WHERE runs.id = held.id RETURNING runs.id"""
RELEASE = """
WITH released AS (
    UPDATE runs SET holder = NULL, owner = NULL, lease_until = NULL, unfinished = %(unfinished)s
    WHERE id = %(number)s AND epoch = %(epoch)s RETURNING id, run)
SELECT pg_notify(%(channel)s, current_schema() || ':' || run) FROM released
WHERE %(unfinished)s OR EXISTS (SELECT FROM inbox WHERE claims = released.id)"""
REST = """
UPDATE runs SET unfinished = %(unfinished)s,
    wake_ms = ((extract(epoch FROM clock_timestamp())::float8 + %(wake_seconds)s::float8) * 1000)::bigint
WHERE id = %(number)s AND epoch = %(epoch)s AND holder = %(holder)s AND lease_until > clock_timestamp()"""
# It has a lease and no holder, so nobody renews it.
SET_ASIDE = """
UPDATE runs SET epoch = epoch + 1, holder = NULL, owner = %(owner)s, unfinished = true,
    lease_until = clock_timestamp() + make_interval(secs => %(seconds)s)
WHERE run = %(run)s AND (lease_until IS NULL OR lease_until <= clock_timestamp() OR holder = %(holder)s)"""


@define(eq=False)
class Lease:
    """One holding of a run. `unfinished`: whether its holder, letting go now, leaves something to do.

    `renewed_at` is by the clock of this machine, before the statement was sent: it ends here before it does there.
    """

    kept: str
    number: int
    epoch: int
    holder: UUID
    seconds: float
    renewed_at: float
    unfinished: bool
    has_rested: bool = False
    is_lost: bool = False  # a renewal has found another holder there, or none
    is_told: bool = False  # whoever waits for the end of leases has heard of this one

    @property
    def lasts(self) -> bool:
        """Whether it does, by all that is known here."""
        return not self.is_lost and monotonic() - self.renewed_at < self.seconds

    def was_renewed(self, sent_at: float) -> None:
        """A statement that was sent then has renewed it."""
        self.renewed_at = max(self.renewed_at, sent_at)

    def goes_on(self) -> None:
        """Something was written: what was said of a rest before does not hold any more."""
        if self.has_rested:
            self.has_rested = False
            self.unfinished = True


@frozen
class Claim:
    """A run that was claimed, and not opened yet."""

    holder: UUID
    claimed_at: float


def lease_ended(source: str, what: str) -> StoreError:
    """That the lease is over, and what became of that which was to be written."""
    return StoreError(
        f"the lease of {source} has ended, since nothing renewed it in time, and {what}; open the run again to go on"
    )


class Leases:
    """The leases of one `PostgresRuns`, which one task renews as long as there are any."""

    def __init__(self, connections: Connections, seconds: float) -> None:
        self.seconds = seconds
        self.owner = f"process {os.getpid()} on {socket.gethostname()}"
        self._claims: dict[str, Claim] = {}
        self._connections = connections
        self._held: dict[str, Lease] = {}
        self._changed = asyncio.Event()  # there is another lease, or one was lost
        self._watched = False  # a task waits in `over`
        self._beating: asyncio.Task[None] | None = None

    async def take(self, run: str, kept: str) -> Lease:
        """Hold the run, which is entered where it is new. Raises StoreLocked where somebody else does."""
        claim = self._claims.pop(kept, None)
        holder = uuid4() if claim is None else claim.holder

        async def taken(connection: Connection) -> Lease:
            await connection.execute(ENTER, (kept,))
            values = {"run": kept, "holder": holder, "owner": self.owner, "seconds": self.seconds}
            sent_at = monotonic()
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
            return Lease(kept, number, epoch, holder, self.seconds, sent_at, unfinished)

        lease = await self._connections.run(taken)
        self._held[kept] = lease
        self._changed.set()
        if self._beating is None or self._beating.done():
            self._beating = asyncio.create_task(self._renew_them())
        return lease

    def claimed(self, runs: Sequence[str], holder: UUID, sent_at: float) -> None:
        """These were claimed by a statement that was sent then. Claims that are over are forgotten."""
        self._claims = {kept: claim for kept, claim in self._claims.items() if self._is_fresh(claim)}
        self._claims.update(dict.fromkeys(runs, Claim(holder, sent_at)))

    def holds(self, kept: str) -> bool:
        """Whether the run is held here, by all that is known here."""
        lease, claim = self._held.get(kept), self._claims.get(kept)
        return lease.lasts if lease is not None else claim is not None and self._is_fresh(claim)

    async def over(self) -> tuple[str, ...]:
        """Wait until leases are over, by all that is known here: the runs that were held by them, each told once.

        Raises RuntimeError where another task waits already: what one is told the other would never hear.
        """
        if self._watched:
            raise RuntimeError("these runs have a worker already; give each worker its own, as by PostgresRuns(dsn)")
        self._watched = True
        try:
            return await self._over()
        finally:
            self._watched = False

    async def _over(self) -> tuple[str, ...]:
        while True:
            self._changed.clear()
            lasting = [lease for lease in self._held.values() if not lease.is_told]
            over = [lease for lease in lasting if not lease.lasts]
            if over:
                for lease in over:
                    lease.is_told = True
                return tuple(lease.kept for lease in over)
            first_end = min((lease.renewed_at for lease in lasting), default=inf) + self.seconds
            with suppress(TimeoutError):
                async with asyncio.timeout(None if first_end == inf else first_end - monotonic()):
                    await self._changed.wait()

    async def set_aside(self, kept: str) -> None:
        """Leave the run alone for as long as a lease lasts. Nothing happens where another one holds it."""
        lease, claim = self._held.get(kept), self._claims.pop(kept, None)
        if lease is not None:
            lease.is_lost = True
            self.forget(lease)
        holder = lease.holder if lease is not None else None if claim is None else claim.holder
        values = {"run": kept, "holder": holder, "owner": f"set aside by {self.owner}", "seconds": self.seconds}

        async def aside(connection: Connection) -> None:
            await connection.execute(SET_ASIDE, values)

        await self._connections.run(aside)

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

    async def rest(self, run: str, kept: str, wake_seconds: float | None, unfinished: bool) -> None:
        """Note what the holder knows when it lets go. Raises StoreError where it does not hold the run."""
        lease = self._held.get(kept)
        claimed = lease is None and kept in self._claims
        if claimed:
            lease = await self.take(run, kept)
        if lease is None:
            raise StoreError(
                f"run {run!r} is not held here, so nothing is known of it; say it before its log is closed"
            )
        values = {
            "number": lease.number,
            "epoch": lease.epoch,
            "holder": lease.holder,
            "wake_seconds": None if wake_seconds is None else max(0.0, min(wake_seconds, LONGEST_REST_SECONDS)),
            "unfinished": unfinished,
        }

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

    def _is_fresh(self, claim: Claim) -> bool:
        return monotonic() - claim.claimed_at < self.seconds

    async def _renew_them(self) -> None:
        """Beat, on a connection of its own, whatever the others are busy with. What goes wrong is tried again."""
        connection: Connection | None = None
        beat = self.seconds / BEATS
        try:
            while True:
                await asyncio.sleep(beat)
                try:
                    if connection is None or connection.closed:
                        connection = await self._connection(beat)
                    await asyncio.wait_for(self._renew(connection), beat)
                except Exception:  # no beat may be the last one: a lease that it did not renew tells its writer
                    if connection is not None:
                        await connection.close()
        finally:
            if connection is not None:
                await connection.close()

    async def _connection(self, beat: float) -> Connection:
        """One that waits for no lock as long as a beat."""
        connection = await self._connections.connect(monotonic() + beat)
        longest_ms = max(int(beat * LOCK_SHARE * 1000), 1)
        try:
            await connection.execute("SELECT set_config('lock_timeout', %s, false)", (f"{longest_ms}ms",))
        except BaseException:
            await connection.close()
            raise
        return connection

    async def _renew(self, connection: Connection) -> None:
        """Renew all that still last; those that do not are lost."""
        held = {lease.number: lease for lease in self._held.values() if not lease.is_lost}
        values = {
            "seconds": self.seconds,
            "numbers": list(held),
            "epochs": [lease.epoch for lease in held.values()],
            "holders": [lease.holder for lease in held.values()],
        }
        sent_at = monotonic()
        renewed = {row[0] for row in await (await connection.execute(RENEW, values)).fetchall()}
        for number in renewed & held.keys():
            held[number].was_renewed(sent_at)
        if renewed != held.keys():
            there = {row[0] for row in await (await connection.execute(HELD, values)).fetchall()}
            for number in held.keys() - renewed - there:
                held[number].is_lost = True
                self._changed.set()

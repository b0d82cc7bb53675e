"""What a fleet of workers asks of the database: runs that have work, and who is woken.

A run that rests is a row. Workers are woken by notifications; who misses one finds the same rows later.
"""

import time
from uuid import uuid4

import psycopg

from loopkernel_adapters.stores.postgres_connections import Connection, Connections
from loopkernel_adapters.stores.postgres_leases import CHANNEL, Leases
from loopkernel_adapters.stores.postgres_names import id_of

CLAIM = """
WITH found AS (
    SELECT id FROM runs
    WHERE id IN (
            SELECT run FROM inbox
            UNION SELECT id FROM runs WHERE unfinished
            UNION SELECT id FROM runs WHERE wake_ms <= (extract(epoch FROM clock_timestamp()) * 1000)::bigint)
        AND position('/' IN run) = 0
        AND (lease_until IS NULL OR lease_until <= clock_timestamp() OR holder = %(holder)s)
    LIMIT %(most)s FOR UPDATE OF runs SKIP LOCKED)
UPDATE runs SET epoch = epoch + 1, holder = %(holder)s, owner = %(owner)s,
    lease_until = clock_timestamp() + make_interval(secs => %(seconds)s)
FROM found WHERE runs.id = found.id RETURNING runs.run"""
# When the next run may be claimed by the time alone: a timer is due, or a lease ends.
NEXT_TIME = """
SELECT least(
        (SELECT min(wake_ms) FROM runs WHERE wake_ms IS NOT NULL AND position('/' IN run) = 0
            AND (lease_until IS NULL OR lease_until <= clock_timestamp())),
        (SELECT min(extract(epoch FROM lease_until) * 1000)::bigint FROM runs
            WHERE unfinished AND position('/' IN run) = 0 AND lease_until > clock_timestamp()))
    - (extract(epoch FROM clock_timestamp()) * 1000)::bigint"""


class FleetTables:
    """Claims and waiting, for `PostgresRuns`."""

    def __init__(self, connections: Connections, leases: Leases, schema: str) -> None:
        self._connections = connections
        self._leases = leases
        self._schema = schema
        self._listening: Connection | None = None

    async def claim(self, most: int) -> tuple[str, ...]:
        """Hold at most so many runs that have work, until they are opened here, or their lease ends."""
        holder = uuid4()
        values = {"most": most, "holder": holder, "owner": self._leases.owner, "seconds": self._leases.seconds}

        async def claimed(connection: Connection) -> tuple[list[str], float]:
            sent_at = time.monotonic()
            return [str(row[0]) for row in await (await connection.execute(CLAIM, values)).fetchall()], sent_at

        found, sent_at = await self._connections.run(claimed)
        self._leases.claimed(found, holder, sent_at)
        return tuple(id_of(kept) for kept in found)

    async def wait_for_work(self, seconds: float) -> tuple[str, ...]:
        """Return when a run was named to whoever waits, a time has come, or so many seconds are over.

        Gives the runs that were named, if any. It may return for nothing; the first time it does at once.
        """
        listening = self._listening
        if listening is None or listening.closed:
            await self._listen()
            return ()
        rest = min(seconds, await self._connections.run(_seconds_to_next))
        if rest <= 0:
            return ()
        prefix = f"{self._schema}:"
        named: list[str] = []
        try:
            until = time.monotonic() + rest
            while not named and (left := until - time.monotonic()) > 0:
                async for notice in listening.notifies(timeout=left, stop_after=1):
                    if notice.payload.startswith(prefix):
                        named.append(id_of(notice.payload.removeprefix(prefix)))
        except psycopg.Error:
            await listening.close()  # the next call listens again, and says so where it cannot
        return tuple(dict.fromkeys(named))

    async def close(self) -> None:
        """Listen no more."""
        listening, self._listening = self._listening, None
        if listening is not None:
            await listening.close()

    async def _listen(self) -> None:
        connection = await self._connections.connect(time.monotonic() + self._leases.seconds)
        with self._connections.told():
            await connection.execute(f"LISTEN {CHANNEL}")
        self._listening = connection


async def _seconds_to_next(connection: Connection) -> float:
    row: tuple[object, ...] | None = await (await connection.execute(NEXT_TIME)).fetchone()
    return row[0] / 1000 if row is not None and isinstance(row[0], int) else float("inf")

"""What a fleet of workers asks of the database: runs that have work, and who is woken.

A run that rests is a row. Workers are woken by notifications; who misses one finds the same rows later.
"""

import time
from uuid import uuid4

import psycopg

from loopkernel_adapters.stores.postgres_connections import Connection, Connections
from loopkernel_adapters.stores.postgres_leases import CHANNEL, Leases
from loopkernel_adapters.stores.postgres_names import id_of
from loopkernel_adapters.stores.postgres_schema import HIGHEST

# The sub-agents of a run have its name, a slash and more; "0" is what follows the slash. Where one of them is held,
# their lease is some moments younger: who took the run could not open them. Each run comes once, and no more is looked
# at than `most` need: the next run with an input is asked of the index, whatever a planner thinks of so many rows.
CLAIM = f"""
WITH RECURSIVE told (id) AS (
    SELECT min(claims) FROM inbox
    UNION ALL SELECT (SELECT min(claims) FROM inbox WHERE claims > told.id) FROM told WHERE told.id IS NOT NULL),
found AS (
    SELECT runs.id FROM (
        SELECT id FROM told WHERE id IS NOT NULL
        UNION ALL SELECT id FROM runs
            WHERE unfinished AND NOT EXISTS (SELECT FROM inbox WHERE claims = runs.id)
        UNION ALL SELECT id FROM runs
            WHERE wake_ms <= (extract(epoch FROM clock_timestamp()) * 1000)::bigint
                AND NOT unfinished AND NOT EXISTS (SELECT FROM inbox WHERE claims = runs.id)) AS work
    JOIN runs ON runs.id = work.id
    WHERE position('/' IN run) = 0
        AND (lease_until IS NULL OR lease_until <= clock_timestamp() OR holder = %(holder)s)
        AND epoch < {HIGHEST}
        AND NOT EXISTS (
            SELECT FROM runs AS child WHERE child.run > runs.run || '/' AND child.run < runs.run || '0'
                AND child.lease_until > clock_timestamp())
    LIMIT %(most)s FOR UPDATE OF runs SKIP LOCKED)
UPDATE runs SET epoch = epoch + 1, holder = %(holder)s, owner = %(owner)s,
    lease_until = clock_timestamp() + make_interval(secs => %(seconds)s)
FROM found WHERE runs.id = found.id RETURNING runs.run"""
# In how many milliseconds the next run may be claimed by the time alone: a timer is due, or a lease ends.
NEXT_TIME = """
SELECT least(
        (SELECT min(wake_ms)::float8 FROM runs WHERE wake_ms IS NOT NULL AND position('/' IN run) = 0
            AND (lease_until IS NULL OR lease_until <= clock_timestamp())),
        (SELECT extract(epoch FROM min(lease_until))::float8 * 1000 FROM runs
            WHERE unfinished AND isfinite(lease_until) AND lease_until > clock_timestamp()))
    - extract(epoch FROM clock_timestamp())::float8 * 1000"""
SHORTEST_WAIT_SECONDS = 0.05  # where a time has come already, and yet nothing can be claimed


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
        next_time = await self._connections.run(_seconds_to_next)
        rest = min(seconds, next_time if next_time > 0 else SHORTEST_WAIT_SECONDS)
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
        try:
            with self._connections.told():
                await connection.execute(f"LISTEN {CHANNEL}")
        except BaseException:
            await connection.close()
            raise
        self._listening = connection


async def _seconds_to_next(connection: Connection) -> float:
    row: tuple[object, ...] | None = await (await connection.execute(NEXT_TIME)).fetchone()
    return row[0] / 1000 if row is not None and isinstance(row[0], float) else float("inf")

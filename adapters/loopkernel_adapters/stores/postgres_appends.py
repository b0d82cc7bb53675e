"""One append to a run in a PostgreSQL database, as one statement that can be made again.

It takes place only where the run is held by this writer and ends where this writer left it. So the same append, made
once more since its answer was lost, cannot be written twice: it is found instead, by how many records there are and by
the digest of the last.
"""

from collections.abc import Sequence
from time import monotonic

from attrs import frozen

from loopkernel_adapters.ports import StoreError
from loopkernel_adapters.stores.postgres_connections import Connection
from loopkernel_adapters.stores.postgres_leases import Lease, lease_ended

LASTING, PASSING = "on", "off"  # a commit that waits for the disk, and one that does not

# `mode` says how this one statement commits, and nothing else. Inputs that are not there are not taken a second time.
APPEND = """
WITH mode AS MATERIALIZED (SELECT set_config('synchronous_commit', %(mode)s, true)),
held AS (
    UPDATE runs SET records = records + %(count)s, bytes = bytes + %(bytes)s, unfinished = true,
        seal = CASE WHEN %(count)s > 0 THEN %(seal)s ELSE seal END,
        first_ms = CASE records WHEN 0 THEN %(first_ms)s ELSE first_ms END,
        last_ms = CASE WHEN %(count)s > 0 THEN %(last_ms)s ELSE last_ms END,
        highest_taken = greatest(highest_taken, %(highest)s),
        lease_until = clock_timestamp() + make_interval(secs => %(seconds)s)
    FROM mode
    WHERE id = %(number)s AND epoch = %(epoch)s AND holder = %(holder)s AND records = %(records)s
        AND lease_until > clock_timestamp()
        AND (SELECT count(*) FROM inbox WHERE run = %(number)s AND number = ANY (%(taken)s::bigint[]))
            = cardinality(%(taken)s::bigint[])
    RETURNING id),
added AS (
    INSERT INTO records (run, n, digest, text) SELECT held.id, added.n, added.digest, added.text
    FROM held, unnest(%(numbers)s::bigint[], %(digests)s::bytea[], %(texts)s::text[]) AS added (n, digest, text)),
taken AS (DELETE FROM inbox USING held WHERE inbox.run = held.id AND number = ANY (%(taken)s::bigint[]))
SELECT id FROM held"""
HOW_IT_STANDS = """
SELECT epoch, holder, records, coalesce(lease_until > clock_timestamp(), false),
    (SELECT digest FROM records WHERE run = runs.id AND n = runs.records),
    (SELECT count(*) FROM inbox WHERE run = runs.id AND number = ANY (%(taken)s::bigint[]))
FROM runs WHERE id = %(number)s"""


@frozen(kw_only=True)
class Ending:
    """Where a run ends: how many records there are, the digest of the last, and how many bytes they take."""

    records: int
    digest: bytes
    size: int


class Append:
    """Records that go behind `before`, sealed so, and the inputs that they take. `source` is the run in words."""

    def __init__(
        self,
        *,
        source: str,
        lease: Lease,
        seconds: float,
        before: Ending,
        after: Ending,
        rows: Sequence[tuple[int, bytes, str]],
        times: Sequence[int],
        seal: bytes | None,
        taken: Sequence[int],
        durable: bool,
    ) -> None:
        self._source = source
        self._before, self._after = before, after
        self._epoch, self._holder, self._taken = lease.epoch, lease.holder, tuple(taken)
        self._attempts: list[float] = []  # when each was sent, by the clock of this machine
        self.sent_at = 0.0  # when the attempt that was made was sent, or an earlier one
        self._values = {
            "mode": LASTING if durable else PASSING,
            "number": lease.number,
            "epoch": lease.epoch,
            "holder": lease.holder,
            "seconds": seconds,
            "records": before.records,
            "count": len(rows),
            "bytes": after.size - before.size,
            "seal": seal,
            "first_ms": times[0] if times else 0,
            "last_ms": times[-1] if times else 0,
            "numbers": [row[0] for row in rows],
            "digests": [row[1] for row in rows],
            "texts": [row[2] for row in rows],
            "taken": list(taken),
            "highest": max(taken, default=0),
        }

    async def make(self, connection: Connection) -> None:
        """Add the records where the run is as it was left. Raises StoreError where it is not."""
        self._attempts.append(monotonic())
        cursor = connection.cursor(binary=True)
        if await (await cursor.execute(APPEND, self._values)).fetchone() is not None:
            self.sent_at = self._attempts[-1]
        else:
            await self._explain(connection)
            self.sent_at = self._attempts[0]

    async def _explain(self, connection: Connection) -> None:
        """See why nothing was added; returns where it was this very append, whose answer was lost, that was made."""
        cursor = connection.cursor(binary=True)
        row: tuple[object, ...] | None = await (await cursor.execute(HOW_IT_STANDS, self._values)).fetchone()
        if row is None:
            raise StoreError(f"{self._source} was removed while it was open")
        epoch, holder, records, lasts, digest, inputs = row
        before, after = self._before, self._after
        added = before.records < after.records and (records, digest) == (after.records, after.digest)
        took = before.records == after.records == records and self._taken and not inputs
        made = len(self._attempts) > 1 and (added or took)
        what = "what was to be written is kept" if made else "nothing more is written"
        if (epoch, holder) != (self._epoch, self._holder):
            raise StoreError(
                f"{self._source} was opened by another writer, so this one is fenced off, and {what}; open the run "
                "again when the other one is done"
            )
        if not lasts:
            raise lease_ended(self._source, what)
        if made:
            return
        if records != before.records:
            raise StoreError(
                f"{self._source} has {records} records, and {before.records} were written: somebody else has added or "
                "removed some, or the server has lost those that were not durable; open the run again, which checks it"
            )
        raise StoreError(
            f"{self._source}: of the inputs {list(self._taken)} only {inputs} are waiting, so nothing was taken and "
            "nothing written"
        )

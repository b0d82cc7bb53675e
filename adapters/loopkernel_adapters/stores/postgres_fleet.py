"""What a fleet of workers asks of the database: inputs that wait for a run, runs that have work, and who is woken.

A run that rests is a row. An input is a row beside it until the append that names it, in the same transaction, takes it
away. Workers are woken by notifications; who misses one finds the same rows later.
"""

import time
from uuid import uuid4

import psycopg
from loopkernel.codec import record_from_text, record_to_text
from loopkernel.data.deltas import Delta
from loopkernel.data.errors import CodecError
from loopkernel.data.thread_deltas import FromThread
from loopkernel.data.user_deltas import FromUser
from loopkernel.replaying import LogRecord

from loopkernel_adapters.fleet_ports import Input
from loopkernel_adapters.ports import StoreError
from loopkernel_adapters.stores.postgres_connections import Connection, Connections
from loopkernel_adapters.stores.postgres_leases import CHANNEL, Leases
from loopkernel_adapters.stores.postgres_names import id_of, kept_id
from loopkernel_adapters.stores.record_chain import DatabaseCorrupt
from loopkernel_adapters.stores.seals import Seals

LONGEST_INPUT = 32_000_000  # characters of its text

SEND = """
WITH counted AS (
    INSERT INTO runs (run, sent) VALUES (%(run)s, 1)
    ON CONFLICT (run) DO UPDATE SET sent = runs.sent + 1 RETURNING id, run, sent),
sent AS (
    INSERT INTO inbox (run, number, delta, seal) SELECT id, sent, %(delta)s, %(seal)s FROM counted RETURNING number)
SELECT sent.number, pg_notify(%(channel)s, current_schema() || ':' || counted.run) FROM counted, sent"""
INBOX = """
SELECT number, delta, seal FROM inbox WHERE run = (SELECT id FROM runs WHERE run = %s) ORDER BY number"""
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
    """Inputs, claims and waiting, for `PostgresRuns`."""

    def __init__(self, connections: Connections, leases: Leases, schema: str, seals: Seals) -> None:
        self._connections = connections
        self._leases = leases
        self._schema = schema
        self._seals = seals
        self._listening: Connection | None = None

    async def send(self, run: str, delta: Delta) -> int:
        """Keep an input, durably, wake whoever waits, and give its number."""
        kept = kept_id(run)
        if "/" in run:
            raise StoreError(f"run {run!r} is of a sub-agent, which is told things by the run that it works for only")
        text = _input_text(delta)
        seals = self._seals
        seal = seals.seal(_sealed_input(run, text))
        if seal is None:
            raise StoreError(f"an input is taken only where it is sealed, and {seals.doubt(None, b'')}")
        values = {"run": kept, "delta": text, "seal": seal, "channel": CHANNEL}

        async def sent(connection: Connection) -> object:
            row = await (await connection.execute(SEND, values)).fetchone()
            return None if row is None else row[0]

        number = await self._connections.run_once(sent)
        if not isinstance(number, int):
            raise StoreError(f"{self._connections.place} is not as loopkernel makes its tables; name another schema")
        return number

    async def inbox(self, run: str) -> tuple[tuple[int, Input], ...]:
        """The inputs that wait, in order, with their numbers. Raises DatabaseCorrupt for one that is not ours."""
        kept, seals = kept_id(run), self._seals

        async def found(connection: Connection) -> list[tuple[object, ...]]:
            return await (await connection.cursor(binary=True).execute(INBOX, (kept,))).fetchall()

        return tuple([self._input(run, row, seals) for row in await self._connections.run(found)])

    async def claim(self, most: int) -> tuple[str, ...]:
        """Hold at most so many runs that have work, until they are opened here, or their lease ends."""
        holder = uuid4()
        values = {"most": most, "holder": holder, "owner": self._leases.owner, "seconds": self._leases.seconds}

        async def claimed(connection: Connection) -> list[str]:
            return [str(row[0]) for row in await (await connection.execute(CLAIM, values)).fetchall()]

        found = await self._connections.run(claimed)
        self._leases.claimed.update(dict.fromkeys(found, holder))
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

    def _input(self, run: str, row: tuple[object, ...], seals: Seals) -> tuple[int, Input]:
        number, text, seal = row
        source = f"{self._connections.place}, run {run!r}, input {number}"
        if not isinstance(number, int) or not isinstance(text, str):
            raise DatabaseCorrupt(source, 0, 0, "the list of inputs is damaged")
        if not seals.fits(seal if isinstance(seal, bytes) else None, _sealed_input(run, text)):
            doubt = seals.doubt(None, b"")
            raise DatabaseCorrupt(
                source, 0, 0, f"it may say what a person never said: {doubt}. Remove that row to go on"
            )
        try:
            delta = record_from_text(text).delta
        except CodecError as error:
            raise DatabaseCorrupt(
                source, 0, 0, f"the input is whole, but this version cannot read it: {error}"
            ) from error
        return number, _demand_input(delta)


async def _seconds_to_next(connection: Connection) -> float:
    row: tuple[object, ...] | None = await (await connection.execute(NEXT_TIME)).fetchone()
    return row[0] / 1000 if row is not None and isinstance(row[0], int) else float("inf")


def _input_text(delta: Delta) -> str:
    """The input as text. Raises StoreError for what is none, and what is too long."""
    try:
        text = record_to_text(LogRecord(_demand_input(delta), 0))
    except CodecError as error:
        raise StoreError(f"this input cannot be kept: {error}") from error
    if len(text) > LONGEST_INPUT:
        raise StoreError(f"this input is too long: {len(text)} characters, and at most {LONGEST_INPUT} are kept")
    return text


def _demand_input(delta: Delta) -> Input:
    if not isinstance(delta, FromUser | FromThread):
        raise StoreError(
            f"{type(delta).__name__} is not an input: only what a user says (FromUser) and what is done with a thread "
            "(FromThread) is sent to a run"
        )
    return delta


def _sealed_input(run: str, text: str) -> bytes:
    name = run.encode("utf-8")
    return b"input\0%d:%b%b" % (len(name), name, text.encode("utf-8"))

"""Inputs that wait for runs in a PostgreSQL database, each sealed with what its sender saw.

An input is a row beside its run until the append that names it, in the same transaction, takes it away. What a person
has said holds for the log that was there: an approval names a call by its number alone. So each input goes with the
number of records, and the digest of the last, and is given only where that record is still what it was.
"""

from uuid import UUID

from attrs import frozen
from loopkernel.codec import record_from_text, record_to_text
from loopkernel.data.deltas import Delta
from loopkernel.data.errors import CodecError
from loopkernel.data.thread_deltas import FromThread
from loopkernel.data.user_deltas import FromUser
from loopkernel.replaying import LogRecord

from loopkernel_adapters.fleet_ports import Input
from loopkernel_adapters.ports import NoSuchRun, StoreError
from loopkernel_adapters.stores.postgres_connections import Connection, Connections
from loopkernel_adapters.stores.postgres_leases import CHANNEL, ENTER
from loopkernel_adapters.stores.postgres_names import id_of, kept_id
from loopkernel_adapters.stores.record_chain import DatabaseCorrupt, checked_digest, origin
from loopkernel_adapters.stores.seals import Mark, Seals

LONGEST_INPUT = 32_000_000  # characters of its text
MOST_AT_ONCE = 100  # inputs that are given; the next look gives those behind them

ENDING = """
SELECT identity, sent, records, (SELECT digest FROM records WHERE run = runs.id AND n = runs.records)
FROM runs WHERE run = %s"""
# Its number is in the seal: where another input was quicker, nothing is sent, and the next number is tried.
SEND = """
WITH counted AS (
    UPDATE runs SET sent = %(number)s WHERE run = %(run)s AND identity = %(identity)s AND sent = %(number)s - 1
    RETURNING id, run),
sent AS (
    INSERT INTO inbox (run, number, delta, seal, seen, seen_digest)
    SELECT id, %(number)s, %(delta)s, %(seal)s, %(seen)s, %(digest)s FROM counted RETURNING number)
SELECT sent.number, pg_notify(%(channel)s, current_schema() || ':' || split_part(counted.run, '/', 1))
FROM counted, sent"""
WITHIN = """
SELECT DISTINCT runs.run FROM inbox JOIN runs ON runs.id = inbox.run
WHERE runs.run > %(run)s || '/' AND runs.run < %(run)s || '0'"""
IDENTITY = "SELECT identity FROM runs WHERE run = %s"
INBOX = f"""
SELECT number, delta, inbox.seal, seen, seen_digest, identity, highest_taken,
    (SELECT digest FROM records WHERE records.run = runs.id AND n = seen)
FROM inbox JOIN runs ON runs.id = inbox.run WHERE runs.run = %s ORDER BY number LIMIT {MOST_AT_ONCE}"""


@frozen(kw_only=True)
class _Envelope:
    """Which input of which run it is, and what its sender saw: so many records, the last of that digest."""

    run: str
    identity: UUID
    number: int
    seen: int
    digest: bytes

    def sealed(self, text: str) -> bytes:
        """What the seal of the input is made of."""
        name = self.run.encode("utf-8")
        head = b"input\0%b%d:%b%d:%d:" % (self.identity.bytes, len(name), name, self.number, self.seen)
        return head + b"%d:%b%b" % (len(self.digest), self.digest, text.encode("utf-8"))


class Inputs:
    """What is sent to runs and waits there, for `PostgresRuns`."""

    def __init__(self, connections: Connections, seals: Seals) -> None:
        self._connections = connections
        self._seals = seals

    async def send(self, run: str, delta: Delta) -> int:
        """Keep an input, durably, wake whoever waits, and give its number."""
        kept = kept_id(run)
        if "/" in run and not isinstance(delta, FromUser):
            raise StoreError(f"run {run!r} is of a sub-agent, and a {type(delta).__name__} is not sent to one")
        text = _input_text(delta)
        while True:  # each time that another input was quicker, that one was sent
            envelope = await self._next(run, kept)
            seal = self._seals.seal(envelope.sealed(text))
            if seal is None:
                doubt = self._seals.doubt(None, b"")
                raise StoreError(f"an input is taken only where it is sealed, and {doubt}")
            if await self._sent(kept, envelope, text, seal):
                return envelope.number

    async def _sent(self, kept: str, envelope: _Envelope, text: str, seal: bytes) -> bool:
        values = {
            "run": kept,
            "identity": envelope.identity,
            "number": envelope.number,
            "seen": envelope.seen,
            "digest": envelope.digest,
            "delta": text,
            "seal": seal,
            "channel": CHANNEL,
        }

        async def sent(connection: Connection) -> bool:
            return await (await connection.execute(SEND, values)).fetchone() is not None

        return await self._connections.run_once(sent)

    async def _next(self, run: str, kept: str) -> _Envelope:
        """The input that would be sent now. The run is entered where it is new, unless it is that of a sub-agent."""

        async def found(connection: Connection) -> tuple[object, ...] | None:
            cursor = connection.cursor(binary=True)
            row: tuple[object, ...] | None = await (await cursor.execute(ENDING, (kept,))).fetchone()
            if row is None and "/" in run:
                raise NoSuchRun(f"no sub-agent has the session {run!r}; its address is told by the run that it is in")
            if row is None:
                await connection.execute(ENTER, (kept,))
                row = await (await cursor.execute(ENDING, (kept,))).fetchone()
            return row

        source = f"{self._connections.place}, run {run!r}"
        identity, sent, records, last = await self._connections.run(found) or (None, None, None, None)
        if not (isinstance(identity, UUID) and isinstance(sent, int) and isinstance(records, int)):
            raise DatabaseCorrupt(source, 0, 0, "the list of runs is damaged")
        digest = checked_digest(last, source, records) if records else origin(run.encode("utf-8"))
        return _Envelope(run=run, identity=identity, number=sent + 1, seen=records, digest=digest)

    async def within(self, run: str) -> tuple[str, ...]:
        """The sub-agents of the run that have inputs."""

        async def found(connection: Connection) -> list[tuple[str]]:
            return await (await connection.execute(WITHIN, {"run": kept_id(run)})).fetchall()

        return tuple(id_of(row[0]) for row in await self._connections.run(found))

    async def inbox(self, run: str) -> tuple[tuple[int, Input], ...]:
        """The first inputs that wait, in order, with their numbers. Raises DatabaseCorrupt for one that is not ours."""
        kept = kept_id(run)

        async def found(connection: Connection) -> tuple[int, list[tuple[object, ...]]]:
            cursor = connection.cursor(binary=True)
            row: tuple[object, ...] | None = await (await cursor.execute(IDENTITY, (kept,))).fetchone()
            if row is None or not isinstance(row[0], UUID):
                return 0, []
            # Read before the inputs: one that is taken after that is not there any more, or is not marked yet.
            mark = taken_mark(self._seals, run, row[0]).read()
            return mark, await (await cursor.execute(INBOX, (kept,))).fetchall()

        mark, rows = await self._connections.run(found)
        return tuple([self._input(run, mark, row) for row in rows])

    def _input(self, run: str, mark: int, row: tuple[object, ...]) -> tuple[int, Input]:
        number, text, seal, seen, seen_digest, identity, highest_taken, digest = row
        source = f"{self._connections.place}, run {run!r}, input {number}"
        if not (
            isinstance(number, int)
            and isinstance(text, str)
            and isinstance(seen, int)
            and isinstance(seen_digest, bytes)
            and isinstance(identity, UUID)
            and isinstance(highest_taken, int)
        ):
            raise DatabaseCorrupt(source, 0, 0, "the list of inputs is damaged")
        envelope = _Envelope(run=run, identity=identity, number=number, seen=seen, digest=seen_digest)
        problem = None
        if not self._seals.fits(seal if isinstance(seal, bytes) else None, envelope.sealed(text)):
            problem = f"it may say what a person never said: {self._seals.doubt(None, b'')}"
        elif seen_digest != (digest if seen else origin(run.encode("utf-8"))):
            problem = f"it was sent for another log: record {seen}, the last that its sender saw, is not there any more"
        elif number <= max(mark, highest_taken):
            problem = "it was taken before, and was put back"
        if problem is not None:
            raise DatabaseCorrupt(source, 0, 0, f"{problem}. Remove that row to go on")
        try:
            return number, _demand_input(record_from_text(text).delta)
        except CodecError as error:
            problem = f"the input is whole, but this version cannot read it: {error}"
            raise DatabaseCorrupt(source, 0, 0, problem) from error


def taken_mark(seals: Seals, run: str, identity: UUID) -> Mark:
    """The mark of the highest input that was taken, where no writer of rows reaches it."""
    return seals.mark(b"inputs\0" + identity.bytes + run.encode("utf-8"))


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

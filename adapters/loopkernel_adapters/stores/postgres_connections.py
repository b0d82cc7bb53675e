"""Connections to a PostgreSQL server: few, shared by all runs, made anew where the server was away, and told in words.

What a server says is told as an error of the port, and no password is in it.
"""

import asyncio
import select
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TypeAlias, TypeVar

import psycopg
from psycopg import AsyncConnection, conninfo, sql
from psycopg.rows import TupleRow

from loopkernel_adapters.ports import StoreError
from loopkernel_adapters.stores.postgres_schema import bring_up_to_date
from loopkernel_adapters.stores.record_chain import DatabaseCorrupt

T = TypeVar("T")
Connection: TypeAlias = AsyncConnection[TupleRow]

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.02, 0.5  # between two attempts to reach a server that was away
LONGEST_LOCK_WAIT = "10s"  # for a row; each transaction here takes milliseconds
# What libpq does unless the DSN says otherwise: a server whose machine has gone is noticed within seconds, not hours.
DEFAULTS = {
    "application_name": "loopkernel",
    "connect_timeout": "10",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
}
# Whatever the role, the database or the DSN say: what is acknowledged is on the disk, and who has waited for a row sees
# it as it is then.
BEGIN = """
SELECT set_config('search_path', %s, false), set_config('lock_timeout', %s, false),
    set_config('synchronous_commit', 'on', false),
    set_config('default_transaction_isolation', 'read committed', false)"""
LONGEST_SCHEMA = 63  # bytes in UTF-8: PostgreSQL cuts off the rest of a longer name
HIDDEN = "***"
# What a server says last of all: the connection may look whole for a moment after that.
GOING_AWAY = (psycopg.errors.AdminShutdown, psycopg.errors.CrashShutdown, psycopg.errors.CannotConnectNow)


class ConnectionLost(StoreError):
    """The server went away before it answered, so whether it did what it was asked is not known."""


class Connections:
    """At most so many connections to the database that the DSN names; they see the tables of that schema.

    `patience_seconds`: how long a server that was there once is waited for.
    """

    def __init__(self, dsn: str, schema: str, most: int, patience_seconds: float) -> None:
        _demand_schema(schema)
        self._dsn, self._password, self.place = _read_dsn(dsn, schema)
        self._schema = schema
        self._patience = patience_seconds
        self._free = asyncio.Semaphore(most)
        self._idle: list[Connection] = []
        self._known = False  # the server was there, and so were the tables
        self._closed = False

    async def run(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Do the work, once more where the connection was lost in the midst of it: it has to bear that."""
        deadline = time.monotonic() + self._patience
        while True:
            try:
                return await self.run_once(work, deadline)
            except ConnectionLost:
                if time.monotonic() > deadline:
                    raise

    async def run_once(self, work: Callable[[Connection], Awaitable[T]], deadline: float | None = None) -> T:
        """Do the work. Raises ConnectionLost where nobody knows whether it was done, StoreError where it was not."""
        async with self._borrowed(time.monotonic() + self._patience if deadline is None else deadline) as connection:
            with self.told():
                try:
                    return await work(connection)
                except psycopg.Error as error:
                    if not _is_gone(connection, error):
                        raise
                    raise ConnectionLost(
                        f"the connection to {self.place} was lost before the server answered ({self._text(error)}), so "
                        "whether it did what it was asked is not known; look at the server, then open the run again"
                    ) from error

    async def connect(self, deadline: float = 0.0) -> Connection:
        """A new connection, which the caller closes; a server that was there once is waited for until the deadline."""
        if self._closed:
            raise StoreError(f"{self.place} was closed here; make another PostgresRuns")
        pause = FIRST_PAUSE_SECONDS
        while True:
            try:
                return await self._begun()
            except psycopg.Error as error:
                if not self._known or time.monotonic() + pause > deadline:
                    raise StoreError(
                        f"{self.place} cannot be reached ({self._text(error)}): look whether the server runs there, "
                        "and who may use it"
                    ) from self._cause(error)
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    async def close(self) -> None:
        """Let go of all connections. Twice is harmless."""
        self._closed = True
        while self._idle:
            await self._idle.pop().close()

    @contextmanager
    def told(self) -> Iterator[None]:
        """What psycopg raises, in words and as the errors of the port."""
        try:
            yield
        except (psycopg.errors.DataCorrupted, psycopg.errors.IndexCorrupted) as error:
            raise DatabaseCorrupt(self.place, 0, 0, f"the database is damaged ({self._text(error)})") from error
        except psycopg.Error as error:
            raise StoreError(
                f"{self.place} cannot be used ({self._text(error)}): look after the server, its disk and the rights "
                "there, then open the run again"
            ) from self._cause(error)

    async def _begun(self) -> Connection:
        """A new connection that sees the tables. Raises psycopg.Error where the server is away, or goes away."""
        connection = await AsyncConnection.connect(self._dsn, autocommit=True)
        try:
            try:
                await self._begin(connection)
            except psycopg.Error as error:
                if _is_gone(connection, error):
                    raise
                with self.told():
                    raise
        except BaseException:
            await connection.close()
            raise
        return connection

    @asynccontextmanager
    async def _borrowed(self, deadline: float) -> AsyncIterator[Connection]:
        """A connection that goes back where it is whole, and is closed where anything was raised."""
        async with self._free:
            connection = self._idle_connection() or await self.connect(deadline)
            try:
                yield connection
            except BaseException:
                await connection.close()
                raise
            if self._closed or connection.closed:
                await connection.close()
            else:
                self._idle.append(connection)

    def _idle_connection(self) -> Connection | None:
        """The one that was used last. One that the server has something to say on is not idle: it was ended."""
        while self._idle:
            connection = self._idle.pop()
            if not connection.closed and not _is_readable(connection.fileno()):
                return connection
            connection.pgconn.finish()
        return None

    async def _begin(self, connection: Connection) -> None:
        path = sql.SQL("{}, pg_temp").format(sql.Identifier(self._schema)).as_string(connection)
        await connection.execute(
            BEGIN,
            (path, LONGEST_LOCK_WAIT),
        )
        if not self._known:
            await bring_up_to_date(connection, self._schema, self.place)
            self._known = True

    def _text(self, error: psycopg.Error) -> str:
        """What the error says, on one line."""
        text = " ".join(str(error).split()) or type(error).__name__
        return text.replace(self._password, HIDDEN) if self._password else text

    def _cause(self, error: psycopg.Error) -> psycopg.Error | None:
        return None if self._password and self._password in str(error) else error


def _is_gone(connection: Connection, error: psycopg.Error) -> bool:
    """Whether the connection was lost. What the client library says by itself has no code of the server."""
    lost = isinstance(error, psycopg.OperationalError) and error.sqlstate is None
    return connection.closed or lost or isinstance(error, GOING_AWAY)


def _demand_schema(schema: str) -> None:
    """Raises StoreError for a name that the server would refuse, or cut off."""
    size = len(schema.encode("utf-8", "surrogatepass"))
    if not 0 < size <= LONGEST_SCHEMA:
        raise StoreError(
            f"the name of the schema has {size} bytes, and PostgreSQL keeps from 1 to {LONGEST_SCHEMA}; give another"
        )


def _is_readable(descriptor: int) -> bool:
    waiting = select.poll()  # `select.select` takes no descriptor from 1,024 on
    waiting.register(descriptor, select.POLLIN)
    return bool(waiting.poll(0))


def _read_dsn(dsn: str, schema: str) -> tuple[str, str, str]:
    """What libpq is told, the password, and the words for the place. Raises StoreError without a word of the DSN."""
    try:
        found = conninfo.conninfo_to_dict(dsn)
        whole = conninfo.make_conninfo(dsn, **{key: value for key, value in DEFAULTS.items() if key not in found})
    except (psycopg.Error, UnicodeError, ValueError):
        raise StoreError(
            "this is not how a PostgreSQL database is named; write postgresql://user@host:port/database, or "
            "host=... dbname=... as libpq reads it"
        ) from None
    names = {key: str(found[key]) for key in ("user", "host", "port", "dbname") if found.get(key)}
    told = " ".join(f"{key}={value}" for key, value in names.items()) or "the default database"
    return whole, str(found.get("password") or ""), f"PostgreSQL ({told}, schema {schema})"

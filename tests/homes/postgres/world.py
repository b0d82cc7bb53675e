"""Workers that share a schema of a real server, and what a test does to the rows behind their backs."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path

import psycopg
from loopkernel.data.blocks import TextBlock
from loopkernel.data.user_deltas import Say
from loopkernel_adapters.stores.postgres import PostgresRuns
from loopkernel_adapters.stores.postgres_store import PostgresStore
from loopkernel_adapters.stores.seals import Seals

from tests.adapters.stores.log_lines import some_records

RECORDS = tuple(some_records(60))
SECRET = bytes(range(32))
_SCHEMAS = count(1)


def said(text: str) -> Say:
    return Say(content=(TextBlock(text),))


class World:
    """A schema of its own. Each worker has its own marks, as on a machine of its own, and the secret of all of them."""

    def __init__(self, dsn: str, folder: Path) -> None:
        self.dsn = dsn
        self.schema = f"world_{next(_SCHEMAS)}"
        self.folder = folder
        self._workers: list[PostgresRuns] = []

    def play(self, acts: Callable[[], Awaitable[None]]) -> None:
        """Run what a test does, and close the workers that it made."""

        async def played() -> None:
            try:
                await acts()
            finally:
                for worker in self._workers:
                    await worker.close()

        asyncio.run(played())

    def worker(self, *, lease_seconds: float = 600.0, seals: Seals | None = None) -> PostgresRuns:
        """Another worker. Its leases end when a test says so: no test takes as long as they last."""
        folder = self.folder / f"machine{len(self._workers)}"
        found = PostgresRuns(
            self.dsn, schema=self.schema, seals=seals or Seals(folder, SECRET), lease_seconds=lease_seconds
        )
        self._workers.append(found)
        return found

    async def sql(self, statement: str, *values: object) -> list[tuple[object, ...]]:
        """What somebody else does with the tables."""
        async with await psycopg.AsyncConnection.connect(self.dsn, autocommit=True) as connection:
            await connection.execute("SELECT set_config('search_path', %s, false)", (self.schema,))
            # The statements are those of the tests: a type checker cannot see that they are literals.
            cursor = await connection.execute(statement.encode(), values)
            return list(await cursor.fetchall()) if cursor.description else []

    async def end_lease(self, run: str) -> None:
        """Have the lease end, by the clock that counts: as if its holder had not been heard of for so long."""
        await self.sql("UPDATE runs SET lease_until = clock_timestamp() - interval '1 s' WHERE run = %s", run)

    async def vouching(self, worker: PostgresRuns, run: str) -> PostgresStore:
        """The log, opened by who goes by it."""
        store = await worker.open(run)
        store.vouch()
        return store

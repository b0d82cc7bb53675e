"""The database that workers share, for a command that is done with it soon."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from loopkernel_adapters.cli.outcomes import Unusable
from loopkernel_adapters.cli.places import POSTGRES, postgres_runs, told

if TYPE_CHECKING:
    from loopkernel_adapters.stores.postgres import PostgresRuns

T = TypeVar("T")


def dsn_of(store: str | None) -> str:
    """The database that the store names. Raises Unusable where it names none."""
    if store is None or not store.startswith(POSTGRES):
        raise Unusable(f"workers share a PostgreSQL database: name it with --store {POSTGRES}DSN")
    return store.removeprefix(POSTGRES)


def in_fleet(dsn: str, what: str, work: Callable[["PostgresRuns"], Awaitable[T]]) -> T:
    """What comes of the work with the runs there. Raises Unusable, which says what goes wrong by its name."""

    async def done() -> T:
        runs = postgres_runs(dsn)
        try:
            return await work(runs)
        finally:
            await runs.close()

    with told(what):
        return asyncio.run(done())

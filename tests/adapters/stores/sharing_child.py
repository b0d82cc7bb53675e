"""A process with many sessions over one database: each appends in pairs, and tells which pairs are durable."""

import asyncio
import sys
from pathlib import Path

from loopkernel_adapters.ports import Sealing
from loopkernel_adapters.stores.sqlite import SqliteRuns
from loopkernel_adapters.stores.threaded import ThreadedRuns

from tests.adapters.stores.log_lines import some_records

SESSIONS = 24
PAIRS = 40
RECORDS = tuple(some_records(2 * PAIRS))


async def session(runs: ThreadedRuns, number: int) -> None:
    """Append pair after pair; of each that is durable, tell the session and how many records it has."""
    store = await runs.open(f"r{number}")
    if isinstance(store, Sealing):
        store.vouch()
    for place in range(0, len(RECORDS), 2):
        await store.append(RECORDS[place : place + 2], place % 8 != 2)
        if place % 8 != 2:
            print(number, place + 2, flush=True)
    await store.close()


async def main(path: Path) -> None:
    runs = ThreadedRuns(SqliteRuns(path))
    await asyncio.gather(*(session(runs, number) for number in range(SESSIONS)))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))

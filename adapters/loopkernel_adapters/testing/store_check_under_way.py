"""Checks of what only an asynchronous store can do wrong: appends that are under way at the same time, or cancelled."""

import asyncio

from loopkernel_adapters.ports import Runs
from loopkernel_adapters.testing.store_trial import RECORDS, RUN, demand, described

MOST_TURNS = 8  # of the loop that an append which is cancelled had before


async def keeps_the_order_of_what_is_under_way(runs: Runs) -> None:
    """Several appends are begun, in order, before the first has returned."""
    store = await runs.open(RUN)
    pieces = [
        piece for place in range(0, 18, 3) for piece in (RECORDS[place : place + 2], RECORDS[place + 2 : place + 3])
    ]
    appends = [asyncio.ensure_future(store.append(piece, len(piece) == 2)) for piece in pieces]
    await asyncio.gather(*appends)
    found = await store.load()
    await store.close()
    demand("store 11", found == RECORDS[:18], f"of {len(pieces)} appends under way, {described(found)} were written")


async def loses_nothing_behind_a_cancelled_append(runs: Runs) -> None:
    """One of three appends is cancelled, after more and more turns of the loop."""
    for turns in range(MOST_TURNS):
        store = await runs.open(f"{RUN} {turns}")
        appends = [asyncio.ensure_future(store.append(RECORDS[place : place + 2], True)) for place in (0, 2, 4)]
        for _ in range(turns):
            await asyncio.sleep(0)
        appends[1].cancel()
        await asyncio.gather(*appends, return_exceptions=True)
        await store.append(RECORDS[6:8], True)
        found = await store.load()
        await store.close()
        demand(
            "store 11",
            found in (RECORDS[:8], (*RECORDS[:2], *RECORDS[4:8])),
            f"the second of three appends was cancelled after {turns} turns of the loop, and one more made: it holds "
            f"{described(found)}",
        )

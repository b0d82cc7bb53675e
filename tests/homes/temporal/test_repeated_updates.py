"""Who asks again with the same update is answered as before, also where a new history has begun meanwhile."""

import asyncio
from pathlib import Path

import pytest
from loopkernel.data.blocks import text_of
from loopkernel.data.ids import CallId, ModelOperation
from loopkernel.data.user_deltas import CancelCall, Say
from loopkernel_adapters.temporal import TemporalRun, start, temporal_worker
from loopkernel_adapters.temporal.documents import Input, Pace, inputs, refusals
from loopkernel_adapters.temporal.updates import updated
from temporalio.client import Client

from tests.homes.temporal.clerk import clerk
from tests.homes.temporal.server import MISSING, PROGRAM, TemporalServer

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason=MISSING)
NOBODY = CancelCall(CallId(ModelOperation(9), 9))


async def sent(client: Client, delta: Input, name: str) -> object:
    """What comes of that input, as the update of that name."""
    handle = client.get_workflow_handle("again", result_type=str)
    return refusals().decode_text(await updated(handle, "send", str, inputs().encode_text(delta), name=name))


async def history_of(client: Client) -> str | None:
    return (await client.get_workflow_handle("again").describe()).run_id


async def said_in(run: TemporalRun) -> list[str]:
    return [text_of(record.delta.content) for record in await run.log() if isinstance(record.delta, Say)]


def test_an_update_is_taken_once_also_across_histories(tmp_path: Path) -> None:
    async def whole() -> None:
        server = TemporalServer(tmp_path)
        client = await server.start()
        try:
            async with temporal_worker(client, "again", clerk(tmp_path)):
                run = await start(client, "again", clerk(tmp_path), "again", pace=Pace(most_events=15))
                first = await history_of(client)
                assert await sent(client, Say("hello"), "once") is None
                refused = await sent(client, NOBODY, "refused")
                assert refused is not None
                await run.rest()
                while await history_of(client) == first:
                    await run.say("go on")
                    await run.rest()
                before = await said_in(run)
                assert await sent(client, Say("hello"), "once") is None
                assert await sent(client, NOBODY, "refused") == refused
                assert await said_in(run) == before
                assert await sent(client, Say("hello"), "another") is None
                await run.rest()
                assert (await said_in(run)).count("hello") == 2
        finally:
            server.kill()

    asyncio.run(whole())

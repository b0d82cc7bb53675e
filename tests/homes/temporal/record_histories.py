"""Records the histories that the replayer is tried on: `python -m tests.homes.temporal.record_histories`.

Each is of a run on the real server. They are recorded anew only where the rules have a new version: a change of the
workflow must replay those that there are.
"""

import asyncio
import tempfile
from pathlib import Path

from loopkernel_adapters.temporal import TemporalRun, start, temporal_worker
from temporalio.client import Client

from tests.homes.temporal.clerk import clerk
from tests.homes.temporal.server import TemporalServer

HISTORIES = Path(__file__).parent / "histories"
STORIES = {"texts": ("hello", "again"), "tool": ("tell",), "person": ("pay",), "timer": ("fail",)}


async def record(client: Client, run: TemporalRun, words: tuple[str, ...]) -> str:
    """The history of a run in which these are said, and everything that waits is approved."""
    for word in words:
        await run.say(word)
        await run.rest()
        for call in await run.waiting():
            await run.approve(call)
        await run.rest()
    return (await client.get_workflow_handle(run.run).fetch_history()).to_json()


async def main() -> None:
    """Record them all."""
    with tempfile.TemporaryDirectory() as folder:
        server = TemporalServer(Path(folder))
        client = await server.start()
        agent = clerk(Path(folder))
        try:
            async with temporal_worker(client, "recorded", agent):
                for name, words in STORIES.items():
                    run = await start(client, "recorded", agent, name)
                    (HISTORIES / f"{name}.json").write_text(await record(client, run, words))
        finally:
            server.kill()


if __name__ == "__main__":
    asyncio.run(main())

"""The agent in Temporal. Start a server first, then a worker, then a run; each may be killed and started again.

.venv/bin/temporal server start-dev --headless --ip 127.0.0.1 --db-filename runs.db
.venv/bin/python examples/homes/in_temporal.py worker
.venv/bin/python examples/homes/in_temporal.py run invoice-1
.venv/bin/python examples/homes/in_temporal.py approve invoice-1
"""

import asyncio
import sys

from agent import agent
from loopkernel_adapters.temporal import TemporalRun, start, temporal_worker
from temporalio.client import Client

ADDRESS, QUEUE = "127.0.0.1:7233", "clerks"


async def main(what: str, name: str = "invoice-1") -> None:
    client = await Client.connect(ADDRESS)
    if what == "worker":
        await temporal_worker(client, QUEUE, agent, watch=lambda run, delta: print(run, type(delta).__name__)).run()
    elif what == "run":
        run = await start(client, QUEUE, agent, name)
        await run.say("Pay what Anna owes.")
        await tell(run)
    elif what == "approve":
        run = TemporalRun(client, name, agent.ports.secrets)
        for call in await run.waiting():
            await run.approve(call)
        await tell(run)


async def tell(run: TemporalRun) -> None:
    """Wait until nothing goes on by itself, and print what the run says, or waits for."""
    print(await run.rest())
    for call in await run.waiting():
        print(f"waits for a person: {call.tool} with {call.input.text}")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

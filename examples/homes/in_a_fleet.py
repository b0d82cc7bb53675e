"""The agent served by as many workers as you start, over a PostgreSQL database; kill any of them.

export DSN=postgresql://...
.venv/bin/python examples/homes/in_a_fleet.py worker
.venv/bin/python examples/homes/in_a_fleet.py say invoice-1
.venv/bin/python examples/homes/in_a_fleet.py approve invoice-1
"""

import asyncio
import os
import sys

from agent import agent as clerk
from loopkernel_adapters import Agent, FleetRun, PostgresRuns, Worker


async def main(what: str, name: str = "invoice-1") -> None:
    runs = PostgresRuns(os.environ["DSN"])
    try:
        if what == "worker":
            await Worker(Agent(clerk.ports.provider, clerk.ports.tools, runs=runs)).serve()
        elif what == "say":
            await FleetRun(runs, name).say("Pay what Anna owes.")
        elif what == "approve":
            run = FleetRun(runs, name)
            for call in await run.waiting():
                print(f"{call.tool} with {call.input.text}")
                if input("Run it? yes or no: ") == "yes":
                    await run.approve(call)
    finally:
        await runs.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

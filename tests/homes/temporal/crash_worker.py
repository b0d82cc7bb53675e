"""A worker in a process of its own, to be killed: `python -m tests.homes.temporal.crash_worker ADDRESS FOLDER`."""

import asyncio
import sys
from pathlib import Path

from loopkernel_adapters.temporal import temporal_worker
from temporalio.client import Client

from tests.homes.temporal.clerk import clerk

QUEUE = "clerks"


async def main(address: str, folder: Path) -> None:
    """Work until killed."""
    client = await Client.connect(address)
    await temporal_worker(client, QUEUE, clerk(folder)).run()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))

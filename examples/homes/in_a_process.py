"""The agent in a process, with its log in a SQLite file: kill it whenever you like, and start it again.

.venv/bin/python examples/homes/in_a_process.py invoice-1
"""

import asyncio
import sys
from pathlib import Path

from agent import agent as clerk
from loopkernel_adapters import Agent, SqliteRuns

STORE = Path("runs.sqlite")


async def main(name: str = "invoice-1") -> None:
    runs = SqliteRuns(STORE)
    agent = Agent(clerk.ports.provider, clerk.ports.tools, runs=runs)
    async with agent.session(name) as session:
        result = await (session.go_on() if session.waiting else session.say("Pay what Anna owes."))
        for call in result.waiting:
            print(f"waits for a person: {call.tool} with {call.input.text}")
            if input("Run it? yes or no: ") == "yes":
                await session.answer(call, True)
                result = await session.go_on()
        print(result.text)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

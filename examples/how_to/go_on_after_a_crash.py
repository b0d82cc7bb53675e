"""A process that is killed in the middle of a payment: the next one asks, and does not pay twice."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

from loopkernel import EffectClass, Json
from loopkernel_adapters import Agent, ScriptedProvider, SqliteRuns, call_reply, text_reply, tool


@tool(effect=EffectClass.DANGEROUS)
def pay(euros: int) -> str:
    """Pay that much, and lose the power in the middle of it."""
    print("paying", flush=True)
    os._exit(1)


async def main(is_first: bool) -> None:
    said = call_reply(("pay", Json.of({"euros": 12}))) if is_first else text_reply("I stop here: nobody knows.")
    agent = Agent(ScriptedProvider([said]), [pay], runs=SqliteRuns(Path("runs.sqlite")), approve=lambda call: True)
    async with agent.session("invoice") as session:
        if is_first:
            await session.say("Pay the invoice")
        result = await session.go_on()
        print(result.text)


if len(sys.argv) > 1:
    asyncio.run(main(is_first=True))
else:
    print("exit", subprocess.run([sys.executable, __file__, "first"]).returncode, flush=True)
    asyncio.run(main(is_first=False))

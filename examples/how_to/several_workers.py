"""Several workers over one database: a run has one writer at a time, and what a dead worker leaves is taken up."""

import asyncio
import subprocess
import sys

from loopkernel import EffectClass, Json
from loopkernel_adapters import Agent, ScriptedProvider, SqliteRuns, StoreLocked, call_reply, text_reply, tool

HANGS = sys.argv[1:] == ["hangs"]


@tool(effect=EffectClass.READ_ONLY)
async def look() -> str:
    """Look whether all is well."""
    print("a worker looks", flush=True)
    if HANGS:
        await asyncio.Event().wait()
    return "yes"


replies = [call_reply(("look", Json.of({})))] if HANGS else [text_reply("All is well.")]
agent = Agent(ScriptedProvider(replies), [look], runs=SqliteRuns("runs.sqlite"))


async def take_up(run: str) -> None:
    """What a request handler does: go on with the run, or say that another worker has it."""
    try:
        async with agent.session(run) as session:
            print((await session.go_on()).text)
    except StoreLocked as locked:
        print("503, try again later:", locked)


async def main() -> None:
    if HANGS:
        await agent.run("Is all well?", run="a")
    with subprocess.Popen([sys.executable, __file__, "hangs"], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        print(other.stdout.readline(), end="")
        await take_up("a")
        other.kill()
    print("that worker is killed")
    await take_up("a")


asyncio.run(main())

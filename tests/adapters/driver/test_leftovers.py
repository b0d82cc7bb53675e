"""A thousand sessions are opened, used and closed in every way, and nothing of them is left."""

import asyncio
import gc
import threading
from pathlib import Path

from loopkernel.data.effects import StartTool
from loopkernel.data.tools import ToolOutput
from loopkernel.data.user_deltas import CancelAll
from loopkernel_adapters.ports import RunContext
from loopkernel_adapters.providers.scripted import call_reply, text_reply
from loopkernel_adapters.stores.jsonl import JsonlStore

from tests.adapters.driver.driver_world import NO_INPUT, FunctionTools, NotedStore, World, descriptors, echo, said, say

CYCLES = 1_000
ON_DISK = 25  # one session of so many has its log in a file


async def hangs(command: StartTool, context: RunContext) -> ToolOutput:
    await asyncio.Event().wait()
    return said("never")


async def hangs_once_more(command: StartTool, context: RunContext) -> ToolOutput:
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        await asyncio.sleep(0)  # it cleans up, and that takes a while
        raise
    return said("never")


async def asks(command: StartTool, context: RunContext) -> ToolOutput:
    await context.ask("Well?")
    return said("never")


TOOLS = FunctionTools(echo=echo, hangs=hangs, hangs_once_more=hangs_once_more, asks=asks)
ROUNDS = ("echo", "hangs", "hangs_once_more", "asks", "stream")


async def cycle(number: int, store: NotedStore | JsonlStore) -> None:
    tool = ROUNDS[number % len(ROUNDS)]
    reply = (asyncio.Event(),) if tool == "stream" else call_reply((tool, NO_INPUT))
    world = World([reply, text_reply("b")], tools=TOOLS, store=store)
    async with await world.open() as driver:
        await driver.send(say("go"))
        for _ in range(number // len(ROUNDS) % 7):
            await asyncio.sleep(0)
        if number % 3 == 0:
            await driver.send(CancelAll())
    assert world.clock.pending == 0


def counts() -> tuple[int, int, int]:
    return len(asyncio.all_tasks()), descriptors(), threading.active_count()


def test_nothing_is_left_of_a_thousand_sessions(tmp_path: Path) -> None:
    async def run() -> None:
        await cycle(0, NotedStore())
        gc.collect()
        before = counts()
        for number in range(CYCLES):
            await cycle(number, JsonlStore(tmp_path / f"{number}") if number % ON_DISK == 0 else NotedStore())
        assert counts() == before

    asyncio.run(run())

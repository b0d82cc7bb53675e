"""Many runs at once on one worker (RUNS=1000: a thousand), what a turn adds to a history, what is streamed beside."""

import asyncio
import os
import time
from collections import Counter
from pathlib import Path

import pytest
from loopkernel.data.deltas import Delta
from loopkernel.data.model_deltas import ModelText
from loopkernel_adapters.temporal import start, temporal_worker

from tests.adapters.driver.lawful import breaches
from tests.homes.temporal.clerk import clerk
from tests.homes.temporal.server import MISSING, PROGRAM, TemporalServer

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason=MISSING)
RUNS = int(os.environ.get("RUNS", "100"))
AT_ONCE = 25  # requests of this client
TURNS = 5


def test_many_runs_at_once_on_one_worker(tmp_path: Path) -> None:
    async def whole() -> None:
        server = TemporalServer(tmp_path)
        client = await server.start()
        agent, free = clerk(tmp_path), asyncio.Semaphore(AT_ONCE)
        try:
            async with temporal_worker(client, "many", agent):
                begun = time.monotonic()

                async def talk(number: int) -> str:
                    async with free:
                        run = await start(client, "many", agent, f"run-{number}")
                        await run.say(f"hello {number}")
                    async with free:
                        return await run.rest()

                said = await asyncio.gather(*map(talk, range(RUNS)))
                print(f"\n{RUNS} runs of a turn in {time.monotonic() - begun:.1f} s; {server.how}")
                assert said == [f"I heard: hello {number}" for number in range(RUNS)]
        finally:
            server.kill()

    asyncio.run(whole())


def test_a_history_stays_small_and_its_stream_is_beside_it(tmp_path: Path) -> None:
    """A turn of a text is some 18 events, one with a tool call 40; increments of a reply are one delta in it."""
    watched: list[Delta] = []

    async def whole() -> None:
        server = TemporalServer(tmp_path)
        client = await server.start()
        try:
            async with temporal_worker(client, "small", clerk(tmp_path), watch=lambda _, delta: watched.append(delta)):
                run = await start(client, "small", clerk(tmp_path), "small")
                sizes = []
                for word in ("hello", "tell"):
                    for _ in range(TURNS):
                        before = len((await client.get_workflow_handle("small").fetch_history()).events)
                        await run.say(word)
                        await run.rest()
                        history = await client.get_workflow_handle("small").fetch_history()
                        sizes.append(len(history.events) - before)
                print(f"\nevents a turn, of a text: {sizes[:TURNS]}, with a tool call: {sizes[TURNS:]}")
                assert max(sizes[1:TURNS]) <= 24
                assert max(sizes[TURNS:]) <= 52
                log = await run.log()
        finally:
            server.kill()
        kinds = Counter(type(record.delta).__name__ for record in log)
        assert kinds["ModelText"] == 2 * TURNS, "the two pieces of a reply are one"
        streamed = [delta.text for delta in watched if isinstance(delta, ModelText)]
        assert len(streamed) > 2 * TURNS
        assert "".join(streamed).startswith("I heard: hello")
        assert breaches(log) == []

    asyncio.run(whole())

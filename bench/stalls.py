"""How long the event loop is held up while sessions write their logs: beside the loop, and in it as it once was.

A ticker of one millisecond is the witness: how late it comes is how long nobody else could do anything. The provider
answers at once, so all the time is that of steps and of the disk.
"""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

from loopkernel_adapters.agent import Agent
from loopkernel_adapters.blocking_ports import BlockingRuns
from loopkernel_adapters.ports import Runs
from loopkernel_adapters.providers.scripted import ScriptedProvider, text_reply
from loopkernel_adapters.stores.folders import JsonlFolder
from loopkernel_adapters.stores.in_place import InPlaceRuns
from loopkernel_adapters.stores.sqlite import SqliteRuns

SESSIONS = (1, 200)
TURNS = {1: 100, 200: 5}  # of each session
TICK_SECONDS = 0.001
STORES: dict[str, Callable[[Path], BlockingRuns]] = {
    "SQLite": lambda folder: SqliteRuns(folder / "runs.sqlite"),
    "JSONL": lambda folder: JsonlFolder(folder / "logs"),
}


async def lateness(work: Callable[[], Awaitable[object]]) -> list[float]:
    """How late the ticker came while the work was done, in milliseconds, sorted."""
    loop = asyncio.get_running_loop()
    late: list[float] = []

    async def tick() -> None:
        while True:
            due = loop.time() + TICK_SECONDS
            await asyncio.sleep(TICK_SECONDS)
            late.append((loop.time() - due) * 1e3)

    ticking = asyncio.ensure_future(tick())
    await work()
    await asyncio.sleep(2 * TICK_SECONDS)  # the last stall is seen too
    ticking.cancel()
    return sorted(late)


async def held_up(runs: Runs | BlockingRuns, sessions: int) -> tuple[float, float, float]:
    """The median, the 99th percentile and the longest of the delays, with so many sessions at once."""
    turns = TURNS[sessions]
    agent = Agent(ScriptedProvider([text_reply("so be it")] * (sessions * turns)), runs=runs)

    async def session(number: int) -> None:
        async with agent.session(f"r{number}") as opened:
            for _ in range(turns):
                await opened.say("go on")

    late = await lateness(lambda: asyncio.gather(*(session(number) for number in range(sessions))))
    return late[len(late) // 2], late[len(late) * 99 // 100], late[-1]


def measure() -> None:
    """A row for each store and number of sessions: beside the loop, in it, and how many times longer that is."""
    print("delay of a ticker of 1 ms, in ms: p50, p99, longest; the log beside the loop | within it | ratios")
    for name, place in STORES.items():
        for sessions in SESSIONS:
            figures = []
            for within in (False, True):
                with tempfile.TemporaryDirectory(dir=".", prefix="bench-") as folder:
                    runs = place(Path(folder))
                    figures.append(asyncio.run(held_up(InPlaceRuns(runs) if within else runs, sessions)))
            beside, in_loop = figures
            ratios = " ".join(f"{old / max(new, 0.01):7.1f}" for new, old in zip(beside, in_loop, strict=True))
            shown = " | ".join(" ".join(f"{one:8.2f}" for one in each) for each in figures)
            print(f"{name:<7}{sessions:>4} sessions {shown} | {ratios}")


if __name__ == "__main__":
    measure()

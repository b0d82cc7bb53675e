"""What twice as many cost: blocks, calls, tools and sub-agents of one reply, rounds, and inputs.

Each part that meets them is measured alone: reading a recording, the kernel, the driver, each law.

`python -m bench.linear` prints each factor that is missed, and the worst; `--all` prints all, `--most N` says how many
there are of each at most, and a word tells which tables by their titles (`run: calls`, `driver`).
"""

import argparse
import asyncio
import gc
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from loopkernel.data.blocks import TextBlock
from loopkernel.data.model_deltas import ModelCall, ModelCompleted
from loopkernel.data.states import Idle
from loopkernel.data.thread_deltas import Created
from loopkernel.data.user_deltas import Say
from loopkernel.data.words import StopReason
from loopkernel.judging import KERNEL
from loopkernel.laws.catalogue import PAIR_CHECKS, RUN_LAWS
from loopkernel.laws.judging import judge_run, judge_steps
from loopkernel.replaying import StepRecord, fold
from loopkernel_adapters.driver.asyncio_driver import Driver
from loopkernel_adapters.driver.children import InProcessAgents
from loopkernel_adapters.driver.clocks import ManualClock
from loopkernel_adapters.optional_ports import OptionalPorts
from loopkernel_adapters.ports import RunContext
from loopkernel_adapters.providers.scripted import ScriptedProvider, text_reply
from loopkernel_adapters.stores.memory import MemoryStore
from loopkernel_adapters.tools.input_schema import JsonObject
from loopkernel_adapters.tools.registry import FunctionTool, Registry
from loopkernel_adapters.transcripts.counting import Tally
from loopkernel_adapters.transcripts.diagnosing import diagnosed
from loopkernel_adapters.transcripts.formats import reader_of
from loopkernel_adapters.transcripts.repairing_threads import repaired_conversations
from loopkernel_adapters.transcripts.replaying import AS_RECORDED, reenacted, replayed
from loopkernel_adapters.transcripts.source import Source

from bench.long_shapes import ANY, RECORDINGS, SHAPES, Script, log_of, recording_of

TARGET = 2.3  # when there is twice as much
LITTLE = 0.02  # seconds, below which a factor says nothing
MOST = 2_000
RETRIALS = 2  # of what missed: other work on the machine only ever adds to a time, so the least of them counts
COMPLETED = ModelCompleted(ANY, StopReason.TOOL_USE)
DRIVEN = ("text blocks", "calls", "tools", "chain", "sub-agents", "rounds", "rounds, other tools", "queued inputs")
Work = Callable[[], object]


def seconds(work: Work) -> float:
    """CPU seconds of the work, the least of some samples, with the garbage collector held off."""
    best = float("inf")
    for _ in range(3):
        gc.collect()
        gc.disable()
        begun = time.process_time()
        work()
        best = min(best, time.process_time() - begun)
        gc.enable()
        if best > 1:
            break
    return best


def of_recording(path: Path) -> Iterator[tuple[str, Work]]:
    """What a user does with a recording."""
    source = Source(path)
    yield "diagnose", lambda: diagnosed(source)
    yield "repair", lambda: repaired_conversations(source)
    yield "play", lambda: reenacted(source, reader_of(source), AS_RECORDED, Tally(), [])
    yield "replay", lambda: replayed(source)


def of_log(shape: str, count: int) -> Iterator[tuple[str, Work]]:
    """What a log goes through: the kernel, and each law."""
    records = log_of(shape, count)
    steps = fold(records)
    yield "kernel", lambda: fold(records)
    yield from laws(steps)


def laws(steps: tuple[StepRecord, ...]) -> Iterator[tuple[str, Work]]:
    """Each law of a run by its name, and those of a step together."""
    yield "laws of a step", lambda: judge_steps(steps, KERNEL)
    for law in (*RUN_LAWS, *PAIR_CHECKS):
        yield law, partial(judge_run, law, steps, KERNEL)


def of_driver(shape: str, count: int) -> Iterator[tuple[str, Work]]:
    """The same run through the driver, with its log in memory, to its end."""
    yield "driver", lambda: asyncio.run(driven(SHAPES[shape](count)))


async def driven(script: Script) -> None:
    """A turn of a session, from its creation to its close; a sub-agent answers with a word."""
    said = [*script.replies, *([text_reply("Done.")] * (len(script.busy) + 1))]
    children = [call for reply in script.replies for call in reply if isinstance(call, ModelCall)]
    if any(tool.profile is not None and tool.profile.child for tool in script.tools):
        said += [text_reply("Done.")] * len(children)
    ended = [reply if isinstance(reply[-1], ModelCompleted) else (*reply, COMPLETED) for reply in said]
    tools = Registry(tuple(FunctionTool(tool=tool, function=answers) for tool in script.tools))
    driver = await Driver.open(
        store=MemoryStore(),
        created=Created(session_id="bench", policy=script.policy, tools=tools.offered()),
        provider=ScriptedProvider(ended),
        tools=tools,
        clock=ManualClock(),
        optional=OptionalPorts(agents=InProcessAgents(lambda session_id: MemoryStore())),
    )
    async with driver:
        await driver.send(Say(content=(TextBlock("Go."),)))
        for delta in script.busy:
            await driver.send(delta)
        await driver.rest()
        assert isinstance(driver.state, Idle)


async def answers(given: JsonObject, context: RunContext) -> str:
    """A tool that answers at once."""
    return "It is done."


def measure(most: int = MOST, word: str = "", *, everything: bool = False) -> None:
    """Print the factors, and which of them are missed."""
    sizes = (most // 4, most // 2, most)
    print(f"seconds of CPU for {', '.join(f'{size:,}' for size in sizes)}; target: at most {TARGET} x when they double")
    with tempfile.TemporaryDirectory(prefix="bench-linear-") as folder:
        tables: dict[str, Callable[[int], Iterator[tuple[str, Work]]]] = {
            **{f"recording: {shape}": partial(_recorded, Path(folder), shape) for shape in RECORDINGS},
            **{f"run: {shape}": partial(of_log, shape) for shape in SHAPES},
            **{f"driver: {shape}": partial(of_driver, shape) for shape in DRIVEN},
        }
        for title, works in tables.items():
            if word in title:
                _table(title, sizes, works, everything)


def _recorded(folder: Path, shape: str, count: int) -> Iterator[tuple[str, Work]]:
    path = folder / "recording.jsonl"
    path.write_text(recording_of(shape, count))
    return of_recording(path)


def _table(
    title: str, sizes: tuple[int, ...], works: Callable[[int], Iterator[tuple[str, Work]]], everything: bool
) -> None:
    costs: dict[str, list[float]] = {}
    for size in sizes:
        for name, work in works(size):
            costs.setdefault(name, []).append(seconds(work))
    for _ in range(RETRIALS):
        missed = {name for name, cost in costs.items() if _is_missed(cost)}
        for place in (-2, -1) if missed else ():
            for name, work in works(sizes[place]):
                if name in missed:
                    costs[name][place] = min(costs[name][place], seconds(work))
    print(title)
    for name, cost in costs.items():
        if everything or _is_missed(cost):
            spent = " ".join(f"{each:>8.3f}" for each in cost)
            factor = cost[-1] / cost[-2]
            print(f"  {name:<16} {spent} {factor:>6.2f}  {'MISSED' if _is_missed(cost) else 'met'}", flush=True)


def _is_missed(cost: list[float]) -> bool:
    return cost[-1] > LITTLE and cost[-1] / cost[-2] > TARGET


def main(arguments: list[str]) -> None:
    """Measure what the arguments say."""
    parser = argparse.ArgumentParser(prog="python -m bench.linear", description=__doc__)
    parser.add_argument("word", nargs="?", default="", help="the tables whose titles hold it")
    parser.add_argument("--most", type=int, default=MOST, help="of each thing, at most")
    parser.add_argument("--all", action="store_true", help="print what is met, too")
    given = parser.parse_args(arguments)
    measure(given.most, given.word, everything=given.all)


if __name__ == "__main__":
    main(sys.argv[1:])

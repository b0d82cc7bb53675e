"""What an agent at rest weighs: sessions after one short turn, and a hundred thousand of them in one process.

Beside each stands a bare record of the same conversation, as a loop over dicts would keep it. Run by itself
(`python -m bench.agents`), since the memory that another measurement has freed would be used again unseen.
"""

import asyncio
import gc
import os
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

from loopkernel.data.blocks import TextBlock
from loopkernel.data.ids import ModelOperation
from loopkernel.data.model_deltas import ModelCompleted, ModelText
from loopkernel.data.policy import Policy
from loopkernel.data.states import Idle
from loopkernel.data.thread_deltas import Acquired, Created
from loopkernel.data.usage import Usage
from loopkernel.data.user_deltas import Say
from loopkernel.data.words import StopReason
from loopkernel.replaying import LogRecord, replay
from loopkernel_adapters.driver.asyncio_driver import Driver
from loopkernel_adapters.driver.clocks import ManualClock
from loopkernel_adapters.providers.scripted import ScriptedProvider, text_reply
from loopkernel_adapters.stores.memory import MemoryStore
from loopkernel_adapters.tools.registry import Registry

from bench.workload import READ

FEW = 2_000
MANY = 100_000
DRIVERS = 1_000
POLICY = Policy()  # one object for all, as a program that starts many agents has it
BYTES_TARGET = 3.0  # an agent at rest, to the bare record of its conversation
TIME_TARGET_US = 200.0  # to create one by folding its log
PAGE = os.sysconf("SC_PAGE_SIZE")


def bare(number: int) -> object:
    """The same conversation as dicts."""
    messages = [
        {"role": "user", "content": f"Hello, I am number {number}."},
        {"role": "assistant", "content": f"Hello, number {number}! What can I do for you?"},
    ]
    return {"id": f"agent-{number}", "messages": messages, "usage": {"input": 20, "output": 12}}


def log_of(number: int) -> tuple[LogRecord, ...]:
    """A session's log: it was created, and had one turn."""
    one = ModelOperation(1)
    return (
        LogRecord(Created(session_id=f"agent-{number}", policy=POLICY, tools=(READ,)), 0),
        LogRecord(Acquired(), 0),
        LogRecord(Say(content=(TextBlock(f"Hello, I am number {number}."),)), 1),
        LogRecord(ModelText(one, f"Hello, number {number}! What can I do for you?"), 2),
        LogRecord(ModelCompleted(one, StopReason.END_TURN, Usage(20, 12)), 3),
    )


def at_rest(number: int) -> object:
    """An agent at rest: its log, folded."""
    state = replay(log_of(number))
    assert isinstance(state, Idle)
    return state


def traced(make: Callable[[int], object], count: int) -> float:
    """Bytes that Python holds for each of so many."""
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    made = [make(number) for number in range(count)]
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(made) == count
    return (after - before) / count


def resident() -> int:
    """Bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def weighed(make: Callable[[int], object], count: int) -> tuple[float, float, list[object]]:
    """Bytes of memory, and microseconds of CPU, for each of so many; and these, since they are to stay."""
    gc.collect()
    gc.disable()
    before, begun = resident(), time.process_time()
    made = [make(number) for number in range(count)]
    spent, after = time.process_time() - begun, resident()
    gc.enable()
    return (after - before) / count, spent / count * 1e6, made


async def open_drivers(count: int) -> tuple[float, int]:
    """Bytes of memory for each of so many drivers at rest after a turn, each with a log in memory; and their tasks."""
    before = resident()
    drivers = []
    for number in range(count):
        driver = await Driver.open(
            store=MemoryStore(),
            created=Created(session_id=f"agent-{number}", policy=POLICY, tools=(READ,)),
            provider=ScriptedProvider([text_reply(f"Hello, number {number}!")]),
            tools=Registry(()),
            clock=ManualClock(),
        )
        await driver.__aenter__()
        await driver.send(Say(content=(TextBlock(f"Hello, I am number {number}."),)))
        await driver.rest()
        drivers.append(driver)
    figure = (resident() - before) / count
    tasks = len(asyncio.all_tasks()) - 1
    for driver in drivers:
        await driver.close()
    return figure, tasks


def main() -> None:
    """Print the figures, each with its target."""
    print("agents at rest after one short turn; bytes for each")
    at_rest(0)  # what is made once is made before
    small, plain = traced(at_rest, FEW), traced(bare, FEW)
    verdict = "met" if small / plain <= BYTES_TARGET else "MISSED"
    print(f"{f'{FEW:,} traced':<18} {small:>8,.0f}, bare record {plain:>6,.0f}, ratio {small / plain:>5.2f}  {verdict}")
    dicts, folded, kept = weighed(bare, MANY)
    del kept
    heavy, spent, agents = weighed(at_rest, MANY)
    print(f"{f'{MANY:,} resident':<18} {heavy:>8,.0f}, bare record {dicts:>6,.0f}, ratio {heavy / dicts:>5.2f}")
    verdict = "met" if spent <= TIME_TARGET_US else "MISSED"
    print(f"{'':<18} {heavy * MANY / 2**20:>8,.0f} MiB in all, {spent * MANY / 1e6:.1f} s to fold their logs")
    print(f"{'':<18} {spent:>8.1f} us for each, bare record {folded:.2f}  {verdict} (at most {TIME_TARGET_US:g})")
    begun = time.process_time()
    gc.collect()
    print(f"{'':<18} {(time.process_time() - begun) * 1e3:>8.0f} ms for the garbage collector to look at all of them")
    del agents
    gc.collect()
    driver, tasks = asyncio.run(open_drivers(DRIVERS))
    print(f"{f'{DRIVERS:,} drivers':<18} {driver:>8,.0f} resident, with their logs in memory; tasks at rest: {tasks}")


if __name__ == "__main__":
    main()

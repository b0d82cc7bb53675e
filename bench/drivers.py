"""The driver beside a loop written by hand (T3 to T8 of the targets): time and memory for rounds, calls and pieces.

Both take turns within one process, and each figure is a median of CPU time. `python -m bench.drivers weight N` is a
process of its own for one run of N rounds, since the peak of memory belongs to a process.
"""

import asyncio
import gc
import re
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path

from attrs import frozen
from loopkernel.data.thread_deltas import Created
from loopkernel.replaying import LogRecord, replay
from loopkernel_adapters.stores.memory import MemoryStore
from typing_extensions import override

from bench.agent_work import by_hand, driven, streamed_by_hand

SAMPLES = 7
ROUNDS = 1_000
MORE_ROUNDS = 4_000
CALLS = 1_000
PIECES = 10_000
Job = Callable[[], Coroutine[object, object, None]]


@frozen
class Work:
    """The same work through the driver, with a log in that store, and by hand; and how much of it there is."""

    driven: Callable[[MemoryStore], Coroutine[object, object, None]]
    by_hand: Job
    count: int


def spent(job: Job, count: int) -> float:
    """Microseconds of CPU for each of so many, the garbage collector included."""
    gc.collect()
    start = time.process_time()
    asyncio.run(job())
    return (time.process_time() - start) / count * 1e6


def beside(mine: Job, theirs: Job, count: int) -> tuple[float, float, float]:
    """Medians of the driver and of the naive loop, in alternate rounds, and the median of the paired ratios."""
    pairs = [(spent(theirs, count), spent(mine, count)) for _ in range(SAMPLES)]
    naive, driver = (statistics.median(column) for column in zip(*pairs, strict=True))
    return driver, naive, statistics.median(high / low for low, high in pairs)


def growth(many: Job, many_count: int, few: Job, few_count: int, samples: int = SAMPLES) -> tuple[float, float, float]:
    """Medians for many and for few, and the median of the paired ratios. The few are done over and over."""

    async def repeated() -> None:
        for _ in range(repeats):
            await few()

    repeats = max(many_count // few_count // 2, 1)
    pairs = [(spent(repeated, few_count * repeats), spent(many, many_count)) for _ in range(samples)]
    small, large = (statistics.median(column) for column in zip(*pairs, strict=True))
    return large, small, statistics.median(high / low for low, high in pairs)


def verdict(figure: float, target: float) -> str:
    """Whether the target is met."""
    return f"{'met' if figure <= target else 'MISSED'} (at most {target:g})"


def line(number: str, what: str, figures: tuple[float, float, float], target: float) -> None:
    """One line: what the driver costs, what it is measured beside, the ratio and the target."""
    mine, beside_it, ratio = figures
    print(f"{number:<4} {what:<34} {mine:>9.2f} {beside_it:>9.2f} {ratio:>7.2f}  {verdict(ratio, target)}")


def measure_beside(number: str, what: str, work: Work, target: float) -> None:
    """One target beside the loop by hand, and whose share of it is whose: the kernel's is that of the same log."""
    store = MemoryStore()
    asyncio.run(work.driven(store))
    records = store.load()
    assert isinstance(records[0].delta, Created)
    figures = beside(lambda: work.driven(MemoryStore()), work.by_hand, work.count)
    line(number, what, figures, target)
    kernel = statistics.median(spent(lambda: _replayed(records), work.count) for _ in range(SAMPLES))
    for share, each in (("of which the kernel", kernel), ("and the driver", figures[0] - kernel)):
        print(f"     {share:<34} {each:>9.2f} {'':>9} {each / figures[1]:>7.2f}")


async def _replayed(records: Sequence[LogRecord]) -> None:
    replay(records)


def weigh(rounds: int) -> int:
    """The peak of memory of a process that makes so many rounds, in bytes."""
    command = [sys.executable, "-m", "bench.drivers", "weight", str(rounds)]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


class Elsewhere(MemoryStore):
    """A log that is kept elsewhere, and takes no memory here."""

    @override
    def append(self, records: Sequence[LogRecord], durable: bool) -> None:
        pass


def weigh_this_process(rounds: int) -> None:
    """Make the rounds, with the log elsewhere, and print the peak of memory."""
    asyncio.run(driven(rounds, store=Elsewhere()))
    print(peak_of_memory())


def peak_of_memory() -> int:
    """Bytes. What `getrusage` tells begins with the peak of the process that started this one, so not on Linux."""
    status = Path("/proc/self/status")
    found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text()) if status.exists() else None
    if found is not None:
        return int(found[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def measure_memory() -> None:
    """T5: what a round leaves in memory, its log being elsewhere."""
    few, many, more = (sorted(weigh(rounds) for _ in range(3))[1] for rounds in (10, ROUNDS, MORE_ROUNDS))
    # Against still more rounds: what the imports have freed hides the first thousand.
    kept = (more - many) / (MORE_ROUNDS - ROUNDS) / 1024
    print(f"T5   {f'KiB kept a round, to {MORE_ROUNDS:,} rounds':<34} {kept:>9.2f} {'':>17}  {verdict(kept, 2.0)}")
    peak = many / 2**20
    print(f"T5   {'peak of memory, MiB':<34} {peak:>9.1f} {'':>17}  {verdict(peak, 35.0)}")
    print(f"     {'of which after 10 rounds':<34} {few / 2**20:>9.1f}")


def measure_long_run() -> None:
    """T4: a hundred thousand rounds, at the recursion limit that Python has by default."""
    assert sys.getrecursionlimit() == 1_000
    each = spent(lambda: driven(100_000), 100_000)
    print(f"T4   {'100,000 rounds, us each':<34} {each:>9.2f} {'':>17}  met (they finish)")


def measure() -> None:
    """Print the figures, each with its target."""
    print(f"the driver beside a loop by hand; microseconds of CPU, medians of {SAMPLES} alternate rounds")
    print(f"{'':<39} {'driver':>9} {'beside':>9} {'ratio':>7}")
    rounds = Work(lambda store: driven(ROUNDS, store=store), lambda: by_hand(ROUNDS), ROUNDS)
    measure_beside("T3", f"a round, {ROUNDS:,} rounds", rounds, 10)
    line(
        "T4", "growth, 10,000 rounds to 100", growth(lambda: driven(10_000), 10_000, lambda: driven(100), 100, 3), 1.15
    )
    measure_long_run()
    measure_memory()
    calls = Work(lambda store: driven(1, CALLS, store=store), lambda: by_hand(1, CALLS), CALLS)
    measure_beside("T6", f"a call, {CALLS:,} at once", calls, 4)
    line("T6", "growth, 1,000 calls to 100", growth(lambda: driven(1, 1_000), 1_000, lambda: driven(1, 100), 100), 1.2)
    pieces = Work(lambda store: driven(0, pieces=PIECES, store=store), lambda: streamed_by_hand(PIECES), PIECES)
    measure_beside("T7", f"a piece of text, {PIECES:,} pieces", pieces, 8)
    long, short = (lambda: driven(0, pieces=100_000)), (lambda: driven(0, pieces=1_000))
    line("T8", "growth, 100,000 pieces to 1,000", growth(long, 100_000, short, 1_000), 1.15)


if __name__ == "__main__":
    if sys.argv[1:2] == ["weight"]:
        weigh_this_process(int(sys.argv[2]))
    else:
        measure()

"""Measure the kernel against its floor, the driver against a loop by hand, and print every figure with its target.

Kernel and floor take turns within one process; each figure is a median of paired samples of CPU time.
"""

import gc
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

from loopkernel.data.deltas import Delta
from loopkernel.data.model_deltas import ModelCall, ModelText
from loopkernel.data.states import Executing, State, Streaming
from loopkernel.data.steps import Context
from loopkernel.loop.transition import transition

from bench import (
    drivers,
    durable,
    endurance,
    families,
    floor,
    gates,
    installation,
    judging,
    scheduling,
    stalls,
    transcripts,
)
from bench.workload import contexts, streaming_after

SAMPLES = 9
ROUNDS = 300
INCREMENTS = 2_000
LENGTHS = (10, 100, 1_000, 100_000)
APART = ("agents", "agent_table")
RATIO_TARGET = 3.0  # a round of the kernel to a round of the floor
GROWTH_TARGET = 1.15  # per delta, thread of 100,000 rounds to thread of 100


def timed(work: Callable[[], object]) -> float:
    """CPU seconds of the work, with the garbage collector held off."""
    gc.collect()
    gc.disable()
    start = time.process_time()
    work()
    spent = time.process_time() - start
    gc.enable()
    return spent


def kernel_rounds(state: State, rounds: tuple[tuple[Context, ...], ...]) -> State:
    """The kernel goes through the rounds."""
    for steps in rounds:
        for context in steps:
            state, _ = transition(state, context)
    return state


def floor_rounds(state: Streaming, rounds: tuple[tuple[Context, ...], ...]) -> State:
    """The floor builds what the kernel would have built."""
    for steps in rounds:
        text, call, end, verdict, result = steps
        assert isinstance(text.delta, ModelText)
        assert isinstance(call.delta, ModelCall)
        number = text.now_ms
        streaming, _ = floor.increment(state, text, text.delta)
        streaming, _ = floor.call(streaming, call, call.delta, number)
        executing, _ = floor.completed(streaming, end)
        executing, _ = floor.checked(executing, verdict, number)
        state, _ = floor.succeeded(executing, result, number)
    return state


def kernel_increments(state: State, texts: list[Context]) -> None:
    """The kernel takes pieces of text."""
    for context in texts:
        state, _ = transition(state, context)


def floor_increments(state: Streaming, texts: list[tuple[Context, ModelText]]) -> None:
    """The floor takes pieces of text."""
    for context, delta in texts:
        state, _ = floor.increment(state, context, delta)


def kernel_one(state: State, context: Context, times: int) -> None:
    """The kernel applies one delta to one state, over and over."""
    for _ in range(times):
        transition(state, context)


def floor_one_result(state: Executing, context: Context, number: int, times: int) -> None:
    """The floor builds one result step, over and over."""
    for _ in range(times):
        floor.succeeded(state, context, number)


def paired(kernel: Callable[[], object], bottom: Callable[[], object]) -> tuple[float, float, float]:
    """Median seconds of the kernel and of the floor, and the median of their paired ratios."""
    mine, theirs, ratios = [], [], []
    for _ in range(SAMPLES):
        low = timed(bottom)
        high = timed(kernel)
        mine.append(high)
        theirs.append(low)
        ratios.append(high / low)
    return statistics.median(mine), statistics.median(theirs), statistics.median(ratios)


def report(name: str, rounds: int, count: int, figures: tuple[float, float, float]) -> float:
    """One line of the table; gives back the kernel's microseconds per item."""
    kernel, bottom, ratio = (figures[0] / count * 1e6, figures[1] / count * 1e6, figures[2])
    verdict = "met" if ratio <= RATIO_TARGET else "MISSED"
    print(f"{name:<12} {rounds:>8,} {kernel:>10.2f} {bottom:>10.2f} {ratio:>7.2f}  {verdict}")
    return kernel


def measure(length: int) -> dict[str, float]:
    """All figures at one thread length."""
    state = streaming_after(length)
    rounds = contexts(length + 1, ROUNDS)
    assert kernel_rounds(state, rounds[:9]) == floor_rounds(state, rounds[:9]), "the floor builds something else"
    texts: list[Delta] = [context.delta for steps in rounds for context in steps[:1]]
    first = texts[0]
    assert isinstance(first, ModelText)
    pieces = [Context(first, length) for _ in range(INCREMENTS)]
    typed = [(context, first) for context in pieces]
    executing: State = state
    for context in rounds[0][:4]:
        executing = transition(executing, context).next
    assert isinstance(executing, Executing)
    waiting, result = executing, rounds[0][4]
    return {
        "increment": report(
            "increment",
            length,
            INCREMENTS,
            paired(lambda: kernel_increments(state, pieces), lambda: floor_increments(state, typed)),
        ),
        "tool result": report(
            "tool result",
            length,
            ROUNDS,
            paired(
                lambda: kernel_one(waiting, result, ROUNDS),
                lambda: floor_one_result(waiting, result, length + 1, ROUNDS),
            ),
        ),
        "whole round": report(
            "whole round",
            length,
            ROUNDS,
            paired(lambda: kernel_rounds(state, rounds), lambda: floor_rounds(state, rounds)),
        ),
    }


def main() -> int:
    """Print the table of costs, then the growth with the length of the thread."""
    print(f"Python {platform.python_version()}; microseconds of CPU, medians of {SAMPLES} paired samples")
    print(f"target: at most {RATIO_TARGET} x the floor of the same run")
    print(f"{'what':<12} {'rounds':>8} {'kernel us':>10} {'floor us':>10} {'ratio':>7}")
    figures = {length: measure(length) for length in LENGTHS}
    print(f"growth from 100 to 100,000 rounds; target: at most {GROWTH_TARGET} x")
    for name, small in figures[100].items():
        growth = figures[100_000][name] / small
        print(f"{name:<12} {growth:>7.2f}  {'met' if growth <= GROWTH_TARGET else 'MISSED'}")
    scheduling.measure()
    endurance.measure()
    gates.measure()
    families.measure()
    drivers.measure()
    durable.measure()
    judging.measure()
    stalls.measure()
    transcripts.report()
    installation.measure()
    sys.stdout.flush()
    # What a process has measured before changes what it measures next; so each of these has one of its own.
    ended = [subprocess.run([sys.executable, "-m", f"bench.{part}"], check=False).returncode for part in APART]
    return max(ended)


if __name__ == "__main__":
    sys.exit(main())

"""The table that a user would ask for: what `Agent` costs with a typed tool, beside a loop by hand in the same run.

Both take turns in one process. Each figure is the least CPU time of several samples, which other work on the machine
can only raise; the garbage collector is included. `python -m bench.agent_table` prints the table, with the figures of
the last release (`released.json`) beside it. With `--gate` it fails where a ratio has got worse than those by more than
15 %, or a count by more than 2 %; `--record` keeps today's as those of a release. `--counts` does the same for the
counts of calls alone, in seconds and on any machine; a test holds these (`tests/bench`).
"""

import argparse
import asyncio
import gc
import json
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path

from attrs import frozen
from loopkernel.codec import state_to_text
from loopkernel.data.effects import Request
from loopkernel.data.events import ReplyGrew
from loopkernel.data.ids import ModelOperation
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import ModelCall, ModelCompleted, ModelDelta, ModelText
from loopkernel.data.states import State
from loopkernel.data.tools import EffectClass
from loopkernel.data.words import StopReason, TurnEndReason
from loopkernel.loop import transition as transition_module
from loopkernel_adapters.agent import Agent
from loopkernel_adapters.ports import Provider
from loopkernel_adapters.tools.functions import tool
from typing_extensions import override

from bench.agent_work import POLICY, WORD, by_hand, streamed_by_hand
from bench.call_counts import calls_of

SAMPLES = 15
TRIES = 3  # of a row that looks worse, since a busy machine makes it so as well
WORSE = 1.15
MORE_CALLS = 1.02  # nothing else that the machine does moves a count
RELEASED = Path(__file__).with_name("released.json")
Job = Callable[[], Coroutine[object, object, object]]


@frozen
class Row:
    """A line of the table: what is measured, `count` of it, through the agent and by hand; and what it should be."""

    name: str
    count: int
    agent: Job
    by_hand: Job
    target: float
    compiled_target: float


class Scripted(Provider):
    """A model that makes `rounds` rounds of `calls` calls, then says `pieces` pieces of text."""

    def __init__(self, rounds: int, calls: int, pieces: int) -> None:
        self._rounds = rounds
        self._calls = calls
        self._pieces = pieces
        self._asked = 0

    @override
    async def stream(self, request: Request, operation: ModelOperation) -> AsyncIterator[ModelDelta]:
        self._asked += 1
        if self._asked > self._rounds:
            for _ in range(self._pieces):
                yield ModelText(operation, WORD)
            yield ModelCompleted(operation, StopReason.END_TURN)
            return
        for number in range(self._calls):
            given = Json.parse(f'{{"path":"{self._asked}-{number}"}}')  # as an adapter reads what came over the wire
            yield ModelCall(operation=operation, provider_id=f"call_{self._asked}_{number}", tool="read", input=given)
        yield ModelCompleted(operation, StopReason.TOOL_USE)


async def by_agent(rounds: int, calls: int = 1) -> State:
    """So many rounds of so many calls, awaited."""
    ran = 0

    @tool(effect=EffectClass.READ_ONLY)
    async def read(path: str) -> str:
        """Read a file."""
        nonlocal ran
        ran += 1
        return "ok"

    result = await Agent(Scripted(rounds, calls, 1), [read], policy=POLICY).run("go")
    assert (result.reason, ran, len(result.calls)) == (TurnEndReason.MODEL_STOP, rounds * calls, rounds * calls)
    return result.state


async def streamed_by_agent(pieces: int) -> None:
    """A reply of so many pieces, whose events are iterated over. Pieces that come all at once may come merged."""
    seen = 0
    async for event in Agent(Scripted(0, 0, pieces), policy=POLICY).run("go"):
        if type(event) is ReplyGrew:
            seen += len(event.text)
    assert seen == pieces * len(WORD)


ROWS = (
    Row("a turn, of 100", 100, lambda: by_agent(100), lambda: by_hand(100), 60, 20),
    Row("a turn, of 1,000", 1_000, lambda: by_agent(1_000), lambda: by_hand(1_000), 60, 20),
    Row("a parallel call, of 100", 100, lambda: by_agent(1, 100), lambda: by_hand(1, 100), 15, 6),
    Row("a parallel call, of 1,000", 1_000, lambda: by_agent(1, 1_000), lambda: by_hand(1, 1_000), 15, 6),
    # The first thousand pieces of a stream pass as they come (see `driver/pacing.py`): here each of them is seen.
    Row("a streamed chunk, of 1,000", 1_000, lambda: streamed_by_agent(1_000), lambda: streamed_by_hand(1_000), 14, 6),
    Row(
        "a streamed chunk, of 10,000",
        10_000,
        lambda: streamed_by_agent(10_000),
        lambda: streamed_by_hand(10_000),
        14,
        6,
    ),
)
BYTES = "bytes of a saved turn, of 1,000"
BYTES_TARGET = 200
# Half of what was counted first: 957 and 870. They do not depend on what else the machine does.
CALLS_OF_A_TURN, CALLS_OF_A_CALL = "Python calls of a turn", "Python calls of a parallel call"
CALL_TARGETS = {CALLS_OF_A_TURN: 478, CALLS_OF_A_CALL: 435}


def spent(job: Job, count: int, repeats: int) -> float:
    """Microseconds of CPU for each of so many, done so many times over."""

    async def repeated() -> None:
        for _ in range(repeats):
            await job()

    gc.collect()
    start = time.process_time()
    asyncio.run(repeated())
    return (time.process_time() - start) / count / repeats * 1e6


def least(agent: Callable[[], float], row: Row, samples: int) -> tuple[float, float]:
    """The least of an agent, and the least of the loop by hand, in alternate samples: microseconds for each of the row.

    A sample of the loop by hand lasts as long as one of the agent (by 100 repeats at most), since of shorter ones more
    find the machine with nothing else to do.
    """
    times = min(round(agent() / spent(row.by_hand, row.count, 10)), 100)
    pairs = [(agent(), spent(row.by_hand, row.count, times)) for _ in range(samples)]
    by_agent, hand = (min(each) for each in zip(*pairs, strict=True))
    return by_agent, hand


def ratio(row: Row) -> float:
    """What the agent costs, as a multiple of the loop by hand."""
    by_agent, hand = least(lambda: spent(row.agent, row.count, 1), row, SAMPLES)
    return by_agent / hand


def bytes_of_a_turn() -> float:
    """What a turn adds to the state as it is saved."""
    return len(state_to_text(asyncio.run(by_agent(1_000)))) / 1_000


def kernel_form() -> str:
    """Whether the kernel that is measured was compiled."""
    return "interpreted" if str(transition_module.__file__).endswith(".py") else "compiled"


def measure(tolerated: dict[str, float]) -> dict[str, float]:
    """Print the table; a row that looks worse than is tolerated is measured again. Gives back the figures."""
    form = kernel_form()
    released = read_released().get(form, {})
    print(f"an agent with a typed tool, x a loop by hand in the same run; CPU time; kernel {form}")
    print(f"{'':<34} {'now':>8} {'target':>8} {'release':>8}")
    found: dict[str, float] = {}
    for row in ROWS:
        figure = ratio(row)
        for _ in range(1, TRIES):
            if figure > tolerated.get(row.name, figure):
                figure = min(figure, ratio(row))
        found[row.name] = round(figure, 1)
        print_row(row.name, found, row.compiled_target if form == "compiled" else row.target, released)
    found[BYTES] = round(bytes_of_a_turn())
    print_row(BYTES, found, BYTES_TARGET, released)
    return found | measure_counts()


def counted() -> dict[str, float]:
    """How many Python functions are entered for a turn, and for a parallel call."""
    return {
        CALLS_OF_A_TURN: round(calls_of(by_agent)),
        CALLS_OF_A_CALL: round(calls_of(lambda count: by_agent(1, count))),
    }


def measure_counts() -> dict[str, float]:
    """Print the rows of the counts, and give them back."""
    released, found = read_released().get(kernel_form(), {}), counted()
    for name, target in CALL_TARGETS.items():
        print_row(name, found, target, released)
    return found


def tolerated_by(released: dict[str, float]) -> dict[str, float]:
    """The most that each figure may be, by those of the last release."""
    return {name: figure * (MORE_CALLS if name in CALL_TARGETS else WORSE) for name, figure in released.items()}


def print_row(name: str, found: dict[str, float], target: float, released: dict[str, float]) -> None:
    """One line: today's figure, the target, and that of the last release."""
    figure, verdict = found[name], "met" if found[name] <= target else "MISSED"
    print(f"{name:<34} {figure:>8g} {target:>8g} {released.get(name, '-')!s:>8}  {verdict}", flush=True)


def read_released() -> dict[str, dict[str, float]]:
    """The figures of the last release, for each form of the kernel."""
    figures: dict[str, dict[str, float]] = json.loads(RELEASED.read_text()) if RELEASED.exists() else {}
    return figures


def main(arguments: list[str]) -> int:
    """Print the table, and do with it what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m bench.agent_table", description="Measure what an agent costs.")
    parser.add_argument("--gate", action="store_true", help="fail where a figure got worse since the last release")
    parser.add_argument("--record", action="store_true", help="keep the figures as those of a release")
    parser.add_argument("--counts", action="store_true", help="only count calls, which nothing else moves")
    asked = parser.parse_args(arguments)
    released = read_released()
    before = released.get(kernel_form(), {})
    tolerated = tolerated_by(before)
    found = measure_counts() if asked.counts else measure(tolerated if asked.gate else {})
    if asked.record:
        RELEASED.write_text(json.dumps({**released, kernel_form(): before | found}, indent=2) + "\n")
    worse = [name for name, most in tolerated.items() if name in found and found[name] > most]
    if not asked.gate or not worse:
        return 0
    for name in worse:
        print(f"{name}: {found[name]:g}, and {before[name]:g} in the last release; {tolerated[name]:.4g} at most")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The time line of a run: an agent with a real driver in virtual time, and a bar for all that takes time in it."""

import asyncio
from collections.abc import AsyncIterator, Sequence

from loopkernel import EffectClass, Json, LogRecord, deltas, effects, fold, policy
from loopkernel.data.model_deltas import ModelDelta
from loopkernel_adapters import Agent, MemoryRuns, Provider, WaitingCall, tool
from loopkernel_adapters.driver.clocks import WallClock
from loopkernel_adapters.testing.virtual_loop import VirtualLoop
from loopkernel_adapters.viewing.bars import Bar, BarKind, Bars

from scripts.drawing.svg import INK, RULE, SOFT, framed, text

COLOURS = {
    BarKind.TURN: "#98a2b3",
    BarKind.MODEL: "#3b6fd4",
    BarKind.TOOL: "#2f9e63",
    BarKind.PERSON: "#d9822b",
    BarKind.RETRY: "#c2413b",
    BarKind.COMPACTION: "#7a5ac2",
    BarKind.OTHER: "#667085",
}
WIDTH, LEFT, TOP, ROW = 860, 310, 62, 26
LONGEST = 42  # characters of what stands before a bar


@tool(effect=EffectClass.READ_ONLY)
async def read_file(path: str) -> str:
    """Read a file."""
    await asyncio.sleep(len(path) / 10)
    return "the text of it"


@tool(effect=EffectClass.DANGEROUS)
async def shell(command: str) -> str:
    """Run a command."""
    await asyncio.sleep(2.4)
    return "31 passed"


class Model(Provider):
    """Is overloaded, then reads two files side by side, runs a command, and says what came of it."""

    async def stream(self, request: effects.Request, operation: effects.ModelOperation) -> AsyncIterator[ModelDelta]:
        await asyncio.sleep(0.6)
        if operation == 1:
            yield deltas.ModelFailed(operation, error=deltas.ErrorClass.OVERLOADED, message="try later")
            return
        yield deltas.ModelText(operation, "I look at the tests.")
        await asyncio.sleep(0.7)
        calls = {2: [("read_file", "test_a.py"), ("read_file", "tests/test_stores.py")], 3: [("shell", "pytest -q")]}
        for number, (name, given) in enumerate(calls.get(operation, [])):
            named = Json.of({"command" if name == "shell" else "path": given})
            yield deltas.ModelCall(operation, provider_id=f"{operation}{number}", tool=name, input=named)
        stop = deltas.StopReason.TOOL_USE if operation in calls else deltas.StopReason.END_TURN
        yield deltas.ModelCompleted(operation, stop)


async def approves(call: WaitingCall) -> bool:
    """A person who looks at it for two seconds."""
    await asyncio.sleep(2)
    return True


def timed_run() -> Sequence[LogRecord]:
    """The log of the run. Its times are milliseconds from its beginning."""
    loop, runs = VirtualLoop(), MemoryRuns()

    def passed_ns() -> int:
        return round(loop.time() * 1000) * 1_000_000

    plain = policy.Policy(retry=policy.Retry(base_ms=1_500))
    clock = WallClock(passed_ns, passed_ns)
    agent = Agent(Model(), [read_file, shell], policy=plain, runs=runs, approve=approves, clock=clock)

    async def whole() -> None:
        await agent.run("Are the tests green?", run="tests")

    loop.play(whole())
    return runs.read("tests")


def bars_of(run: Sequence[LogRecord]) -> list[Bar]:
    """What takes time in it, in the order of the beginnings, the turn before what belongs to it."""
    bars = Bars()
    for number, step in enumerate(fold(run), start=1):
        bars.take(number, step.context.now_ms, step)
    return sorted(bars.bars, key=lambda bar: (bar.from_ms, bar.kind is not BarKind.TURN))


def drawn_timeline(run: Sequence[LogRecord]) -> str:
    """The picture."""
    bars = bars_of(run)
    begin, end = run[0].now_ms, run[-1].now_ms
    height = TOP + ROW * len(bars) + 14

    def x(at_ms: int) -> float:
        return round(LEFT + (WIDTH - LEFT - 24) * (at_ms - begin) / (end - begin), 1)

    parts = [text(16, 24, "What takes time in a run, as its log tells it", fill=INK, size=15)]
    for second in range((end - begin) // 1000 + 1):
        at = x(begin + second * 1000)
        parts.append(f'<path d="M{at:g} {TOP - 6}V{height - 12}" stroke="{RULE}"/>')
        parts.append(text(at, TOP - 10, f"{second} s", fill=SOFT, anchor="middle", size=11))
    for number, bar in enumerate(bars):
        y = TOP + ROW * number
        wide = max(3.0, round(x(bar.to_ms) - x(bar.from_ms), 1))
        label = f"{bar.kind.value}: {bar.label}" if bar.kind.value not in bar.label else bar.label
        parts.append(text(16, y + 15, label if len(label) <= LONGEST else f"{label[: LONGEST - 1]}…", size=12))
        place = f'x="{x(bar.from_ms):g}" y="{y + 3}" width="{wide:g}" height="16" rx="3"'
        parts.append(f'<rect {place} fill="{COLOURS[bar.kind]}"/>')
    return framed(WIDTH, height, "The time line of a run", parts)

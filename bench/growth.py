"""What a turn costs as a conversation grows, to 100,000 rounds in one run: printed, and drawn.

    python -m bench.growth --picture docs/performance.svg

A cost that does not grow is a level line. Each point is the CPU time of the rounds since the point before, divided by
their number; the garbage collector, snapshots and all else that a long run brings are in it.
"""

import argparse
import asyncio
import math
import sys
import time
from collections.abc import AsyncIterator, Sequence
from itertools import pairwise
from pathlib import Path

from attrs import frozen
from loopkernel.data.effects import Request
from loopkernel.data.ids import ModelOperation
from loopkernel.data.model_deltas import ModelDelta
from loopkernel.data.tools import EffectClass
from loopkernel.data.words import TurnEndReason
from loopkernel_adapters.agent import Agent
from loopkernel_adapters.tools.functions import tool
from typing_extensions import override

from bench import naive
from bench.agent_table import Scripted, kernel_form
from bench.agent_work import POLICY, WORD, naive_call

MOST = 100_000
MARKS = (100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000)
LARGEST_GROWTH = 1.15  # of the last point beside the best one before 1,000 rounds


@frozen
class Point:
    """So many rounds into the run, a round takes so many microseconds of CPU."""

    rounds: int
    each: float


class Timed(Scripted):
    """Notes the time when it is asked for the round after a mark."""

    def __init__(self, rounds: int) -> None:
        super().__init__(rounds, 1, 1)
        self.times = [(0, time.process_time())]

    @override
    async def stream(self, request: Request, operation: ModelOperation) -> AsyncIterator[ModelDelta]:
        note(self.times, request.number - 1)
        async for delta in super().stream(request, operation):
            yield delta


def note(times: list[tuple[int, float]], rounds: int) -> None:
    """So many rounds are over."""
    if rounds in MARKS:
        times.append((rounds, time.process_time()))


def points(times: Sequence[tuple[int, float]]) -> tuple[Point, ...]:
    """The cost of a round between each two marks."""
    return tuple(
        Point(rounds, (now - before) / (rounds - earlier) * 1e6) for (earlier, before), (rounds, now) in pairwise(times)
    )


async def of_agent(rounds: int) -> tuple[Point, ...]:
    """Through `Agent` with a typed tool, and a log in memory."""

    @tool(effect=EffectClass.READ_ONLY)
    async def read(path: str) -> str:
        """Read a file."""
        return "ok"

    model = Timed(rounds)
    result = await Agent(model, [read], policy=POLICY).run("go")
    assert (result.reason, len(result.calls)) == (TurnEndReason.MODEL_STOP, rounds)
    return points(model.times)


async def of_loop_by_hand(rounds: int) -> tuple[Point, ...]:
    """The loop over dicts."""
    times, asked = [(0, time.process_time())], 0

    async def model(messages: list[naive.Message]) -> naive.Message:
        nonlocal asked
        note(times, asked)
        asked += 1
        if asked > rounds:
            return {"role": "assistant", "content": WORD}
        return {"role": "assistant", "content": None, "tool_calls": [naive_call(asked, 0)]}

    async def read(path: str) -> str:
        return "ok"

    await naive.agent(model, {"read": read}, "go")
    return points(times)


# --- drawn ------------------------------------------------------------------------------------------------

_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _RIGHT, _TOP = 720, 360, 64, 44, 150, 24


def picture(curves: dict[str, tuple[Point, ...]]) -> str:
    """The curves as SVG: rounds to the right, microseconds a round upwards, each ten times as many a step."""
    decades = range(2, 6), range(4)
    across = (_WIDTH - _LEFT - _RIGHT) / 3
    up = (_HEIGHT - _TOP - _BOTTOM) / 3
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" font-family="sans-serif" '
        'font-size="12" role="img" aria-label="CPU time of a round as a conversation grows">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
    ]
    for decade in decades[0]:
        x = _LEFT + (decade - 2) * across
        lines.append(f'<path d="M{x:.0f} {_TOP}V{_HEIGHT - _BOTTOM}" stroke="#ddd"/>')
        lines.append(f'<text x="{x:.0f}" y="{_HEIGHT - _BOTTOM + 18}" text-anchor="middle">{10**decade:,}</text>')
    for decade in decades[1]:
        y = _HEIGHT - _BOTTOM - decade * up
        lines.append(f'<path d="M{_LEFT} {y:.0f}H{_WIDTH - _RIGHT}" stroke="#ddd"/>')
        lines.append(f'<text x="{_LEFT - 8}" y="{y + 4:.0f}" text-anchor="end">{10**decade:,}</text>')
    lines.append(f'<text x="{_LEFT}" y="{_TOP - 8}">microseconds of CPU a round</text>')
    lines.append(f'<text x="{_WIDTH - _RIGHT}" y="{_HEIGHT - 8}" text-anchor="end">rounds so far</text>')
    for (name, curve), colour in zip(curves.items(), ("#0b6e4f", "#b3541e"), strict=True):
        places = [
            (_LEFT + (_log(point.rounds) - 2) * across, _HEIGHT - _BOTTOM - _log(point.each) * up) for point in curve
        ]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        lines.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        lines += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in places]
        x, y = places[-1]
        lines.append(f'<text x="{x + 10:.1f}" y="{y + 4:.1f}" fill="{colour}">{name}</text>')
    return "\n".join([*lines, "</svg>", ""])


def _log(value: float) -> float:
    return math.log10(max(value, 1))


def main(arguments: list[str]) -> int:
    """Print the points, and draw them where that is asked for; 1 where a round costs more as the run goes on."""
    parser = argparse.ArgumentParser(prog="python -m bench.growth", description="Measure how a turn's cost grows.")
    parser.add_argument("--rounds", type=int, default=MOST, help=f"how far (else {MOST:,})")
    parser.add_argument("--picture", type=Path, help="draw the curves into this file, as SVG")
    asked = parser.parse_args(arguments)
    name = f"an agent ({kernel_form()})"
    by_hand = asyncio.run(of_loop_by_hand(asked.rounds))  # first: it pays for nothing that the agent leaves behind
    curves = {name: asyncio.run(of_agent(asked.rounds)), "the loop by hand": by_hand}
    for curve, found in curves.items():
        for point in found:
            print(f"{curve:<24} {point.rounds:>8,} rounds {point.each:>8.1f} us a round")
    if asked.picture is not None:
        asked.picture.write_text(picture(curves))
    early = min(point.each for point in curves[name] if point.rounds <= 1_000)
    growth = curves[name][-1].each / early
    print(f"the last rounds cost {growth:.2f} x the first ones; target {LARGEST_GROWTH}")
    return 0 if growth <= LARGEST_GROWTH else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

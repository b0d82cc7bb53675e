"""The tree of a real run, as docs/telemetry.md shows it.

    python -m tests.adapters.telemetry.drawn_tree

A model is overloaded once, a person approves an order after twenty seconds, and a sub-agent looks into a file.
"""

import asyncio

from loopkernel.data.model_deltas import ModelFailed
from loopkernel.data.policy import Policy, Prices, Retry
from loopkernel.data.usage import Usage
from loopkernel.data.words import ErrorClass
from loopkernel_adapters.agent import Agent
from loopkernel_adapters.driver.clocks import ManualClock
from loopkernel_adapters.providers.scripted import ANY, call_reply, text_reply
from loopkernel_adapters.stores.memory import MemoryRuns
from loopkernel_adapters.telemetry.watching import Telemetry

from tests.adapters.telemetry.telemetry_world import (
    NOON_MS,
    Collected,
    PlainSpan,
    TakingTime,
    an_input,
    no_waiting,
    picture,
    tools_that_take_time,
)

USAGE = Usage(input=1_200, output=80)
REPLIES = (
    (ModelFailed(operation=ANY, error=ErrorClass.OVERLOADED),),
    call_reply(("task", an_input(prompt="What do my notes say?")), ("order", an_input(item="milk")), usage=USAGE),
    call_reply(("read", an_input(path="notes.txt")), usage=USAGE),
    text_reply("They say milk.", USAGE),
    text_reply("Milk is ordered.", USAGE),
)
# What of a span the picture shows, beside its name and its times.
SHOWN = {
    "error.type": "error.type={}",
    "gen_ai.usage.input_tokens": "in={}",
    "gen_ai.usage.output_tokens": "out={}",
    "loopkernel.cost_usd": "${}",
    "loopkernel.turn.end": "end={}",
}


def drawn() -> str:
    """The picture."""
    clock, collected = ManualClock(NOON_MS), Collected()

    def approve(call: object) -> bool:
        clock.advance(20_000)
        return True

    policy = Policy(model="large", retry=Retry(base_ms=2_000), prices=Prices(input=3.0, output=15.0))
    with Telemetry(collected.tracers, collected.meters) as telemetry:
        agent = Agent(
            TakingTime(REPLIES, clock),
            tools_that_take_time(clock),
            policy=policy,
            runs=telemetry.watch(MemoryRuns()),
            clock=clock,
            approve=approve,
            observers=(no_waiting(clock),),
        )
        asyncio.run(_one_turn(agent))
        if not telemetry.flush(60):
            raise TimeoutError("not all was told within a minute")
    return picture(collected.spans, _line)


async def _one_turn(agent: Agent) -> None:
    async with agent.session("shopping") as session:
        await session.say("Look into my notes, and order the rest.")


def _line(span: PlainSpan) -> str:
    seconds = f"{(span.begin_ms - NOON_MS) / 1000:.1f} to {(span.end_ms - NOON_MS) / 1000:.1f} s"
    details = [text.format(span[name]) for name, text in SHOWN.items() if span[name] is not None]
    events = [f"{name} at {(at_ms - NOON_MS) / 1000:.1f} s" for name, at_ms, _ in span.events]
    return ", ".join([f"{span.name}: {seconds}", *details, *events])


if __name__ == "__main__":
    print(drawn())

"""A sub-agent through the whole driver, from its call to its result, beside a tool that answers at once."""

import asyncio
import time

from loopkernel.data.blocks import TextBlock
from loopkernel.data.choices import ApprovalMode
from loopkernel.data.json_text import Json
from loopkernel.data.policy import Policy
from loopkernel.data.states import Idle
from loopkernel.data.thread_deltas import Created
from loopkernel.data.tools import EffectClass, Tool, ToolProfile
from loopkernel.data.user_deltas import Say
from loopkernel_adapters.driver.asyncio_driver import Driver
from loopkernel_adapters.driver.children import InProcessAgents
from loopkernel_adapters.driver.clocks import ManualClock
from loopkernel_adapters.optional_ports import OptionalPorts
from loopkernel_adapters.ports import RunContext
from loopkernel_adapters.providers.scripted import Reply, ScriptedProvider, call_reply, text_reply
from loopkernel_adapters.stores.memory import MemoryStore
from loopkernel_adapters.tools.delegation import delegate_tool
from loopkernel_adapters.tools.input_schema import JsonObject
from loopkernel_adapters.tools.registry import FunctionTool, Registry

from bench.workload import UNENDING

ROUNDS = 300
SAMPLES = 5
TARGET = 3.5  # a round with a sub-agent, to a round with a tool; the sub-agent is a session with a turn of its own


async def answers(given: JsonObject, context: RunContext) -> str:
    """A tool that answers at once."""
    return "It is done."


def replies(tool: str, between: tuple[Reply, ...]) -> list[Reply]:
    """One call in each round, and whatever is said between it and its result."""
    found: list[Reply] = []
    for number in range(ROUNDS):
        found += [call_reply((tool, Json.of({"prompt": f"Do part {number}."}))), *between]
    return [*found, text_reply("That is all.")]


async def turn(said: list[Reply]) -> None:
    """One turn of a session with both kinds of tools, from its creation to its close."""
    profile = ToolProfile(effect=EffectClass.READ_ONLY)
    tools = Registry((delegate_tool(), FunctionTool(tool=Tool(name="look", profile=profile), function=answers)))
    policy = Policy(max_turns=None, approval_mode=ApprovalMode.BYPASS, compaction=UNENDING.compaction, loop=None)
    driver = await Driver.open(
        store=MemoryStore(),
        created=Created(session_id="bench", policy=policy, tools=tools.offered()),
        provider=ScriptedProvider(said),
        tools=tools,
        clock=ManualClock(),
        optional=OptionalPorts(agents=InProcessAgents(lambda session_id: MemoryStore())),
    )
    async with driver:
        await driver.send(Say(content=(TextBlock("Go."),)))
        await driver.rest()
        assert isinstance(driver.state, Idle)
        assert len(driver.state.session.thread) == 2 * ROUNDS + 2


def best(said: list[Reply]) -> float:
    """Microseconds of CPU for a round, in the best of some turns."""
    spent = []
    for _ in range(SAMPLES):
        begun = time.process_time()
        asyncio.run(turn(said))
        spent.append(time.process_time() - begun)
    return min(spent) / ROUNDS * 1e6


def measure() -> None:
    """Print the figures, with their target."""
    tool = best(replies("look", ()))
    child = best(replies("delegate", (text_reply("It is done."),)))
    verdict = "met" if child / tool <= TARGET else "MISSED"
    print("through the driver, with logs in memory; microseconds for a round")
    print(f"{'tool':<12} {tool:>10.2f}")
    print(f"{'sub-agent':<12} {child:>10.2f} {child / tool:>8.2f} x tool  {verdict} (at most {TARGET} x)")

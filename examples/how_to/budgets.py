"""Budgets: what a whole run may cost, and how a run that met its limit goes on under another one."""

import asyncio

from loopkernel import Policy, Usage
from loopkernel.policy import Prices
from loopkernel_adapters import Agent, ScriptedProvider, text_reply

CHEAP = Policy(max_cost_usd=0.01, prices=Prices(input=3.0, output=15.0))
DEAR = Policy(max_cost_usd=1.0, prices=Prices(input=3.0, output=15.0))


async def main() -> None:
    model = ScriptedProvider(
        [text_reply("One.", Usage(input=4_000, output=10)), text_reply("Two."), text_reply("Three.")]
    )
    agent = Agent(model, policy=CHEAP)
    for words in ("First", "Second"):
        result = await agent.run(words, run="a")
        print(result.reason.value if result.reason else "it goes on", result.text)
    async with agent.session("a", policy=DEAR) as session:
        print((await session.say("Third")).text)


asyncio.run(main())

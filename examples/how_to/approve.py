"""Approvals in a program: a turn that ends with a call that waits, a person who looks at it, and the answer."""

import asyncio

from loopkernel import EffectClass, Json
from loopkernel_adapters import Agent, ScriptedProvider, call_reply, text_reply, tool


@tool(effect=EffectClass.DANGEROUS)
def pay(euros: int) -> str:
    """Pay that much."""
    return f"paid {euros} EUR"


async def main() -> None:
    model = ScriptedProvider([call_reply(("pay", Json.of({"euros": 12}))), text_reply("It is paid.")])
    async with Agent(model, [pay]).session() as session:
        result = await session.say("Pay the invoice")
        (call,) = result.waiting
        print("waits:", call.tool, call.input.text)
        await session.answer(call, True)  # or False, or a text that tells the model why not
        print((await session.go_on()).text)


asyncio.run(main())

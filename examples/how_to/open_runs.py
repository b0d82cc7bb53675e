"""An agent that has changed while its runs were open: it is told, and what holds is said, never guessed."""

import asyncio

from loopkernel_adapters import Agent, MemoryRuns, ScriptedProvider, SettingsDiffer, text_reply

runs = MemoryRuns()


def agent(instructions: str) -> Agent[None]:
    return Agent(ScriptedProvider([text_reply("Hello.")]), instructions=instructions, runs=runs)


async def main() -> None:
    await agent("Be brief.").run("Good morning", run="a")
    try:
        await agent("Be polite.").run("And now?", run="a")
    except SettingsDiffer as difference:
        print(difference)
    async with agent("Be polite.").session("a", on_change="refresh") as session:
        print((await session.say("And now?")).text)


asyncio.run(main())

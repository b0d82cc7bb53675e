"""What the tests of the agent begin with: an agent with a scripted model."""

import asyncio
import gc

from loopkernel.data.json_text import Json
from loopkernel_adapters.agent import Agent, Approver
from loopkernel_adapters.providers.scripted import Reply, ScriptedProvider, call_reply, text_reply

from tests.adapters.driver.driver_world import (
    ASKS,
    FunctionTools,
    echo,
)

TWO_ROUNDS = (call_reply(("echo", Json.of({"a": 1}))), text_reply("That is all."))


def an_agent(*replies: Reply, tools: FunctionTools | None = None, approve: Approver | None = None) -> Agent:
    return Agent(ScriptedProvider(replies), tools or FunctionTools(echo=echo), approve=approve)


def asking(approve: Approver | None = None, *more: Reply) -> Agent:
    """Its tool waits for an approval before it runs."""
    return an_agent(*TWO_ROUNDS, *more, tools=FunctionTools(ASKS, echo=echo), approve=approve)


async def tidied() -> None:
    """Until Python has closed what a loop has left, and only the test's own task is there."""
    gc.collect()
    while len(asyncio.all_tasks()) > 1:
        await asyncio.sleep(0)

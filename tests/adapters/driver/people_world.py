"""Sessions in which something waits for a person."""

from loopkernel.data.ids import CallId, ModelOperation
from loopkernel.data.json_text import Json
from loopkernel.data.ledgers import LedgerEntry
from loopkernel.data.policy import Policy
from loopkernel.data.states import Confirming
from loopkernel.data.words import CallStatus
from loopkernel_adapters.driver.asyncio_driver import Driver
from loopkernel_adapters.providers.scripted import call_reply, text_reply

from tests.adapters.driver.driver_world import ASKS, NO_INPUT, FunctionTools, World, echo, say

YES = Json.of("yes")


def the_call(position: int = 1) -> CallId:
    return CallId(ModelOperation(1), position)


def waiting(driver: Driver) -> list[LedgerEntry]:
    assert isinstance(driver.state, Confirming)
    return [entry for entry in driver.state.ledger.entries if entry.status is CallStatus.BLOCKED_ON_USER]


def a_world(
    *calls: str,
    tools: FunctionTools | None = None,
    policy: Policy | None = None,
) -> World:
    """One reply with these calls, each of a tool that asks, and then an answer."""
    replies = [call_reply(*((tool, NO_INPUT) for tool in calls)), text_reply("b")]
    return World(replies, tools=tools or FunctionTools(ASKS, echo=echo), policy=policy)


async def asked(driver: Driver) -> None:
    """Say something, and rest: it is a person's turn."""
    await driver.send(say("go"))
    await driver.rest()
    assert isinstance(driver.state, Confirming)

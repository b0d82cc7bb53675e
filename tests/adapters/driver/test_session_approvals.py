"""What a session remembers of approvals, as data, its sub-agents' own among it; and how each is taken back."""

import asyncio

import pytest
from loopkernel.data.events import ApprovalAsked, ApprovalForgotten, ApprovalRemembered
from loopkernel.data.ids import CallId, ModelOperation
from loopkernel.data.remembered import RememberedTool
from loopkernel.data.states import Confirming, Idle
from loopkernel.data.user_deltas import Approve, Forget, Reject, RememberTool
from loopkernel_adapters.providers.scripted import call_reply, text_reply
from loopkernel_adapters.sessions.standing_approvals import StandingApproval, standing_approvals

from tests.adapters.driver.agent_world import asking
from tests.adapters.driver.children_world import (
    CHILD_CALL,
    PARENT_CALL,
    a_family,
    dispatches,
    tools_with_agents,
)
from tests.adapters.driver.driver_world import NO_INPUT, echo, say
from tests.adapters.driver.lawful import breaches

SECOND = CallId(ModelOperation(1), 2)
ECHO = RememberedTool("echo")


@pytest.mark.rule("ASK-3")
def test_a_program_sees_what_is_remembered_and_takes_it_back() -> None:
    async def run() -> None:
        calls = call_reply(("echo", NO_INPUT))
        async with asking(None, calls, text_reply("Two."), calls, text_reply("Three.")).session() as session:
            (waiting,) = (await session.say("a")).waiting
            assert list(session.approvals) == []
            await session.answer(waiting, Approve(call=waiting.path[-1], remember=RememberTool()))
            await session.go_on()
            assert list(session.approvals) == [StandingApproval(ECHO)]
            assert (await session.say("b")).waiting == ()
            for standing in session.approvals:
                await session.send(Forget(standing.remembered), standing.within)
            assert list(session.approvals) == []
            assert len((await session.say("c")).waiting) == 1
            await session.cancel()

    asyncio.run(run())


@pytest.mark.rule("ASK-5")
@pytest.mark.rule("CHILD-2")
@pytest.mark.parametrize("everything", [True, False])
def test_a_sub_agent_asks_again_for_what_was_taken_back(everything: bool) -> None:
    async def run() -> None:
        reply = call_reply(("other", NO_INPUT), ("echo", NO_INPUT))
        world, logs = a_family(
            [dispatches(), reply, call_reply(("echo", NO_INPUT)), text_reply("so be it"), text_reply("b")],
            tools=tools_with_agents(asks=True, echo=echo, other=echo),
        )
        async with await world.open() as driver:
            await driver.send(say("go"))
            await driver.rest()
            assert isinstance(driver.state, Confirming)
            child = (PARENT_CALL,)
            await driver.send(Approve(call=SECOND, remember=RememberTool()), child)
            await driver.rest()
            assert standing_approvals(driver.state_of) == (StandingApproval(ECHO, child),)
            await driver.send(Forget(), () if everything else child)
            await driver.rest()
            assert standing_approvals(driver.state_of) == ()
            await driver.send(Reject(call=CHILD_CALL), child)
            await driver.rest()
            inner = driver.state_of(child)
            assert isinstance(inner, Confirming)  # the second echo asks
            await driver.send(Approve(call=inner.ledger.entries[0].call.id), child)
            await driver.rest()
            assert isinstance(driver.state, Idle)
        kinds = [type(event) for _, event in world.events_of_children]
        assert (kinds.count(ApprovalRemembered), kinds.count(ApprovalForgotten), kinds.count(ApprovalAsked)) == (
            1,
            1,
            3,
        )
        assert breaches(world.noted.load()) == breaches(logs.only.load()) == []

    asyncio.run(run())

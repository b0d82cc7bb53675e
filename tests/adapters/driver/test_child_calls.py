"""The calls of sub-agents that wait for a person: told with their address, and answered there."""

import asyncio

import pytest
from loopkernel.data.blocks import text_of
from loopkernel.data.children import ChildCall
from loopkernel.data.choices import ApprovalMode
from loopkernel.data.effects import StartTool
from loopkernel.data.events import ChildAsked, ChildStarted, Event, Refused, ToolEnded
from loopkernel.data.ids import CallId, ModelOperation
from loopkernel.data.json_text import Json
from loopkernel.data.outside_deltas import ChildAsks
from loopkernel.data.policy import ChildLimits, Policy
from loopkernel.data.states import Confirming, Idle
from loopkernel.data.thread_deltas import Disposed
from loopkernel.data.tools import ToolOutput
from loopkernel.data.user_deltas import AnswerQuestion, Approve, CancelAll, ChangeMode, Reject, UserDelta
from loopkernel.data.words import CallStatus, TurnEndReason
from loopkernel_adapters.driver.children import waiting_calls
from loopkernel_adapters.optional_ports import NoSuchAgent
from loopkernel_adapters.ports import RunContext
from loopkernel_adapters.providers.scripted import call_reply, text_reply

from tests.adapters.driver.children_world import (
    CHILD_CALL,
    PARENT_CALL,
    Knowing,
    a_family,
    dispatches,
    one_tool_then,
    tools_with_agents,
)
from tests.adapters.driver.driver_world import AROUND, NO_INPUT, echo, said, say
from tests.adapters.driver.lawful import breaches


@pytest.mark.parametrize(
    ("answer", "result"),
    [(Approve(call=CHILD_CALL), "done"), (Reject(call=CHILD_CALL, why="no"), "rejected-by-user")],
    ids=["approved", "rejected"],
)
@pytest.mark.rule("CHILD-2")
def test_a_call_of_a_child_is_approved_at_its_address(answer: UserDelta, result: str) -> None:
    async def run() -> None:
        world, logs = a_family(
            [dispatches(), *one_tool_then("so be it"), text_reply("b")], tools=tools_with_agents(asks=True, echo=echo)
        )
        async with await world.open() as driver:
            await driver.send(say("go"))
            await driver.rest()
            assert isinstance(driver.state, Confirming)
            assert world.seen(ChildAsked) == [ChildAsked(PARENT_CALL, ChildCall((CHILD_CALL,)))]
            inner = driver.state_of((PARENT_CALL,))
            assert inner is not None
            assert waiting_calls(inner) == (ChildCall((CHILD_CALL,)),)
            await driver.send(answer, within=(PARENT_CALL,))
            await driver.rest()
            assert isinstance(driver.state, Idle)
        assert world.results() == [("done", "so be it")]
        child = [event.result.status.value for _, event in world.events_of_children if isinstance(event, ToolEnded)]
        assert child == [result]
        assert answer in [record.delta for record in logs.only.load()]
        assert answer not in [record.delta for record in world.noted.load()]
        asks = [record.delta.asked for record in world.noted.load() if isinstance(record.delta, ChildAsks)]
        assert asks == [(ChildCall((CHILD_CALL,)),), ()]
        assert breaches(world.noted.load()) == breaches(logs.only.load()) == []

    asyncio.run(run())


def test_all_calls_of_all_children_that_wait_are_told_and_answered_in_any_order() -> None:
    async def run() -> None:
        two = call_reply(("echo", NO_INPUT), ("echo", Json.of({"second": 1})))
        world, _ = a_family(
            [dispatches(2), two, two, text_reply("x"), text_reply("y"), text_reply("b")],
            tools=tools_with_agents(asks=True, echo=echo),
        )
        second = CallId(ModelOperation(1), 2)
        async with await world.open() as driver:
            await driver.send(say("go"))
            await driver.rest()
            assert len(waiting_calls(driver.state)) == 4
            for call in (second, PARENT_CALL):
                for inner in (second, CHILD_CALL):
                    await driver.send(Approve(call=inner), within=(call,))
            await driver.rest()
            assert isinstance(driver.state, Idle)
        assert [status for status, _ in world.results()] == ["done", "done"]

    asyncio.run(run())


def test_a_call_of_a_child_of_a_child_is_answered_at_its_address() -> None:
    async def run() -> None:
        replies = [dispatches(), dispatches(), *one_tool_then("deep"), text_reply("middle"), text_reply("top")]
        tools = tools_with_agents(asks=True, echo=echo)
        world, _ = a_family(replies, tools=tools, policy=Policy(child=ChildLimits(depth=2)))
        async with await world.open() as driver:
            await driver.send(say("go"))
            await driver.rest()
            assert waiting_calls(driver.state) == (ChildCall((PARENT_CALL, CHILD_CALL, CHILD_CALL)),)
            await driver.send(Approve(call=CHILD_CALL), within=(PARENT_CALL, CHILD_CALL))
            await driver.rest()
            assert isinstance(driver.state, Idle)
        assert world.results() == [("done", "middle")]

    asyncio.run(run())


def test_what_nobody_can_hear_is_refused() -> None:
    async def run() -> None:
        world, _ = a_family(provider=Knowing([]))
        async with await world.open() as driver:
            with pytest.raises(NoSuchAgent):
                await driver.send(Approve(call=CHILD_CALL), within=(PARENT_CALL,))
            assert driver.state_of((PARENT_CALL,)) is None
            await driver.send(say("go"))
            with pytest.raises(NoSuchAgent):
                await driver.send(Approve(call=CHILD_CALL), within=(PARENT_CALL, CHILD_CALL))
            await driver.rest()
            with pytest.raises(NoSuchAgent):
                await driver.send(Approve(call=CHILD_CALL), within=(PARENT_CALL,))

    asyncio.run(run())


@pytest.mark.rule("ASK-5")
def test_a_change_of_mode_reaches_the_children_that_run() -> None:
    async def run() -> None:
        world, _ = a_family(
            [dispatches(), *one_tool_then("so be it"), text_reply("b")], tools=tools_with_agents(asks=True, echo=echo)
        )
        async with await world.open() as driver:
            await driver.send(say("go"))
            await driver.rest()
            assert isinstance(driver.state, Confirming)
            await driver.send(ChangeMode(ApprovalMode.BYPASS))
            await driver.rest()
            assert isinstance(driver.state, Idle)
        assert world.results() == [("done", "so be it")]

    asyncio.run(run())


def test_a_person_may_speak_to_a_child() -> None:
    async def run() -> None:
        world, _ = a_family(
            [dispatches(), *one_tool_then("never"), text_reply("b")], tools=tools_with_agents(asks=True, echo=echo)
        )
        async with await world.open() as driver:
            await driver.send(say("go"))
            await driver.rest()
            await driver.send(CancelAll(), within=(PARENT_CALL,))
            await driver.rest()
            assert isinstance(driver.state, Idle)
        ((status, text),) = world.results()
        assert status == CallStatus.ERROR.value
        assert TurnEndReason.USER_ABORT.value in text
        assert not world.seen(Refused)

    asyncio.run(run())


@pytest.mark.rule("ASK-5")
def test_a_change_that_comes_before_a_child_has_begun_reaches_it_all_the_same() -> None:
    async def run() -> None:
        world, logs = a_family(
            [dispatches(), *one_tool_then("so be it"), text_reply("b")], tools=tools_with_agents(asks=True, echo=echo)
        )

        def change(event: Event) -> None:
            if isinstance(event, ChildStarted):
                driver.post(ChangeMode(ApprovalMode.BYPASS))

        async def say_to_it() -> None:
            while not world.seen(ChildStarted):
                await asyncio.sleep(0)
            assert driver.state_of((PARENT_CALL,)) is None
            await driver.send(ChangeMode(ApprovalMode.BYPASS), within=(PARENT_CALL,))

        async with await world.open(change) as driver:
            asking = asyncio.ensure_future(say_to_it())
            await asyncio.sleep(0)
            await driver.send(say("go"))
            await driver.rest()
            await asking
            assert isinstance(driver.state, Idle)
        assert world.results() == [("done", "so be it")]
        deltas = [type(record.delta).__name__ for record in logs.only.load()]
        if AROUND:  # the change is recorded behind a write of its parent, and the child may have begun meanwhile
            assert deltas.count("ChangeMode") == 2
        else:
            assert deltas[:4] == ["Created", "Acquired", "ChangeMode", "Say"] and deltas.count("ChangeMode") == 2

    asyncio.run(run())


def test_only_what_a_person_says_can_be_sent_to_a_child() -> None:
    async def run() -> None:
        world, _ = a_family(provider=Knowing([]))
        async with await world.open() as driver:
            with pytest.raises(TypeError, match="Disposed"):
                await driver.send(Disposed(), within=(PARENT_CALL,))

    asyncio.run(run())


@pytest.mark.rule("TOOL-19")
def test_a_question_of_a_childs_tool_is_answered_at_its_address() -> None:
    async def run() -> None:
        async def inquires(command: StartTool, context: RunContext) -> ToolOutput:
            answer = await context.ask("which one?")
            return said("nobody" if answer is None else str(answer.value()))

        replies = [dispatches(), call_reply(("inquires", NO_INPUT)), text_reply("so be it"), text_reply("b")]
        world, _ = a_family(replies, tools=tools_with_agents(inquires=inquires))
        async with await world.open() as driver:
            await driver.send(say("go"))
            await driver.rest()
            assert waiting_calls(driver.state) == (ChildCall((PARENT_CALL, CHILD_CALL)),)
            await driver.send(AnswerQuestion(call=CHILD_CALL, value=Json.of("the second")), within=(PARENT_CALL,))
            await driver.rest()
            assert isinstance(driver.state, Idle)
        results = [event.result for _, event in world.events_of_children if isinstance(event, ToolEnded)]
        assert [text_of(result.content) for result in results] == ["the second"]

    asyncio.run(run())

"""Sub-agents that somebody else runs, in another process for instance: all that passes between them and the driver."""

import asyncio

import pytest
from loopkernel.data.children import ChildCall
from loopkernel.data.choices import ApprovalMode
from loopkernel.data.effects import StartChild
from loopkernel.data.events import ChildAsked, Event, SessionResumed, ToolProgressed
from loopkernel.data.outside_deltas import ChildAsks, ChildEnded, ChildProgress
from loopkernel.data.states import Confirming, Dispatching, Idle, Initial, State
from loopkernel.data.user_deltas import Approve, CancelCall, ChangeMode, SettingsChange, UserDelta
from loopkernel.data.words import TurnEndReason
from loopkernel_adapters.optional_ports import Address, Agent, Agents, NoSuchAgent, OptionalPorts, ParentSession
from loopkernel_adapters.providers.scripted import text_reply
from typing_extensions import override

from tests.adapters.driver.children_world import CHILD_CALL, PARENT_CALL, SPENT, dispatches, tools_with_agents
from tests.adapters.driver.driver_world import World, complaints_of, say
from tests.adapters.driver.failure_world import settled


class Elsewhere(Agent):
    """A sub-agent that does what the test says."""

    def __init__(self, command: StartChild, parent: ParentSession) -> None:
        self.command = command
        self.parent = parent
        self.over = asyncio.Event()
        self.heard: list[object] = []

    @override
    async def run(self) -> ChildEnded:
        await self.over.wait()
        reason = TurnEndReason.USER_ABORT if "cancel" in self.heard else TurnEndReason.MODEL_STOP
        return ChildEnded(operation=self.command.operation, reason=reason, text="from afar", usage=SPENT)

    @override
    def cancel(self) -> None:
        self.heard.append("cancel")

    @override
    def tell(self, delta: SettingsChange) -> None:
        self.heard.append(delta)

    @override
    async def send(self, delta: UserDelta, within: Address, taken: int | None = None) -> None:
        if within:
            raise NoSuchAgent("there is nobody within")
        self.heard.append(delta)

    @override
    def state_of(self, within: Address) -> State | None:
        return None if within else Initial()


class Remote(Agents):
    def __init__(self) -> None:
        self.agents: list[Elsewhere] = []

    @override
    def agent(self, command: StartChild, parent: ParentSession) -> Agent:
        self.agents.append(Elsewhere(command, parent))
        return self.agents[-1]


def a_world() -> tuple[World, Remote]:
    remote = Remote()
    world = World(
        [dispatches(), text_reply("b", SPENT)], tools=tools_with_agents(), optional=OptionalPorts(agents=remote)
    )
    return world, remote


@pytest.mark.in_place
@pytest.mark.rule("CHILD-2")
def test_what_passes_between_a_session_and_a_sub_agent_that_runs_elsewhere() -> None:
    async def run() -> None:
        world, remote = a_world()
        async with await world.open() as driver:
            await driver.send(say("go"))
            await settled(driver)
            (agent,) = remote.agents
            operation = agent.command.operation
            assert agent.command.task == "do it"
            agent.parent.report(ChildProgress(operation, "on my way"))
            assert [event.text for event in world.events if isinstance(event, ToolProgressed)] == ["on my way"]
            agent.parent.report(ChildAsks(operation, (ChildCall((CHILD_CALL,)),)))
            await driver.rest()
            assert isinstance(driver.state, Confirming)
            assert world.seen(ChildAsked) == [ChildAsked(PARENT_CALL, ChildCall((CHILD_CALL,)))]
            answer = Approve(call=CHILD_CALL)
            await driver.send(answer, within=(PARENT_CALL,))
            with pytest.raises(NoSuchAgent):
                await driver.send(answer, within=(PARENT_CALL, CHILD_CALL))
            assert driver.state_of((PARENT_CALL,)) == Initial()
            agent.parent.report(ChildAsks(operation))
            assert isinstance(driver.state, Dispatching)
            await driver.send(ChangeMode(ApprovalMode.PLAN))
            assert agent.heard == [answer, ChangeMode(ApprovalMode.PLAN)]
            agent.parent.show((CHILD_CALL,), SessionResumed())
            assert world.events_of_children == [((PARENT_CALL, CHILD_CALL), SessionResumed())]
            agent.over.set()
            await driver.rest()
            assert isinstance(driver.state, Idle)
        assert world.results() == [("done", "from afar")]
        assert agent.parent.ports.provider is world.provider

    asyncio.run(run())


@pytest.mark.rule("CHILD-2")
def test_a_sub_agent_elsewhere_is_told_to_stop_and_takes_its_time() -> None:
    async def run() -> None:
        world, remote = a_world()
        async with await world.open() as driver:
            await driver.send(say("go"))
            await settled(driver)
            (agent,) = remote.agents
            await driver.send(CancelCall(PARENT_CALL))
            await driver.rest()
            assert agent.heard == ["cancel"]
            assert len(asyncio.all_tasks()) == 2  # it has not stopped
            agent.over.set()
            await settled(driver)
            assert len(asyncio.all_tasks()) == 1
            state = driver.state
            assert isinstance(state, Idle)
            assert state.session.usage == SPENT.plus(SPENT)
        assert [status for status, _ in world.results()] == ["cancelled"]

    asyncio.run(run())


def test_a_sub_agent_that_was_told_to_stop_and_does_not_ends_with_the_driver() -> None:
    async def run() -> None:
        world, remote = a_world()
        async with await world.open() as driver:
            await driver.send(say("go"))
            await settled(driver)
            await driver.send(CancelCall(PARENT_CALL))
        assert remote.agents[0].heard == ["cancel"]
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(run())


def test_an_observer_of_sub_agents_that_fails_stops_nothing() -> None:
    async def run() -> None:
        complaints = complaints_of(asyncio.get_running_loop())
        world, remote = a_world()

        def fails(within: Address, event: Event) -> None:
            raise ValueError("I cannot look")

        world.see_of_child = fails
        async with await world.open() as driver:
            await driver.send(say("go"))
            await settled(driver)
            (agent,) = remote.agents
            agent.parent.show((), SessionResumed())
            agent.over.set()
            await driver.rest()
        assert complaints == ["an observer failed at SessionResumed of a sub-agent; it stays subscribed: I cannot look"]
        assert world.results() == [("done", "from afar")]

    asyncio.run(run())

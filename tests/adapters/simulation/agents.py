"""The sub-agents of a simulated world: real drivers in this process, each with ports and a disk of its own."""

from collections.abc import Callable
from functools import partial

from loopkernel.data.effects import StartChild
from loopkernel.data.ids import OperationKind
from loopkernel.data.outside_deltas import ChildEnded
from loopkernel.later_typing import override
from loopkernel_adapters.driver.children import InProcessAgents
from loopkernel_adapters.optional_ports import (
    Agent,
    Agents,
    ParentSession,
    Ports,
)
from loopkernel_adapters.ports import Store

from tests.adapters.simulation.evidence import Evidence, PortCall
from tests.adapters.simulation.machine import World, store_of
from tests.adapters.simulation.passing_agent import PassingAgent, PassingParent

# The session of that name, and the ports of a session.
SessionOf = Callable[[str], Evidence]
PortsOf = Callable[[Evidence], Ports]


class SimulatedAgents(Agents):
    """Sub-agents: real drivers in this process, each with ports and a disk of its own."""

    def __init__(self, here: World, session: Evidence, session_of: SessionOf, ports_of: PortsOf) -> None:
        self._world = here
        self._session = session
        self._session_of = session_of
        self._ports_of = ports_of

    @override
    def agent(self, command: StartChild, parent: ParentSession) -> Agent:
        here = self._world
        child = self._session_of(command.created.session_id)
        child.begin_life()
        within = PassingParent(parent, self._ports_of(child))
        agents = InProcessAgents(partial(opened_store, here, child))
        agent = agents.agent(command, within)
        return _Agent(agent, here, partial(self._session.claim, OperationKind.RUN, command.operation))


async def opened_store(here: World, child: Evidence, _: str) -> Store:
    """The log of the sub-agent, which is opened as slowly as it is written."""
    return store_of(here, child)


class _Agent(PassingAgent):
    """A sub-agent, and whether it was told to stop."""

    def __init__(self, agent: Agent, here: World, claim: Callable[[], PortCall]) -> None:
        super().__init__(agent)
        self._world = here
        self._life = here.life
        self._claim = claim
        self._call: PortCall | None = None  # while it runs: one that is aborted before never does

    @override
    async def run(self) -> ChildEnded:
        self._call = call = self._claim()
        self._world.seen["sub-agent"] += 1
        try:
            ended = await self._agent.run()
            call.owes = not self._life.over
            return ended
        finally:
            call.ended = True

    @override
    def cancel(self) -> None:
        if self._call is not None:
            self._call.cancelled = True
        super().cancel()

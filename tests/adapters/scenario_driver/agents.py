"""The sub-agents of a scenario: each a real driver in this process (`InProcessAgents`), in a scripted session.

What a sub-agent tells its parent takes its turn among all that is due at that instant, as the scenario format has it.
"""

from collections.abc import Callable

from attrs import evolve
from loopkernel.data.effects import StartChild
from loopkernel.data.ids import OperationKind
from loopkernel.data.outside_deltas import ChildEnded
from loopkernel.later_typing import override
from loopkernel.testing.scenarios.player.agenda import Operation
from loopkernel.testing.scenarios.player.reply_script import DelayedDelta
from loopkernel_adapters.blocking_ports import BlockingStore
from loopkernel_adapters.driver.children import InProcessAgents
from loopkernel_adapters.optional_ports import Agent, Agents, ChildReport, ParentSession, Ports

from tests.adapters.scenario_driver.ports import Life
from tests.adapters.scenario_driver.session import FollowedSession
from tests.adapters.simulation.passing_agent import PassingAgent, PassingParent

# The ports, and the log, of a session in one life.
PortsOf = Callable[[FollowedSession, Life], Ports]
StoreOf = Callable[[FollowedSession, Life], BlockingStore]


class ScriptedAgents(Agents):
    """The sub-agents of one session."""

    def __init__(self, session: FollowedSession, life: Life, ports_of: PortsOf, store_of: StoreOf) -> None:
        self._session = session
        self._life = life
        self._ports_of = ports_of
        self._store_of = store_of

    @override
    def agent(self, command: StartChild, parent: ParentSession) -> Agent:
        operation, due = self._session.claim(OperationKind.RUN, command.operation)
        assert command == due, "the sub-agent was started otherwise than the log says"
        child = self._session.by_session[command.created.session_id]
        reports = _Reports(parent, self._ports_of(child, self._life), operation, self._life)
        agents = InProcessAgents(lambda _: self._store_of(child, self._life))
        created = child.world.created(command.created)
        return _Agent(agents.agent(evolve(command, created=created), reports), reports)


class _Reports(PassingParent):
    """What the sub-agent says to its parent, said when it is due."""

    def __init__(self, parent: ParentSession, ports: Ports, operation: Operation, life: Life) -> None:
        super().__init__(parent, ports)
        self._operation = operation
        self._life = life
        life.passing[operation] = parent.report

    @override
    def report(self, report: ChildReport) -> None:
        stage = self._life.stage
        stage.agenda.start(self._operation, stage.now_ms, (DelayedDelta(0, report),))

    async def end(self, ended: ChildEnded) -> ChildEnded:
        """Its end, when it is due."""
        await self._life.turn(self._operation, ended)
        return ended


class _Agent(PassingAgent):
    """A sub-agent whose end is told in its turn."""

    def __init__(self, agent: Agent, reports: _Reports) -> None:
        super().__init__(agent)
        self._reports = reports

    @override
    async def run(self) -> ChildEnded:
        return await self._reports.end(await self._agent.run())

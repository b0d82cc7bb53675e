"""A sub-agent, and a parent, that pass on all they are told, for those that only watch or delay what is said."""

from collections.abc import Sequence

from loopkernel.data.events import Event
from loopkernel.data.outside_deltas import ChildEnded
from loopkernel.data.records import LogRecord
from loopkernel.data.states import State
from loopkernel.data.user_deltas import SettingsChange, UserDelta
from loopkernel.later_typing import override
from loopkernel_adapters.optional_ports import Address, Agent, ChildReport, ParentSession, Ports


class PassingAgent(Agent):
    """All that is told to it goes to `_agent`."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    @override
    async def run(self) -> ChildEnded:
        return await self._agent.run()

    @override
    def cancel(self) -> None:
        self._agent.cancel()

    @override
    def tell(self, delta: SettingsChange) -> None:
        self._agent.tell(delta)

    @override
    async def send(self, delta: UserDelta, within: Address, taken: int | None = None) -> None:
        await self._agent.send(delta, within, taken)

    @override
    def state_of(self, within: Address) -> State | None:
        return self._agent.state_of(within)


class PassingParent(ParentSession):
    """All that is told to it goes to `_parent`; the sub-agent has ports of its own."""

    def __init__(self, parent: ParentSession, ports: Ports) -> None:
        self._parent = parent
        self._ports = ports

    @property
    @override
    def ports(self) -> Ports:
        return self._ports

    @override
    def report(self, report: ChildReport) -> None:
        self._parent.report(report)

    @override
    def show(self, within: Address, event: Event) -> None:
        self._parent.show(within, event)

    @override
    def follow(self, session_id: str, records: Sequence[LogRecord]) -> None:
        self._parent.follow(session_id, records)

"""A sub-agent that passes on all it is told to another one, for those that only watch or delay how it runs."""

from loopkernel.data.outside_deltas import ChildEnded
from loopkernel.data.states import State
from loopkernel.data.user_deltas import SettingsChange, UserDelta
from loopkernel.later_typing import override

from loopkernel_adapters.optional_ports import Address, Agent


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
    async def send(self, delta: UserDelta, within: Address) -> None:
        await self._agent.send(delta, within)

    @override
    def state_of(self, within: Address) -> State | None:
        return self._agent.state_of(within)

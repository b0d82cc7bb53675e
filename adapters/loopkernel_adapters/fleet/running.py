"""A run of a fleet, as a program sees it from anywhere: told things, looked at, without being opened."""

from loopkernel.data.deltas import Delta
from loopkernel.data.states import State
from loopkernel.later_typing import override
from loopkernel.replaying import LogRecord, replay

from loopkernel_adapters.driver.children import WITH_CALLS
from loopkernel_adapters.fleet_ports import Fleet
from loopkernel_adapters.optional_ports import Address, NoSuchAgent
from loopkernel_adapters.secret_filter import SecretFilter
from loopkernel_adapters.secrets import NO_SECRETS, Secrets
from loopkernel_adapters.sessions.runs_elsewhere import RunElsewhere


class FleetRun(RunElsewhere):
    """The run of that id, new or not, in a place that workers share. What is said is durable before it returns.

        run = FleetRun(runs, "orders-1")
        for call in await run.waiting():
            await run.approve(call)

    A worker hands it on; whether the kernel takes it, the log says. `secrets` are hidden in all that is said.
    """

    def __init__(self, fleet: Fleet, run: str, secrets: Secrets = NO_SECRETS) -> None:
        self.run = run
        self._fleet = fleet
        self._filter = SecretFilter(secrets)

    @override
    async def send(self, delta: Delta, within: Address = ()) -> tuple[int, ...]:
        """Say anything that is an input, to the run or to the sub-agent at that address; its numbers there.

        Raises NoSuchAgent where there is none, StoreError for what is not an input.
        """
        session = await self._session(within)
        return tuple([await self._fleet.send(session, shown) for shown in self._filter.incoming(delta)])

    @override
    async def state(self, within: Address = ()) -> State:
        """The state that the log leads to, of the run or of the sub-agent. Raises NoSuchAgent, NoSuchRun."""
        return replay(await self._fleet.read(await self._session(within)))

    async def log(self) -> tuple[LogRecord, ...]:
        """All records."""
        return await self._fleet.read(self.run)

    async def _session(self, within: Address) -> str:
        """The id of the session at the address."""
        session = self.run
        for depth, call in enumerate(within, 1):
            state = replay(await self._fleet.read(session))
            entries = state.ledger.entries if isinstance(state, WITH_CALLS) else ()
            found = [entry.child for entry in entries if entry.call.id == call and entry.is_open]
            if not found or found[0] is None:
                raise NoSuchAgent(f"no sub-agent runs for call {'/'.join(map(str, within[:depth]))}")
            session = found[0].session_id
        return session

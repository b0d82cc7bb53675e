"""Drivers that break one duty each, for the check of drivers: this one with a fault in it or in its ports."""

import asyncio
from collections.abc import Callable, Sequence

import pytest
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import CheckCall, StartTool
from loopkernel.data.model_deltas import ModelText
from loopkernel.data.outside_deltas import TimerFired
from loopkernel.data.states import Idle
from loopkernel.data.thread_deltas import ThreadDelta
from loopkernel.data.tool_deltas import ToolSucceeded
from loopkernel.data.tools import Tool, ToolOutput, Verdict
from loopkernel.data.user_deltas import Say, UserDelta
from loopkernel.replaying import LogRecord
from loopkernel_adapters.blocking_ports import BlockingStore
from loopkernel_adapters.driver.asyncio_driver import Driver
from loopkernel_adapters.driver.supervision import JobKey, Supervisor
from loopkernel_adapters.optional_ports import Address
from loopkernel_adapters.ports import Restored, RunContext, Tools
from loopkernel_adapters.stores.memory import MemoryStore
from loopkernel_adapters.testing.driver_check import AnyDriver, DriverFactory, DriverPorts
from typing_extensions import override


def opened_as(kind: type[Driver]) -> DriverFactory:
    async def opened(ports: DriverPorts) -> AnyDriver:
        driver = await kind.open(
            store=ports.store,
            created=ports.created,
            provider=ports.provider,
            tools=ports.tools,
            clock=ports.clock,
            observers=(ports.observer,),
        )
        return await driver.__aenter__()

    return opened


def with_ports(change: Callable[[DriverPorts], DriverPorts]) -> DriverFactory:
    async def opened(ports: DriverPorts) -> AnyDriver:
        return await opened_as(Driver)(change(ports))

    return opened


class Swaps(Driver):
    """Applies pieces of text two by two, the later first."""

    _held: Delta | None = None

    @override
    def _accept(self, *deltas: Delta) -> None:
        for delta in deltas:
            if isinstance(delta, ModelText) and self._held is None:
                self._held = delta
            else:
                super()._accept(delta)
                self._let_go()

    @override
    def _report(self, outcome: Delta | None) -> None:
        self._let_go()
        super()._report(outcome)

    def _let_go(self) -> None:
        if self._held is not None:
            held, self._held = self._held, None
            super()._accept(held)


class Lazy(MemoryStore):
    """Passes appends on, and has none of them last."""

    def __init__(self, inner: BlockingStore) -> None:
        super().__init__()
        self.inner = inner

    @override
    def append(self, records: Sequence[LogRecord], durable: bool) -> None:
        self.inner.append(records, durable=False)

    @override
    def restore(self) -> Restored:
        return self.inner.restore()

    @override
    def close(self) -> None:
        self.inner.close()


class LazyAtInput(Lazy):
    """Only what the user says does not last."""

    @override
    def append(self, records: Sequence[LogRecord], durable: bool) -> None:
        said = any(isinstance(record.delta, Say) for record in records)
        self.inner.append(records, durable=durable and not said)


class Deferring(Driver):
    """Returns from `send` before anything has happened."""

    @override
    async def send(self, delta: UserDelta | ThreadDelta, within: Address = (), taken: int | None = None) -> None:
        asyncio.get_running_loop().call_soon(self.post, delta)

    @override
    async def rest(self) -> None:
        await asyncio.sleep(0)
        await super().rest()


class RunningTwice(Tools):
    """Runs each tool twice."""

    def __init__(self, inner: Tools) -> None:
        self._inner = inner

    @override
    def offered(self) -> tuple[Tool, ...]:
        return self._inner.offered()

    @override
    def check(self, command: CheckCall) -> Verdict:
        return self._inner.check(command)

    @override
    async def run(self, command: StartTool, context: RunContext) -> ToolOutput:
        await self._inner.run(command, context)
        return await self._inner.run(command, context)


class ReportingTwice(Driver):
    """Says twice how a run has ended."""

    @override
    def _report(self, outcome: Delta | None) -> None:
        if isinstance(outcome, ToolSucceeded):
            super()._report(outcome)
        super()._report(outcome)


class Forgetful(Driver):
    """Loses what a run has come to, so that it rests for ever in the midst of a turn."""

    @override
    def _report(self, outcome: Delta | None) -> None:
        super()._report(None if isinstance(outcome, ToolSucceeded) else outcome)


class Deaf(Lazy):
    """Does not hear that the log has failed."""

    @override
    def append(self, records: Sequence[LogRecord], durable: bool) -> None:
        try:
            self.inner.append(records, durable)
        except OSError:
            return


class LeavingTasks(Driver):
    """Closes the log, and lets everything else be."""

    @override
    async def close(self, stop_seconds: float = 0) -> None:
        self._closed = True
        await self._log.close()


class Amnesiac(Lazy):
    """Finds no records in any log."""

    @override
    def append(self, records: Sequence[LogRecord], durable: bool) -> None:
        self.inner.append(records, durable)

    @override
    def restore(self) -> Restored:
        return Restored(records=())


class NeverRinging(Driver):
    """Sets timers that do not ring."""

    @override
    def _accept(self, *deltas: Delta) -> None:
        super()._accept(*(delta for delta in deltas if not isinstance(delta, TimerFired)))


class Merciless(Driver):
    """Counts a run as stopped, and lets it go on."""

    @override
    async def send(self, delta: UserDelta | ThreadDelta, within: Address = (), taken: int | None = None) -> None:
        def abort(supervisor: Supervisor, key: JobKey) -> None:
            job = supervisor.jobs.get(key)
            if job is not None and not job.aborted:
                supervisor._give_up(job)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Supervisor, "abort", abort)
            await super().send(delta, within)


class Discarding(Driver):
    """Throws away what comes late."""

    @override
    def _report(self, outcome: Delta | None) -> None:
        late = isinstance(outcome, ToolSucceeded) and isinstance(self.state, Idle)
        super()._report(None if late else outcome)

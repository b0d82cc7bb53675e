"""A Hypothesis state machine over a driver: the rules of `KernelMachine`, and its walks, reach the kernel through it.

    class MyMachine(DriverMachine):
        opened = Trio(MyDriver.open)    # whatever `fuzz_driver` takes; a function as staticmethod(opened)

    TestMyDriver = MyMachine.TestCase

A rule has its delta happen outside, where it can: a person says it, a stream or a run that is open brings it, time
passes, the process dies. What the driver then writes is foreseen by the witness and judged by the laws, as for a kernel
alone, and the driver by its duties. Hypothesis makes what breaks a rule small, and prints it.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, ClassVar

from attrs import evolve
from hypothesis import strategies as st
from hypothesis.stateful import initialize
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import CheckCall, Request, StartTool
from loopkernel.data.ids import ModelOperation
from loopkernel.data.model_deltas import FromModel, ModelCompleted, ModelDelta, ModelFailed
from loopkernel.data.outside_deltas import TimerFired
from loopkernel.data.thread_deltas import Created, Resumed
from loopkernel.data.tool_deltas import ToolFailed, ToolSucceeded
from loopkernel.data.tools import AccessMode, Claim, Tool, ToolOutput, UnknownTool, ValidCall, Verdict
from loopkernel.data.user_deltas import ChangePolicy, CompactNow, FromUser, StartHandoff, Swap
from loopkernel.data.words import StopReason
from loopkernel.later_typing import override
from loopkernel.testing.scenarios.data.scenario import Scenario
from loopkernel.testing.stateful.machine import KernelMachine
from loopkernel.testing.strategies.walks import AGENT, OFFERED

from loopkernel_adapters.ports import Clock, Provider, RunContext, ToolError, Tools
from loopkernel_adapters.testing.driver_trial import AnyDriver, AwaitedStore, DriverFactory, DriverPorts, Mortal
from loopkernel_adapters.testing.fuzzing.drawing import drawn
from loopkernel_adapters.testing.fuzzing.world import AT_REST, World
from loopkernel_adapters.testing.synchronous import Synchronous
from loopkernel_adapters.testing.virtual_loop import VirtualLoop

TOOLS = tuple(tool for tool in OFFERED if tool is not AGENT)
# They lead to commands that a driver of these ports does not have.
FAR = (ChangePolicy, CompactNow, StartHandoff, Swap)
MOST_ROUNDS = 40  # until all that is open has come to its end
created_by_seed = st.integers(0, 999).map(lambda seed: evolve(World(drawn(seed)).created(), tools=TOOLS))


class DriverMachine(KernelMachine):
    """Any run of a driver, as far as what is outside can bring it about."""

    opened: ClassVar[DriverFactory]

    def __init__(self) -> None:
        super().__init__()
        self._loop = VirtualLoop()
        self._world = World(Scenario(id="machine"), heeds_aborts=not isinstance(self.opened, Synchronous))
        self._outside: _Outside | None = None
        self._driver: AnyDriver | None = None
        self._judged = 0  # records of the log

    # --- what happens outside -----------------------------------------------------------------------------

    @initialize(created=created_by_seed)
    @override
    def begin(self, created: Created) -> None:
        """Every run begins so."""
        self._created = created
        self._open()

    @override
    def deliver(self, delta: Delta) -> None:
        """Have it happen, where it can. What cannot come from outside now is passed over."""
        assert self._outside is not None
        assert self._driver is not None
        match delta:
            case FromModel() if delta.operation in self._outside.streams:
                self._outside.streams[delta.operation].put_nowait(delta)  # type: ignore[arg-type]  # a delta of it is one
            case ToolSucceeded() | ToolFailed() if delta.operation in self._outside.runs:
                self._outside.end_run(delta)
            case TimerFired() if delta.operation in self._world.timers:
                self._pass_until(self._world.timers[delta.operation])
            case Resumed():
                self._die()
            case FromUser() if not isinstance(delta, FAR):
                self._until_idle(self._driver.send(delta))  # type: ignore[arg-type]  # all of its family are
            case _:
                return
        self._until_idle(asyncio.sleep(0))
        self._judge()

    def _open(self) -> None:
        self._until_idle(self._opened())
        self._world.look_at_beginning()
        self._judge()

    async def _opened(self) -> None:
        world = self._world
        outside = self._outside = _Outside(world)
        ports = DriverPorts(
            store=world.log,
            awaited_store=AwaitedStore(world.log),
            created=self._created,
            provider=outside,
            tools=outside,
            clock=outside,
            observer=world.see,
        )
        self._driver = await self.opened(ports)

    def _die(self) -> None:
        self._world.durable = len(self._world.run.steps)  # what was handed over survives the end of the process
        self._world.dead = True
        self._close()
        self._world.die()
        self._open()

    def _close(self) -> None:
        driver, self._driver = self._driver, None
        self._world.closing = True
        if driver is not None:
            if self._world.dead and isinstance(driver, Mortal):
                driver.kill()
            self._until_idle(driver.close())
        self._world.closing = False

    def _pass_until(self, time_ms: int) -> None:
        self._until_idle(asyncio.sleep(max(time_ms / 1000 - self._loop.time(), 0)))

    def _until_idle(self, act: Coroutine[Any, Any, object]) -> None:  # Any: a coroutine of asyncio
        async def acted() -> None:
            await act
            await self._loop.idle()

        self._loop.run_until_complete(acted())

    # --- what is seen -------------------------------------------------------------------------------------

    def _judge(self) -> None:
        """Each record that has come is foreseen, taken and judged; then the driver."""
        while self._judged < len(self._world.run.steps):
            record = self._world.run.log[self._judged]
            self._judged += 1
            self.now_ms = record.now_ms
            super().deliver(record.delta)
        self.now_ms = self._world.now_ms
        if self._driver is not None:
            self._world.look_when_idle(self._driver.state)
        self._blame()

    def _blame(self) -> None:
        faults = [f"{rule}: {seen}" for rule, seen in self._world.faults]
        assert not faults, "; ".join(faults)

    @override
    def teardown(self) -> None:
        """All that is open comes to its end, the driver rests and is closed; then the run as a whole."""
        try:
            if self.sound and self._driver is not None:
                self._come_to_rest()
                self._close()
                self._world.look_back()
                self._blame()
            super().teardown()
        finally:
            self._outside = None
            self._loop.close()

    def _come_to_rest(self) -> None:
        assert self._outside is not None
        for _ in range(MOST_ROUNDS):
            if isinstance(self.state, AT_REST) and not self._outside.streams:
                break
            for operation in list(self._outside.streams):
                self.deliver(ModelCompleted(operation, StopReason.END_TURN))
            for run in list(self._outside.runs):
                self.deliver(ToolSucceeded(run, ToolOutput()))
            for due_ms in sorted(self._world.timers.values())[:1]:
                self._pass_until(due_ms)
                self._judge()
        assert self._driver is not None
        self._until_idle(self._driver.rest())
        self._judge()
        self._world.look_at_rest(self._driver.state)
        self._blame()


class _Outside(Provider, Tools, Clock):
    """The ports of one life of the driver. What they give comes from the rules of the machine."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._loop = asyncio.get_running_loop()
        self.streams: dict[int, asyncio.Queue[ModelDelta]] = {}  # that are read
        self.runs: dict[Any, asyncio.Future[ToolOutput]] = {}  # that are under way

    @override
    async def stream(self, request: Request, operation: ModelOperation) -> AsyncIterator[ModelDelta]:
        self._world.claim(("model", operation), request)
        deltas = self.streams[operation] = asyncio.Queue()
        try:
            while True:
                delta = await deltas.get()
                yield delta
                if isinstance(delta, ModelCompleted | ModelFailed):
                    return
        finally:
            del self.streams[operation]

    @override
    def offered(self) -> tuple[Tool, ...]:
        return TOOLS

    @override
    def check(self, command: CheckCall) -> Verdict:
        self._world.claim(("check", command.operation), command)
        known = any(tool.name == command.tool for tool in TOOLS)
        return ValidCall((Claim("a", AccessMode.WRITE),)) if known else UnknownTool()

    @override
    async def run(self, command: StartTool, context: RunContext) -> ToolOutput:
        self._world.claim(("tool", command.operation), command)
        end = self.runs[command.operation] = self._loop.create_future()
        cancelled = True
        try:
            output = await end
            cancelled = False
            return output
        except ToolError:
            cancelled = False
            raise
        finally:
            del self.runs[command.operation]
            self._world.ended(("tool", command.operation), cancelled)

    def end_run(self, delta: ToolSucceeded | ToolFailed) -> None:
        """The run ends so."""
        match delta:
            case ToolSucceeded(output=output):
                self.runs[delta.operation].set_result(evolve(output, background=False))
            case ToolFailed():
                self.runs[delta.operation].set_exception(ToolError("no such thing"))

    @override
    def now_ms(self) -> int:
        self._world.now_ms = max(self._world.now_ms, round(self._loop.time() * 1000))
        return self._world.now_ms

    @override
    def call_at(self, deadline_ms: int, callback: Callable[[], None]) -> Callable[[], None]:
        return self._loop.call_at(max(deadline_ms / 1000, self._loop.time()), callback).cancel

"""Plays a scenario on a driver in virtual time: runs overlap, and people speak while they last."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from loopkernel.data.blocks import TextBlock
from loopkernel.data.effects import CheckCall, Request, StartTool
from loopkernel.data.ids import ModelOperation
from loopkernel.data.model_deltas import FromModel, ModelDelta
from loopkernel.data.tools import Tool, ToolOutput, Verdict
from loopkernel.later_typing import override
from loopkernel.testing.scenarios.data.actions import Crash
from loopkernel.testing.scenarios.data.scenario import Scenario
from loopkernel.testing.scenarios.data.world import ToolFails, ToolReturns
from loopkernel.testing.scenarios.player.user_inputs import delta_of

from loopkernel_adapters.ports import Clock, Provider, RunContext, ToolError, Tools
from loopkernel_adapters.testing.driver_trial import AnyDriver, AwaitedStore, DriverFactory, DriverPorts, Mortal
from loopkernel_adapters.testing.fuzzing.world import World
from loopkernel_adapters.testing.synchronous import Synchronous
from loopkernel_adapters.testing.virtual_loop import VirtualLoop


def play(scenario: Scenario, opened: DriverFactory) -> World:
    """The world in which the driver has played the scenario to its end, through all deaths of its process."""
    world = World(scenario, heeds_aborts=not isinstance(opened, Synchronous))
    VirtualLoop().play(_lives(world, opened))
    return world


async def _lives(world: World, opened: DriverFactory) -> None:
    over = False
    while not over:
        try:
            over = await _live(world, opened)
        except Exception:
            if not world.dead:  # else it was told that its log cannot be written
                raise
        if not over:
            world.die()
    world.look_back()


async def _live(world: World, opened: DriverFactory) -> bool:
    """One process; whether it is the last."""
    ports = _Ports(world)
    driver = await opened(
        DriverPorts(
            store=world.log,
            awaited_store=AwaitedStore(world.log),
            created=world.created(),
            provider=ports,
            tools=ports,
            clock=ports,
            observer=world.see,
        )
    )
    world.closing = False
    try:
        world.look_at_beginning()
        return await _people_speak(world, driver, ports)
    finally:
        if world.dead and isinstance(driver, Mortal):
            driver.kill()
        world.closing = True
        ports.leave()
        await driver.close()


async def _people_speak(world: World, driver: AnyDriver, ports: "_Ports") -> bool:
    """Whatever happens at a time happens then, until nothing more does; False where the process dies of it."""
    while True:
        while world.next_ms is not None:
            if world.next_ms > ports.now_ms():
                await ports.lasts_unless_news(world.next_ms - ports.now_ms())
                continue
            action = world.next_action()
            if isinstance(action, Crash):
                world.dead = True
                return False
            await driver.send(delta_of(action, world.names))  # type: ignore[arg-type]  # what a drawn person does is theirs
        if await ports.rests_without_news(driver):
            world.look_at_rest(driver.state)
            if world.next_ms is None:
                return True


class _Ports(Provider, Tools, Clock):
    """The model, the tools and the clock of one process."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._loop = asyncio.get_running_loop()  # a driver may ask from a thread of its own
        self._news = asyncio.Event()
        self._resting: asyncio.Future[None] | None = None
        self._spoken = False  # since it was asked to rest
        world.tell = self._news.set

    async def lasts(self, milliseconds: int) -> None:
        """So much time passes."""
        await asyncio.sleep(milliseconds / 1000)
        self.now_ms()

    async def lasts_unless_news(self, milliseconds: int) -> None:
        """So much time passes, or as much as it takes until somebody has something to say."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(milliseconds / 1000):
                await self._news.wait()
        self._news.clear()
        self.now_ms()

    async def rests_without_news(self, driver: AnyDriver) -> bool:
        """Whether the driver rests before somebody has something to say. Raises what its rest raises."""
        if self._resting is None:
            self._resting = asyncio.ensure_future(driver.rest())
        news = asyncio.ensure_future(self._news.wait())
        await asyncio.wait({self._resting, news}, return_when=asyncio.FIRST_COMPLETED)
        news.cancel()
        self._news.clear()
        if not self._resting.done():
            self._spoken = True  # somebody will, and then it rests when it has heard that
            return False
        rested, self._resting = self._resting, None
        rested.result()
        spoken, self._spoken = self._spoken, False
        return not spoken

    def leave(self) -> None:
        """Nobody waits for the rest of the driver any more."""
        if self._resting is not None:
            self._resting.cancel()

    @override
    def now_ms(self) -> int:
        passed_ms = round(self._loop.time() * 1000)
        self._world.now_ms = max(self._world.now_ms, passed_ms)
        return self._world.now_ms

    @override
    def call_at(self, deadline_ms: int, callback: Callable[[], None]) -> Callable[[], None]:
        return self._loop.call_at(max(deadline_ms / 1000, self._loop.time()), callback).cancel

    @override
    async def stream(self, request: Request, operation: ModelOperation) -> AsyncIterator[ModelDelta]:
        begun_ms = self.now_ms()
        for report in self._world.reply(request, operation):
            await self.lasts(max(begun_ms + report.delay_ms - self.now_ms(), 0))
            assert isinstance(report.delta, FromModel)
            yield report.delta

    @override
    def offered(self) -> tuple[Tool, ...]:
        return self._world.offered()

    @override
    def check(self, command: CheckCall) -> Verdict:
        return self._world.verdict(command)

    @override
    async def run(self, command: StartTool, context: RunContext) -> ToolOutput:
        behaviour = self._world.behaviour(command)
        cancelled = True
        try:
            await self.lasts(behaviour.takes_ms)
            cancelled = False
        finally:
            self._world.ended(("tool", command.operation), cancelled)
        match behaviour.outcome:
            case ToolReturns(text):
                return ToolOutput(content=(TextBlock(text),))
            case ToolFails(text):
                raise ToolError(text)
            case _:
                raise TimeoutError("the tool never came back")

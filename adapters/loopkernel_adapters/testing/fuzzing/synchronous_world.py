"""Plays a scenario on a driver without an event loop: its ports have time pass, and people speak meanwhile."""

from collections.abc import Iterator

from loopkernel.data.blocks import TextBlock
from loopkernel.data.effects import CheckCall, Request, StartTool
from loopkernel.data.ids import ModelOperation
from loopkernel.data.model_deltas import FromModel, ModelDelta
from loopkernel.data.tools import ToolOutput, Verdict
from loopkernel.later_typing import override
from loopkernel.testing.scenarios.data.actions import Crash
from loopkernel.testing.scenarios.data.scenario import Scenario
from loopkernel.testing.scenarios.data.world import ToolFails, ToolReturns
from loopkernel.testing.scenarios.player.user_inputs import delta_of

from loopkernel_adapters.ports import ToolError
from loopkernel_adapters.testing.fuzzing.world import ProcessDied, World
from loopkernel_adapters.testing.synchronous import (
    SynchronousClock,
    SynchronousDriver,
    SynchronousFactory,
    SynchronousPorts,
    SynchronousProvider,
    SynchronousTools,
)


def play_synchronously(scenario: Scenario, opened: SynchronousFactory) -> World:
    """The world in which the driver has played the scenario to its end, through all deaths of its process."""
    world = World(scenario)
    while True:
        try:
            _live(world, opened)
        except ProcessDied:
            world.die()
        else:
            world.look_back()
            return world


def _live(world: World, opened: SynchronousFactory) -> None:
    """One process, until the scenario is over."""
    ports = _Ports(world)
    driver = opened(
        SynchronousPorts(
            store=world.log,
            created=world.created(),
            provider=ports,
            tools=ports,
            clock=ports,
            observer=world.see,
        )
    )
    world.look_at_beginning()
    ports.driver = driver
    ports.pass_until(world.now_ms)
    while True:
        driver.rest()
        world.look_at_rest(driver.state)
        if world.next_ms is None:
            break
        ports.pass_until(world.next_ms)
    driver.close()


class _Ports(SynchronousProvider, SynchronousTools, SynchronousClock):
    """The model, the tools and the clock of one process."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.driver: SynchronousDriver | None = None  # while it is being opened

    def pass_until(self, time_ms: int) -> bool:
        """Time passes, and whatever is to happen by then happens; whether anything did."""
        world, happened = self._world, False
        while self.driver is not None and world.next_ms is not None and world.next_ms <= time_ms:
            world.now_ms = max(world.now_ms, world.next_ms)
            self._happens(self.driver)
            happened = True
        world.now_ms = max(world.now_ms, time_ms)
        return happened

    def _happens(self, driver: SynchronousDriver) -> None:
        action = self._world.next_action()
        if isinstance(action, Crash):
            self._world.dead = True
            raise ProcessDied
        driver.post(delta_of(action, self._world.names))  # type: ignore[arg-type]  # what a drawn person does is theirs

    @override
    def stream(self, request: Request, operation: ModelOperation) -> Iterator[ModelDelta]:
        reports = self._world.reply(request, operation)
        begun_ms = self._world.now_ms
        for report in reports:
            self.pass_until(begun_ms + report.delay_ms)
            assert isinstance(report.delta, FromModel)
            yield report.delta

    @override
    def check(self, command: CheckCall) -> Verdict:
        return self._world.verdict(command)

    @override
    def run(self, command: StartTool) -> ToolOutput:
        behaviour = self._world.behaviour(command)
        self.pass_until(self._world.now_ms + behaviour.takes_ms)
        match behaviour.outcome:
            case ToolReturns(text):
                return ToolOutput(content=(TextBlock(text),))
            case ToolFails(text):
                raise ToolError(text)
            case _:
                raise TimeoutError("the tool never came back")

    @override
    def now_ms(self) -> int:
        return self._world.now_ms

    @override
    def sleep_until(self, deadline_ms: int) -> None:
        next_ms = self._world.next_ms
        self.pass_until(deadline_ms if next_ms is None else min(deadline_ms, max(next_ms, self._world.now_ms)))

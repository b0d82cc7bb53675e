"""Drivers with the faults that happen in production: what is lost, begun again, retried, hidden, or held up."""

from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Never

import pytest
from attrs import evolve
from loopkernel.data.effects import Request, StartTool
from loopkernel.data.events import Event, ToolEnded
from loopkernel.data.ids import ModelOperation
from loopkernel.data.model_deltas import ModelDelta
from loopkernel.data.states import Idle, State
from loopkernel.data.tool_deltas import ToolSucceeded
from loopkernel.replaying import fold, replay
from loopkernel_adapters.driver import work
from loopkernel_adapters.driver.asyncio_driver import Driver
from loopkernel_adapters.driver.clocks import ManualClock
from loopkernel_adapters.ports import Clock, Restored, RunFailed
from loopkernel_adapters.testing.driver_check import AnyDriver, DriverFactory, DriverPorts
from typing_extensions import override

from tests.adapters.driver.broken_drivers import Amnesiac, Lazy, opened_as, with_ports
from tests.adapters.driver.careless_ports import (
    Around,
    CoveringUp,
    GivingOtherInput,
    KnowingOneClass,
    TakingAStopForAnEnd,
    TryingAgain,
    Vague,
    WaitingForAnEnd,
    WithOtherAnswers,
    WithoutBackground,
    WithoutProgress,
    WithoutQuestions,
    around,
    granting,
    with_tools,
)

# --- what it shows ---


def hiding(ports: DriverPorts) -> DriverPorts:
    """Does not tell how a call has ended."""

    def show(event: Event) -> None:
        if not isinstance(event, ToolEnded):
            ports.observer(event)

    return evolve(ports, observer=show)


def repeating(ports: DriverPorts) -> DriverPorts:
    """Tells twice how a call has ended."""

    def show(event: Event) -> None:
        ports.observer(event)
        if isinstance(event, ToolEnded):
            ports.observer(event)

    return evolve(ports, observer=show)


class Touchy(Driver):
    """Stops where an observer raises."""

    @override
    async def __aenter__(self) -> "Touchy":
        self._audience._complain = self._give_up  # type: ignore[method-assign]  # the fault
        await super().__aenter__()
        return self

    def _give_up(self, what: str, error: BaseException) -> Never:
        raise error


class LosingTheEnd(Driver):
    """Forgets a run as soon as its call is answered."""

    @override
    def _report(self, outcome: object) -> None:
        ended = isinstance(outcome, ToolSucceeded) and not outcome.output.background
        super()._report(None if ended and isinstance(self.state, Idle) else outcome)  # type: ignore[arg-type]  # a delta


# --- whom it waits for, and what it leaves ---


class WaitingForIdle(Driver):
    """Rests only when a turn is over."""

    @override
    async def rest(self) -> None:
        await self._until(lambda: isinstance(self._state, Idle))


class KeepingFailuresToItself(Driver):
    """Raises no failure of the model."""

    @override
    async def rest(self) -> None:
        with suppress(RunFailed):
            await super().rest()


class RaisingAll(Driver):
    """Raises the failure of the model whatever the policy says."""

    @override
    async def rest(self) -> None:
        await super().rest()
        if self.state.session is not None and self.state.session.error is not None:
            raise RunFailed(self.state.session.error.error, self.state.session.error.message)


class RaisingWithoutWords(Driver):
    """Does not say what has failed."""

    @override
    async def rest(self) -> None:
        try:
            await super().rest()
        except RunFailed as error:
            raise RunFailed(error.error, "") from None


class ClosingAtOnce(Driver):
    """Leaves a close that is cancelled half done."""

    @override
    async def close(self, stop_seconds: float = 1) -> None:
        self._closed = True
        self._operations.forget_timers()
        await self._operations.close(stop_seconds)
        await self._log.close()


def greedy(ports: DriverPorts) -> DriverPorts:
    """Reads on as long as a stream gives anything."""
    return evolve(ports, provider=_Greedy(ports.provider))


class _Greedy(Around):
    @override
    async def given(self, request: Request, operation: ModelOperation) -> AsyncIterator[ModelDelta]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(work, "DELTAS_PER_SLICE", 1_000_000)
            async for delta in self.inner.stream(request, operation):
                yield delta


# --- over a restart ---


class WithoutItsSnapshot(Amnesiac):
    """Folds what is behind a snapshot as if it were all."""

    @override
    def restore(self) -> Restored:
        return Restored(records=self.inner.restore().records)


class KeepingOldSnapshots(Amnesiac):
    """Keeps a snapshot of what was, when all records lead further."""

    @override
    def restore(self) -> Restored:
        return self.inner.restore()

    @override
    def save_snapshot(self, state: State) -> None:
        self.inner.save_snapshot(replay(self.inner.load()[:-1]))


class OffendedByTheDisk(KeepingOldSnapshots):
    """Leaves its log open where a snapshot could not be kept."""

    offended = False

    @override
    def save_snapshot(self, state: State) -> None:
        self.offended = True
        self.inner.save_snapshot(state)

    @override
    def close(self) -> None:
        if not self.offended:
            self.inner.close()


class Unringing(ManualClock):
    """Sets timers that never ring."""

    @override
    def call_at(self, deadline_ms: int, callback: Callable[[], None]) -> Callable[[], None]:
        return super().call_at(1 << 60, callback)


class StartingAnew(Clock):
    """Lets each countdown run its whole time again."""

    def __init__(self, inner: Clock, whole_ms: int) -> None:
        self._inner = inner
        self._whole_ms = whole_ms

    @override
    def now_ms(self) -> int:
        return self._inner.now_ms()

    @override
    def call_at(self, deadline_ms: int, callback: Callable[[], None]) -> Callable[[], None]:
        return self._inner.call_at(self.now_ms() + self._whole_ms, callback)


def losing_timers(ports: DriverPorts) -> DriverPorts:
    """Loses the timers of a log that it goes on with."""
    return evolve(ports, clock=Unringing(ports.clock.now_ms())) if ports.store.load() else ports


def starting_anew(ports: DriverPorts) -> DriverPorts:
    """Begins each countdown of a log that it goes on with from its beginning."""
    return evolve(ports, clock=StartingAnew(ports.clock, 100)) if ports.store.load() else ports


async def beginning_again(ports: DriverPorts) -> AnyDriver:
    """Runs again, by itself, whatever had begun when the process ended."""
    steps = fold(ports.store.load())
    begun = {effect.operation: effect for step in steps for effect in step.effects if isinstance(effect, StartTool)}
    for step in steps:
        if isinstance(step.context.delta, ToolSucceeded):
            begun.pop(step.context.delta.operation, None)
    driver = await opened_as(Driver)(ports)
    for command in begun.values():
        await ports.tools.run(command, _Unheard())
    return driver


class _Unheard(WithoutProgress, WithoutQuestions, WithoutBackground):
    def __init__(self) -> None:
        """There is nothing within."""


def over(kind: type[Lazy]) -> DriverFactory:
    """This driver with that fault around its log."""
    return with_ports(lambda ports: evolve(ports, store=kind(ports.store)))


CARELESS: list[tuple[int, str, DriverFactory]] = [
    (2, "event \\d+ of the log is ToolEnded, and .* was shown", with_ports(hiding)),
    (2, "event \\d+ of the log is .*, and ToolEnded was shown", with_ports(repeating)),
    (2, "StoreFailed|LookupError", opened_as(Touchy)),
    (5, "a stream that ends without an end is never reported", around(WaitingForAnEnd)),
    (5, "a stream that ends without an end is reported as \\[\\]", around(TakingAStopForAnEnd)),
    (5, "a stream that raises a TimeoutError is reported as \\['network'\\], not as stalled", around(KnowingOneClass)),
    (5, "CallModel 1 was begun twice", around(TryingAgain)),
    (5, "a tool that raises ToolError is reported 0 times", with_tools(CoveringUp)),
    (5, "the words of a ToolError, no such file, do not reach", with_tools(Vague)),
    (5, "StartTool 1 was begun with another input", with_tools(GivingOtherInput)),
    (7, "nothing more happened", opened_as(WaitingForIdle)),
    (8, "a close was cancelled, and the log is left open", opened_as(ClosingAtOnce)),
    (9, "begun once more after a restart, though nothing asked for it: StartTool", beginning_again),
    (9, "opened from a snapshot of 3 records", over(WithoutItsSnapshot)),
    (10, "a run has failed under `on_error: raise`, and rest raised nothing", opened_as(KeepingFailuresToItself)),
    (10, "a run has failed under `on_error: rest`, and rest raised RunFailed", opened_as(RaisingAll)),
    (10, "a run that has failed is raised as .*: ''", opened_as(RaisingWithoutWords)),
    (11, "a countdown of 100 ms, opened again 0 ms after it began, never ends", with_ports(losing_timers)),
    (11, "a countdown of 100 ms, opened again 50 ms after it began, never ends", with_ports(starting_anew)),
    (19, r"100\d pieces of a stream were read in a row", with_ports(greedy)),
    (22, "a snapshot was kept of a state that", over(KeepingOldSnapshots)),
    (22, "a snapshot could not be kept, and the log is left open", over(OffendedByTheDisk)),
    (23, "report_progress returned before", granting(WithoutProgress)),
    (23, "a run has a question, and it rests in Idle", granting(WithoutQuestions)),
    (23, "the answer came to the run as .*another", granting(WithOtherAnswers)),
    (23, "a run in the background holds its turn up", granting(WithoutBackground)),
    (23, "the end of a run in the background is not in the log", opened_as(LosingTheEnd)),
]

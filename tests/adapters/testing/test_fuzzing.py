"""The fuzzing of drivers: one that is right passes; a planted mistake is told with its rule and a small scenario.

Slow: each mistake is looked for in up to sixty runs, and the run that shows it is made small.
"""

import re
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from attrs import evolve
from loopkernel import deltas, effects
from loopkernel.testing import read_scenarios
from loopkernel_adapters.driver.asyncio_driver import Driver
from loopkernel_adapters.testing import DriverPorts, DriverProcess, Synchronous, Trio, check_driver, fuzz_driver
from loopkernel_adapters.testing.driver_trial import AnyDriver, DriverFactory
from loopkernel_adapters.testing.fuzzing.drawing import drawn
from loopkernel_adapters.testing.synchronous import SynchronousFactory
from typing_extensions import override

from examples.drivers.blocking_driver import BlockingDriver
from examples.drivers.trio_driver import TrioDriver
from tests.adapters.driver.broken_drivers import Lazy, NeverRinging, RunningTwice, opened_as, with_ports

pytestmark = pytest.mark.slow

FEW = range(8)
ENOUGH = 60.0  # seconds, on a machine that has much to do
MANY = range(60)  # a planted mistake is found earlier


def test_a_driver_without_an_event_loop_is_fuzzed() -> None:
    fuzz_driver(Synchronous(BlockingDriver), seeds=FEW, patience_seconds=ENOUGH)


class RunsTwice(BlockingDriver):
    @override
    def _run(self, command: effects.StartTool) -> deltas.ToolSucceeded | deltas.ToolFailed:
        super()._run(command)
        return super()._run(command)


class Undurable(BlockingDriver):
    @override
    def _take(self, delta: deltas.Delta) -> None:
        store, append = self._ports.store, self._ports.store.append
        store.append = lambda records, durable: append(records, False)  # type: ignore[method-assign]  # the mistake
        super()._take(delta)
        store.append = append  # type: ignore[method-assign]  # as it was


class StartsWhatIsAborted(BlockingDriver):
    @override
    def _hear(self) -> None:
        super()._hear()
        self._aborted.clear()


class Timeless(BlockingDriver):
    @override
    def _hear(self) -> None:
        self._timers.clear()
        super()._hear()


class Silent(BlockingDriver):
    """Shows nothing of what follows from a result."""

    @override
    def _take(self, delta: deltas.Delta) -> None:
        ports = self._ports
        if isinstance(delta, deltas.ToolSucceeded):
            self._ports = evolve(ports, observer=lambda event: None)
        super()._take(delta)
        self._ports = ports


class BeginsAnew(BlockingDriver):
    """Begins a log that is there already once more."""

    @override
    def _hear(self) -> None:
        if self._inputs and isinstance(self._inputs[0], deltas.Resumed):
            self._inputs[0] = deltas.Acquired()
        super()._hear()


class Forgetful(BlockingDriver):
    """Loses what is checked when more than one call is."""

    @override
    def _carry_out(self, command: effects.CallModel | effects.CheckCall | effects.StartTool) -> None:
        if not (isinstance(command, effects.CheckCall) and self._commands):
            super()._carry_out(command)


PLANTED: list[tuple[SynchronousFactory, str]] = [
    (RunsTwice, "driver 5"),
    (Undurable, "driver 3"),
    (StartsWhatIsAborted, "driver 16"),
    (Timeless, "driver 7"),
    (Silent, "driver 2"),
    (BeginsAnew, "driver 9"),
    (Forgetful, "driver (5|7)"),
]


@pytest.mark.parametrize(("opened", "rule"), PLANTED)
def test_a_mistake_is_told_with_its_rule_its_seed_and_a_small_scenario(opened: SynchronousFactory, rule: str) -> None:
    with pytest.raises(AssertionError, match=f"{rule}: ") as raised:
        fuzz_driver(Synchronous(opened), seeds=MANY, patience_seconds=ENOUGH)
    told = str(raised.value)
    seed = int(re.search(r"seeds=\[(\d+)\]", told).group(1))  # type: ignore[union-attr]  # it is there
    (scenario,) = read_scenarios(told[told.index("---\n") :], "told")
    whole = drawn(seed)
    assert len(scenario.model) + len(scenario.user) <= 5 <= len(whole.model) + len(whole.user)


# --- drivers of asyncio -------------------------------------------------------------------------------------


async def over_an_awaited_store(ports: DriverPorts) -> AnyDriver:
    driver = await Driver.open(
        store=ports.awaited_store,
        created=ports.created,
        provider=ports.provider,
        tools=ports.tools,
        clock=ports.clock,
        observers=(ports.observer,),
    )
    return await driver.__aenter__()


@pytest.mark.parametrize("opened", [opened_as(Driver), over_an_awaited_store])
def test_a_driver_of_asyncio_is_fuzzed_over_either_kind_of_store(opened: DriverFactory) -> None:
    fuzz_driver(opened, seeds=FEW, patience_seconds=ENOUGH)


def test_a_driver_over_an_awaited_store_has_its_duties() -> None:
    check_driver(over_an_awaited_store, (1, 2, 3, 4, 5), ENOUGH)


PLANTED_ON_ASYNCIO: list[tuple[DriverFactory, str]] = [
    (with_ports(lambda ports: evolve(ports, tools=RunningTwice(ports.tools))), "driver 5"),
    (with_ports(lambda ports: evolve(ports, store=Lazy(ports.store))), "driver 3"),
    (opened_as(NeverRinging), "driver 7"),
]


@pytest.mark.parametrize(("opened", "rule"), PLANTED_ON_ASYNCIO)
def test_a_mistake_of_a_driver_of_asyncio_is_told_with_its_rule(opened: DriverFactory, rule: str) -> None:
    with pytest.raises(AssertionError, match=f"{rule}: (.*\n)*Seen with seed"):
        fuzz_driver(opened, seeds=MANY, patience_seconds=ENOUGH)


# --- drivers of trio ----------------------------------------------------------------------------------------


class Deaf(TrioDriver):
    """Loses the cancel of a run."""

    @override
    def _end(self, job: tuple[str, int]) -> None:
        if job[0] != "tool":
            super()._end(job)


class Repeating(TrioDriver):
    """Says the end of a run twice."""

    @override
    async def send(self, delta: deltas.Delta) -> None:
        await super().send(delta)
        if isinstance(delta, deltas.ToolSucceeded):
            await super().send(delta)


PLANTED_ON_TRIO: list[tuple[type[TrioDriver], str]] = [
    (Deaf, "driver 16"),
    (Repeating, "driver 5"),
]


@pytest.mark.parametrize(("kind", "rule"), PLANTED_ON_TRIO)
def test_a_mistake_of_a_driver_of_trio_is_told_with_its_rule(kind: type[TrioDriver], rule: str) -> None:
    told = told_of(Trio(kind.open))
    assert re.match(rule, told)
    again = told_of(Trio(kind.open), [int(re.search(r"seeds=\[(\d+)\]", told).group(1))])  # type: ignore[union-attr]  # it is there
    assert again == told


def told_of(opened: DriverFactory, seeds: Iterable[int] = MANY) -> str:
    with pytest.raises(AssertionError, match="Seen with seed") as raised:
        fuzz_driver(opened, seeds=seeds, patience_seconds=ENOUGH)
    return str(raised.value)


# --- drivers in another language ----------------------------------------------------------------------------


NODE = shutil.which("node")
IN_JAVASCRIPT = Path(__file__).resolve().parents[3] / "examples" / "drivers" / "driver.js"
PLANTED_IN_JAVASCRIPT: list[tuple[str, str, str]] = [  # what stands there, what stands in its place, and the rule
    ("durable: true", "durable: false", "driver 3"),
    ("of records) await", "of records.slice(0, -1)) await", "driver 5"),
]


@pytest.mark.skipif(NODE is None, reason="node is not installed, and this driver is in JavaScript")
@pytest.mark.parametrize(("right", "wrong", "rule"), PLANTED_IN_JAVASCRIPT, ids=lambda text: text)
def test_a_mistake_of_a_driver_in_javascript_is_told_with_its_rule(
    right: str, wrong: str, rule: str, tmp_path: Path
) -> None:
    text = IN_JAVASCRIPT.read_text(encoding="utf-8")
    assert text.count(right) == 1
    planted = tmp_path / "driver.js"
    planted.write_text(text.replace(right, wrong), encoding="utf-8")
    driver = DriverProcess([str(NODE), str(planted), sys.executable])
    try:
        assert re.match(rule, told_of(driver))
    finally:
        driver.end()

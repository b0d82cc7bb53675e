"""The fuzzing of drivers: one that is right passes; a planted mistake is told with its rule and a small scenario."""

import re

import pytest
from attrs import evolve
from loopkernel import deltas, effects
from loopkernel.testing import read_scenarios
from loopkernel_adapters.testing import Synchronous, fuzz_driver
from loopkernel_adapters.testing.fuzzing.drawing import drawn
from loopkernel_adapters.testing.synchronous import SynchronousFactory
from typing_extensions import override

from examples.drivers.blocking_driver import BlockingDriver

FEW = range(8)
MANY = range(60)  # a planted mistake is found earlier


def test_a_driver_without_an_event_loop_is_fuzzed() -> None:
    fuzz_driver(Synchronous(BlockingDriver), seeds=FEW)


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
        fuzz_driver(Synchronous(opened), seeds=MANY)
    told = str(raised.value)
    seed = int(re.search(r"seeds=\[(\d+)\]", told).group(1))  # type: ignore[union-attr]  # it is there
    (scenario,) = read_scenarios(told[told.index("---\n") :], "told")
    whole = drawn(seed)
    assert len(scenario.model) + len(scenario.user) <= 5 <= len(whole.model) + len(whole.user)

"""The tests of the driver beside this file: its duties, one by one, and whole runs that are drawn from seeds."""

import pytest
from loopkernel_adapters.testing import Synchronous, check_driver, fuzz_driver

from examples.drivers.blocking_driver import BlockingDriver

DUTIES = (1, 2, 3, 5, 6, 7, 9, 22)  # it has no use for `on_error: raise`


@pytest.mark.parametrize("duty", DUTIES)
def test_it_has_its_duties(duty: int) -> None:
    check_driver(Synchronous(BlockingDriver), [duty])


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_it_keeps_the_rules_whatever_happens(first: int) -> None:
    fuzz_driver(Synchronous(BlockingDriver), seeds=range(first, first + 10))

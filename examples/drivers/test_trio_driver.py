"""The tests of the trio driver: its duties, one by one, and whole runs that are drawn from seeds."""

import pytest
from loopkernel_adapters.testing import Trio, check_driver, fuzz_driver

from examples.drivers.trio_driver import TrioDriver

DUTIES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 16, 17, 19, 22)  # its tools say nothing while they run (23)


@pytest.mark.parametrize("duty", DUTIES)
def test_it_has_its_duties(duty: int) -> None:
    check_driver(Trio(TrioDriver.open), [duty])


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_it_keeps_the_rules_whatever_happens(first: int) -> None:
    fuzz_driver(Trio(TrioDriver.open), seeds=range(first, first + 10))

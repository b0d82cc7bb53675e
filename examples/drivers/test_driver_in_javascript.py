"""The tests of the driver in JavaScript: its duties, one by one, and whole runs that are drawn from seeds."""

import shutil
import sys
from pathlib import Path

import pytest
from loopkernel_adapters.testing import DriverProcess, check_driver, fuzz_driver

NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="node is not installed, and this driver is in JavaScript")
DRIVER = DriverProcess([NODE or "node", str(Path(__file__).with_name("driver.js")), sys.executable])


@pytest.mark.parametrize("duty", DriverProcess.duties)
def test_it_has_its_duties(duty: int) -> None:
    check_driver(DRIVER, [duty])


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_it_keeps_the_rules_whatever_happens(first: int) -> None:
    fuzz_driver(DRIVER, seeds=range(first, first + 10))

"""Every test with a world is played twice: over stores that return at once, and over ones that are awaited.

But for those with the mark `in_place`: they look at single turns of the loop, in which it differs what is done, or have
no world.
"""

from collections.abc import Iterator

import pytest

from tests.adapters.driver.awaited_stores import Awaited
from tests.adapters.driver.driver_world import AROUND


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.definition.get_closest_marker("in_place") is None:
        metafunc.parametrize("store_of_worlds", ["in-place", "awaited"], indirect=True, scope="module")


@pytest.fixture(autouse=True, scope="module")
def store_of_worlds(request: pytest.FixtureRequest) -> Iterator[None]:
    """What a `World` puts around its store."""
    if getattr(request, "param", "in-place") == "awaited":
        AROUND.append(Awaited)
    yield
    AROUND.clear()

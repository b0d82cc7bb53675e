"""The planted bugs that are shipped: each is caught by its law alone, by the runs that are shipped with them."""

import pytest
from loopkernel.testing.planted.bugs import PLANTED
from loopkernel.testing.planted.planting import PlantedBug, breached_laws
from loopkernel.testing.planted.runs import SCRIPTS


@pytest.mark.parametrize("bug", PLANTED, ids=[bug.name for bug in PLANTED])
def test_a_shipped_bug_is_caught_by_its_law_alone(bug: PlantedBug) -> None:
    assert breached_laws(bug, SCRIPTS.values()) == {bug.law}

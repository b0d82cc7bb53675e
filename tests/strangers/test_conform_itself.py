"""The suite judges itself: our own agent holds, and with a planted bug, as a stranger, it is named by its law."""

from collections.abc import Callable

import pytest
from loopkernel_adapters.conform.catalogue import SCENARIOS, scenario_named
from loopkernel_adapters.conform.running import Found

from tests.adapters.conform.planted_outside import PLANTED_OUTSIDE, named_outside
from tests.strangers.conftest import NO_BUG, Play


@pytest.mark.parametrize("play", [(NO_BUG, each.name) for each in SCENARIOS if each.quick], ids=lambda play: play[1])
def test_our_own_agent_breaks_no_law(play: Play, found: Callable[[Play], Found]) -> None:
    seen = found(play)
    assert (seen.trouble, seen.breaches) == ("", ())
    assert set(scenario_named(play[1]).laws) - set(seen.checks) <= {"ADDRESS", "CUT-SAFE"}


@pytest.mark.parametrize("play", [(bug.name, bug.scenario) for bug in PLANTED_OUTSIDE], ids=lambda play: play[0])
def test_a_stranger_with_a_planted_bug_is_caught_by_its_law(play: Play, found: Callable[[Play], Found]) -> None:
    seen = found(play)
    assert seen.trouble == ""
    assert named_outside(play[0]).law in {breach.law for breach in seen.breaches}

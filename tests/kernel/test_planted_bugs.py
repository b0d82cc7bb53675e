"""Each planted bug is caught by its law, and by no other; the kernel without one breaks none."""

import os

import pytest
from loopkernel.laws import JUDGED, KERNEL, check_pairs, check_trace
from loopkernel.testing.planted import PLANTED
from loopkernel.testing.planted_runs import SCRIPTS
from loopkernel.testing.planting import PlantedBug, breached_laws
from loopkernel.testing.player import (
    play,
)

# The quick suite judges each bug up to the run that catches it; that under another Python, and the deep one, all runs.
IS_QUICK = os.environ.get("HYPOTHESIS_PROFILE", "quick") == "quick"


@pytest.mark.parametrize("bug", PLANTED, ids=[bug.name for bug in PLANTED])
def test_a_planted_bug_is_caught_by_its_law_alone(bug: PlantedBug) -> None:
    assert breached_laws(bug, SCRIPTS.values(), until_caught=IS_QUICK) == {bug.law}


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_kernel_breaks_no_law(script: str) -> None:
    steps = play(SCRIPTS[script], KERNEL.transition)
    assert (check_trace(steps).breaches, check_pairs(steps).breaches) == ((), ())


def test_every_judged_law_has_a_planted_bug() -> None:
    assert {bug.law for bug in PLANTED} == {law.id for law in JUDGED}


def test_planted_bugs_have_names_of_their_own() -> None:
    assert len({bug.name for bug in PLANTED}) == len(PLANTED)

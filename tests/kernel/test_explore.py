"""Every run within small scopes: the laws at every edge, every goal met, rest always within reach."""

from functools import cache

import pytest
from loopkernel.testing.explorer.explore import Exploration

from tests.kernel.explore_care import OTHER_CARE, QUICK_CARE
from tests.kernel.explore_cases import CASES, COMPARED, MOST_RUNS, PROFILE, of_profile
from tests.kernel.explore_endurance import OTHER_ENDURANCE, QUICK_ENDURANCE
from tests.kernel.explore_world import Case
from tests.kernel.exploring import explored, wrong_with_outlines, wrong_with_runs, wrong_with_search

ENDURANCE = of_profile(QUICK_ENDURANCE, OTHER_ENDURANCE)
CARE = of_profile(QUICK_CARE, OTHER_CARE)
ALL_CASES = (*CASES, *ENDURANCE, *CARE)
ALIKE = (*(case for case in COMPARED if case in CASES), *ENDURANCE, *CARE)
LIKE_STATES = 400 if PROFILE == "quick" else 1_000  # of each case, where those of one outline are compared

found_in = cache(explored)


@pytest.mark.rule("DELTA-2")
@pytest.mark.parametrize("case", ALL_CASES, ids=lambda case: case.name)
def test_every_run_holds_the_laws_and_can_come_to_rest(case: Case) -> None:
    found: Exploration = found_in(case)
    for wrong in wrong_with_search(case, found):
        pytest.fail(wrong)
    assert found.complete
    assert found.held


@pytest.mark.parametrize("case", ALL_CASES, ids=lambda case: case.name)
def test_the_shortest_runs_hold_the_laws_of_whole_runs(case: Case) -> None:
    found = found_in(case)
    assert found.states > MOST_RUNS
    assert list(wrong_with_runs(case, found, MOST_RUNS)) == []


@pytest.mark.parametrize("case", ALIKE, ids=lambda case: case.name)
def test_an_outline_hides_nothing_that_matters(case: Case) -> None:
    assert list(wrong_with_outlines(case, LIKE_STATES)) == []

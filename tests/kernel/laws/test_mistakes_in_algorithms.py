"""A mistake within an algorithm is found out by a law alone: what judges shares no function with what it judges."""

from collections import Counter

import pytest

from tests.kernel.laws.mistakes import Mistake, laws_broken
from tests.kernel.laws.mistakes_of_authority import OF_AUTHORITY
from tests.kernel.laws.mistakes_of_work import OF_WORK

MISTAKES = (*OF_AUTHORITY, *OF_WORK)
RUNS = {mistake.run.__name__: mistake.run for mistake in MISTAKES}
ALGORITHMS = (
    *("approval", "redaction", "projection", "schedule", "pairing", "retry", "budget", "compaction", "loop detection"),
    *(
        "reservation",
        "shortening",
        "spilling",
        "guardrails",
        "ends",
        "broken streams",
        "hooks",
        "repair",
        "receipts",
        "restart",
    ),
)
LEAST = dict.fromkeys(ALGORITHMS, 2) | {"approval": 4, "redaction": 4}


@pytest.mark.parametrize("mistake", MISTAKES, ids=[f"{mistake.algorithm}: {mistake.name}" for mistake in MISTAKES])
def test_a_mistake_in_an_algorithm_breaks_its_law(mistake: Mistake) -> None:
    assert mistake.law in mistake.laws_broken()


@pytest.mark.parametrize("run", RUNS)
def test_the_run_breaks_no_law_without_the_mistake(run: str) -> None:
    assert laws_broken(RUNS[run]) == set()


def test_each_algorithm_has_its_mistakes() -> None:
    planted = Counter(mistake.algorithm for mistake in MISTAKES)
    assert {algorithm for algorithm, least in LEAST.items() if planted[algorithm] < least} == set()
    assert planted.keys() == LEAST.keys()

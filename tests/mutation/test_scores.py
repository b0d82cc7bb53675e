"""The score: what counts as dead, what is left out, and when the target is met."""

import pytest

from mutation.__main__ import TARGET, Score
from mutation.mutants import Mutant
from mutation.survivors import Survivor
from mutation.trial import Outcome, Verdict

MUTANT = Mutant(path="a.py", function="f", line=1, operator="constant", before="1", after="2")
LISTED = Survivor(file="a.py", function="f", before="1", after="2", kind="speed", reason="only the time differs")


def score(listed: int = 0, **counts: int) -> Score:
    """A score with so many outcomes of each verdict."""
    outcomes = [
        Outcome(mutant=MUTANT, verdict=Verdict[name.upper()]) for name, count in counts.items() for _ in range(count)
    ]
    return Score(outcomes=outcomes, listed=[LISTED] * listed)


def test_every_way_of_dying_counts_and_nothing_else() -> None:
    found = score(killed=4, timed_out=2, crashed=1, survived=2, unreached=1)
    assert found.share == 0.7
    assert len(found.alive) == 3


def test_a_listed_survivor_that_is_not_equivalent_counts_against_the_score() -> None:
    assert score(killed=9, listed=1).share == 0.9


@pytest.mark.parametrize(
    ("found", "is_met"),
    [
        (score(killed=9, listed=1), True),
        (score(killed=8, listed=2), False),
        (score(killed=99, survived=1), False),  # one that is in no list
        (score(killed=99, unreached=1), False),
        (score(), True),
    ],
)
def test_the_target_is_met_by_enough_dead_and_none_unlisted(found: Score, is_met: bool) -> None:
    assert TARGET == 0.9
    assert found.is_met is is_met

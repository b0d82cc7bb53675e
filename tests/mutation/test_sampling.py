"""The sample is the same for the same seed, is as large as asked, and holds of each file and each operator."""

from collections import Counter

import pytest

from mutation.mutants import Mutant
from mutation.sampling import sample


def mutant(path: str, operator: str, number: int) -> Mutant:
    """One of many."""
    return Mutant(path=path, function="f", line=number, operator=operator, before="a", after="b", occurrence=number)


MUTANTS = [
    mutant(path, operator, number)
    for path, each in (("large.py", 60), ("small.py", 20))
    for operator in ("constant", "boundary")
    for number in range(each)
]


@pytest.mark.parametrize("size", [0, 1, 7, 40, 160, 500])
def test_it_is_as_large_as_asked_and_holds_none_twice(size: int) -> None:
    chosen = sample(MUTANTS, size, 1)
    assert len(chosen) == min(size, len(MUTANTS))
    assert len({(found.path, found.operator, found.line) for found in chosen}) == len(chosen)


def test_the_seed_decides() -> None:
    assert sample(MUTANTS, 40, 1) == sample(MUTANTS, 40, 1)
    assert sample(MUTANTS, 40, 1) != sample(MUTANTS, 40, 2)


def test_each_file_has_its_share_and_each_operator_its_turn() -> None:
    counts = Counter((found.path, found.operator) for found in sample(MUTANTS, 40, 1))
    assert counts == {
        ("large.py", "constant"): 15,
        ("large.py", "boundary"): 15,
        ("small.py", "constant"): 5,
        ("small.py", "boundary"): 5,
    }

"""A small project with a strong test, a weak one and none: run as a command, it prints what became of its mutants."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from mutation.plans import Planner
from mutation.recording import RecordingFailed, recorded
from mutation.subject import Subject
from mutation.trial import Outcome, TrialFault, Way, failure_without_mutant, run_forked, try_all, verdict_of

SOURCE = '''"""Prices."""

FREE_FROM = 50
UNIT = "euro"


def strong(total: int) -> bool:
    return total > 100


def weak(total: int) -> bool:
    return total > 100


def endless(total: int) -> int:
    while total > 0:
        total -= 1
    return total


def deadly(total: int) -> list[int]:
    return [0] * (total - 9)


def forgotten(total: int) -> int:
    return total + 1


def is_free(total: int) -> bool:
    return total >= FREE_FROM
'''
TESTS = '''"""Tests of prices."""

import os

import pytest
from hypothesis import given, strategies as st
from shop import prices


@pytest.mark.parametrize(("total", "expected"), [(100, False), (101, True)])
def test_strong(total, expected):
    assert prices.strong(total) is expected


def test_weak():
    prices.weak(7)


def test_endless():
    assert prices.endless(3) == 0


def test_deadly():
    if prices.deadly(10) != [0]:
        os._exit(7)


@given(st.integers(50, 60))
def test_free(total):
    assert prices.is_free(total)
'''
SETTINGS = '[tool.pytest.ini_options]\naddopts = "--import-mode=importlib"\npythonpath = ["code"]\n'


def build(root: Path, *, tests: str = TESTS) -> Subject:
    """The project, written to that folder."""
    files = {
        "pyproject.toml": SETTINGS,
        "code/shop/__init__.py": "",
        "code/shop/prices.py": SOURCE,
        "code/shop/left_out.py": "x = 1\n",
        "tests/test_prices.py": tests,
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return Subject(
        root=root, sources="code", package="shop", mutated=("*.py",), left_out=("left_out.py",), patience=1.0
    )


def outcomes(subject: Subject, way: Way) -> Iterator[Outcome]:
    """What became of each mutant."""
    record = recorded(subject, subject.root / ".mutation_cache", workers=1)
    planner = Planner.of(subject, record)
    return try_all(subject, ((mutant, planner.batches(mutant)) for mutant in subject.mutants), 2, way)


def main() -> None:
    """Print what became of the mutants, and what is said of tests that pass and fail and of a fault of the tool."""
    root = Path(sys.argv[1])
    subject = build(root / "green")
    found = [
        (outcome.mutant.function, outcome.mutant.after, outcome.verdict.value, outcome.test)
        for outcome in outcomes(subject, Way())
    ]
    every = {
        outcome.mutant.after: outcome.tests
        for outcome in outcomes(subject, Way(is_exhaustive=True))
        if outcome.mutant.function == "strong"
    }
    passing = failure_without_mutant(subject, {"tests/test_prices.py::test_weak": 0.1})
    red = build(root / "red", tests=f"{TESTS}\n\ndef test_wrong():\n    assert prices.strong(1)\n")
    failing = failure_without_mutant(red, {"tests/test_prices.py::test_wrong": 0.1})
    try:
        list(outcomes(red, Way()))
        refused = ""
    except RecordingFailed as error:
        refused = str(error)
    process, folder = run_forked(lambda place: [str(place / "result" / 1)])  # type: ignore[operator]
    try:
        verdict_of(os.waitpid(process, 0)[1], folder)
        fault = ""
    except TrialFault as error:
        fault = str(error)
    told = {"fault": fault, "outcomes": found, "every": every}
    print(json.dumps({**told, "passing": passing, "failing": failing, "refused": refused}))


if __name__ == "__main__":
    main()

"""A planted weak test lets mutants live, a strong one kills them all, and every way of dying is recognised."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from mutation.subject import ROOT


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the planted project prints, run in a process of its own: it forks, and imports what it mutates."""
    command = [sys.executable, "-m", "tests.mutation.planted", str(tmp_path_factory.mktemp("planted"))]
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COV_"))}
    run = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    printed: dict[str, Any] = json.loads(run.stdout)
    return printed


def verdicts(found: dict[str, Any], function: str) -> dict[str, str]:
    """What became of each mutant of a function, by what stands there instead."""
    return {after: verdict for name, after, verdict, _ in found["outcomes"] if name == function}


def test_a_strong_test_kills_every_mutant(found: dict[str, Any]) -> None:
    assert verdicts(found, "strong") == {
        "return total >= 100": "killed",
        "return total <= 100": "killed",
        "return total > 101": "killed",
    }


def test_a_weak_test_lets_every_mutant_live(found: dict[str, Any]) -> None:
    assert set(verdicts(found, "weak").values()) == {"survived"}
    assert len(verdicts(found, "weak")) == 3


def test_a_loop_without_end_is_ended_and_counts_as_dead(found: dict[str, Any]) -> None:
    assert verdicts(found, "endless") == {
        "while False:": "killed",
        "while total >= 0:": "killed",
        "while total <= 0:": "killed",
        "while total > 1:": "killed",
        "total += 1": "timed out",
        "total -= 2": "killed",
        "return 0": "survived",  # an equivalent one: the loop ends at 0
    }


def test_a_process_that_dies_is_a_dead_mutant(found: dict[str, Any]) -> None:
    assert verdicts(found, "deadly")["return [0] * (total + 9)"] == "crashed"


def test_what_no_test_reaches_is_told(found: dict[str, Any]) -> None:
    assert set(verdicts(found, "forgotten").values()) == {"unreached"}


def test_a_constant_of_the_module_meets_the_tests_of_what_names_it(found: dict[str, Any]) -> None:
    assert verdicts(found, "FREE_FROM") == {"FREE_FROM = 51": "killed"}


def test_the_test_that_kills_is_named(found: dict[str, Any]) -> None:
    killers = {test for name, _, _, test in found["outcomes"] if name == "strong"}
    assert killers <= {f"tests/test_prices.py::test_strong[{case}]" for case in ("100-False", "101-True")}


def test_every_test_that_kills_is_named_where_each_is_wanted(found: dict[str, Any]) -> None:
    cases = [f"tests/test_prices.py::test_strong[{case}]" for case in ("100-False", "101-True")]
    killers = found["every"]
    assert sorted(killers["return total <= 100"]) == cases
    assert killers["return total >= 100"] == cases[:1]
    assert killers["return total > 101"] == cases[1:]


def test_each_test_that_kills_is_held_against_the_sources_as_they_are(found: dict[str, Any]) -> None:
    assert found["passing"] == ""
    assert found["failing"] == "killed: tests/test_prices.py::test_wrong"


def test_nothing_is_said_of_a_suite_that_is_red(found: dict[str, Any]) -> None:
    assert "the tests do not pass without any mutant" in found["refused"]
    assert "test_wrong" in found["refused"]


def test_a_fault_of_the_tool_is_no_dead_mutant(found: dict[str, Any]) -> None:
    assert "TypeError: unsupported operand" in found["fault"]

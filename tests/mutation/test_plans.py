"""A mutant meets the tests that reach it: its own module's first, then its room's, in batches that grow."""

import ast
from pathlib import Path

import pytest
from attrs import evolve

from mutation.mutants import Mutant
from mutation.plans import FIRST_BATCH, SECONDS_A_MUTANT, Planner
from mutation.recording import Record, Recorded
from mutation.subject import ROOT, Subject
from tests.mutation.planted import SOURCE, build

STRONG, WEAK = (1 + SOURCE[: SOURCE.index(name)].count("\n") + 1 for name in ("def strong", "def weak"))
FREE = 1 + SOURCE[: SOURCE.index("return total >= FREE_FROM")].count("\n")


def test_no_configuration_of_tests_imports_the_kernel_before_it_is_probed() -> None:
    tree = ast.parse((ROOT / "tests" / "conftest.py").read_text(encoding="utf-8"))
    names = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    names.extend(alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names)
    assert [name for name in names if name.startswith("loopkernel")] == []


@pytest.fixture
def subject(tmp_path: Path) -> Subject:
    """The planted project."""
    return build(tmp_path)


def planner(
    subject: Subject, *tests: tuple[str, float, int], collected: float = 0.0, imported: int | None = None
) -> Planner:
    """Plans by tests that reach one line each; `imported` is the line that the import of a file reaches."""
    lines = [STRONG, WEAK, FREE]

    def row(line: int | None) -> bytes:
        return bytes(line == found for found in lines)

    record = Record(
        tests=tuple(Recorded(test=name, seconds=seconds, row=row(line)) for name, seconds, line in tests),
        collected={
            found.file: evolve(found, seconds=collected)
            for found in (Recorded(test=name, seconds=0, row=row(imported)) for name, _, _ in tests)
        },
        failed=(),
        places=tuple(("code/shop/prices.py", line) for line in lines),
    )
    return Planner.of(subject, record)


def a_mutant(subject: Subject, function: str) -> Mutant:
    """The first mutant of a function."""
    return next(mutant for mutant in subject.mutants if mutant.function == function)


def test_only_what_reaches_the_line_is_met(subject: Subject) -> None:
    plans = planner(subject, ("a.py::one", 0.1, STRONG), ("a.py::two", 0.1, WEAK))
    (batch,) = plans.batches(a_mutant(subject, "strong"))
    assert list(batch.tests) == ["a.py::one"]
    assert plans.batches(a_mutant(subject, "forgotten")) == []


def test_the_tests_of_its_own_module_come_first_then_those_of_its_room_and_then_the_fastest(subject: Subject) -> None:
    plans = planner(
        subject,
        ("a.py::slow", 0.05, STRONG),
        ("b.py::fast", 0.01, STRONG),
        ("tests/shop/test_goods.py::room", 0.08, STRONG),
        ("tests/test_prices.py::own", 0.09, STRONG),
    )
    (batch,) = plans.batches(a_mutant(subject, "strong"))
    assert list(batch.tests) == [
        "tests/test_prices.py::own",
        "tests/shop/test_goods.py::room",
        "b.py::fast",
        "a.py::slow",
    ]
    assert batch.files == ("tests/test_prices.py", "tests/shop/test_goods.py", "b.py", "a.py")


def test_batches_grow_and_end_where_a_mutant_has_met_enough(subject: Subject) -> None:
    tests = [(f"a.py::{number}", FIRST_BATCH, STRONG) for number in range(300)]
    batches = planner(subject, *tests).batches(a_mutant(subject, "strong"))
    sizes = [len(batch.tests) for batch in batches]
    assert sizes[:3] == [1, 3, 9]
    assert sum(sizes) == SECONDS_A_MUTANT / FIRST_BATCH


def test_the_only_test_is_met_however_slow_it_is(subject: Subject) -> None:
    plans = planner(subject, ("a.py::slow", 10 * SECONDS_A_MUTANT, STRONG))
    assert len(plans.batches(a_mutant(subject, "strong"))) == 1


def test_a_file_that_is_slow_to_collect_counts_once(subject: Subject) -> None:
    tests = [(f"a.py::{number}", 0.01, STRONG) for number in range(20)]
    batches = planner(subject, *tests, collected=FIRST_BATCH).batches(a_mutant(subject, "strong"))
    assert [len(batch.tests) for batch in batches] == [1, 19]


def test_a_constant_is_reached_where_it_is_named(subject: Subject) -> None:
    plans = planner(subject, ("a.py::one", 0.1, FREE), ("a.py::two", 0.1, WEAK))
    (batch,) = plans.batches(a_mutant(subject, "FREE_FROM"))
    assert list(batch.tests) == ["a.py::one"]


def test_a_constant_that_no_statement_names_meets_all_tests(subject: Subject) -> None:
    plans = planner(subject, ("a.py::one", 0.1, FREE), ("a.py::two", 0.1, WEAK))
    (batch,) = plans.batches(a_mutant(subject, "UNIT"))
    assert list(batch.tests) == ["a.py::one", "a.py::two"]


def test_what_an_import_reaches_all_tests_may_notice_and_those_that_call_it_come_first(subject: Subject) -> None:
    plans = planner(subject, ("a.py::one", 0.1, WEAK), ("a.py::two", 0.2, STRONG), imported=STRONG)
    (batch,) = plans.batches(a_mutant(subject, "strong"))
    assert list(batch.tests) == ["a.py::two", "a.py::one"]
    (batch,) = plans.batches(a_mutant(subject, "weak"))
    assert list(batch.tests) == ["a.py::one"]

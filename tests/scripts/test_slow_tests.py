"""What `make test` leaves out is there, and is chosen by what a report says."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.slow_tests import KEPT, function_of

ROOT = Path(__file__).resolve().parents[2]
SLOW = (ROOT / "tests" / "slow.txt").read_text(encoding="utf-8").split()
REPORT = """<testsuites><testsuite>
<testcase classname="tests.scripts.test_slow_tests" name="test_long[1]" time="0.4"/>
<testcase classname="tests.scripts.test_slow_tests" name="test_long[2]" time="0.4"/>
<testcase classname="tests.scripts.test_slow_tests" name="test_short[1]" time="0.04"/>
<testcase classname="tests.kernel.test_stateful.TestKernel" name="runTest" time="9"/>
<testcase classname="tests.specs.test_scenarios" name="test_the_kernel_does_what_the_scenario_says[a]" time="9"/>
</testsuite></testsuites>"""


def names_of(file: Path) -> set[str]:
    """What the file defines and assigns, by name: functions, classes, and test cases that a machine gives."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return found


@pytest.mark.parametrize("file", sorted({line.partition("::")[0] for line in SLOW}))
def test_what_is_listed_exists(file: str) -> None:
    names = names_of(ROOT / file)
    listed = [line.split("::")[1] for line in SLOW if line.startswith(f"{file}::")]
    assert [name for name in listed if name not in names] == []


def test_the_list_is_in_order_and_holds_nothing_that_is_kept() -> None:
    assert sorted(set(SLOW)) == SLOW
    assert not KEPT & set(SLOW)


def test_what_takes_long_together_is_listed(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(REPORT, encoding="utf-8")
    command = [sys.executable, "-m", "scripts.slow_tests", str(report)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ended.stdout.split() == [
        "tests/kernel/test_stateful.py::TestKernel::runTest",
        "tests/scripts/test_slow_tests.py::test_long",
    ]


def test_a_report_that_is_not_there_is_told_in_words(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "scripts.slow_tests", str(tmp_path / "none.xml")]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 1
    assert "none.xml is not a file" in ended.stderr


def test_a_class_stands_between_its_file_and_its_test() -> None:
    assert function_of("tests.kernel.test_stateful.TestKernel", "runTest").endswith(
        "test_stateful.py::TestKernel::runTest"
    )

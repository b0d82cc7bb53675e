"""The example drivers that specs/testing.md shows pass the tests that stand beside them, as their reader runs those."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
FILES = sorted((ROOT / "examples" / "drivers").glob("test_*.py"))


def test_each_example_has_its_tests() -> None:
    assert len(FILES) == 3


@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_the_tests_beside_an_example_pass(file: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", str(file)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout

"""`make fuzz`: what a round runs, and that a breach is told with the command that repeats it."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BREACH = """import pytest
from hypothesis import given, strategies as st


@pytest.mark.parametrize("most", [1_000], ids=["a thousand"])
@given(st.integers())
def test_no_number_is_large(most: int, number: int) -> None:
    assert number < most
"""


def fuzz(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The script, on a project whose interpreter is this one."""
    environment = {**os.environ, "WORKERS": "0"}
    command = [sys.executable, "scripts/fuzz.py", "--minutes", "0", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)


def test_a_breach_is_told_with_the_command_that_repeats_it(tmp_path: Path) -> None:
    """The seed of the round and the test that failed are enough to see it again."""
    test = tmp_path / "test_breach.py"
    test.write_text(BREACH)
    result = fuzz("--seed", "7", str(test))
    assert result.returncode == 1
    assert "round 1, seed 7" in result.stdout
    assert "HYPOTHESIS_PROFILE=fuzz" in result.stdout
    assert "--hypothesis-seed=7" in result.stdout
    assert result.stdout.splitlines()[-1].endswith("::test_no_number_is_large[a thousand]'")


def test_a_quiet_round_says_how_to_repeat_it(tmp_path: Path) -> None:
    """Without a breach the seed is printed all the same."""
    test = tmp_path / "test_quiet.py"
    test.write_text(BREACH.replace("number < most", "number == number"))
    result = fuzz("--seed", "11", str(test))
    assert (result.returncode, result.stdout.splitlines()[-1].split("] ")[1]) == (
        0,
        "no breach in 1 round; to repeat: make fuzz SEED=11 MINUTES=0",
    )


def test_a_round_without_a_test_is_no_quiet_round(tmp_path: Path) -> None:
    """What draws no examples is not looked at, which is told."""
    test = tmp_path / "test_plain.py"
    test.write_text("def test_nothing() -> None: ...\n")
    result = fuzz("--seed", "11", str(test))
    assert (result.returncode, "no breach" in result.stdout) == (2, False)
    assert "nothing was looked at" in result.stdout.splitlines()[-1]

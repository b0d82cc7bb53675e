"""scripts/environment.py: a folder that cannot be written is told in words; its lists of pins agree."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "environment.py"


def pins(name: str) -> dict[str, str]:
    """Each package of a file of pins, with its version and the hashes of its files."""
    text = (ROOT / "constraints" / f"{name}.txt").read_text(encoding="utf-8")
    found = re.findall(r"^(\S+)==(.*?)(?=^\S|\Z)", text, flags=re.MULTILINE | re.DOTALL)
    return {package: pinned.strip() for package, pinned in found}


def test_what_the_main_job_needs_is_a_small_part_of_what_the_tests_need() -> None:
    main_job, tests = pins("run"), pins("dev")
    assert main_job.items() <= tests.items()
    assert {"attrs", "pydantic", "hatchling"} <= main_job.keys()
    assert not {"mypy", "pytest", "ruff", "z3-solver", "hypothesis", "openai"} & main_job.keys()


def test_a_place_that_cannot_be_written_is_told_in_words(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    ended = subprocess.run(
        [sys.executable, str(SCRIPT), str(tmp_path / "file" / "env")], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1
    assert "env.lock cannot be written" in ended.stderr
    assert "run the same command again" in ended.stderr
    assert "Traceback" not in ended.stderr

"""The type checker finds what it is there to find: a wrong target, a missing arm, a mixed-up id, a changed state."""

import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from tests.architecture.refused_programs import ACCEPTED, PREAMBLE, REFUSED
from tests.architecture.sources import ROOT, demand_none

CACHE = ROOT / ".mypy_cache" / "programs"  # kept from run to run: the kernel is analysed once
_ERROR = re.compile(r"(?P<file>program_\d+)\.py:(?P<line>\d+): error: .*\[(?P<code>[a-z-]+)\]")
_MARK = re.compile(r"# refused: ([a-z-]+)$")

Found = set[tuple[int, str]]  # line and code


def expected(text: str) -> Found:
    """The lines of a program that must be refused, each with its code."""
    numbered = enumerate(text.splitlines(), start=1)
    return {(number, mark[1]) for number, line in numbered if (mark := _MARK.search(line))}


def errors(folder: Path, programs: list[str]) -> list[Found]:
    """What mypy, with the project's own settings, refuses in each of the programs."""
    for number, text in enumerate(programs):
        (folder / f"program_{number}.py").write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(CACHE)]
    files = [str(folder / f"program_{number}.py") for number in range(len(programs))]
    run = subprocess.run([*command, *files], cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode in (0, 1), run.stderr
    found: dict[str, Found] = defaultdict(set)
    for line in run.stdout.splitlines():
        if " error: " in line:
            error = _ERROR.search(line)
            assert error is not None, f"an error outside of the programs: {line}"
            found[error["file"]].add((int(error["line"]), error["code"]))
    return [found[f"program_{number}"] for number in range(len(programs))]


def test_every_program_is_refused_where_it_says(tmp_path: Path) -> None:
    programs = [PREAMBLE + text for text in (ACCEPTED, *REFUSED.values())]
    found = errors(tmp_path, programs)
    faults = [
        f"{name}: [{code}] is {'missing' if (line, code) in expected(text) else 'unexpected'} at the line "
        f"{text.splitlines()[line - 1]!r}"
        for name, text, refused in zip(("the accepted program", *REFUSED), programs, found, strict=True)
        for line, code in sorted(expected(text) ^ refused)
    ]
    demand_none(faults)


def test_every_program_but_one_has_a_fault() -> None:
    assert expected(ACCEPTED) == set()
    assert [name for name, text in REFUSED.items() if not expected(text)] == []

"""Each how-to is a short program that uses public names alone, prints what its page says, and has a page."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = sorted((ROOT / "examples" / "how_to").glob("*.py"))
PAGES = ROOT / "docs" / "how-to"
LIBRARIES = {"in_trio": "trio", "behind_starlette": "starlette.testclient", "mcp_tools": "mcp"}  # what else they need
MOST_LINES = 60  # that are not blank
HOMES = {"loopkernel", "loopkernel_adapters"}
PUBLIC = {
    "codec",
    "deltas",
    "effects",
    "events",
    "laws",
    "messages",
    "policy",
    "states",
    "testing",
    "tools",
    "transcripts",
}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.stem)
def test_it_prints_what_its_page_says(program: Path, tmp_path: Path) -> None:
    if program.stem in LIBRARIES:
        pytest.importorskip(LIBRARIES[program.stem], reason=f"{program.name} needs {LIBRARIES[program.stem]}")
    variables = os.environ | {"XDG_CONFIG_HOME": str(tmp_path / "configuration")}
    ended = subprocess.run([sys.executable, str(program)], cwd=tmp_path, env=variables, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == program.with_suffix(".txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.stem)
def test_it_is_short_and_says_what_it_shows(program: Path) -> None:
    text = program.read_text(encoding="utf-8")
    assert len([line for line in text.splitlines() if line.strip()]) < MOST_LINES
    assert ast.get_docstring(ast.parse(text))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.stem)
def test_it_takes_public_names_alone(program: Path) -> None:
    for node in ast.walk(ast.parse(program.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] in HOMES:
            assert node.module in HOMES or node.module.split(".")[1:][0] in PUBLIC, node.module
            assert node.module.count(".") <= 1, node.module


def test_each_program_has_a_page_and_each_page_a_program() -> None:
    shown = {
        found
        for page in PAGES.glob("*.md")
        for found in re.findall(
            r"literalinclude\} \.\./\.\./examples/how_to/(\w+)\.py", page.read_text(encoding="utf-8")
        )
    }
    assert shown == {program.stem for program in PROGRAMS}
    index = (PAGES / "index.md").read_text(encoding="utf-8")
    assert all(f"({page.name})" in index for page in PAGES.glob("*.md") if page.name != "index.md")

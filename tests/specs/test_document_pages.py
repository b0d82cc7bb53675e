"""The pages of docs/ keep their word: a program runs and prints what stands below it, and no link is broken."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
RUN = ("start.md", "tutorial.md")  # the programs of the how-to pages are files; a test beside this one runs those
PROGRAM = re.compile(r"```python\n(.*?)```(?:\n\nIt prints:\n\n```text\n(.*?)```)?", re.DOTALL)
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]+))?\)")
FENCED = re.compile(r"^```.*?^```$|`[^`\n]*`", re.DOTALL | re.MULTILINE)


def programs() -> Iterator[tuple[str, str, str]]:
    """The page, the program, and what it prints as the page says; "" where it says nothing."""
    for name in RUN:
        for program, printed in PROGRAM.findall((DOCS / name).read_text(encoding="utf-8")):
            yield name, program, printed


@pytest.mark.parametrize(("page", "program", "printed"), list(programs()))
def test_a_program_runs_and_prints_what_its_page_says(page: str, program: str, printed: str, tmp_path: Path) -> None:
    variables = os.environ | {"XDG_CONFIG_HOME": str(tmp_path)}
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True)
    assert ended.returncode == 0, f"{page}: {ended.stderr}"
    assert not printed or ended.stdout == printed


def test_the_pages_that_are_run_have_programs() -> None:
    assert {page for page, _, _ in programs()} == set(RUN)


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: str(page.relative_to(DOCS)))
def test_a_link_leads_to_what_is_there(page: Path) -> None:
    for file, heading in LINK.findall(FENCED.sub("", page.read_text(encoding="utf-8"))):
        target = (page.parent / file).resolve() if file else page
        assert target.exists(), f"{page.name} leads to {file}, which is not there"
        if heading and target.suffix == ".md":
            assert heading in headings(target), f"{page.name} leads to {file}#{heading}, and there is no such heading"


def headings(page: Path) -> set[str]:
    """The names by which the headings of a page are led to."""
    lines = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", line).lower() for line in lines)
    return {re.sub(r"[^\w\- ]", "", line).strip().replace(" ", "-") for line in plain}

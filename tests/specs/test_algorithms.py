"""The pages of algorithms to use alone keep their word: the code runs as it stands, and prints what is shown."""

import ast
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

SPECS = Path(__file__).resolve().parents[2] / "specs"
PAGES = ((SPECS / "algorithms.md").read_text(encoding="utf-8"),)
ROOMS = ("loopkernel.data", "loopkernel.loop.algorithms")  # what is usable alone: plain data, and functions over it

_SECTION = re.compile(r"^## (.+)\n((?:(?!^## ).*\n)*)", re.MULTILINE)
_BLOCK = re.compile(r"^```([a-z]+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_ROW = re.compile(r"^\| [^|]+ \| ((?:`[a-z_]+`(?:, )?)+) \| ((?:`[a-z_.]+`(?:, )?)+) \|", re.MULTILINE)


def sections() -> dict[str, list[tuple[str, str]]]:
    """The blocks of each section, by language, in order."""
    return {title: _BLOCK.findall(body) for page in PAGES for title, body in _SECTION.findall(page)}


SECTIONS = sections()


@pytest.mark.parametrize("title", SECTIONS)
def test_a_section_shows_one_program_and_what_it_prints(title: str) -> None:
    assert [language for language, _ in SECTIONS[title]] == ["python", "text"]
    (_, program), (_, printed) = SECTIONS[title]
    run = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False)
    assert run.stderr == ""
    assert [line.rstrip() for line in run.stdout.splitlines()] == printed.splitlines()


@pytest.mark.parametrize("title", SECTIONS)
def test_a_program_needs_nothing_but_plain_data_and_functions_over_it(title: str) -> None:
    imported = [node for node in ast.walk(ast.parse(SECTIONS[title][0][1])) if isinstance(node, ast.ImportFrom)]
    assert imported
    assert all((node.module or "").rpartition(".")[0] in ROOMS for node in imported)


def test_every_block_stands_in_a_section() -> None:
    assert len(SECTIONS) > 4
    blocks = sum(len(_BLOCK.findall(page)) for page in PAGES)
    assert sum(map(len, SECTIONS.values())) == blocks == sum(page.count("\n```") for page in PAGES) / 2


def test_every_function_of_the_table_exists_and_is_shown() -> None:
    rows = [row for page in PAGES for row in _ROW.findall(page)]
    assert len(rows) == len(SECTIONS)
    for functions, modules in rows:
        names = re.findall("[a-z_]+", functions)
        places = [import_module(module) for module in re.findall("[a-z_.]+", modules)]
        for name in names:
            assert [place for place in places if callable(getattr(place, name, None))]
            assert any(f"{name}(" in blocks[0][1] for blocks in SECTIONS.values())

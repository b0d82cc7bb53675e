"""specs/testing.md keeps its word: its code runs as it stands, prints what it shows, and what it names exists."""

import pkgutil
import re
import subprocess
import sys
from collections import defaultdict
from importlib import import_module
from pathlib import Path

import loopkernel
import pytest
from loopkernel import testing

PAGE = (Path(__file__).resolve().parents[2] / "specs" / "testing.md").read_text(encoding="utf-8")

_SECTION = re.compile(r"^## (.+)\n((?:(?!^## ).*\n)*)", re.MULTILINE)
_BLOCK = re.compile(r"^```([a-z]+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXAMPLES = {title: blocks for title, body in _SECTION.findall(PAGE) if (blocks := _BLOCK.findall(body))}


@pytest.mark.parametrize("title", EXAMPLES)
def test_an_example_runs_and_prints_what_is_shown(title: str) -> None:
    assert [language for language, _ in EXAMPLES[title]] == ["python", "text"]
    (_, program), (_, printed) = EXAMPLES[title]
    run = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False)
    assert run.stderr == ""
    assert [line.rstrip() for line in run.stdout.splitlines()] == printed.splitlines()


def test_the_examples_are_found() -> None:
    assert len(EXAMPLES) > 6
    assert sum(map(len, EXAMPLES.values())) == PAGE.count("\n```") / 2


def test_what_the_page_names_exists() -> None:
    named = re.findall(r"`([a-z_]+)\.([A-Za-z_]+)(?:\([^`]*\))?`", PAGE)
    modules = defaultdict(list)
    ours = pkgutil.iter_modules(loopkernel.__path__, "loopkernel.")
    for found in (*ours, *pkgutil.walk_packages(testing.__path__, "loopkernel.testing.")):
        if not found.name.endswith("__main__"):
            modules[found.name.rpartition(".")[2]].append(found.name)
    checked = [(module, name) for module, name in named if module in modules and module != "strategies"]
    assert len({module for module, _ in checked}) > 8
    for module, name in checked:
        assert any(hasattr(import_module(path), name) for path in modules[module]), f"{module}.{name}"

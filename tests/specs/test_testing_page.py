"""specs/testing.md keeps its word: its code runs as it stands, prints what it shows, and what it names exists."""

import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import loopkernel
import loopkernel_adapters
import pytest

from tests.specs.test_names_in_pages import is_there

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


def test_what_the_page_names_of_a_module_is_named_in_full() -> None:
    """A name that begins with `loopkernel` is looked at in test_names_in_pages.py; none may begin further on."""
    begun = [span.partition(".") for span in re.findall(r"`([a-z_]+\.[A-Za-z_.]+)", PAGE)]
    assert sum(first == "loopkernel" for first, _, _ in begun) > 10
    found = (
        module.name
        for package in (loopkernel, loopkernel_adapters)
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    )
    shortened = [(module, rest) for module in found for first, _, rest in begun if module.endswith(f".{first}")]
    assert [f"{module}.{rest}" for module, rest in shortened if is_there(f"{module}.{rest}")] == []

"""What the pages name of the project, by a dotted name or in an import, can be imported, and is public."""

import pkgutil
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from scripts.public_names import PACKAGES

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    str(page.relative_to(ROOT))
    for page in (ROOT / "README.md", *sorted((ROOT / "specs").rglob("*.md")), *sorted((ROOT / "docs").rglob("*.md")))
]
NAME = re.compile(r"(?<![\w./-])loopkernel(?:_adapters)?(?:\.[A-Za-z_]\w*)+")
IMPORT = re.compile(r"\bfrom (loopkernel[\w.]*) import ([\w, ]+)")
# What telemetry calls its spans, their attributes and its log is not Python.
NOT_PYTHON = {"docs/telemetry.md": ("loopkernel.", "loopkernel_adapters.telemetry")}
# What is not public, where the page says so, or compares it.
INNER = {
    "specs/algorithms.md": ("loopkernel.loop.algorithms.", "loopkernel.data."),
    "specs/ports.md": ("loopkernel_adapters.bounded_text",),
    "specs/testing.md": (
        "loopkernel.laws.accounts.",
        "loopkernel.testing.slow_schedule.",
        "loopkernel.testing.witness.",
        "loopkernel.loop.algorithms.loop_detection",
        "loopkernel.data.watches",
    ),
}


def names_in(text: str) -> Iterator[str]:
    """The dotted names, and those that imports take, in full."""
    yield from NAME.findall(text)
    for module, names in IMPORT.findall(text):
        yield from (f"{module}.{name.split()[0]}" for name in names.split(",") if name.strip())


def is_there(name: str) -> bool:
    """Whether it can be imported, as a module or out of one."""
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True


def is_public(name: str) -> bool:
    """Whether a public package offers it, or the module that it is in."""
    package = max((each for each in PACKAGES if f"{name}.".startswith(f"{each}.")), key=len)
    offered = name.removeprefix(package).lstrip(".").partition(".")[0]
    return not offered or offered in import_module(package).__all__


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_names_can_be_imported_and_is_public(page: str) -> None:
    found = set(names_in((ROOT / page).read_text(encoding="utf-8")))
    names = sorted(name for name in found if not name.startswith(NOT_PYTHON.get(page, ())))
    assert [name for name in names if not is_there(name)] == []
    assert [name for name in names if not is_public(name) and not name.startswith(INNER.get(page, ()))] == []


def test_what_is_not_there_or_not_public_is_found() -> None:
    spans = "`loopkernel.testing.document.read`, `python -m loopkernel.data`, specs/loopkernel.md"
    block = "from loopkernel_adapters.testing import check_store, nobody"
    assert {name: (is_there(name), is_public(name)) for name in names_in(f"{spans}\n    {block}\n")} == {
        "loopkernel.testing.document.read": (False, False),
        "loopkernel.data": (True, False),
        "loopkernel_adapters.testing": (True, True),
        "loopkernel_adapters.testing.check_store": (True, True),
        "loopkernel_adapters.testing.nobody": (False, False),
    }

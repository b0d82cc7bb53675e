"""The pages of specs/presets cite what exists, and say of each field in which a preset differs what it is."""

import enum
import pkgutil
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module

import pytest
from loopkernel import data
from loopkernel.laws import LAWS
from loopkernel.loop.algorithms.interaction import Interaction
from loopkernel.presets import PRESET_NAMES, VARIANTS, preset

from tests.architecture.sources import demand_none
from tests.specs.preset_pages import PAGES_FOLDER, differences, fields_told, pages, quoted, values_of
from tests.specs.rule_documents import rules

ROOT = PAGES_FOLDER.parents[1]
SCENARIOS = ROOT / "specs" / "scenarios"

_SCENARIO = re.compile(r"^scenario: (\S+)$", re.MULTILINE)
_RULE = re.compile(r"\b([A-Z]+-[0-9]+)(?:\.([0-9]+))?\b")
_CLAUSE = re.compile(r"^([0-9]+)\. ", re.MULTILINE)
_LINK = re.compile(r"\]\(([^)#]+)\)")

FUNCTIONS = ("loop.transition", "views.explain")  # of the kernel, each in a module of its own name


@cache
def names() -> frozenset[str]:
    """Every name that a page may put between backticks, but for fields with a value and places in the project."""
    scenarios = (
        found for file in SCENARIOS.glob("*.yaml") for found in _SCENARIO.findall(file.read_text(encoding="utf-8"))
    )
    laws = (law.id for law in LAWS)
    labels = (str(label.value) for label in Interaction)
    fields = (path for name in PRESET_NAMES for path in values_of(preset(name)))
    known = {*scenarios, *laws, *labels, *fields, *data_names(), *PRESET_NAMES, *VARIANTS}
    return frozenset(known | set(functions()))


def functions() -> Iterator[str]:
    """The functions of the kernel that a page may name."""
    for place in FUNCTIONS:
        name = place.rpartition(".")[2]
        if callable(getattr(import_module(f"loopkernel.{place}"), name)):
            yield name


def data_names() -> Iterator[str]:
    """The classes of the kernel's data, and the words of its vocabularies."""
    for module in pkgutil.iter_modules(data.__path__, f"{data.__name__}."):
        for thing in vars(import_module(module.name)).values():
            if isinstance(thing, type):
                yield thing.__name__
                if issubclass(thing, enum.Enum):
                    yield from (str(member.value) for member in thing)


def faults(page: str, owner: str) -> Iterator[str]:
    """What the page of a preset says and is not so."""
    told = dict(fields_told(page))
    values = values_of(preset(owner))
    for name in quoted(page):
        if " = " not in name and name not in names() and not ("/" in name and (ROOT / name).exists()):
            yield f"nothing is called {name!r}"
    for path, value in told.items():
        if values.get(path) != value:
            yield f"{path} is {values.get(path)} and not {value}"
    known = rules()
    for rule, clause in _RULE.findall(page):
        if rule not in known:
            yield f"there is no rule {rule}"
        elif clause and clause not in _CLAUSE.findall(known[rule].text):
            yield f"{rule} has no clause {clause}"
    for target in _LINK.findall(page):
        if not (PAGES_FOLDER / target).exists():
            yield f"nothing is at {target}"


@pytest.mark.parametrize("name", PRESET_NAMES)
def test_what_a_page_cites_exists(name: str) -> None:
    demand_none(faults(pages()[name], name))


def test_what_the_index_cites_exists() -> None:
    demand_none(faults((PAGES_FOLDER / "README.md").read_text(encoding="utf-8"), "default"))


@pytest.mark.parametrize("name", PRESET_NAMES)
def test_every_field_in_which_a_preset_differs_stands_on_its_page(name: str) -> None:
    told = dict(fields_told(pages()[name]))
    demand_none(
        f"{path} = {value}" for path, value in differences(preset(name), preset("default")).items() if path not in told
    )


def test_the_page_of_the_default_says_what_the_others_differ_from() -> None:
    told = dict(fields_told(pages()["default"]))
    varied = {path.partition(".")[0] for name in PRESET_NAMES for path in differences(preset(name), preset("default"))}
    demand_none(sorted(varied - {path.partition(".")[0] for path in told}))


@pytest.mark.parametrize("name", PRESET_NAMES)
def test_a_page_cites_scenarios_that_tell_its_preset_apart(name: str) -> None:
    assert len({cited for cited in quoted(pages()[name]) if cited.startswith(f"{name}-")}) >= 10


def test_there_is_a_page_for_each_preset_and_no_other() -> None:
    assert {file.stem for file in PAGES_FOLDER.glob("*.md")} == {*PRESET_NAMES, "README"}


# --- and each check can fail ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "page",
    [
        "`max_turns = 101`",
        "`max_turn = 100`",
        "`a-scenario-that-nobody-wrote`",
        "`NO-SUCH-LAW`",
        "`kernel/loopkernel/presets/nobody.py`",
        "TOOL-99",
        "TOOL-3.99",
        "[a page](nowhere.md)",
    ],
)
def test_what_is_not_so_is_found(page: str) -> None:
    assert len(list(faults(page, "default"))) == 1


def test_what_is_so_is_not() -> None:
    page = "`max_turns = 100`, `retry.factor = 2`, `PAIR`, `Executing`, TOOL-3.2, [all](README.md), `specs/presets`"
    assert list(faults(page, "default")) == []


def test_a_field_that_differs_is_found_part_by_part() -> None:
    found = differences(preset("strands"), preset("default"))
    assert found["retry.classes"] == "overloaded, rate_limited"
    assert "retry.factor" not in found
    assert differences(preset("calls"), preset("default"))["retry"] == "none"


def test_how_many_there_are_is_told_truly() -> None:
    assert (len(PRESET_NAMES), len(VARIANTS)) == (6, 1), "the words below, and the pages that say them"
    page = (ROOT / "specs" / "README.md").read_text(encoding="utf-8")
    assert "the six presets, with every figure, and a variant of one: the seven names" in page
    assert "any of the six, or the variant `claude-document`" in page
    assert "these are the seven names" in (ROOT / "specs" / "rules" / "presets.md").read_text(encoding="utf-8")

"""Names: one thing for each, in the words of the specification, in full, and explained where they are defined."""

import ast
import enum
import pkgutil
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from importlib import import_module
from itertools import pairwise
from typing import get_args

import attrs
import pytest
from loopkernel import data
from loopkernel.codec.unions import tag_of
from loopkernel.data.choices import Schedule
from loopkernel.data.states import State
from loopkernel.data.words import (
    CallStatus,
    CancelReason,
    ErrorClass,
    RefusalReason,
    RequestReason,
    StopReason,
    TurnEndReason,
)
from loopkernel.loop.algorithms.interaction import Interaction

from tests.architecture.sources import Function, Source, adapters, demand_none, dotted, faults_in, kernel
from tests.specs.rule_documents import rules

Definition = Function | ast.ClassDef

# Rooms whose classes stand for words of the scenario format. Those words are the kernel's own, on purpose: an action
# `Say` becomes the delta `Say`. Nothing but the driver of the scenarios imports both.
SCENARIO_WORDS = ("loopkernel.testing.scenarios.data.actions", "loopkernel.testing.scenarios.data.world")

ENTRY_POINT = "main"  # of a module that is a command; nobody imports it

# What a word is cut to, in code that saves letters. `attrs` is the name of a package, `ctx` a word of the design.
CUT_WORD = re.compile(
    "arg|attr|buf|calc|cb|cfg|cnf|cnt|cond|conf|conv|ctor|curr?|desc|dest|dir|docs?|dst|elem|env|errs?|evt?|exc|expr"
    "|fn|func|idx|impl|info|init|iter|kwargs|lang|lib|loc|lst|mgr|mod|msgs?|num|obj|ops?|opts?|orig|params?|pkg|pos"
    "|pred|prev|proc|props?|ptr|refs?|repo|req|resp?|ret|rev|sep|sess|sig|spec|src|stmt|sz|tbl|temp|tmp|toks?|txt"
    "|util|vals?|vars?|vec|ver"
)

# Each vocabulary that the specification closes: the rule, the clauses that list its words (none: its table does), and
# the words that the rule says without marking them as such.
Vocabulary = tuple[type[enum.Enum], str, tuple[int, ...], set[str]]
VOCABULARIES: tuple[Vocabulary, ...] = (
    (StopReason, "INFER-4", (1,), set()),
    (TurnEndReason, "STATE-9", (), {"handed_off"}),
    (CancelReason, "CANCEL-1", (), set()),
    (CallStatus, "TOOL-4", (1, 2), set()),
    (RefusalReason, "DELTA-2", (), set()),
    (ErrorClass, "RETRY-3", (1,), {"max_tokens"}),  # not an adapter's: how a truncated reply is shown
    (RequestReason, "INFER-12", (), set()),
    (Schedule, "TOOL-3", (1, 2, 3, 4, 5), set()),
    (Interaction, "STATE-6", (), {"busy"}),
)


# --- the checks -----------------------------------------------------------------------------------------


def public_definitions(source: Source) -> Iterator[Definition]:
    """The classes and functions at the top of the source that others may use."""
    for node in source.tree.body:
        if isinstance(node, Definition) and not node.name.startswith("_"):
            yield node


def twins(sources: Iterable[Source]) -> list[str]:
    """Names that are defined in more than one module, each with all its places."""
    places: dict[str, list[str]] = defaultdict(list)
    for source in sources:
        if source.module not in SCENARIO_WORDS:
            for node in public_definitions(source):
                if node.name == ENTRY_POINT:
                    continue
                places[node.name].append(f"{source.path}:{node.lineno}")
    return [f"{name}: {', '.join(found)}" for name, found in places.items() if len(found) > 1]


def unexplained(source: Source) -> Iterator[str]:
    """Public classes and functions without a docstring, and methods of the pure kernel without one."""
    for node in public_definitions(source):
        if not ast.get_docstring(node):
            yield source.at(node, f"{node.name} does not say what it is")
        if isinstance(node, ast.ClassDef) and not source.within("loopkernel.testing", "loopkernel_adapters"):
            for method in node.body:
                if isinstance(method, Function) and not method.name.startswith("_") and not ast.get_docstring(method):
                    yield source.at(method, f"{node.name}.{method.name} does not say what it does")


def cut_names(source: Source) -> Iterator[str]:
    """Names that the source gives and that hold a word cut short."""
    for node in ast.walk(source.tree):
        for name in _given(node):
            words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)
            for word in words:
                if CUT_WORD.fullmatch(word.lower()) and not (name.startswith("__") and name.endswith("__")):
                    yield source.at(node, f"{name}: {word!r} is cut short")


def _given(node: ast.AST) -> Iterator[str]:
    """The name that a node gives to something of its own."""
    if isinstance(node, Definition):
        yield node.name
    elif isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and dotted(node.value) == "self":
        yield node.attr


def words_of(text: str, clauses: tuple[int, ...]) -> set[str]:
    """The words that a rule marks: alone in a cell of a table, or anywhere in the clauses."""
    found = set(re.findall(r"(?<=\| )`([^`]+)`(?= \|)", text))
    for number in clauses:
        clause = re.search(rf"^{number}\. (.*?)(?=^\d+\. |^\S|\Z)", text, re.MULTILINE | re.DOTALL)
        assert clause is not None, f"there is no clause {number}"
        found |= set(re.findall(r"`([^`]+)`", clause[1]))
    return found


# --- the tree keeps the rules ---------------------------------------------------------------------------


def test_no_name_is_defined_twice_in_the_kernel() -> None:
    demand_none(twins(kernel()))


def test_no_two_classes_of_the_data_have_one_tag() -> None:
    modules = [import_module(found.name) for found in pkgutil.walk_packages(data.__path__, "loopkernel.data.")]
    classes = {
        value for module in modules for value in vars(module).values() if isinstance(value, type) and attrs.has(value)
    }
    tags = sorted(tag_of(cls) for cls in classes if not cls.__name__.startswith("_"))
    assert len(tags) > 150
    assert [tag for tag, following in pairwise(tags) if tag == following] == []


def test_what_is_public_says_what_it_is() -> None:
    demand_none(faults_in((*kernel(), *adapters()), unexplained))


def test_names_are_written_out() -> None:
    demand_none(faults_in((*kernel(), *adapters()), cut_names))


@pytest.mark.parametrize(("words", "rule", "clauses", "beside"), VOCABULARIES)
def test_a_vocabulary_is_what_its_rule_lists(
    words: type[enum.Enum], rule: str, clauses: tuple[int, ...], beside: set[str]
) -> None:
    assert {word.value for word in words} == words_of(rules()[rule].text, clauses) | beside


@pytest.mark.rule("STATE-2")
def test_the_phases_are_those_of_the_specification() -> None:
    assert {phase.__name__ for phase in get_args(State)} == words_of(rules()["STATE-2"].text, ())


# --- and each check can fail ----------------------------------------------------------------------------


def test_a_twin_is_found() -> None:
    one = Source.of("class Say:\n    pass\n", "loopkernel.data.a", "a.py")
    other = Source.of("def Say():\n    pass\n", "loopkernel.data.b", "b.py")
    action = Source.of("class Say:\n    pass\n", SCENARIO_WORDS[0])
    assert twins((one, other, action)) == ["Say: a.py:1, b.py:1"]
    assert twins((one, action)) == []


@pytest.mark.parametrize(
    "text", ["def f():\n    return 1\n", "class A:\n    x = 1\n", 'class A:\n    """A."""\n    def f(self): pass\n']
)
def test_what_says_nothing_is_found(text: str) -> None:
    assert len(list(unexplained(Source.of(text)))) == 1
    assert list(unexplained(Source.of("def _f():\n    return 1\n"))) == []


@pytest.mark.parametrize(
    "line",
    ["msg = 1", "def f(cfg): pass", "class ToolMgr: pass", "for idx in x: pass", "self.req_count = 1", "MAX_VAL = 2"],
)
def test_a_cut_word_is_found(line: str) -> None:
    assert len(list(cut_names(Source.of(line)))) == 1


@pytest.mark.parametrize("line", ["message = 1", "def __init__(self, ctx): pass", "import attrs", "other.msg = 1"])
def test_a_whole_word_is_no_fault(line: str) -> None:
    assert list(cut_names(Source.of(line))) == []


def test_the_words_of_a_rule_are_found() -> None:
    text = "| `one` | `two` in a text | `three` |\n\n1. Here `four`,\n   and `five`.\n2. Not `six`.\n\nOrigin: `seven`."
    assert words_of(text, ()) == {"one", "three"}
    assert words_of(text, (1,)) == {"one", "three", "four", "five"}

"""The rules of the house: which room may import which, how large a file may be, and how none may be named."""

import ast
import graphlib
import re
import sys
from collections.abc import Iterator
from pathlib import PurePosixPath

import pytest

from tests.architecture.sources import (
    Source,
    adapters,
    all_sources,
    demand_none,
    faults_in,
    functions,
    imports,
    kernel,
    pure_kernel,
)

MAX_LINES = 400  # of a file
MAX_FUNCTION_LINES = 60

# What each room of the kernel may import of the kernel. A module on its own is a room of its own.
MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "loopkernel": (),
    "loopkernel.later_typing": (),
    "loopkernel.data": ("loopkernel.data", "loopkernel.later_typing"),
    "loopkernel.planning": ("loopkernel.data", "loopkernel.planning"),
    "loopkernel.regions": ("loopkernel.data", "loopkernel.planning", "loopkernel.regions"),
    "loopkernel.phases": ("loopkernel.data", "loopkernel.planning", "loopkernel.regions", "loopkernel.phases"),
    "loopkernel.handlers": ("loopkernel.data", "loopkernel.planning", "loopkernel.regions", "loopkernel.phases"),
    "loopkernel.transition": ("loopkernel.data", "loopkernel.handlers"),
    "loopkernel.table": ("loopkernel.data", "loopkernel.handlers"),
    "loopkernel.causes": ("loopkernel.data",),
    "loopkernel.receipts": ("loopkernel.data",),
    "loopkernel.explain": (
        "loopkernel.causes",
        "loopkernel.data",
        "loopkernel.planning",
        "loopkernel.regions",
        "loopkernel.transition",
        "loopkernel.waits",
    ),
    "loopkernel.waits": ("loopkernel.data", "loopkernel.planning", "loopkernel.regions"),
    "loopkernel.replay": ("loopkernel.data", "loopkernel.transition"),
    "loopkernel.machine": ("loopkernel.data", "loopkernel.replay", "loopkernel.transition"),
    "loopkernel.laws": (
        "loopkernel.codec",
        "loopkernel.data",
        "loopkernel.explain",
        "loopkernel.later_typing",
        "loopkernel.laws",
        "loopkernel.planning",
        "loopkernel.replay",
        "loopkernel.transition",
        "loopkernel.waits",
    ),
    "loopkernel.codec": ("loopkernel.codec", "loopkernel.data"),
    "loopkernel.presets": ("loopkernel.data", "loopkernel.presets"),
    "loopkernel.testing": ("loopkernel",),
}
# Parts of a permitted room that are closed all the same.
KNOWS_STATES = ("loopkernel.data.states", "loopkernel.data.steps", "loopkernel.data.records")
KNOWS_PARTS_OF_STATES = tuple(
    f"loopkernel.data.{part}" for part in ("effects", "endings", "events", "ledgers", "operations", "sessions")
)
MAY_NOT_IMPORT: dict[str, tuple[str, ...]] = {
    "loopkernel.planning": KNOWS_STATES + KNOWS_PARTS_OF_STATES,
    "loopkernel.regions": KNOWS_STATES,
    "loopkernel.phases": ("loopkernel.data.records",),
    "loopkernel.handlers": ("loopkernel.data.records",),
}
# What the shell sees of the kernel: no handler and no region, so that it cannot decide what happens next.
OPEN_TO_ADAPTERS = (
    "loopkernel.codec",
    "loopkernel.data",
    "loopkernel.explain",
    "loopkernel.later_typing",
    "loopkernel.laws",
    "loopkernel.machine",
    "loopkernel.planning.interaction",
    "loopkernel.planning.projection",
    "loopkernel.planning.redaction",
    "loopkernel.planning.references",
    "loopkernel.planning.repair",
    "loopkernel.planning.retry",
    "loopkernel.presets",
    "loopkernel.receipts",
    "loopkernel.replay",
    "loopkernel.transition",
)
# All that the pure kernel imports from outside, and what for.
FOREIGN_TO_THE_KERNEL = {
    "attrs": "frozen classes",
    "collections": "a thread is put back at its front",
    "collections.abc": "types of parameters",
    "enum": "closed vocabularies",
    "fractions": "money and delays are counted exactly",
    "functools": "codecs are built once, when first asked for",
    "json": "the form of what leaves the process",
    "math": "whether a number is finite",
    "operator": "comparisons as functions",
    "re": "texts are checked by patterns; nothing else is parsed",
    "types": "read-only mappings, and the types of unions",
    "typing": "types",
    "typing_extensions": "known to a type checker; never imported at run time",
}
TYPING_ALONE = "loopkernel.later_typing"  # the one place that names it: it is not installed with the kernel
FOREIGN_TO_TESTING = {"attrs", "hypothesis", "yaml"}
FOREIGN_TO_ADAPTERS = {"attrs"}
FOREIGN_TO_ADAPTER_CHECKS = {"hypothesis", "pytest"}
# A vendor's package is an extra. The modules that import it are listed (a name stands for all that begin with it), and
# every other module imports those inside a function, so that all else runs without it.
_ANTHROPIC = "loopkernel_adapters.providers.anthropic"
_OPENAI = "loopkernel_adapters.providers.openai"
_FUNCTIONS = "loopkernel_adapters.tools.functions"
_SCHEMAS = "loopkernel_adapters.tools.input_schema"
_MCP = "loopkernel_adapters.tools.mcp"
VENDORS: dict[str, tuple[str, ...]] = {
    "anyio": (_MCP,),
    "anthropic": (_ANTHROPIC,),
    "httpx2": (_ANTHROPIC, _OPENAI, _MCP),
    "jsonschema": (_SCHEMAS,),
    "mcp": (_MCP,),
    "mcp_types": (_MCP,),
    "openai": (_OPENAI,),
    "pydantic": (_FUNCTIONS,),
    "pydantic_core": (_FUNCTIONS,),
    "xllamacpp": ("loopkernel_adapters.providers.local",),
    "yaml": ("loopkernel_adapters.transcripts.readers.stream_events", "loopkernel_adapters.testing."),
}
# These may import their vendor where they like.
VENDOR_MODULES = (_ANTHROPIC, _OPENAI, _FUNCTIONS, _MCP, "loopkernel_adapters.testing.")

BANNED_NAMES = {"util", "utils", "helper", "helpers", "common", "core", "base", "manager", "managers", "misc"}


def room_of(module: str) -> str:
    """The room that a module of the kernel stands in."""
    return ".".join(module.split(".")[:2])


def lies_in(module: str, packages: tuple[str, ...]) -> bool:
    """Whether the module is one of the packages, or inside one."""
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def room_faults(source: Source) -> Iterator[str]:
    """Imports from a room of the kernel that this one may not see."""
    room = room_of(source.module)
    if room not in MAY_IMPORT:
        yield f"{source.path}: {room} is a new room: say in MAY_IMPORT what it may import"
        return
    for found in imports(source):
        if found.relative:
            yield source.at(found.node, "a relative import: name the module in full")
        elif lies_in(found.module, ("loopkernel_adapters",)):
            yield source.at(
                found.node, f"the kernel imports {found.module}: the shell depends on it, never the reverse"
            )
        elif lies_in(found.module, ("loopkernel",)) and not _is_open(room, found.module):
            yield source.at(found.node, f"{room} may not import {found.module}")


def _is_open(room: str, module: str) -> bool:
    return lies_in(module, MAY_IMPORT[room]) and not lies_in(module, MAY_NOT_IMPORT.get(room, ()))


def adapter_faults(source: Source) -> Iterator[str]:
    """What the shell imports beyond the standard library, itself, and the open part of the kernel."""
    checks = source.within("loopkernel_adapters.testing")
    known = {"loopkernel_adapters", *FOREIGN_TO_ADAPTERS, *(FOREIGN_TO_ADAPTER_CHECKS if checks else ())}
    for found in imports(source):
        name = found.module
        package = name.partition(".")[0]
        at_the_top = found.node in source.tree.body
        if found.relative:
            yield source.at(found.node, "a relative import: name the module in full")
        elif package == "loopkernel":
            if not lies_in(name, (*OPEN_TO_ADAPTERS, *(("loopkernel.testing",) if checks else ()))):
                yield source.at(found.node, f"an adapter may not import {name}")
        elif package in VENDORS:
            if not source.module.startswith(VENDORS[package]):
                yield source.at(found.node, f"{package} is imported in {', '.join(VENDORS[package])} alone")
            elif at_the_top and not source.module.startswith(VENDOR_MODULES):
                yield source.at(found.node, f"{package} is imported inside a function, since much needs this module")
        elif name.startswith(VENDOR_MODULES):
            if at_the_top and not source.module.startswith(VENDOR_MODULES):
                yield source.at(found.node, f"{name} needs an extra: import it inside a function")
        elif package not in {*known, *sys.stdlib_module_names}:
            yield source.at(found.node, f"{package} is not a dependency of the adapters")


def foreign_faults(source: Source) -> Iterator[str]:
    """What the kernel imports from outside, and should not."""
    testing = source.within("loopkernel.testing")
    for found in imports(source):
        package = found.module.partition(".")[0]
        if found.relative or package in ("loopkernel", "loopkernel_adapters"):
            continue
        if testing:
            allowed = package in FOREIGN_TO_TESTING or package in sys.stdlib_module_names
        else:
            allowed = found.module in FOREIGN_TO_THE_KERNEL
        if package == "typing_extensions":
            allowed = source.module == TYPING_ALONE
        if not allowed:
            yield source.at(found.node, f"{found.module} is not on the list of what {room_of(source.module)} imports")


def file_length_faults(source: Source) -> Iterator[str]:
    """Files that are too long."""
    lines = len(source.text.splitlines())
    if lines >= MAX_LINES:
        yield f"{source.path}: {lines} lines; files stay under {MAX_LINES}"


def function_length_faults(source: Source) -> Iterator[str]:
    """Functions that are too long."""
    for function in functions(source):
        length = (function.end_lineno or function.lineno) - function.lineno + 1
        if length >= MAX_FUNCTION_LINES:
            yield source.at(function, f"{function.name} has {length} lines; functions stay under {MAX_FUNCTION_LINES}")


def file_name_faults(source: Source) -> Iterator[str]:
    """Names of files and folders that say nothing of what is inside."""
    for part in PurePosixPath(source.path).with_suffix("").parts:
        for word in re.split(r"[_\W]+", part):
            if word in BANNED_NAMES:
                yield f"{source.path}: {word!r} does not say what it holds"


def opening_faults(source: Source) -> Iterator[str]:
    """A file that does not say what it is for."""
    if not (ast.get_docstring(source.tree) or "").strip():
        yield f"{source.path}:1: does not open with a docstring"


def cycle(sources: tuple[Source, ...]) -> list[str]:
    """Modules that import each other in a circle; empty when there is none."""
    graph = {source.module: {found.module for found in imports(source)} for source in sources}
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        circle: list[str] = error.args[1]
        return circle
    return []


# --- the tree keeps the rules ---------------------------------------------------------------------------


def test_the_rooms_of_the_kernel_import_what_they_may() -> None:
    demand_none(faults_in(kernel(), room_faults))


def test_every_room_of_the_table_exists() -> None:
    assert MAY_IMPORT.keys() - {room_of(source.module) for source in kernel()} == set()


def test_the_adapters_see_the_open_part_of_the_kernel_alone() -> None:
    demand_none(faults_in(adapters(), adapter_faults))


def test_the_kernel_imports_nothing_from_outside_but_what_is_listed() -> None:
    demand_none(faults_in(kernel(), foreign_faults))


def test_the_list_of_what_the_kernel_imports_names_nothing_that_is_not_used() -> None:
    used = {found.module for source in pure_kernel() for found in imports(source)}
    assert FOREIGN_TO_THE_KERNEL.keys() - used == set()


def test_no_modules_of_the_kernel_import_each_other_in_a_circle() -> None:
    assert cycle(kernel()) == []


def test_files_are_short() -> None:
    """A file of tests may be longer: it mirrors one source, with all of its cases."""
    demand_none(faults_in((source for source in all_sources() if not source.within("tests")), file_length_faults))


def test_functions_are_short() -> None:
    demand_none(faults_in(all_sources(), function_length_faults))


def test_every_file_is_named_for_what_it_holds() -> None:
    demand_none(faults_in(all_sources(), file_name_faults))


def test_every_file_says_what_it_is_for() -> None:
    demand_none(faults_in(all_sources(), opening_faults))


# --- and each check can fail ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("loopkernel.data.blocks", "import loopkernel.planning.budget"),
        ("loopkernel.data.blocks", "from loopkernel import codec"),
        ("loopkernel.planning.budget", "from loopkernel.data.states import State"),
        ("loopkernel.planning.budget", "from loopkernel.data import states"),
        ("loopkernel.planning.budget", "from loopkernel.data.effects import Effect"),
        ("loopkernel.planning.budget", "import loopkernel.data.ledgers as l"),
        ("loopkernel.planning.budget", "from loopkernel.regions import ledger"),
        ("loopkernel.regions.ledger", "from loopkernel.data.states import Idle"),
        ("loopkernel.regions.ledger", "from loopkernel.data.steps import Step"),
        ("loopkernel.regions.ledger", "from loopkernel.handlers.idle import on_idle"),
        ("loopkernel.regions.ledger", "from loopkernel.phases.rest import resting"),
        ("loopkernel.phases.rest", "from loopkernel.handlers.idle import on_idle"),
        ("loopkernel.phases.rest", "from loopkernel.transition import settle"),
        ("loopkernel.handlers.idle", "from loopkernel.handlers.done import on_done"),
        ("loopkernel.handlers.idle", "from loopkernel.transition import settle"),
        ("loopkernel.codec.records", "from loopkernel.transition import transition"),
        ("loopkernel.transition", "import loopkernel.testing"),
        ("loopkernel.testing.drive", "import loopkernel_adapters.ports"),
        ("loopkernel.machine", "from .replay import fold"),
        ("loopkernel.novelty.part", ""),
    ],
)
def test_an_import_from_a_closed_room_is_found(module: str, line: str) -> None:
    source = Source.of(f"def inner():\n    {line or 'pass'}\n", module)
    assert len(list(room_faults(source))) == 1


def test_what_a_room_may_import_is_no_fault() -> None:
    source = Source.of("from loopkernel.data import policy, words\nimport re\n", "loopkernel.planning.budget")
    assert list(room_faults(source)) == []


@pytest.mark.parametrize(
    "line",
    [
        "from loopkernel.handlers.idle import on_idle",
        "from loopkernel.regions import ledger",
        "from loopkernel.planning.scheduling import conflict",
        "from loopkernel.testing.drive import drive",
        "from . import ports",
        "import requests",
        "import xllamacpp",
        "import anthropic",
        "from loopkernel_adapters.providers.openai_chat import OpenAIChatProvider",
    ],
)
def test_what_an_adapter_may_not_import_is_found(line: str) -> None:
    assert len(list(adapter_faults(Source.of(line, "loopkernel_adapters.providers.scripted")))) == 1
    assert len(list(adapter_faults(Source.of(line, "loopkernel_adapters.providers.local")))) == 1


def test_a_vendor_may_be_imported_inside_a_function_of_its_adapter() -> None:
    text = "def engine():\n    import xllamacpp\n"
    assert list(adapter_faults(Source.of(text, "loopkernel_adapters.providers.local"))) == []


@pytest.mark.parametrize(
    "line",
    ["import time", "from datetime import datetime", "import os.path", "import numpy", "import typing_extensions"],
)
def test_a_foreign_module_in_the_kernel_is_found(line: str) -> None:
    assert len(list(foreign_faults(Source.of(line, "loopkernel.planning.budget")))) == 1


def test_a_foreign_package_in_testing_is_found() -> None:
    assert list(foreign_faults(Source.of("import time\nimport yaml\n", "loopkernel.testing.drive"))) == []
    assert len(list(foreign_faults(Source.of("import numpy\n", "loopkernel.testing.drive")))) == 1


def test_a_circle_of_imports_is_found() -> None:
    one = Source.of("import loopkernel.b", "loopkernel.a")
    other = Source.of("import loopkernel.a", "loopkernel.b")
    assert set(cycle((one, other))) == {"loopkernel.a", "loopkernel.b"}
    assert cycle((one, Source.of("", "loopkernel.b"))) == []


@pytest.mark.parametrize(("statements", "faults"), [(57, 0), (59, 1)])
def test_a_long_function_is_found(statements: int, faults: int) -> None:
    text = "class A:\n    def f(self):\n" + "        pass\n" * statements
    assert len(list(function_length_faults(Source.of(text)))) == faults


@pytest.mark.parametrize(("lines", "faults"), [(399, 0), (400, 1)])
def test_a_long_file_is_found(lines: int, faults: int) -> None:
    assert len(list(file_length_faults(Source.of("x = 1\n" * lines)))) == faults


@pytest.mark.parametrize("path", ["a/utils.py", "core/a.py", "a/base_store.py", "a/tool_helpers/b.py"])
def test_a_name_that_says_nothing_is_found(path: str) -> None:
    assert len(list(file_name_faults(Source.of("", path=path)))) == 1


def test_a_file_without_a_docstring_is_found() -> None:
    for text in ("", "x = 1\n", "# only a comment\n", "b'bytes'\n", "'  '\n"):
        assert len(list(opening_faults(Source.of(text)))) == 1
    assert list(opening_faults(Source.of('"""What it is for."""\n'))) == []

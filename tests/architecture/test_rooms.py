"""The rules of the house: which room may import which, how large a file may be, and how none may be named."""

import pytest

from tests.architecture.rooms import (
    FOREIGN_TO_THE_KERNEL,
    MAY_IMPORT,
    adapter_faults,
    cycle,
    file_length_faults,
    file_name_faults,
    foreign_faults,
    function_length_faults,
    opening_faults,
    room_faults,
    room_of,
)
from tests.architecture.sources import (
    Source,
    adapters,
    all_sources,
    demand_none,
    faults_in,
    imports,
    kernel,
    pure_kernel,
)

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
        ("loopkernel.data.blocks", "import loopkernel.loop.algorithms.budget"),
        ("loopkernel.data.blocks", "from loopkernel import codec"),
        ("loopkernel.loop.algorithms.budget", "from loopkernel.data.states import State"),
        ("loopkernel.loop.algorithms.budget", "from loopkernel.data import states"),
        ("loopkernel.loop.algorithms.budget", "from loopkernel.data.effects import Effect"),
        ("loopkernel.loop.algorithms.budget", "import loopkernel.data.ledgers as l"),
        ("loopkernel.loop.algorithms.budget", "from loopkernel.loop.calls import ledger"),
        ("loopkernel.loop.calls.ledger", "from loopkernel.data.states import Idle"),
        ("loopkernel.loop.calls.ledger", "from loopkernel.data.steps import Step"),
        ("loopkernel.loop.calls.ledger", "from loopkernel.loop.phases.at_rest import on_idle"),
        ("loopkernel.loop.calls.ledger", "from loopkernel.loop.phases.moves import resting"),
        ("loopkernel.loop.phases.moves", "from loopkernel.loop.phases.at_rest import on_idle"),
        ("loopkernel.loop.phases.moves", "from loopkernel.loop.transition import settle"),
        ("loopkernel.loop.phases.backoff", "from loopkernel.loop.phases.at_rest import on_done"),
        ("loopkernel.loop.gates.timers", "from loopkernel.loop.history.thread import add_note"),
        ("loopkernel.loop.history.thread", "from loopkernel.loop.calls.ledger import close"),
        ("loopkernel.loop.calls.ledger", "from loopkernel.loop.turn.input import input_at_rest"),
        ("loopkernel.loop.turn.input", "from loopkernel.loop.life.fork import fork_session"),
        ("loopkernel.loop.life.fork", "from loopkernel.loop.phases.moves import resting"),
        ("loopkernel.loop.novelty.part", ""),
        ("loopkernel.loop.phases.backoff", "from loopkernel.loop.transition import settle"),
        ("loopkernel.codec.records", "from loopkernel.loop.transition import transition"),
        ("loopkernel.loop.transition", "import loopkernel.testing"),
        ("loopkernel.testing.played.player", "import loopkernel_adapters.ports"),
        ("loopkernel.machine", "from .replay import fold"),
        ("loopkernel.novelty.part", ""),
    ],
)
def test_an_import_from_a_closed_room_is_found(module: str, line: str) -> None:
    source = Source.of(f"def inner():\n    {line or 'pass'}\n", module)
    assert len(list(room_faults(source))) == 1


def test_what_a_room_may_import_is_no_fault() -> None:
    source = Source.of("from loopkernel.data import policy, words\nimport re\n", "loopkernel.loop.algorithms.budget")
    assert list(room_faults(source)) == []


@pytest.mark.parametrize(
    "line",
    [
        "from loopkernel.loop.phases.at_rest import on_idle",
        "from loopkernel.loop.calls import ledger",
        "from loopkernel.loop.algorithms.scheduling import conflict",
        "from loopkernel.testing.scenarios.player.drive import drive",
        "from . import ports",
        "import requests",
        "import xllamacpp",
        "import anthropic",
        "from loopkernel_adapters.providers.openai.chat import OpenAIChatProvider",
    ],
)
def test_what_an_adapter_may_not_import_is_found(line: str) -> None:
    assert len(list(adapter_faults(Source.of(line, "loopkernel_adapters.providers.scripted")))) == 1
    assert len(list(adapter_faults(Source.of(line, "loopkernel_adapters.providers.local.provider")))) == 1


def test_a_vendor_may_be_imported_inside_a_function_of_its_adapter() -> None:
    text = "def engine():\n    import xllamacpp\n"
    assert list(adapter_faults(Source.of(text, "loopkernel_adapters.providers.local.provider"))) == []


@pytest.mark.parametrize(
    "line",
    ["import time", "from datetime import datetime", "import os.path", "import numpy", "import typing_extensions"],
)
def test_a_foreign_module_in_the_kernel_is_found(line: str) -> None:
    assert len(list(foreign_faults(Source.of(line, "loopkernel.loop.algorithms.budget")))) == 1


def test_a_foreign_package_in_testing_is_found() -> None:
    assert list(foreign_faults(Source.of("import time\nimport yaml\n", "loopkernel.testing.played.player"))) == []
    assert len(list(foreign_faults(Source.of("import numpy\n", "loopkernel.testing.played.player")))) == 1


def test_a_circle_of_imports_is_found() -> None:
    one = Source.of("import loopkernel.b", "loopkernel.a")
    other = Source.of("import loopkernel.a", "loopkernel.b")
    assert set(cycle((one, other))) == {"loopkernel.a", "loopkernel.b"}
    assert cycle((one, Source.of("", "loopkernel.b"))) == []


@pytest.mark.parametrize(("statements", "faults"), [(57, 0), (59, 1)])
def test_a_long_function_is_found(statements: int, faults: int) -> None:
    text = "class A:\n    def f(self):\n" + "        pass\n" * statements
    assert len(list(function_length_faults(Source.of(text)))) == faults


@pytest.mark.parametrize(("lines", "faults"), [(599, 0), (600, 1)])
def test_a_long_file_is_found(lines: int, faults: int) -> None:
    assert len(list(file_length_faults(Source.of("x = 1\n" * lines)))) == faults


@pytest.mark.parametrize("path", ["a/utils.py", "core/a.py", "a/base_store.py", "a/tool_helpers/b.py"])
def test_a_name_that_says_nothing_is_found(path: str) -> None:
    assert len(list(file_name_faults(Source.of("", path=path)))) == 1


def test_a_file_without_a_docstring_is_found() -> None:
    for text in ("", "x = 1\n", "# only a comment\n", "b'bytes'\n", "'  '\n"):
        assert len(list(opening_faults(Source.of(text)))) == 1
    assert list(opening_faults(Source.of('"""What it is for."""\n'))) == []

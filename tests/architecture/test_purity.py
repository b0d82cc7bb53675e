"""The kernel is pure: by its text, and by watching it work."""

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import pytest

from tests.architecture.sources import (
    ROOT,
    Source,
    demand_none,
    dotted,
    faults_in,
    functions,
    kernel,
    pure_kernel,
)

FORBIDDEN_CALLS = {
    "__import__": "imports",
    "breakpoint": "stops the process",
    "compile": "makes code",
    "delattr": "changes an object",
    "eval": "runs text as code",
    "exec": "runs text as code",
    "globals": "reaches for the module's variables",
    "hash": "differs from process to process",
    "id": "differs from process to process",
    "input": "reads",
    "locals": "reaches for variables",
    "object.__delattr__": "changes a frozen object",
    "object.__setattr__": "changes a frozen object",
    "open": "opens a file",
    "print": "writes",
    "setattr": "changes an object",
    "vars": "reaches for an object's variables",
}
# Where a forbidden call is right, and why.
_WRITTEN = "it writes a constructor, or a copy, from the fields of a class, as attrs does"
_TRIE = "it says where a value stands in a trie whose order nobody can look at"
PERMITTED_CALLS = {
    ("loopkernel.data.value_classes", "_defined", "compile"): _WRITTEN,
    ("loopkernel.data.value_classes", "_defined", "exec"): _WRITTEN,
    ("loopkernel.data.value_classes", "first_time", "setattr"): _WRITTEN,
    ("loopkernel.data.value_classes", "_twin", "vars"): _WRITTEN,
    ("loopkernel.data.value_classes", "frozen", "vars"): "it looks which methods a class has of its own",
    ("loopkernel.data.value_classes", "__hash__", "hash"): "a hash is what it is asked for",
    ("loopkernel.data.text_map", "get", "hash"): _TRIE,
    ("loopkernel.data.text_map", "put", "hash"): _TRIE,
    ("loopkernel.data.vector", "__hash__", "hash"): "a hash is what it is asked for",
    ("loopkernel.data.json_text", "_known_good", "object.__setattr__"): "the object is new, and nobody holds it yet",
}
KNOW_NO_ORDER = {"all", "any", "frozenset", "len", "max", "min", "set", "sorted", "sum"}
TAKE_AN_ORDER = {"enumerate", "extend", "filter", "fromkeys", "iter", "join", "list", "map", "next", "tuple", "zip"}
CACHES = {"cache", "lru_cache", "cached_property"}

# --- by its text ----------------------------------------------------------------------------------------


def call_faults(source: Source) -> Iterator[str]:
    """Calls of what is not pure."""
    owners = {node: function.name for function in functions(source) for node in ast.walk(function)}
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call):
            name = dotted(node.func)
            place = (source.module, owners.get(node, ""), name)
            if name in FORBIDDEN_CALLS and place not in PERMITTED_CALLS:
                yield source.at(node, f"{name}() {FORBIDDEN_CALLS[name]}")


def statement_faults(source: Source) -> Iterator[str]:
    """Statements that wait, or change a variable of the module; memories that grow."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Global):
            yield source.at(node, f"global {', '.join(node.names)}: a module's variables do not change")
        elif isinstance(node, ast.AsyncFunctionDef | ast.AsyncFor | ast.AsyncWith | ast.Await):
            yield source.at(node, "the kernel waits for nothing: the driver does")
    for function in functions(source):
        cached = any(_last_name(_called(mark)) in CACHES for mark in function.decorator_list)
        if cached and list(ast.iter_child_nodes(function.args)):
            yield source.at(function, f"{function.name} remembers a value for each argument, without end")


def _called(mark: ast.expr) -> ast.expr:
    return mark.func if isinstance(mark, ast.Call) else mark


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else dotted(node)


def order_faults(source: Source) -> Iterator[str]:
    """Sets whose order is looked at: it differs from process to process."""
    harmless = set(_without_order(source.tree))
    for expression in _looked_at(source.tree):
        if expression not in harmless and _is_set(expression, known_sets()):
            yield source.at(expression, f"the order of {ast.unparse(expression)} differs from process to process")


def _looked_at(tree: ast.Module) -> Iterator[ast.expr]:
    """Every expression whose items are taken one by one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.For | ast.comprehension):
            yield node.iter
        elif isinstance(node, ast.Starred):
            yield node.value
        elif isinstance(node, ast.Call) and _last_name(node.func) in TAKE_AN_ORDER:
            yield from node.args


def _without_order(tree: ast.Module) -> Iterator[ast.expr]:
    """Every expression whose items go, all together, into something that knows no order."""
    for node in ast.walk(tree):
        if isinstance(node, ast.SetComp):
            yield from (generator.iter for generator in node.generators)
        elif isinstance(node, ast.Set):
            yield from (item.value for item in node.elts if isinstance(item, ast.Starred))
        elif isinstance(node, ast.Call) and dotted(node.func) in KNOW_NO_ORDER:
            for argument in node.args:
                if isinstance(argument, ast.GeneratorExp | ast.ListComp):
                    yield from (generator.iter for generator in argument.generators)


def _is_set(node: ast.expr, sets: frozenset[str]) -> bool:
    """Whether the expression gives a set, as far as its text tells."""
    if isinstance(node, ast.Set | ast.SetComp):
        return True
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr | ast.BitAnd | ast.Sub | ast.BitXor):
        return _is_set(node.left, sets) or _is_set(node.right, sets)
    if isinstance(node, ast.Call):
        return dotted(node.func) in ("set", "frozenset")
    return dotted(node) in sets


@cache
def known_sets() -> frozenset[str]:
    """The names that hold a set at the top of some module of the kernel."""
    return frozenset(
        target.id
        for source in kernel()
        for node in source.tree.body
        if isinstance(node, ast.Assign) and _is_set(node.value, frozenset())
        for target in node.targets
        if isinstance(target, ast.Name)
    )


# --- by watching it work --------------------------------------------------------------------------------

SEEDS = ("0", "1", "2", "2")  # the last two are alike, in two processes


@pytest.fixture(scope="module")
def reports() -> list[dict[str, Any]]:  # Any: what JSON holds
    """What the watched steps printed, under each hash seed."""
    command = [sys.executable, "-m", "tests.architecture.observed_steps"]
    running = [
        subprocess.Popen(command, cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": seed}, stdout=subprocess.PIPE)
        for seed in SEEDS
    ]
    printed = [process.communicate()[0] for process in running]
    assert [process.returncode for process in running] == [0] * len(SEEDS)
    return [json.loads(text) for text in printed]


@pytest.mark.rule("DELTA-1")
def test_no_step_reaches_for_anything_outside(reports: list[Mapping[str, Any]]) -> None:  # Any: as above
    assert reports[0]["reached"] == []


def test_what_reaches_outside_is_seen(reports: list[Mapping[str, Any]]) -> None:  # Any: as above
    planted = reports[0]["planted"]
    assert len(planted) > 15
    assert [name for name, seen in planted.items() if not seen] == []


@pytest.mark.rule("DELTA-1")
def test_every_process_and_hash_seed_gives_the_same_bytes(reports: list[Mapping[str, Any]]) -> None:  # Any: as above
    first = reports[0]["steps"]
    assert len(first) > 1_000
    for report in reports[1:]:
        differing = [pair for pair in zip(first, report["steps"], strict=True) if pair[0] != pair[1]]
        assert differing == []


def test_the_hash_seeds_do_differ(reports: list[Mapping[str, Any]]) -> None:  # Any: as above
    orders = [tuple(report["order"]) for report in reports]
    assert len(set(orders)) > 1
    assert orders[2] == orders[3]


# --- the tree keeps the rules ---------------------------------------------------------------------------


def test_the_kernel_calls_nothing_that_is_not_pure() -> None:
    demand_none(faults_in(pure_kernel(), call_faults))


def test_every_permitted_call_is_made() -> None:
    made = {
        (source.module, function.name, dotted(node.func))
        for source in pure_kernel()
        for function in functions(source)
        for node in ast.walk(function)
        if isinstance(node, ast.Call)
    }
    assert PERMITTED_CALLS.keys() - made == set()


def test_the_kernel_waits_for_nothing_and_keeps_nothing_between_steps() -> None:
    demand_none(faults_in(pure_kernel(), statement_faults))


def test_the_kernel_looks_at_no_order_that_hashes_make() -> None:
    demand_none(faults_in(pure_kernel(), order_faults))


# --- and each check can fail ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line", ["open('a')", "print(1)", "id(x)", "hash(x)", "object.__setattr__(x, 'a', 1)", "eval('1')", "vars(x)"]
)
def test_an_impure_call_is_found(line: str) -> None:
    assert len(list(call_faults(Source.of(f"def f(x):\n    return [{line}]\n")))) == 1


@pytest.mark.parametrize(
    "text",
    [
        "def f():\n    global a\n    a = 1\n",
        "async def f():\n    pass\n",
        "@cache\ndef f(x):\n    return x\n",
        "@functools.lru_cache(maxsize=2)\ndef f(*x):\n    return x\n",
        "class A:\n    @cached_property\n    def f(self):\n        return 1\n",
    ],
)
def test_a_statement_that_waits_or_remembers_is_found(text: str) -> None:
    assert len(list(statement_faults(Source.of(text)))) == 1
    assert list(statement_faults(Source.of("@cache\ndef f():\n    return 1\n"))) == []


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("for x in {1, 2}:\n    pass\n", 1),
        ("[x for x in set(y)]", 1),
        ("tuple(OPEN_STATUSES)", 1),
        ("(*OPEN_STATUSES, 1)", 1),
        ("', '.join({'a'} | b)", 1),
        ("dict.fromkeys(frozenset(a))", 1),
        ("sorted(OPEN_STATUSES)", 0),
        ("any(x for x in OPEN_STATUSES)", 0),
        ("{x for x in {1, 2}}", 0),
        ("{*OPEN_STATUSES, 1}", 0),
        ("x in OPEN_STATUSES", 0),
        ("[x for x in (1, 2)]", 0),
    ],
)
def test_an_order_that_hashes_make_is_found(text: str, faults: int) -> None:
    assert len(list(order_faults(Source.of(text)))) == faults

"""The kernel is pure: by its text, by what its modules hold, and by watching it work."""

import ast
import enum
import functools
import inspect
import json
import os
import pkgutil
import re
import subprocess
import sys
import types
import typing
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any

import attrs
import pytest

import loopkernel
from tests.architecture.sources import (
    ROOT,
    Source,
    demand_none,
    dotted,
    functions,
    imports,
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
PERMITTED_CALLS = {
    ("loopkernel.data.vector", "__hash__", "hash"): "a hash is what it is asked for",
    ("loopkernel.data.json_text", "_known_good", "object.__setattr__"): "the object is new, and nobody holds it yet",
}
ORDERED_BY = {"sorted", "len", "frozenset", "set", "min", "max", "sum", "any", "all"}  # no order goes through these
TAKE_AN_ORDER = {"tuple", "list", "iter", "enumerate", "zip", "map", "filter", "reversed", "dict", "dict.fromkeys"}

# The values of a module that can be changed, though nobody does.
NEVER_CHANGED = {"loopkernel.data.json_text._ENCODER": "holds options alone"}


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
        cached = any(dotted(_called(mark)) in CACHES for mark in function.decorator_list)
        if cached and (list(ast.iter_child_nodes(function.args)) or function.args.vararg):
            yield source.at(function, f"{function.name} remembers a value for each argument, without end")


CACHES = {"cache", "lru_cache", "functools.cache", "functools.lru_cache", "cached_property"}


def _called(mark: ast.expr) -> ast.expr:
    return mark.func if isinstance(mark, ast.Call) else mark


def order_faults(source: Source) -> Iterator[str]:
    """Sets whose order is looked at: it differs from process to process."""
    sets = known_sets()
    for node in ast.walk(source.tree):
        looked_at: list[ast.expr] = []
        if isinstance(node, ast.For | ast.comprehension):
            looked_at = [node.iter]
        elif isinstance(node, ast.Starred):
            looked_at = [node.value]
        elif isinstance(node, ast.Call):
            name = dotted(node.func)
            if name in TAKE_AN_ORDER or name.endswith(".join") or name.endswith(".extend"):
                looked_at = list(node.args)
        for expression in looked_at:
            if _is_set(expression, sets) and not _is_unordered(node, source.tree):
                yield source.at(expression, f"the order of {ast.unparse(expression)} differs from process to process")


def _is_set(node: ast.expr, sets: frozenset[str]) -> bool:
    """Whether the expression gives a set, as far as its text tells."""
    if isinstance(node, ast.Set | ast.SetComp):
        return True
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr | ast.BitAnd | ast.Sub | ast.BitXor):
        return _is_set(node.left, sets) or _is_set(node.right, sets)
    if isinstance(node, ast.Call):
        return dotted(node.func) in ("set", "frozenset")
    return dotted(node) in sets


def _is_unordered(node: ast.AST, tree: ast.Module) -> bool:
    """Whether what is looked at goes, as a whole, into something that knows no order."""
    for outer in ast.walk(tree):
        if isinstance(outer, ast.Call) and dotted(outer.func) in ORDERED_BY:
            for argument in outer.args:
                if argument is node or (
                    isinstance(argument, ast.GeneratorExp | ast.ListComp) and node in argument.generators
                ):
                    return True
        elif isinstance(outer, ast.SetComp) and node in outer.generators:
            return True
    return False


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

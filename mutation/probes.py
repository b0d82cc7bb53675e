"""Probes: each statement of the mutated functions marks in a row of bytes that it was reached."""

import ast
from collections.abc import Iterator

from mutation.importing import Transform, TreeFinder
from mutation.mutants import Function
from mutation.subject import Subject

ROW = "_mutation_row"  # the name of the row of bytes in each module
Place = tuple[str, int]  # a file and the line on which a statement begins


def places(subject: Subject) -> list[Place]:
    """Every statement that gets a probe, in the order of the row."""
    return [(path, line) for path, tree in subject.trees.items() for line in sorted(_lines(tree))]


def probing_finder(subject: Subject, row: bytearray) -> TreeFinder:
    """Imports the modules of the subject with probes that mark the row."""
    numbers: dict[str, dict[int, int]] = {path: {} for path in subject.paths}
    for number, (path, line) in enumerate(places(subject)):
        numbers[path][line] = number
    transforms = {subject.module(path): _probing(numbers[path]) for path in subject.paths}
    return TreeFinder(transforms, {ROW: row})


def _probing(numbers: dict[int, int]) -> Transform:
    def transform(text: str) -> ast.Module:
        tree = ast.parse(text)
        for above, name, statements in list(_blocks(tree)):
            probed: list[ast.stmt] = []
            for statement in statements:
                if _wants_probe(statement):
                    probed += ast.parse(f"{ROW}[{numbers[statement.lineno]}] = 1").body
                probed.append(statement)
            setattr(above, name, probed)
        return ast.fix_missing_locations(tree)

    return transform


def _lines(tree: ast.Module) -> set[int]:
    return {statement.lineno for _, _, block in _blocks(tree) for statement in block if _wants_probe(statement)}


def _blocks(tree: ast.AST) -> Iterator[tuple[ast.AST, str, list[ast.stmt]]]:
    """Every list of statements that lies in a function."""
    for node in ast.walk(tree):
        if isinstance(node, Function):
            for inner in ast.walk(node):
                if not isinstance(inner, ast.ClassDef):
                    yield from _lists(inner)


def _lists(node: ast.AST) -> Iterator[tuple[ast.AST, str, list[ast.stmt]]]:
    for name, value in ast.iter_fields(node):
        if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
            yield node, name, value


def _wants_probe(statement: ast.stmt) -> bool:
    """All but docstrings, which have to stay first, and statements that must come before others."""
    return not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))

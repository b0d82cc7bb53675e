"""The mutation operators: what may be put in the place of one node of a syntax tree.

Each is a small, well-known mistake. What would only be killed by a type error at the first step (None for a whole
state, minus for two texts) is left out: such mutants cost time, raise the score, and tell nothing.
"""

import ast
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import TypeVar

from attrs import evolve, frozen

Part = TypeVar("Part")
Enums = Mapping[str, tuple[str, ...]]  # the members of each enum, in their order


class Role(Enum):
    """What a node is for, where that decides what may stand in its place."""

    VALUE = "value"
    CONDITION = "condition"  # of an if, a conditional expression, a guard, a filter
    REPEATED = "repeated"  # the condition of a while
    RETURNED = "returned"
    RAISED = "raised"  # inside a raise: its texts are for people
    FIXED = "fixed"  # a tuple whose length is counted on


@frozen(kw_only=True)
class Place:
    """Where a node stands: its role, and what the function around it gives back, "" when it does not say."""

    role: Role = Role.VALUE
    returns: str = ""

    def as_role(self, role: Role) -> "Place":
        """The same place in another role."""
        return evolve(self, role=role)


Change = tuple[str, ast.AST]  # the name of the operator, and what it puts there

COMPARED: dict[type[ast.cmpop], tuple[tuple[str, type[ast.cmpop]], ...]] = {
    ast.Lt: (("boundary", ast.LtE), ("comparison", ast.GtE)),
    ast.LtE: (("boundary", ast.Lt), ("comparison", ast.Gt)),
    ast.Gt: (("boundary", ast.GtE), ("comparison", ast.LtE)),
    ast.GtE: (("boundary", ast.Gt), ("comparison", ast.Lt)),
    ast.Eq: (("comparison", ast.NotEq),),
    ast.NotEq: (("comparison", ast.Eq),),
    ast.Is: (("comparison", ast.IsNot),),
    ast.IsNot: (("comparison", ast.Is),),
    ast.In: (("comparison", ast.NotIn),),
    ast.NotIn: (("comparison", ast.In),),
}
REMOVED_CONDITIONS = ("condition always true", "condition never true")  # what they are called, and counted as one kind
CALCULATED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitXor: ast.BitOr,
}
EXCHANGED_CALLS = {"min": "max", "max": "min", "any": "all", "all": "any"}
EMPTY_RESULTS = {"str": '""', "int": "0", "tuple": "()", "frozenset": "frozenset()"}
COPYING_CALL = "evolve"


def changes(node: ast.AST, place: Place, enums: Enums) -> Iterator[Change]:
    """Everything that may stand where the node stands, one at a time."""
    if isinstance(node, ast.expr):
        yield from _changed_role(node, place)
    match node:
        case ast.Compare():
            yield from _compared(node)
        case ast.BoolOp():
            yield from _connected(node)
        case ast.BinOp():
            yield from _calculated(node)
        case ast.AugAssign(op=operation) if type(operation) in CALCULATED:
            yield "arithmetic", ast.AugAssign(node.target, CALCULATED[type(operation)](), node.value)
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield "negation", node.operand
        case ast.Constant():
            yield from _constants(node, place)
        case ast.Attribute(value=ast.Name(id=name), attr=member) if member in enums.get(name, ()):
            members = enums[name]
            if len(members) > 1:
                other = members[(members.index(member) + 1) % len(members)]
                yield "enum member", ast.Attribute(node.value, other, ast.Load())
        case ast.Call():
            yield from _called(node)
        case ast.Tuple(ctx=ast.Load()) if place.role is not Role.FIXED:
            yield from (("element", ast.Tuple(left, ast.Load())) for left in _with_one_left_out(node.elts))
        case ast.List(ctx=ast.Load()) if place.role is not Role.FIXED:
            yield from (("element", ast.List(left, ast.Load())) for left in _with_one_left_out(node.elts))
        case ast.Slice(lower=ast.expr(), upper=upper, step=None):
            yield "slice", ast.Slice(None, upper, None)
        case ast.Slice(lower=None, upper=ast.expr(), step=None):
            yield "slice", ast.Slice(None, None, None)
        case ast.Expr(value=ast.Call()):
            yield "removed call", ast.Pass()
        case ast.Break():
            yield "loop", ast.Continue()
        case ast.Continue():
            yield "loop", ast.Break()
        case ast.MatchOr():
            yield from (("alternative", _either(left)) for left in _with_one_left_out(node.patterns))
        case _:
            pass


def _changed_role(node: ast.expr, place: Place) -> Iterator[Change]:
    if place.role in (Role.CONDITION, Role.REPEATED):
        if place.role is Role.CONDITION:
            yield REMOVED_CONDITIONS[0], ast.Constant(True)
        yield REMOVED_CONDITIONS[1], ast.Constant(False)
    elif place.role is Role.RETURNED:
        yield from _returned(node, place.returns)


def _returned(node: ast.expr, returns: str) -> Iterator[Change]:
    """A result of the promised kind that says nothing."""
    if returns == "bool":
        if not isinstance(node, ast.Compare | ast.Constant | ast.UnaryOp):
            yield "negation", ast.UnaryOp(ast.Not(), node)
        return
    kinds = [part.strip() for part in returns.split("|")]
    if "None" in kinds:
        emptied = "None"
    elif returns.endswith(", ...]") or returns in ("str", "int"):
        emptied = EMPTY_RESULTS.get(returns.partition("[")[0], "")
    else:
        emptied = EMPTY_RESULTS["frozenset"] if returns.startswith("frozenset[") else ""
    if emptied and ast.unparse(node) != emptied:
        yield "empty result", ast.parse(emptied, mode="eval").body


def _compared(node: ast.Compare) -> Iterator[Change]:
    for position, operation in enumerate(node.ops):
        for name, other in COMPARED[type(operation)]:
            operations = [*node.ops[:position], other(), *node.ops[position + 1 :]]
            yield name, ast.Compare(node.left, operations, node.comparators)


def _connected(node: ast.BoolOp) -> Iterator[Change]:
    yield "and/or", ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
    for left in _with_one_left_out(node.values):
        yield "removed operand", left[0] if len(left) == 1 else ast.BoolOp(node.op, left)


def _calculated(node: ast.BinOp) -> Iterator[Change]:
    if isinstance(node.op, ast.BitOr):
        if _is_class(node.left) or _is_class(node.right):
            yield "alternative", node.left
            yield "alternative", node.right
        else:
            yield "arithmetic", ast.BinOp(node.left, ast.BitAnd(), node.right)
    elif type(node.op) in CALCULATED and not _is_sequence(node.left) and not _is_sequence(node.right):
        yield "arithmetic", ast.BinOp(node.left, CALCULATED[type(node.op)](), node.right)


def _is_class(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id[:1].isupper()


def _is_sequence(node: ast.expr) -> bool:
    """Whether the expression is plainly a text, a tuple or a list, which has no arithmetic but plus."""
    if isinstance(node, ast.BinOp):
        return _is_sequence(node.left) or _is_sequence(node.right)
    return isinstance(node, ast.Tuple | ast.List | ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
    )


def _constants(node: ast.Constant, place: Place) -> Iterator[Change]:
    match node.value:
        case bool() as value:
            if place.role is not Role.REPEATED:
                yield "constant", ast.Constant(not value)
        case int() | float() as value:
            yield "constant", ast.Constant(value + 1)
        case str() as value if place.role is not Role.RAISED:
            yield "constant", ast.Constant("" if value else "mutated")
        case _:
            pass


def _called(node: ast.Call) -> Iterator[Change]:
    if isinstance(node.func, ast.Name):
        if node.func.id in EXCHANGED_CALLS:
            other = ast.Name(EXCHANGED_CALLS[node.func.id], ast.Load())
            yield "exchanged call", ast.Call(other, node.args, node.keywords)
        if node.func.id == COPYING_CALL:
            for position in range(len(node.keywords)):
                kept = [*node.keywords[:position], *node.keywords[position + 1 :]]
                yield "dropped keyword", ast.Call(node.func, node.args, kept)


def _with_one_left_out(values: list[Part]) -> Iterator[list[Part]]:
    for position in range(len(values)):
        yield [*values[:position], *values[position + 1 :]]


def _either(patterns: list[ast.pattern]) -> ast.pattern:
    return patterns[0] if len(patterns) == 1 else ast.MatchOr(patterns)

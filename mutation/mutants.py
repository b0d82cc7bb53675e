"""The mutants of a source: each change that an operator makes, told as text before and after, and the changed tree."""

import ast
import hashlib
from collections import Counter
from collections.abc import Iterator
from itertools import takewhile

from attrs import field, frozen

from mutation.operators import Change, Enums, Place, Role, changes

Function = ast.FunctionDef | ast.AsyncFunctionDef
Parent = tuple[ast.AST, str, int | None]  # the node above, its field, and the position there when that is a list
ENUM_BASES = {"Enum", "IntEnum", "StrEnum", "Flag"}
CONTEXT = 50  # characters of a statement that are told on each side of what differs
UNREACHABLE_CALL = "assert_never"


@frozen(kw_only=True)
class Mutant:
    """One change to one source. `line` is where the changed statement begins, `occurrence` tells twins apart."""

    path: str
    function: str
    line: int
    operator: str
    before: str
    after: str
    occurrence: int = 1
    number: int = field(default=0, eq=False)  # which change of its source it is, counted from 0

    @property
    def digest(self) -> str:
        """Its short name, which the shift of a line does not change."""
        told = (self.path, self.function, self.before, self.after, str(self.occurrence))
        return hashlib.sha256("\0".join(told).encode()).hexdigest()[:8]

    @property
    def told(self) -> str:
        """Where it is and what it changes."""
        return f"{self.path}:{self.line}: {self.before} -> {self.after}"


@frozen(kw_only=True)
class Site:
    """A node that may be changed: where it hangs, and the statement or arm by which it is told."""

    node: ast.AST
    parent: Parent
    place: Place
    function: str
    anchor: ast.AST
    line: int

    def put(self, node: ast.AST) -> None:
        """Hang that node into the place of this one."""
        above, name, position = self.parent
        if position is None:
            setattr(above, name, node)
        else:
            getattr(above, name)[position] = node


def enums_of(trees: Iterator[ast.Module]) -> Enums:
    """The members of every enum that the trees define."""
    found: dict[str, tuple[str, ...]] = {}
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and _is_enum(node):
                found[node.name] = tuple(
                    target.id
                    for part in node.body
                    if isinstance(part, ast.Assign)
                    for target in part.targets
                    if isinstance(target, ast.Name)
                )
    return found


def _is_enum(node: ast.ClassDef) -> bool:
    return any(ast.unparse(base).rpartition(".")[2] in ENUM_BASES for base in node.bases)


def mutants_of(path: str, tree: ast.Module, enums: Enums) -> tuple[Mutant, ...]:
    """Every mutant of the tree, in the order of the text. The tree is left as it was."""
    found: list[Mutant] = []
    twins: Counter[tuple[str, str, str]] = Counter()
    for site, (operator, node) in _changed_sites(tree, enums):
        before = header(site.anchor)
        site.put(node)
        after = header(node if site.node is site.anchor else site.anchor)
        site.put(site.node)
        before, after = narrowed(before, after)
        key = (site.function, before, after)
        twins[key] += 1
        found.append(
            Mutant(
                path=path,
                function=site.function,
                line=site.line,
                operator=operator,
                before=before,
                after=after,
                occurrence=twins[key],
                number=len(found),
            )
        )
    return tuple(found)


def mutated(text: str, number: int, enums: Enums) -> ast.Module:
    """The tree of the source with its change of that number made."""
    tree = ast.parse(text)
    for count, (site, (_, node)) in enumerate(_changed_sites(tree, enums)):
        if count == number:
            site.put(node)
            return ast.fix_missing_locations(tree)
    raise LookupError(f"the source has no change number {number}")


def _changed_sites(tree: ast.Module, enums: Enums) -> Iterator[tuple[Site, Change]]:
    for site in sites(tree):
        for change in changes(site.node, site.place, enums):
            yield site, change


def header(node: ast.AST) -> str:
    """The statement or arm on one line, without the statements inside it."""
    fields = {name: value for name, value in ast.iter_fields(node) if name not in ("orelse", "finalbody")}
    inner = fields.get("body"), fields.get("cases")
    if not any(isinstance(part, list) for part in inner):
        return " ".join(ast.unparse(node).split())
    emptied = {"body": [ast.Pass()]} if isinstance(inner[0], list) else {"cases": []}
    orelse: dict[str, list[ast.stmt]] = {"orelse": []} if hasattr(node, "orelse") else {}
    undecorated: dict[str, list[ast.expr]] = {"decorator_list": []} if "decorator_list" in node._fields else {}
    bare = type(node)(**(fields | emptied | orelse | undecorated))
    text = ast.unparse(ast.copy_location(bare, node))
    return " ".join(text.split()).removesuffix(" pass")


def narrowed(before: str, after: str) -> tuple[str, str]:
    """The two texts without what is the same in both and stands far from what differs."""
    prefix = _shared(before, after)
    suffix = _shared(before[prefix:][::-1], after[prefix:][::-1])
    first, left_out = max(prefix - CONTEXT, 0), max(suffix - CONTEXT, 0)

    def part(text: str) -> str:
        return ("..." if first else "") + text[first : len(text) - left_out] + ("..." if left_out else "")

    return part(before), part(after)


def _shared(one: str, other: str) -> int:
    """How many characters both begin with."""
    shared = takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    return sum(1 for _ in shared)


def sites(tree: ast.Module) -> Iterator[Site]:
    """The places of a source: the bodies of its functions and methods, and the constants of the module."""
    for position, node in enumerate(tree.body):
        if isinstance(node, Function | ast.ClassDef):
            yield from _definition_sites(node, "")
        elif isinstance(node, ast.Assign | ast.AnnAssign) and (name := _constant_name(node)):
            walk = _Walk(function=name, anchor=node, line=node.lineno, place=Place())
            yield from walk.below(node, (tree, "body", position))


def _constant_name(node: ast.Assign | ast.AnnAssign) -> str:
    """The name that the statement of a module gives to a value; "" for the alias of a type, or its parameter."""
    target = node.targets[0] if isinstance(node, ast.Assign) else node.target
    is_parameter = isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "TypeVar"
    return target.id if isinstance(target, ast.Name) and target.id.isupper() and not is_parameter else ""


def _definition_sites(node: Function | ast.ClassDef, outer: str) -> Iterator[Site]:
    name = f"{outer}.{node.name}" if outer else node.name
    if isinstance(node, ast.ClassDef):
        for part in node.body:
            if isinstance(part, Function | ast.ClassDef):
                yield from _definition_sites(part, name)
        return
    returns = "" if node.returns is None else ast.unparse(node.returns).strip("'\"")
    place = Place(returns=returns)
    first = next((part.lineno for part in node.body if not _says_nothing(part)), node.lineno)
    for defaults in ("defaults", "kw_defaults"):
        for position, default in enumerate(getattr(node.args, defaults)):
            if default is not None:
                walk = _Walk(function=name, anchor=node, line=first, place=place)
                yield from walk.site(default, (node.args, defaults, position), place)
    yield from _Walk(function=name, anchor=node, line=first, place=place).statements(node, "body")


@frozen(kw_only=True)
class _Walk:
    """A walk through one function, or one constant. The anchor is the statement or arm that it is in."""

    function: str
    anchor: ast.AST
    line: int
    place: Place

    def statements(self, above: ast.AST, name: str) -> Iterator[Site]:
        for position, node in enumerate(getattr(above, name)):
            if isinstance(node, Function | ast.ClassDef):
                yield from _definition_sites(node, self.function)
            elif not _says_nothing(node):
                walk = _Walk(function=self.function, anchor=node, line=node.lineno, place=self.place)
                yield from walk.site(node, (above, name, position), self.place)

    def site(self, node: ast.AST, parent: Parent, place: Place) -> Iterator[Site]:
        """The node itself, and what lies below it."""
        yield Site(node=node, parent=parent, place=place, function=self.function, anchor=self.anchor, line=self.line)
        yield from self.below(node, parent)

    def below(self, node: ast.AST, parent: Parent) -> Iterator[Site]:
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "ctx", "type_comment", "kind", "format_spec", "targets"):
                continue
            if isinstance(value, list):
                if value and isinstance(value[0], ast.stmt):
                    yield from self.statements(node, name)
                    continue
                for position, part in enumerate(value):
                    yield from self.part(part, (node, name, position), node)
            elif isinstance(value, ast.AST):
                yield from self.part(value, (node, name, None), node)

    def part(self, part: object, parent: Parent, above: ast.AST) -> Iterator[Site]:
        if isinstance(part, ast.match_case):
            arm = _Walk(function=self.function, anchor=part, line=self.line, place=self.place)
            if not all(_says_nothing(node) for node in part.body):
                yield from arm.below(part, parent)
        elif isinstance(part, ast.MatchClass | ast.MatchAs | ast.MatchValue | ast.MatchSequence):
            yield from self.below(part, parent)
        elif isinstance(part, ast.AST) and not _is_text_of_a_format(part, above):
            yield from self.site(part, parent, self.place.as_role(self.role(part, parent[1], above)))

    def role(self, node: ast.AST, name: str, above: ast.AST) -> Role:
        """What the node is for in the node above it, where it is the field of that name."""
        match above:
            case ast.If() | ast.IfExp() if name == "test":
                return Role.CONDITION
            case ast.match_case() if name == "guard":
                return Role.CONDITION
            case ast.comprehension() if name == "ifs":
                return Role.CONDITION
            case ast.While() if name == "test":
                return Role.REPEATED
            case ast.Return():
                is_pair = isinstance(node, ast.Tuple) and not self.place.returns.endswith(", ...]")
                return Role.FIXED if is_pair else Role.RETURNED
            case ast.Assign(targets=[ast.Tuple()]) | ast.Subscript() | ast.For() | ast.comprehension():
                return Role.FIXED if isinstance(node, ast.Tuple) else Role.VALUE
            case _:
                return Role.RAISED if isinstance(self.anchor, ast.Raise) else Role.VALUE


def _is_text_of_a_format(node: ast.AST, above: ast.AST) -> bool:
    return isinstance(above, ast.JoinedStr) and isinstance(node, ast.Constant)


def _says_nothing(node: ast.stmt) -> bool:
    """Docstrings, assertions for the type checker, and arms that it proves to be unreachable."""
    if isinstance(node, ast.Expr):
        value = node.value
        if isinstance(value, ast.Call):
            return ast.unparse(value.func) == UNREACHABLE_CALL
        return isinstance(value, ast.Constant)
    return isinstance(node, ast.Assert | ast.Pass | ast.Import | ast.ImportFrom)

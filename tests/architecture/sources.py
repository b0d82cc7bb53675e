"""Every source of the tree, parsed once: what the architecture tests read, and nothing else."""

import ast
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest
from attrs import field, frozen

ROOT = Path(__file__).resolve().parents[2]
# Each folder, and the root from which it is imported.
ROOMS = {
    "kernel": "kernel",
    "adapters": "adapters",
    "tests": "",
    "scripts": "",
    "bench": "",
    "mutation": "",
    "native": "",
}


@frozen(kw_only=True)
class Source:
    """One file of Python. `module` is the name by which it is imported, `path` is relative to the root."""

    path: str
    module: str
    text: str = field(repr=False)
    tree: ast.Module = field(eq=False, repr=False)

    @staticmethod
    def of(text: str, module: str = "loopkernel.example", path: str = "example.py") -> "Source":
        """The source with this text. Raises SyntaxError when it is not a Python."""
        return Source(path=path, module=module, text=text, tree=ast.parse(text, path))

    def at(self, node: ast.AST, problem: str) -> str:
        """The problem, with the file and the line of the node."""
        return f"{self.path}:{getattr(node, 'lineno', 1)}: {problem}"

    def within(self, *packages: str) -> bool:
        """Whether the module is one of the packages, or lies in one."""
        return any(self.module == package or self.module.startswith(f"{package}.") for package in packages)


@cache
def all_sources() -> tuple[Source, ...]:
    """Every Python file of the tree, room by room."""
    return tuple(source for room, base in ROOMS.items() for source in _read(ROOT / room, ROOT / base))


def _read(folder: Path, base: Path) -> Iterator[Source]:
    for path in sorted(folder.rglob("*.py")):
        module = ".".join(path.relative_to(base).with_suffix("").parts).removesuffix(".__init__")
        yield Source.of(path.read_text(encoding="utf-8"), module, str(path.relative_to(ROOT)))


def kernel() -> tuple[Source, ...]:
    """The kernel, its testing room too."""
    return tuple(source for source in all_sources() if source.within("loopkernel"))


def pure_kernel() -> tuple[Source, ...]:
    """The kernel without its testing room, which reads files and runs Hypothesis."""
    return tuple(source for source in kernel() if not source.within("loopkernel.testing"))


def adapters() -> tuple[Source, ...]:
    """The shell."""
    return tuple(source for source in all_sources() if source.within("loopkernel_adapters"))


@frozen
class Import:
    """A module that is imported, wherever in the file; `relative` when it is not named in full."""

    module: str
    node: ast.stmt
    relative: bool = False


@cache
def _modules() -> frozenset[str]:
    return frozenset(source.module for source in all_sources())


def imports(source: Source) -> Iterator[Import]:
    """What the source imports. `from package import module` names the module, not the package."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, node)
        elif isinstance(node, ast.ImportFrom):
            package = node.module or ""
            for alias in node.names:
                inner = f"{package}.{alias.name}"
                yield Import(inner if inner in _modules() else package, node, relative=node.level > 0)


def demand_none(faults: Iterable[str]) -> None:
    """Fail the test with all of the faults, a line each; pass when there is none."""
    told = list(faults)
    if told:
        pytest.fail("\n".join([f"{len(told)} found:", *told]), pytrace=False)


def faults_in(sources: Iterable[Source], check: Callable[[Source], Iterator[str]]) -> Iterator[str]:
    """What the check finds in the sources, in their order."""
    for source in sources:
        yield from check(source)


Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(source: Source) -> Iterator[Function]:
    """Every function of the source, inner ones and methods too."""
    for node in ast.walk(source.tree):
        if isinstance(node, Function):
            yield node


def dotted(node: ast.expr) -> str:
    """The dotted name that the expression is, or "" when it is more than a name."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        owner = dotted(node.value)
        return f"{owner}.{node.attr}" if owner else ""
    return ""

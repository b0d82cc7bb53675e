"""What is mutated, and what judges it: the kernel and its tests, or a small example of the tool's own tests."""

import ast
import json
from fnmatch import fnmatch
from functools import cached_property
from pathlib import Path

from attrs import asdict, define

from mutation.mutants import Mutant, enums_of, mutants_of
from mutation.operators import Enums

ROOT = Path(__file__).resolve().parent.parent


@define(kw_only=True, slots=False)
class Subject:
    """A package below `sources`, seen from the root, of which the files that match `mutated` are mutated."""

    root: Path
    sources: str
    package: str
    mutated: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    tests: tuple[str, ...] = ("tests",)
    marked: str = ""  # of the tests only those with these marks, as pytest's `-m` takes them
    also_read: tuple[str, ...] = ()  # what the tests read besides: a change there makes the record stale
    patience: float = 10.0  # seconds that every test may take, however fast it was before

    @staticmethod
    def described(text: str) -> "Subject":
        """The subject that a text describes, such as `description` gives."""
        told = json.loads(text)
        return Subject(
            root=Path(told["root"]),
            sources=told["sources"],
            package=told["package"],
            mutated=tuple(told["mutated"]),
            left_out=tuple(told["left_out"]),
            tests=tuple(told["tests"]),
            marked=told["marked"],
            also_read=tuple(told["also_read"]),
            patience=told["patience"],
        )

    @property
    def description(self) -> str:
        """The subject as text, for another process."""
        return json.dumps(asdict(self), default=str)

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """The mutated files, relative to the root."""
        folder = self.root / self.sources
        names = sorted(str(path.relative_to(folder)) for path in (folder / self.package).rglob("*.py"))
        return tuple(f"{self.sources}/{name}" for name in names if self._is_mutated(name))

    def _is_mutated(self, name: str) -> bool:
        def lies_in(patterns: tuple[str, ...]) -> bool:
            return any(fnmatch(name, f"{self.package}/{pattern}") for pattern in patterns)

        return lies_in(self.mutated) and not lies_in(self.left_out)

    @cached_property
    def trees(self) -> dict[str, ast.Module]:
        """The mutated files, parsed."""
        return {path: ast.parse(self.text(path), path) for path in self.paths}

    @cached_property
    def enums(self) -> Enums:
        """The members of every enum of the mutated files."""
        return enums_of(iter(self.trees.values()))

    @cached_property
    def mutants(self) -> tuple[Mutant, ...]:
        """Every mutant that the operators make."""
        return tuple(mutant for path, tree in self.trees.items() for mutant in mutants_of(path, tree, self.enums))

    def text(self, path: str) -> str:
        """The text of one of its files."""
        return (self.root / path).read_text(encoding="utf-8")

    def module(self, path: str) -> str:
        """The name by which a file is imported."""
        inside = Path(path).relative_to(self.sources).with_suffix("")
        return ".".join(inside.parts).removesuffix(".__init__")


# Left out: views/causes.py is a table of sentences for people; laws, codec, presets and testing judge or describe
# runs, and have planted bugs, bindings and samples of their own. Of the tests, the architecture reads sources and runs
# none.
KERNEL = Subject(
    root=ROOT,
    sources="kernel",
    package="loopkernel",
    mutated=("*.py", "data/*.py", "loop/*.py", "loop/*/*.py", "views/*.py"),
    left_out=("views/causes.py", "codec/*", "laws/*", "presets/*", "testing/*"),
    tests=("tests/kernel", "tests/specs", "tests/adapters"),
    also_read=("adapters", "constraints", "specs/rules", "specs/scenarios", "tests/conftest.py", "tests/slow.txt"),
)

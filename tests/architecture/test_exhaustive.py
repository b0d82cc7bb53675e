"""Every match in the kernel names all of its arms, and ends in the one that cannot be reached."""

import ast
from collections.abc import Iterator

import pytest

from tests.architecture.sources import Source, demand_none, dotted, faults_in, pure_kernel


def match_faults(source: Source) -> Iterator[str]:
    """Matches that do not end in `assert_never`, and wildcards that swallow arms."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Match):
            *arms, last = node.cases
            if not _ends(last):
                yield source.at(node, "a match without a last arm `case _: assert_never(...)`")
                arms = node.cases
            for arm in arms:
                if any(_takes_all(pattern) for pattern in _alternatives(arm.pattern)):
                    yield source.at(arm.pattern, "a wildcard takes what no arm names: name the arms")


def _alternatives(pattern: ast.pattern) -> list[ast.pattern]:
    return pattern.patterns if isinstance(pattern, ast.MatchOr) else [pattern]


def _takes_all(pattern: ast.pattern) -> bool:
    """Whether the pattern is `_`, or a name, which takes just as much."""
    return isinstance(pattern, ast.MatchAs) and (pattern.pattern is None or _takes_all(pattern.pattern))


def _ends(arm: ast.match_case) -> bool:
    """Whether the arm takes what is left, which must be nothing."""
    match arm.body:
        case [ast.Expr(ast.Call(func))] if arm.guard is None and _takes_all(arm.pattern):
            return dotted(func) == "assert_never"
    return False


def test_every_match_of_the_kernel_is_exhaustive() -> None:
    demand_none(faults_in(pure_kernel(), match_faults))


ARMS = "match x:\n    case A():\n        pass\n"


@pytest.mark.parametrize(
    ("end", "faults"),
    [
        ("    case _:\n        assert_never(x)\n", 0),
        ("    case other:\n        assert_never(other)\n", 0),
        ("", 1),
        ("    case B():\n        assert_never(x)\n", 1),
        ("    case _:\n        pass\n", 2),
        ("    case other:\n        print(other)\n", 2),
        ("    case _ if x:\n        assert_never(x)\n", 2),
        ("    case _ as y if x:\n        pass\n    case _:\n        assert_never(x)\n", 1),
        ("    case B() | _ if x:\n        pass\n    case _:\n        assert_never(x)\n", 1),
    ],
)
def test_a_match_that_is_not_exhaustive_is_found(end: str, faults: int) -> None:
    assert len(list(match_faults(Source.of(ARMS + end)))) == faults

"""A mutant is told by its function and its texts, whatever its line, and just the node that it tells is changed."""

import ast

import pytest

from mutation.mutants import Mutant, mutants_of, mutated, narrowed

TEXT = '''"""An example."""

LIMIT = 3


class Counter:
    size: int = 1

    def grown(self, by: int = 2) -> int:
        """The size."""
        if self.size < LIMIT:
            return self.size + by
        return self.size


def outer(a):
    def inner(b):
        return b == a
    x = 0
    x = 0
    return inner(x)
'''


def of(text: str) -> tuple[Mutant, ...]:
    """The mutants of the text."""
    return mutants_of("example.py", ast.parse(text), {})


def test_the_bodies_of_functions_are_mutated_and_the_constants_of_modules() -> None:
    assert [(mutant.function, mutant.line, mutant.before, mutant.after) for mutant in of(TEXT)] == [
        ("LIMIT", 3, "LIMIT = 3", "LIMIT = 4"),
        ("Counter.grown", 11, "def grown(self, by: int=2) -> int:", "def grown(self, by: int=3) -> int:"),
        ("Counter.grown", 11, "if self.size < LIMIT:", "if True:"),
        ("Counter.grown", 11, "if self.size < LIMIT:", "if False:"),
        ("Counter.grown", 11, "if self.size < LIMIT:", "if self.size <= LIMIT:"),
        ("Counter.grown", 11, "if self.size < LIMIT:", "if self.size >= LIMIT:"),
        ("Counter.grown", 12, "return self.size + by", "return 0"),
        ("Counter.grown", 12, "return self.size + by", "return self.size - by"),
        ("Counter.grown", 13, "return self.size", "return 0"),
        ("outer.inner", 18, "return b == a", "return b != a"),
        ("outer", 19, "x = 0", "x = 1"),
        ("outer", 20, "x = 0", "x = 1"),
    ]


def test_twins_are_told_apart_by_their_order() -> None:
    first, second = (mutant for mutant in of(TEXT) if mutant.before == "x = 0")
    assert (first.occurrence, second.occurrence) == (1, 2)
    assert first.digest != second.digest


def test_a_shift_of_lines_changes_no_name() -> None:
    shifted = of("# one more line\n" + TEXT)
    assert [mutant.digest for mutant in shifted] == [mutant.digest for mutant in of(TEXT)]
    assert [mutant.line for mutant in shifted] == [mutant.line + 1 for mutant in of(TEXT)]


def test_no_two_mutants_have_one_name() -> None:
    assert len({mutant.digest for mutant in of(TEXT)}) == len(of(TEXT))


@pytest.mark.parametrize("mutant", of(TEXT), ids=lambda mutant: f"{mutant.function}-{mutant.number}")
def test_one_change_is_made_and_no_other(mutant: Mutant) -> None:
    before = ast.unparse(ast.parse(TEXT)).splitlines()
    after = ast.unparse(mutated(TEXT, mutant.number, {})).splitlines()
    differing = [(old.strip(), new.strip()) for old, new in zip(before, after, strict=True) if old != new]
    assert differing == [(mutant.before, mutant.after)]


def test_a_change_that_is_not_there_is_refused() -> None:
    with pytest.raises(LookupError):
        mutated(TEXT, len(of(TEXT)), {})


def test_the_tree_is_left_as_it_was() -> None:
    tree = ast.parse(TEXT)
    mutants_of("example.py", tree, {})
    assert ast.unparse(tree) == ast.unparse(ast.parse(TEXT))


def test_a_long_statement_is_told_around_its_change() -> None:
    before, after = narrowed(f"{'a' * 80}1{'b' * 80}", f"{'a' * 80}2{'b' * 80}")
    assert before == f"...{'a' * 50}1{'b' * 50}..."
    assert after == f"...{'a' * 50}2{'b' * 50}..."
    assert narrowed("x = 1", "x = 2") == ("x = 1", "x = 2")

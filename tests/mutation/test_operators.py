"""Each operator makes what it says, and nothing where its mistake would mean nothing."""

import ast

import pytest

from mutation.mutants import enums_of, mutants_of

ENUM = "import enum\n\n\nclass Light(enum.Enum):\n    RED = 1\n    GREEN = 2\n    BLUE = 3\n"


def made(body: str, operator: str, head: str = "def f(a, b, c):") -> list[str]:
    """What stands after each change of that operator in a function with that body."""
    tree = ast.parse(f"{head}\n" + "".join(f"    {line}\n" for line in body.splitlines()))
    enums = enums_of(iter([ast.parse(ENUM)]))
    return [mutant.after for mutant in mutants_of("f.py", tree, enums) if mutant.operator == operator]


@pytest.mark.parametrize(
    ("body", "operator", "expected"),
    [
        ("return a < b", "boundary", ["return a <= b"]),
        ("return a < b", "comparison", ["return a >= b"]),
        ("return a >= b", "boundary", ["return a > b"]),
        ("return a == b", "comparison", ["return a != b"]),
        ("return a is None", "comparison", ["return a is not None"]),
        ("return a in b", "comparison", ["return a not in b"]),
        ("return 0 < a <= b", "boundary", ["return 0 <= a <= b", "return 0 < a < b"]),
        ("if a:\n    b()", "condition always true", ["if True:"]),
        ("if a:\n    b()", "condition never true", ["if False:"]),
        ("x = b if a else c", "condition always true", ["x = b if True else c"]),
        ("x = [b for b in a if b]", "condition never true", ["x = [b for b in a if False]"]),
        ("while a:\n    b()", "condition never true", ["while False:"]),
        ("while a:\n    b()", "condition always true", []),  # it would only never end
        ("x = a and b", "and/or", ["x = a or b"]),
        ("x = a or b or c", "removed operand", ["x = b or c", "x = a or c", "x = a or b"]),
        ("x = not a", "negation", ["x = a"]),
        ("x = -a", "negation", ["x = a"]),
        ("x = a + b", "arithmetic", ["x = a - b"]),
        ("x = a // b", "arithmetic", ["x = a * b"]),
        ("x = a << b", "arithmetic", ["x = a >> b"]),
        ("a += b", "arithmetic", ["a -= b"]),
        ("x = a + 'text'", "arithmetic", []),
        ("x = a + (b, c)", "arithmetic", []),
        ("x = 7", "constant", ["x = 8"]),
        ("x = True", "constant", ["x = False"]),
        ("x = 'text'", "constant", ["x = ''"]),
        ("x = ''", "constant", ["x = 'mutated'"]),
        ("x = None", "constant", []),
        ("raise ValueError('text')", "constant", []),
        ("x = f'text {a}'", "constant", []),
        ("x = Light.RED", "enum member", ["x = Light.GREEN"]),
        ("x = Light.BLUE", "enum member", ["x = Light.RED"]),
        ("x = Light.mixed", "enum member", []),
        ("x = Shade.RED", "enum member", []),
        ("x = min(a, b)", "exchanged call", ["x = max(a, b)"]),
        ("x = all(a)", "exchanged call", ["x = any(a)"]),
        ("x = evolve(a, b=1, c=c)", "dropped keyword", ["x = evolve(a, c=c)", "x = evolve(a, b=1)"]),
        ("x = other(a, b=b)", "dropped keyword", []),
        ("x = (a, *b)", "element", ["x = (*b,)", "x = (a,)"]),
        ("x = [a]", "element", ["x = []"]),
        ("x, y = a, b", "element", []),  # it would only not fit
        ("x = a[1:]", "slice", ["x = a[:]"]),
        ("x = a[:b]", "slice", ["x = a[:]"]),
        ("a.append(b)", "removed call", ["pass"]),
        ("for b in a:\n    break", "loop", ["continue"]),
        ("for b in a:\n    continue", "loop", ["break"]),
        ("x = isinstance(a, Say | Ask)", "alternative", ["x = isinstance(a, Say)", "x = isinstance(a, Ask)"]),
        ("match a:\n    case Say() | Ask():\n        b()", "alternative", ["case Ask():", "case Say():"]),
        ("match a:\n    case Say() if b:\n        c()", "condition always true", ["case Say() if True:"]),
        ("match a:\n    case Light.RED:\n        b()", "enum member", ["case Light.GREEN:"]),
    ],
)
def test_an_operator_makes_what_it_says(body: str, operator: str, expected: list[str]) -> None:
    assert made(body, operator) == expected


@pytest.mark.parametrize(
    ("returns", "operator", "expected"),
    [
        ("str", "empty result", ["return ''"]),
        ("int", "empty result", ["return 0"]),
        ("Light | None", "empty result", ["return None"]),
        ("tuple[int, ...]", "empty result", ["return ()"]),
        ("frozenset[int]", "empty result", ["return frozenset()"]),
        ("tuple[int, str]", "empty result", []),
        ("Light", "empty result", []),
        ("bool", "negation", ["return not g(a)"]),
    ],
)
def test_a_result_becomes_an_empty_one_of_its_kind(returns: str, operator: str, expected: list[str]) -> None:
    assert made("return g(a)", operator, f"def f(a) -> {returns}:") == expected


def test_what_is_only_for_readers_and_for_the_type_checker_is_left_alone() -> None:
    body = "'''A docstring: 1 < 2.'''\nassert a < 1\nx: Literal[1]\nmatch a:\n    case _:\n        assert_never(1)"
    assert (
        list(
            mutants_of(
                "f.py", ast.parse("def f(a: Literal[1]) -> Literal[2]:\n    " + body.replace("\n", "\n    ")), {}
            )
        )
        == []
    )

"""Lists the tests and scenarios that hold a rule, a clause or a law: python -m scripts.held_by TOOL-8.

Tests cite rules by `pytest.mark.rule(...)`, scenarios under `rules`. A rule stands for its clauses too. Exits 1 when
nothing cites it.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent


def holders(wanted: str, root: Path = ROOT) -> Iterator[str]:
    """The places that cite it: tests as pytest names them, scenarios as file and id."""
    for path in sorted((root / "tests").rglob("test_*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        yield from (f"{path.relative_to(root)}{place}" for place in _citing(tree, wanted, ""))
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the compiled one reads ten times as fast
    for path in sorted((root / "specs" / "scenarios").rglob("*.yaml")):
        for document in yaml.load_all(path.read_text(encoding="utf-8"), loader):
            if any(_is_about(cited, wanted) for cited in document.get("rules", ())):
                yield f"{path.relative_to(root)}: {document['scenario']}"


def _citing(body: ast.Module | ast.ClassDef, wanted: str, within: str) -> Iterator[str]:
    for node in body.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{within}::{node.name}"
            if any(_cites(decorator, wanted) for decorator in node.decorator_list):
                yield name
            if isinstance(node, ast.ClassDef):
                yield from _citing(node, wanted, name)
        elif _cites(node, wanted):
            yield within or " (all of it)"


def _cites(node: ast.AST, wanted: str) -> bool:
    """Whether a mark of the rule stands anywhere within."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Call) and ast.unparse(inner.func) == "pytest.mark.rule":
            texts = (argument.value for argument in inner.args if isinstance(argument, ast.Constant))
            if any(_is_about(cited, wanted) for cited in texts):
                return True
    return False


def _is_about(cited: object, wanted: str) -> bool:
    return isinstance(cited, str) and (cited == wanted or cited.startswith(f"{wanted}."))


def main(arguments: list[str]) -> int:
    """Print the places; the exit status."""
    if len(arguments) != 1:
        print("usage: python -m scripts.held_by RULE, as in: python -m scripts.held_by TOOL-8", file=sys.stderr)
        return 2
    found = list(holders(arguments[0]))
    print("\n".join(found) or f"nothing cites {arguments[0]}")
    return 0 if found else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Prints docs/reference/policy.md: each option of a policy, with its type, bounds, default, an example and who sets it.

    python -m scripts.policy_reference > docs/reference/policy.md

All of it is read from the kernel: what an option decides, an example and its rule stand below the option, in
`loopkernel/data/policy.py`. A test compares the page with what this prints.
"""

import ast
import enum
import json
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args, get_type_hints

import attrs
from attrs import frozen
from loopkernel.data.errors import PolicyError
from loopkernel.policy import PRESETS, Policy

from scripts.wire_reference import holds, left_out, part_of

# Any, here and below: options and their values are looked at as values, whatever their types.

SECTIONS = {
    "STATE": "The run",
    "LIMIT": "Limits",
    "TOOL": "Calls",
    "CALL": "Calls",
    "ASK": "People",
    "INPUT": "People",
    "INFER": "Requests and replies",
    "RETRY": "Failures",
    "COMPACT": "Context",
    "HOOK": "Hooks, sub-agents, restarts",
    "CHILD": "Hooks, sub-agents, restarts",
    "RESUME": "Hooks, sub-agents, restarts",
}
UNITS = {"ms": "milliseconds", "tokens": "tokens", "chars": "characters", "usd": "US dollars"}
SAID = re.compile(r"(?P<decides>.*?)(; such as `(?P<example>.*)`)? \((?P<rule>(?P<chapter>[A-Z]+)-\d+)\)\.")
BOUND = re.compile(r"must be (?:a finite number of )?(at (?:least|most) \d+), and is")
FAR = 10**12  # beyond any bound, either way
WIRE_PAGE = "../../specs/wire.md"
DEFINITIONS = Path(__file__).resolve().parent.parent / "kernel" / "loopkernel" / "data" / "policy.py"
SOURCE = ast.parse(DEFINITIONS.read_text(encoding="utf-8"))  # of the tree: a compiled module has none

HEAD = """# Policy, option by option

A policy is data: a `Policy` in Python, a JSON file for `--policy` (`loopkernel policy show PRESET` prints one, and
`loopkernel policy check FILE` judges it), the same names in scenarios. What is left out has its default. `null` (in
Python `None`) means that there is no such limit, step or feature. An option with a dot lies in a part of its own:
`retry.base_ms` is `Policy(retry=Retry(base_ms=...))`, and `retry=None` leaves the whole part away.

Values are shown as in a file; examples as in Python. Each rule stands in [the specification](../../specs/README.md),
each figure of a preset, with its reason, on [the preset's page](../../specs/presets/README.md), and each type that is
not a number or a word on [the page of types](../../specs/wire.md). What does not fit is refused where it is built, with
the list of what would.
"""


@frozen
class Option:
    """An option, or a part of a policy, with what is said below it where it is defined."""

    name: str
    home: type
    field: "attrs.Attribute[Any]"
    hint: Any
    decides: str
    example: str | None
    rule: str
    section: str

    @property
    def part(self) -> type | None:
        """The class of a part."""
        return part_of(self.hint)

    @property
    def words(self) -> list[str]:
        """The words of a closed set."""
        closed = isinstance(self.hint, type) and issubclass(self.hint, enum.Enum)
        return [member.value for member in self.hint] if closed else []

    def holds(self) -> str:
        """Which values it may have: words, or a type with its unit and its bounds."""
        if self.words:
            return " · ".join(f'`"{word}"`' for word in self.words)
        told = f"its options{' or null' if get_args(self.hint) else ''}" if self.part else holds(self.hint)
        unit = UNITS.get(self.field.name.rpartition("_")[2])
        return ", ".join([told.replace("(#", f"({WIRE_PAGE}#"), *filter(None, [unit]), *self.bounds()])

    def bounds(self) -> list[str]:
        """What is said of a number that is far too small, and of one that is far too large."""
        if not {int, float} & {self.hint, *get_args(self.hint)}:
            return []
        told: list[str] = []
        for number in (-FAR, FAR):
            try:
                self.home(**{self.field.name: (number,) if isinstance(self.field.default, tuple) else number})
            except PolicyError as error:
                told += [found[1] for fault in error.faults if (found := BOUND.match(fault.problem))]
        return told

    def shown_example(self) -> str:
        """A value in Python: for words and truths, one that is not the default."""
        if self.example is not None:
            return f"`{self.example}`"
        default: object = self.field.default
        others = [word for word in self.words if word != getattr(default, "value", None)]
        return f'`"{others[0]}"`' if others else f"`{not default}`"

    def value_in(self, policy: Policy) -> object:
        """What the policy says; None where it leaves the part away."""
        value: object = policy
        for name in self.name.split("."):
            value = getattr(value, name, None)
        return value

    def set_by(self) -> str:
        """Which presets say something else than the default policy."""
        said = {preset: self.value_in(policy) for preset, policy in PRESETS.items()}
        return ", ".join(f"{name}: {shown(value)}" for name, value in said.items() if value != self.value_in(Policy()))


def main() -> None:
    """Print the page."""
    print("\n".join(lines()))


def lines() -> Iterator[str]:
    """The lines of the page."""
    yield HEAD
    told = options()
    for title in dict.fromkeys(SECTIONS.values()):
        yield f"## {title}\n"
        yield "| option | what it decides | holds | default | example | set by | rule |"
        yield "|---|---|---|---|---|---|---|"
        for option in told:
            if option.section == title:
                of_its_own = ("", "") if option.part else (option.shown_example(), option.set_by())
                default = left_out(option.home, option.field)
                cells = [option.decides, option.holds(), default, *of_its_own, option.rule]
                yield f"| `{option.name}` | {' | '.join(cells)} |"
        yield ""


def options() -> list[Option]:
    """Each option of a policy in its order; behind a part, the options of it."""
    found: list[Option] = []
    for option in _options_of(Policy):
        found.append(option)
        if option.part is not None:
            found += _options_of(option.part, option)
    return found


def _options_of(home: type, part: Option | None = None) -> Iterator[Option]:
    said, hints = _said_below(home), get_type_hints(home)
    for field in attrs.fields(home):
        name = f"{part.name}.{field.name}" if part else field.name
        told = SAID.fullmatch(said.get(field.name, ""))
        if told is None:
            raise ValueError(f"{name}: say below it what it decides, an example and its rule, as the others do")
        yield Option(
            name=name,
            home=home,
            field=field,
            hint=hints[field.name],
            decides=f"{told['decides']}.",
            example=told["example"],
            rule=told["rule"],
            section=part.section if part else SECTIONS[told["chapter"]],
        )


def _said_below(home: type) -> dict[str, str]:
    """The text below each field of a class, on one line."""
    (body,) = (node.body for node in SOURCE.body if isinstance(node, ast.ClassDef) and node.name == home.__name__)
    texts: dict[str, str] = {}
    for field, below in pairwise(body):
        match field, below:
            case ast.AnnAssign(target=ast.Name(name)), ast.Expr(value=ast.Constant(str(text))):
                texts[name] = " ".join(text.split())
            case _:
                pass
    return texts


def shown(value: object) -> str:
    """A value as a file has it."""
    match value:
        case None:
            return "`null`"
        case enum.Enum():
            return f'`"{value.value}"`'
        case tuple():
            return f"`[{', '.join(shown(each).strip('`') for each in value)}]`"
        case _:
            return f"`{json.dumps(value)}`"


if __name__ == "__main__":
    main()

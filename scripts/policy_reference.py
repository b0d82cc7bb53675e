"""Prints docs/reference/policy.md: each option of a policy, with its type, bounds, default, an example and who sets it.

    python -m scripts.policy_reference > docs/reference/policy.md

It is read from the kernel: what an option decides, an example and its rule stand below the option in
`loopkernel/data/policy.py`. A test compares the page with what this prints.
"""

import ast
import enum
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args, get_type_hints

import attrs
from attrs import frozen
from loopkernel.data.errors import PolicyError
from loopkernel.policy import PRESETS, Policy

from scripts.wire_reference import holds, left_out, part_of, written

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
SOURCE = ast.parse(DEFINITIONS.read_text(encoding="utf-8"))  # from the tree, since a compiled module has no source

HEAD = """# Policy, option by option

A policy is data: a `Policy` in Python, or a JSON file for `--policy`. `loopkernel policy show PRESET` prints such a
file, and `loopkernel policy check FILE` checks one. [Scenarios](../../specs/scenarios/README.md#policy) use the same
names. An option that is left out has its default. `null` (in Python `None`) means that there is no such limit, step or
feature.

An option with a dot belongs to a part: `retry.base_ms` is `Policy(retry=Retry(base_ms=...))`. A part that is `{}` has
all its defaults; one that is `null`, as with `retry=None`, is left out as a whole. The Python names are in
`loopkernel.policy`.

Defaults and the values of presets are shown as in a file, examples as in Python. **set by** lists the presets whose
value is not the default; [the page of each preset](../../specs/presets/README.md) gives its reasons. The
[glossary](../../specs/glossary.md) explains the terms, and each rule is on the page of its
[topic](../../specs/README.md#topics). A policy that breaks a bound, or whose options
[do not fit together](../../specs/codec.md#bounds-of-a-policy), is refused when it is built, and each fault is named.
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
        """The words that it may be; empty where it is not one of a set of words."""
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
        """A value in Python; where none is said, as for words and booleans, one that is not the default."""
        if self.example is not None:
            return f"`{self.example}`"
        default: object = self.field.default
        others = [word for word in self.words if word != getattr(default, "value", None)]
        return f'`"{others[0]}"`' if others else f"`{not default}`"

    def home_in(self, policy: Policy) -> object:
        """The policy, or the part of it that has the option; None where that is left out."""
        part, dot, _ = self.name.partition(".")
        return getattr(policy, part) if dot else policy

    def value_in(self, policy: Policy) -> object:
        """What the policy says; None where it leaves the part out."""
        return getattr(self.home_in(policy), self.field.name, None)

    def set_by(self) -> str:
        """Which presets differ from the default; a part only by being there or not, since its options follow."""
        default: object = self.field.default
        told: list[str] = []
        for preset, policy in PRESETS.items():
            value = self.value_in(policy)
            differs = (value is None) != (default is None) if self.part else value != default
            if differs and self.home_in(policy) is not None:
                told.append(f"{preset}: {written(self.hint, value)}")
        return ", ".join(told)


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
                default, example = left_out(option.home, option.field), "" if option.part else option.shown_example()
                cells = [option.decides, option.holds(), default, example, option.set_by(), option.rule]
                yield f"| `{option.name}` | {' | '.join(cells)} |"
        yield ""


def options() -> list[Option]:
    """Each option of a policy, in order; each part is followed by its own options."""
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


if __name__ == "__main__":
    main()

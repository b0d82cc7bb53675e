"""Prints specs/wire.md: every type that can stand in a document, with its fields, read from the types of the kernel.

    python -m scripts.wire_reference > specs/wire.md

A test compares the page with what this prints.
"""

import enum
import inspect
import pkgutil
import sys
from collections.abc import Iterable, Iterator
from importlib import import_module
from types import ModuleType
from typing import Any, Literal, NewType, Union, get_args, get_origin, get_type_hints

import attrs
from attrs import NOTHING, define, frozen
from loopkernel import codec, data
from loopkernel.codec.records import TAG, Field
from loopkernel.codec.structure import DERIVED, Codec
from loopkernel.codec.unions import tag_of
from loopkernel.data.effects import Effect
from loopkernel.data.json_text import Json, canonical_text
from loopkernel.data.policy import ApprovalRule, Hook, Policy
from loopkernel.data.records import LogRecord
from loopkernel.data.states import State
from loopkernel.data.vector import GrowingSet, Vector
from loopkernel.data.words import ErrorClass

# Any, here and below: types are looked at as values, which typing has no name for.

ROOTS: tuple[tuple[str, Any], ...] = (
    ("a record of a log", LogRecord),
    (f"a document of kind `state`, version {codec.STATE_VERSION}", State),
    (f"a document of kind `policy`, version {codec.POLICY_VERSION}", Policy),
    ("an effect, for comparing runs", Effect),
)
_UNIONS = (Union, get_origin(int | str))
_SIMPLE = {
    bool: "`true` or `false`",
    int: "integer",
    float: "number",
    str: "text",
    Json: "any JSON",
    type(None): "null",
}

# The options of a policy have a page of their own. That page leads here for these types, which some options hold.
HELD_BY_OPTIONS = (ApprovalRule, Hook, ErrorClass)
POLICY_PAGE = "../docs/reference/policy.md"

HEAD = f"""# The types of the wire form

Every type that can stand in a document, with the key, the content and the default of each field. The options of a
policy, with their parts and words, have [a page of their own]({POLICY_PAGE}).

This page is for those who write a reader or a writer; [codec.md](codec.md) says how types become JSON. It is printed
from the code by `python -m scripts.wire_reference`, and a test compares the two.

- **holds** says what may stand under the key; a link is a type of this page. **left out** is the value that is not
  written, and that a missing key stands for; "never" marks a key that is always written.
- Where several types may stand in a place, each begins with its tag, under the key `"{TAG}"`. Where only one type, or
  that type or null, may stand, it has no tag.
- Where any JSON may stand beside something else, it is written as `{{"json": ...}}`.
- A set is a list in ascending order. An integer with a name in brackets is an id of that kind.
"""


@frozen
class _Named:
    """A union that has a name: the module that defines it, and its classes."""

    name: str
    module: str
    members: tuple[type, ...]


@define
class _Reference:
    """Collects the types that the roots lead to."""

    unions: dict[frozenset[type], _Named]
    classes: dict[str, type]
    used: dict[str, _Named]

    def words(self, of_type: Any) -> str:
        """What a place of this type holds."""
        origin = get_origin(of_type) or of_type
        arguments = get_args(of_type)
        if isinstance(of_type, NewType):
            return f"{self.words(of_type.__supertype__)} ({of_type.__name__})"
        if of_type in _SIMPLE:
            return _SIMPLE[of_type]
        if origin is Literal:
            return " or ".join(f"`{canonical_text(value)}`" for value in arguments)
        if origin in _UNIONS:
            return self._union(arguments)
        if origin is tuple and not (len(arguments) == 2 and arguments[1] is Ellipsis):
            return f"list of {len(arguments)}: {', '.join(map(self.words, arguments))}"
        if origin in (tuple, Vector):
            return f"list of {self.words(arguments[0])}"
        if origin is GrowingSet:
            return f"set of {self.words(arguments[0])}"
        return self._link(of_type)

    def _union(self, members: tuple[Any, ...]) -> str:
        classes = tuple(member for member in members if _is_record(member))
        plain = [member for member in members if not _is_record(member) and member not in (Json, type(None))]
        parts = [self._classes(classes)] if classes else []
        parts += [self.words(member) for member in plain if not (member is int and float in plain)]
        parts += ['`{"json": ...}`'] * (Json in members) + ["null"] * (type(None) in members)
        return " or ".join(parts)

    def _classes(self, classes: tuple[type, ...]) -> str:
        if len(classes) == 1:
            return self._link(classes[0])
        for each in classes:
            self._link(each)
        named = self.unions.get(frozenset(classes))
        if named is None:
            return " or ".join(self._link(each) for each in classes)
        self.used[named.name] = named
        return f"[{named.name}](#{named.name.lower()})"

    def _link(self, of_type: type) -> str:
        name = of_type.__name__
        if name not in self.classes:
            self.classes[name] = of_type
            if of_type is Policy:
                for each in HELD_BY_OPTIONS:
                    self._link(each)
            elif _is_record(of_type):
                for field in _fields(of_type):
                    self.words(_type_of(of_type, field))
        return f"[{name}](#{name.lower()})"

    def section(self, of_type: type) -> Iterator[str]:
        """A class or an enum, with what it says of itself."""
        yield f"### {of_type.__name__}\n"
        yield f"{_paragraph(of_type)}\n"
        if issubclass(of_type, enum.Enum):
            yield f"One of: {', '.join(f'`{canonical_text(member.value)}`' for member in of_type)}.\n"
            return
        yield f"Tag, where it stands beside others: `{tag_of(of_type)}`.\n"
        if of_type is Policy:
            held = ", ".join(self._link(each) for each in HELD_BY_OPTIONS)
            yield f"Its keys are [the options of a policy]({POLICY_PAGE}). Some hold types of this page: {held}.\n"
            return
        fields = _fields(of_type)
        if not fields:
            yield "No keys.\n"
            return
        rows = [
            f"| `{field.alias}` | {self.words(_type_of(of_type, field))} | {left_out(of_type, field)} |"
            for field in fields
        ]
        yield "\n".join(["| key | holds | left out |", "|---|---|---|", *rows]) + "\n"

    def union(self, named: _Named) -> str:
        """A union, member by member."""
        members = ", ".join(f"[{each.__name__}](#{each.__name__.lower()})" for each in named.members)
        return f"### {named.name}\n\nOne of, each with its tag: {members}.\n"


def _is_record(of_type: Any) -> bool:
    return isinstance(of_type, type) and attrs.has(of_type) and of_type not in (Json, Vector, GrowingSet)


def _fields(cls: type) -> tuple["attrs.Attribute[Any]", ...]:
    """The fields that are written down."""
    return tuple(field for field in attrs.fields(cls) if field.init and not field.metadata.get(DERIVED))


def _type_of(cls: type, field: "attrs.Attribute[Any]") -> Any:
    return get_type_hints(cls)[field.name]


def left_out(cls: type, field: "attrs.Attribute[Any]") -> str:
    """The value that is left out, as it would be written."""
    of_type = _type_of(cls, field)
    plan: Codec[Any] = Codec.of(of_type)
    default = Field(attribute=field, shape=plan._shape).default()  # the codec's own answer
    return "never" if default is NOTHING else written(of_type, default)


def written(of_type: Any, value: object) -> str:
    """A value of this type as it stands in a document."""
    plan: Codec[Any] = Codec.of(of_type)
    return f"`{canonical_text(plan.encode(value))}`"


def part_of(hint: Any) -> type | None:
    """The class of the part of a policy that an option of this type is; None where it is not a part."""
    members = get_args(hint) if get_origin(hint) in _UNIONS else (hint,)
    return next((each for each in members if _is_record(each)), None)


def holds(of_type: Any) -> str:
    """What a place of this type holds."""
    return _Reference(_named_unions(_modules()), {}, {}).words(of_type)


def _paragraph(of_type: type) -> str:
    return " ".join((inspect.getdoc(of_type) or "").split())


def _modules() -> tuple[ModuleType, ...]:
    names = sorted(found.name for found in pkgutil.iter_modules(data.__path__))
    return tuple(import_module(f"{data.__name__}.{name}") for name in names)


def _named_unions(modules: Iterable[ModuleType]) -> dict[frozenset[type], _Named]:
    """The unions that modules of data name, by their classes; of several names, one beside a member counts first."""
    found: dict[frozenset[type], _Named] = {}
    for module in modules:
        for name, value in vars(module).items():
            members = get_args(value) if get_origin(value) in _UNIONS else ()
            if len(members) > 1 and all(map(_is_record, members)) and not name.startswith("_"):
                homes = {member.__module__ for member in members}
                known = found.get(frozenset(members))
                if known is None or (known.module not in homes and module.__name__ in homes):
                    found[frozenset(members)] = _Named(name, module.__name__, members)
    return found


def wire_page() -> str:
    """The whole page."""
    modules = _modules()
    reference = _Reference(_named_unions(modules), {}, {})
    rows = [f"| {what} | {reference.words(of_type)} |" for what, of_type in ROOTS]
    parts = [HEAD, "\n".join(["| document | holds |", "|---|---|", *rows]) + "\n"]
    for module in modules:
        classes = [each for each in reference.classes.values() if each.__module__ == module.__name__]
        unions = [named for named in reference.used.values() if named.module == module.__name__]
        if not classes and not unions:
            continue
        parts.append(f"## {module.__name__.rpartition('.')[2]}\n")
        parts += [reference.union(named) for named in sorted(unions, key=lambda named: named.name)]
        for each in sorted(classes, key=lambda each: each.__name__):
            parts += reference.section(each)
    return "\n".join(parts).rstrip() + "\n"


if __name__ == "__main__":
    sys.stdout.write(wire_page())

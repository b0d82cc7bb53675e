"""Prints specs/public-names.txt: every public name, with its signature, as of a release.

    python -m scripts.public_names > specs/public-names.txt

Print it anew when a release is made. Until then a test demands a line in CHANGELOG.md for each name that differs.
"""

import enum
import inspect
import re
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from types import FunctionType, ModuleType
from typing import NewType, get_args

import loopkernel

PACKAGES = (
    "loopkernel",
    "loopkernel.states",
    "loopkernel.deltas",
    "loopkernel.effects",
    "loopkernel.events",
    "loopkernel.policy",
    "loopkernel.tools",
    "loopkernel.messages",
    "loopkernel.codec",
    "loopkernel.laws",
    "loopkernel.judging",
    "loopkernel.testing",
    "loopkernel_adapters",
    "loopkernel_adapters.server",
    "loopkernel_adapters.temporal",
    "loopkernel_adapters.testing",
    "loopkernel_adapters.transcripts",
)
_STARS = {inspect._ParameterKind.VAR_POSITIONAL: "*", inspect._ParameterKind.VAR_KEYWORD: "**"}
_PLACE = re.compile(r"\b(?:[A-Za-z_]+\.)+(?=[A-Za-z_])")  # where a type is defined is nobody's business


def public_names(package: str) -> dict[str, object]:
    """What the package offers."""
    module = import_module(package)
    return {name: getattr(module, name) for name in sorted(module.__all__)}


def lines_of(package: str, told: dict[int, str]) -> Iterator[str]:
    """A line for each public name of the package, and one for each public method of a class that has some.

    `told` has the place at which a value was told before, and is kept up.
    """
    for name, value in public_names(package).items():
        place = f"{package}.{name}"
        if (inspect.isclass(value) or inspect.isfunction(value)) and id(value) in told:
            yield f"{place} is {told[id(value)]}"
            continue
        told[id(value)] = place
        yield f"{place}{_told(name, value)}"
        if inspect.isclass(value) and value.__module__.startswith("loopkernel"):
            yield from (f"{place}.{method}" for method in _methods(value))


def _told(name: str, value: object) -> str:
    """The signature of what can be called, the members of a union or an enum, the type of a constant."""
    if isinstance(value, ModuleType):
        return ""
    if isinstance(value, NewType):
        return f" is {value.__supertype__.__name__} as a type of its own"
    if inspect.isclass(value) and issubclass(value, Exception):
        return " is an exception"
    if inspect.isclass(value) and issubclass(value, enum.Enum):
        return f" is one of {', '.join(repr(word.value) for word in value)}"
    if get_args(value):
        return f" is {_plain(' | '.join(map(_type_name, get_args(value))), but=name)}"
    return _signature(value) if callable(value) else f" is of type {type(value).__name__}"


def _signature(value: object) -> str:
    found = inspect.signature(value)  # type: ignore[arg-type]  # whether it can be called was looked at
    parts: list[str] = []
    for parameter in found.parameters.values():
        kind = "" if parameter.annotation is parameter.empty else f": {_plain(_type_name(parameter.annotation))}"
        given = "" if parameter.default is parameter.empty else " = ..."
        star = _STARS.get(parameter.kind, "")
        if parameter.kind is parameter.KEYWORD_ONLY and not any(part.startswith("*") for part in parts):
            parts.append("*")
        parts.append(f"{star}{parameter.name}{kind}{given}")
    gives = found.return_annotation
    told = "" if inspect.isclass(value) or gives is found.empty else f" -> {_plain(_type_name(gives))}"
    return f"({', '.join(parts)}){told}"


def _type_name(annotation: object) -> str:
    return annotation.__name__ if isinstance(annotation, type) and not get_args(annotation) else str(annotation)


@cache
def _aliases() -> tuple[tuple[str, str], ...]:
    """The long unions that have a public name, the longest first."""
    found = {name: get_args(value) for package in PACKAGES for name, value in public_names(package).items()}
    unions = {name: " | ".join(map(_type_name, members)) for name, members in found.items() if len(members) > 2}
    plain = {name: _PLACE.sub("", union) for name, union in unions.items()}
    return tuple(sorted(plain.items(), key=lambda item: -len(item[1])))


def _plain(text: str, but: str = "") -> str:
    text = _PLACE.sub("", text).replace("NoneType", "None")
    for name, union in _aliases():
        if name != but:
            text = text.replace(union, name)
    return text


def _methods(cls: type) -> Iterator[str]:
    for name, member in sorted(vars(cls).items()):
        if not name.startswith("_") and isinstance(member, property | staticmethod | FunctionType):
            called = member.__func__ if isinstance(member, staticmethod) else member
            yield f"{name}{'' if isinstance(called, property) else _signature(called)}"


def page() -> str:
    """The whole of it."""
    told: dict[int, str] = {}
    lines = [line for package in PACKAGES for line in lines_of(package, told)]
    return "\n".join([f"# the public names of loopkernel {loopkernel.__version__}", *lines, ""])


if __name__ == "__main__":
    sys.stdout.write(page())

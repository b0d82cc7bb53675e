"""What the modules of the kernel hold from step to step: nothing that could be changed."""

import enum
import functools
import inspect
import pkgutil
import re
import types
import typing
from collections.abc import Iterator
from importlib import import_module

import attrs
import loopkernel
import pytest

# The values of a module that can be changed, though nobody does.
NEVER_CHANGED = {
    "loopkernel.data.json_text._DECODER": "holds options alone",
    "loopkernel.data.json_text._ENCODER": "holds options alone",
}
IMPLIED = ("_field_defaults",)  # of every named tuple

VALUES = (type(None), bool, int, float, str, bytes, enum.Enum, re.Pattern)
CODE = (
    types.ModuleType,
    types.FunctionType,
    types.BuiltinFunctionType,
    type,
    functools.partial,
    typing.NewType,
    typing.TypeVar,
)


def changeable(value: object) -> bool:
    """Whether a value of a module, or a part of it, could be changed by the kernel's own functions."""
    if isinstance(value, VALUES + CODE) or _is_typing(value):
        return False
    if isinstance(value, tuple | frozenset):
        return any(map(changeable, value))
    if isinstance(value, types.MappingProxyType):
        return any(map(changeable, value.values()))
    if isinstance(value, functools._lru_cache_wrapper):
        return len(inspect.signature(value).parameters) > 0  # without any it is a constant, made when first asked for
    kind: type = type(value)
    if attrs.has(kind) and is_frozen(kind):
        return any(changeable(getattr(value, field.name)) for field in attrs.fields(kind))
    return True


def is_frozen(cls: type) -> bool:
    """Whether attrs refuses to set the fields of the class."""
    return bool(getattr(cls.__setattr__, "__name__", "") == "_frozen_setattrs")


def _is_typing(value: object) -> bool:
    """Whether the value is a type of a kind that is not a class: a union, an alias, a special form."""
    return isinstance(value, types.UnionType | types.GenericAlias) or type(value).__module__ == "typing"


def held_faults(module: types.ModuleType) -> Iterator[str]:
    """What the module, or a class of it, holds and could be changed."""
    name = module.__name__
    for key, value in vars(module).items():
        if not key.startswith("__") and f"{name}.{key}" not in NEVER_CHANGED and changeable(value):
            yield f"{name}.{key} is a {type(value).__name__}, which can be changed"
        if isinstance(value, type) and value.__module__ == name:
            for part in _changeable_parts(value):
                yield f"{name}.{key}.{part} can be changed"


def _changeable_parts(cls: type) -> Iterator[str]:
    """The names under which a class itself, not its instances, holds a collection that can be changed."""
    if not issubclass(cls, enum.Enum):
        for part, value in vars(cls).items():
            if not part.startswith("__") and part not in IMPLIED and isinstance(value, list | dict | set | bytearray):
                yield part


def modules_of_the_kernel() -> Iterator[types.ModuleType]:
    """Every module of the pure kernel."""
    yield loopkernel
    for found in pkgutil.walk_packages(loopkernel.__path__, "loopkernel."):
        if not found.name.startswith("loopkernel.testing"):
            yield import_module(found.name)


# --- the tree keeps the rule ----------------------------------------------------------------------------


def test_no_module_of_the_kernel_holds_what_can_be_changed() -> None:
    assert [fault for module in modules_of_the_kernel() for fault in held_faults(module)] == []


# --- and the check can fail -----------------------------------------------------------------------------


class Mutable:
    """Anything with fields that can be set."""


@attrs.frozen
class Holder:
    """Frozen, but holds what is not."""

    held: object


def grows(x: int) -> int:
    """Stands for a function that is remembered."""
    return x


@pytest.mark.parametrize(
    "value",
    [
        [],
        {},
        set(),
        bytearray(),
        (1, []),
        Holder([]),
        types.MappingProxyType({1: []}),
        Mutable(),
        functools.cache(grows),
    ],
)
def test_what_can_be_changed_is_found(value: object) -> None:
    module = types.ModuleType("example")
    module.value = value  # type: ignore[attr-defined]  # a module takes any name
    assert len(list(held_faults(module))) == 1


def test_what_a_class_holds_is_looked_at() -> None:
    module = types.ModuleType("example")
    module.A = type("A", (), {"__module__": "example", "memory": {}})  # type: ignore[attr-defined]  # as above
    assert len(list(held_faults(module))) == 1


@pytest.mark.parametrize("value", [1, "a", (1, ("b",)), frozenset((1,)), Holder(1), int | None, grows, Mutable])
def test_what_cannot_be_changed_is_no_fault(value: object) -> None:
    assert not changeable(value)

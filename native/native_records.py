"""What native classes share: the fields that attrs would tell of them, and the checks that are seldom needed."""

import sys
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NewType, TypeVar, get_args, get_origin, get_type_hints

import attrs
from attrs import NOTHING as NOTHING
from attrs import Attribute, Factory

T = TypeVar("T")
Transformer = Callable[[type, list["Attribute[Any]"]], list["Attribute[Any]"]]
Table = tuple["Attribute[Any]", ...]


# Any, in this file: fields of all types, looked at as values.
class _Fields:
    """The fields of a class, as `attrs.fields` gives them. They are made when somebody asks: most runs never do."""

    def __init__(self, cls: Any, transformer: Transformer | None, told: str) -> None:
        self._cls = cls
        self._transformer = transformer
        self._told = told
        self._made: Table | None = None

    @property
    def _all(self) -> Table:
        if self._made is None:
            self._made = self._make()
        return self._made

    def _make(self) -> Table:
        cls = self._cls
        hints = get_type_hints(cls)
        told = eval(self._told, vars(sys.modules[cls.__module__]) | _TELLING)
        own = [each.evolve(type=hints[each.name]) for each in told]
        inherited = [each.evolve(inherited=True) for each in getattr(cls.__mro__[1], "__attrs_attrs__", ())]
        fields = [*inherited, *own]
        return tuple(fields if self._transformer is None else self._transformer(cls, fields))

    def __iter__(self) -> Iterator["Attribute[Any]"]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def __getitem__(self, place: int) -> "Attribute[Any]":
        return self._all[place]

    def __getattr__(self, name: str) -> "Attribute[Any]":
        for each in () if name.startswith("_") else self._all:
            if each.name == name:
                return each
        raise AttributeError(name)


def field(
    name: str,
    *,
    default: Any,
    init: bool,
    repr: bool,
    eq: bool,
    kw_only: bool,
    metadata: Any = None,
    converter: Any = None,
    validator: Any = None,
) -> "Attribute[Any]":
    """A field as attrs tells it."""
    return Attribute(  # type: ignore[call-arg]  # its constructor is typed for reading alone
        name=name,
        default=default,
        validator=validator,
        repr=repr,
        cmp=None,
        hash=None,
        init=init,
        inherited=False,
        metadata=metadata,
        type=None,
        converter=converter,
        kw_only=kw_only,
        eq=eq,
        eq_key=None,
        order=False,
        order_key=None,
        on_setattr=None,
        alias=name.lstrip("_"),
    )


def by_self(method: Callable[[Any], Any]) -> Any:
    """The default that a method gives."""
    return Factory(method, takes_self=True)


_TELLING = {"field": field, "by_self": by_self, "NOTHING": NOTHING}


def register(cls: Any, transformer: Transformer | None, types: str, told: str) -> None:
    """Tell the fields of a native class, and their types, as attrs and `typing` ask for them."""
    cls.__annotations__ = dict(line.split(": ", 1) for line in types.splitlines())
    cls.__attrs_attrs__ = _Fields(cls, transformer, told)


def classes_in(of_type: Any) -> set[type]:
    """The classes of which a value of the type may be, exactly; for a tuple of any length: an item of it.

    Of a union that has a tuple in it, the other members.
    """
    while isinstance(of_type, NewType):
        of_type = of_type.__supertype__
    members = get_args(of_type)
    if get_origin(of_type) is tuple:
        return classes_in(members[0])
    if members:
        return {kind for member in members if get_origin(member) is not tuple for kind in classes_in(member)}
    return {of_type}


def converted(cls: Any, place: int, value: Any) -> Any:
    """What the check of the field makes of a value; it raises where it is wrong."""
    return cls.__attrs_attrs__[place].converter(value)


def validated(cls: Any, name: str, instance: Any) -> None:
    """Ask the validator of the field."""
    attribute = getattr(cls.__attrs_attrs__, name)
    attribute.validator(instance, attribute, getattr(instance, name))


def rebuilt(cls: Callable[..., T], values: tuple[Any, ...]) -> T:
    """A value as it was, from what its constructor took: for copies and pickles."""
    fields: Table = cls.__attrs_attrs__  # type: ignore[attr-defined]  # every native class has it
    return cls(**dict(zip([str(each.alias) for each in fields if each.init], values, strict=True)))


def evolve(instance: T, /, **changes: Any) -> T:
    """A copy with the changes, as `attrs.evolve` makes it."""
    cls: Any = type(instance)
    for name, argument in _arguments(cls):
        if argument not in changes:
            changes[argument] = getattr(instance, name)
    changed: T = cls(**changes)
    return changed


@cache
def _arguments(cls: Any) -> tuple[tuple[str, str], ...]:
    return tuple((each.name, each.alias) for each in attrs.fields(cls) if each.init)

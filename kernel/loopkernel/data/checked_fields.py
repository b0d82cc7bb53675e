"""What the fields of public data take, each by its type: what is built wrong is refused where it is built.

A word of a closed set is taken for its member, a list for a tuple, a dict or a list for its Json; texts are made safe.
All else that is not of the type is refused, with the name of the field, what it must be, and what was given.
What is right already, as from the codec, costs one look at its type.

    @frozen(field_transformer=checked_fields)
    class ModelText(FromModel): ...
"""

import enum
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from typing import Any, NamedTuple, NewType, TypeAlias, Union, get_args, get_origin

from attrs import Attribute, frozen

from loopkernel.data.errors import CodecError, DataError, Fault, PolicyError, quoted
from loopkernel.data.json_text import Json, safe_text

# Any, here and below: fields are looked at as values, and may be given anything.
Convert: TypeAlias = Callable[[Any], Any]
Attributes: TypeAlias = list["Attribute[Any]"]

_MOST_NAMED = 12  # classes of a union, in a message
_SIMPLE: Mapping[type, str] = types.MappingProxyType(
    {str: "a text", int: "an integer", float: "a number", bool: "True or False", type(None): "None"}
)
_JSON = "a Json (or a dict or list for one)"


def checked_fields(cls: type, attributes: Attributes) -> Attributes:
    """Fields that take what their types say. Raise DataError for anything else."""
    return [_checked(cls, attribute, DataError) if attribute.init else attribute for attribute in attributes]


def checked_options(cls: type, attributes: Attributes) -> Attributes:
    """As `checked_fields`, for the parts of a policy. Raise PolicyError."""
    return [_checked(cls, attribute, PolicyError) for attribute in attributes]


def at_least(least: int) -> Callable[[object, "Attribute[Any]", int | None], None]:
    """A validator of a field: its number is not below `least`. None passes. Raises DataError."""

    def validate(instance: object, attribute: "Attribute[Any]", number: int | None) -> None:
        if number is not None and number < least:
            raise refused(instance, attribute, f"must be at least {least}, not {number}")

    return validate


def refused(instance: object, attribute: "Attribute[Any]", problem: str) -> DataError:
    """What a validator raises of a field. Of a document the codec asks it, with no instance: it knows the place."""
    return DataError([Fault(f"{type(instance).__name__}.{attribute.alias or attribute.name}", problem)])


class _Unfit(Exception):
    """A value is not what its field takes. `place` is where in the value that is. It never leaves this file."""

    def __init__(self, problem: str, place: str = "") -> None:
        self.problem = problem
        self.place = place


class QuickLook(NamedTuple):
    """How a constructor sees that a value is right as it is.

    Its type is `exact`; or it is an ASCII text, where it may be one of `texts`; or a tuple of `items` of exact types.
    """

    exact: frozenset[type]
    texts: bool
    items: frozenset[type] | None


def quick_look(field: "Attribute[Any]") -> QuickLook | None:
    """How the value of a checked field is seen to be right; None: only its converter can tell."""
    return getattr(field.converter, "look", None)


@frozen
class _Kind:
    """A type, as a field sees it: values of the types in `exact` are right, all others go through `convert`.

    `texts`: a text is right too, if it is ASCII; any other is made safe. `items`: the kind of the items of a tuple.
    """

    wanted: str
    exact: frozenset[type]
    convert: Convert
    texts: bool = False
    items: "_Kind | None" = None


def _checked(cls: type, attribute: "Attribute[Any]", error: type[DataError | PolicyError]) -> "Attribute[Any]":
    kind = _kind(attribute.type)
    name = f"{cls.__name__}.{attribute.alias or attribute.name}"
    first: Any = attribute.converter  # Any: attrs allows several shapes of converter; here it is a function, or None

    def convert_or_refuse(value: Any) -> Any:
        try:
            return kind.convert(value)
        except _Unfit as unfit:
            raise error([Fault(f"{name}{unfit.place}", unfit.problem)]) from None

    def first_converted(value: Any) -> Any:
        return quick(first(value))

    quick = _quick(kind, convert_or_refuse)
    converter = quick if first is None else first_converted
    # A converter before the check leaves what is right as it is, as `content_of` does: so that is seen first here too.
    converter.look = QuickLook(kind.exact, kind.texts, None if kind.items is None else kind.items.exact)  # type: ignore[attr-defined]  # it is new
    shown = getattr(first, "__annotations__", {"value": attribute.type})  # a compiled function tells none
    converter.__annotations__ = {"value": next(iter(shown.values()))}  # what `help` shows
    return attribute.evolve(converter=converter)


def _quick(kind: _Kind, convert: Convert) -> Convert:
    """As `convert`, with a short way for what is right already. Deltas are built for each piece of a reply."""
    exact, items = kind.exact, kind.items

    def value_of_type(value: Any) -> Any:
        return value if type(value) in exact else convert(value)

    def text_or_other(value: Any) -> Any:
        if type(value) is str:
            return value if value.isascii() else safe_text(value)
        return value if type(value) in exact else convert(value)

    def tuple_or_other(value: Any) -> Any:
        if type(value) is not tuple:
            return value if type(value) in exact else convert(value)
        for item in value:
            if type(item) not in items_exact:
                return convert(value)
        return value

    if items is not None:
        items_exact = items.exact
        return tuple_or_other
    return text_or_other if kind.texts else value_of_type


def _kind(of_type: Any) -> _Kind:
    """The kind of a type. Raises TypeError for one that public data does not use."""
    while isinstance(of_type, NewType):
        of_type = of_type.__supertype__
    origin, arguments = get_origin(of_type), get_args(of_type)
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        return _sequence(_kind(arguments[0]))
    if origin in (Union, types.UnionType):
        tuples = [member for member in arguments if get_origin(member) is tuple]
        if tuples:
            (rest,) = [member for member in arguments if member not in tuples]
            return _or_none(_kind(tuples[0])) if rest is type(None) else _refused(of_type)
        return _union(arguments)
    return _union((of_type,))


def _refused(of_type: Any) -> _Kind:
    raise TypeError(f"no field of public data may be of the type {of_type!r}")


def _union(members: Iterable[Any]) -> _Kind:
    """Any of these: simple types, enums, Json, and classes."""
    members = tuple(_without_new_type(member) for member in members)
    if unknown := [member for member in members if not isinstance(member, type)]:
        return _refused(unknown[0])
    enums = [member for member in members if issubclass(member, enum.Enum)]
    words: dict[object, enum.Enum] = {word.value: word for kind in enums for word in kind}
    numbers = frozenset(kind for kind in (int, float) if kind in members or (kind is int and float in members))
    wanted = _wanted(members, words)

    def convert(value: Any) -> Any:
        if type(value) in exact:
            return value
        if isinstance(value, str) and (str in members or value in words):
            return words[value] if value in words else safe_text(str.__str__(value))
        if isinstance(value, int | float) and not isinstance(value, bool):
            for number in (int, float):
                if isinstance(value, number) and number in numbers:
                    return number(value)
        if isinstance(value, dict | list) and Json in members:
            return _json(value)
        raise _Unfit(f"must be {wanted}, not {_given(value)}")

    exact = frozenset(member for member in members if member is not str) | numbers
    return _Kind(wanted, exact, convert, texts=str in members)


def _sequence(items: _Kind) -> _Kind:
    """A tuple of any length, which a list, or anything else that has items in an order, may stand for."""
    wanted = f"a tuple or list, each item {items.wanted}"

    def convert(value: Any) -> Any:
        if not isinstance(value, Iterable) or isinstance(value, str | bytes | Mapping | Set):
            raise _Unfit(f"must be {wanted}, not {_given(value)}")
        return tuple(each(value))

    def each(values: Iterable[Any]) -> Iterator[Any]:
        for index, item in enumerate(values):
            try:
                yield items.convert(item)
            except _Unfit as unfit:
                raise _Unfit(unfit.problem, f"[{index}]{unfit.place}") from None

    return _Kind(wanted, frozenset(), convert, items=items)


def _or_none(kind: _Kind) -> _Kind:
    def convert(value: Any) -> Any:
        return None if value is None else kind.convert(value)

    return _Kind(f"{kind.wanted}, or None", frozenset({type(None)}), convert, items=kind.items)


def _without_new_type(of_type: Any) -> Any:
    while isinstance(of_type, NewType):
        of_type = of_type.__supertype__
    return of_type


def _json(value: Any) -> Json:
    try:
        return Json.of(value)
    except CodecError as error:
        fault = error.faults[0]
        raise _Unfit(f"cannot be JSON: it {fault.problem}", fault.path.removeprefix("$")) from None


# --- words for a message --------------------------------------------------------------------------------


def _wanted(members: tuple[Any, ...], words: Mapping[object, enum.Enum]) -> str:
    named = [_SIMPLE[member] for member in members if member in _SIMPLE and member is not type(None)]
    if words:
        named.append(f"one of {', '.join(quoted(str(word)) for word in words)}")
    if Json in members:
        named.append(_JSON)
    classes = [
        member.__name__ for member in members if member not in _SIMPLE and member is not Json and not _is_enum(member)
    ]
    if len(classes) > _MOST_NAMED:
        named.append(f"one of {', '.join(classes[:3])} and {len(classes) - 3} more classes")
    else:
        named += [f"{'an' if name[0] in 'AEIOU' else 'a'} {name}" for name in classes]
    if type(None) in members:
        named.append("None")
    return " or ".join(named)


def _is_enum(member: type) -> bool:
    return issubclass(member, enum.Enum)


def _given(value: object) -> str:
    """What was given, in a few words of Python."""
    if value is None or isinstance(value, bool | float | enum.Enum):
        return str(value)
    if isinstance(value, int):
        return str(value) if -(10**20) < value < 10**20 else "a large integer"
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, type):
        return f"the class {value.__name__} itself"
    return f"a {type(value).__name__}"

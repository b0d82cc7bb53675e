"""The codec: reads the types of attrs classes once, and gives a writer and a reader for them.

Understood: None, bool, int, float, str, enums and literals of texts or integers, NewType, tuples, `Vector`,
`GrowingSet`, `Json`, attrs classes (generic and recursive ones too), and unions of these. One class in a union is a
plain object, several are told apart by `"type"`, their names in kebab case; a `Json` in a union is `{"json": ...}`.
"""

import enum
from typing import Any, Generic, Literal, NewType, TypeVar, Union, get_args, get_origin, get_type_hints

import attrs
from attrs import frozen

from loopkernel.codec.records import TAG, Field, record_shape
from loopkernel.codec.scalars import BOOLEAN, INTEGER, JSON, NULL, NUMBER, TEXT, enum_shape, literal_shape
from loopkernel.codec.sequences import fixed_tuple_shape, sequence_shape
from loopkernel.codec.shapes import Misfit, Shape
from loopkernel.codec.unions import WHOLE_JSON, tag_of, tagged_shape, union_shape
from loopkernel.data.errors import CodecError, Fault
from loopkernel.data.json_text import MAX_DOCUMENT_DEPTH, Json, JsonValue, checked, exact_text, parse_json
from loopkernel.data.vector import GrowingSet, Vector

T = TypeVar("T")

_SIMPLE = (
    (None, NULL),
    (type(None), NULL),
    (bool, BOOLEAN),
    (int, INTEGER),
    (float, NUMBER),
    (str, TEXT),
    (Json, JSON),
)
_SEQUENCES = ((Vector, Vector.of), (GrowingSet, GrowingSet.of))
_UNIONS = (Union, get_origin(int | str))
DERIVED = "derived"  # marks a field that follows from the others: it is not written down


@frozen
class Codec(Generic[T]):
    """Writes the values of one type as JSON and reads them back, exactly. Build it once, with `of`.

    It keeps what it compiled, and nothing else; it may be shared.
    """

    _shape: Shape

    @staticmethod
    def of(of_type: object) -> "Codec[T]":
        """The codec of a type. A union cannot stand for T by itself: `STATE: Codec[State] = Codec.of(State)`.

        Raises TypeError for a type that it does not understand, or a union whose members cannot be told apart.
        """
        return Codec(_Compiler().shape(of_type))

    def encode(self, value: T) -> JsonValue:
        """The value as JSON. Raises CodecError with every part that is not of its declared type.

        Whether its texts and numbers could be read back is looked at when it becomes text (`exact_text`).
        """
        try:
            return self._shape.write(value)
        except Misfit as misfit:
            raise CodecError(misfit.faults()) from None
        except RecursionError:
            raise CodecError([Fault("$", "is nested too deeply to be written")]) from None

    def encode_text(self, value: T) -> str:
        """The value as canonical text. Raises CodecError with every part that could not be read back."""
        return exact_text(self.encode(value))

    def decode(self, json: JsonValue) -> T:
        """The value that any JSON says. Raises CodecError with every fault and its path."""
        return self.decode_parsed(checked(json, MAX_DOCUMENT_DEPTH))

    def decode_text(self, text: str) -> T:
        """The value that any text says, as `decode`."""
        return self.decode_parsed(parse_json(text, MAX_DOCUMENT_DEPTH))

    def decode_parsed(self, json: JsonValue) -> T:
        """As `decode`, for what `parse_json` gave, which is not checked once more."""
        try:
            value: T = self._shape.read(json)
        except Misfit as misfit:
            raise CodecError(misfit.faults()) from None
        return value


class _Compiler:
    """Builds shapes. Any, here and below: types are looked at as values, which typing has no name for."""

    def __init__(self) -> None:
        self._records: dict[tuple[Any, str | None], Shape] = {}

    def shape(self, of_type: Any) -> Shape:  # Any: a type looked at as a value
        """The shape of a type whose type variables are all bound."""
        origin = get_origin(of_type) or of_type
        arguments = get_args(of_type)
        if isinstance(of_type, NewType):
            return self.shape(_without_new_type(of_type))
        if origin is Literal:
            return literal_shape(arguments)
        if origin in _UNIONS:
            return self._union(arguments)
        if origin is tuple and of_type is not tuple:
            return self._tuple(arguments)
        for sequence, build in _SEQUENCES:
            if origin is sequence and arguments:
                return sequence_shape(sequence, self.shape(arguments[0]), build)
        for simple, shape in _SIMPLE:
            if of_type is simple:
                return shape
        if isinstance(of_type, type) and issubclass(of_type, enum.Enum):
            return enum_shape(of_type)
        if _attrs_class(of_type) is not None:
            return self._record(of_type, None)
        raise TypeError(f"the codec does not understand the type {of_type!r}")

    def _tuple(self, items: tuple[Any, ...]) -> Shape:
        if len(items) == 2 and items[1] is Ellipsis:
            return sequence_shape(tuple, self.shape(items[0]), tuple)
        return fixed_tuple_shape(tuple(self.shape(item) for item in items))

    def _union(self, members: tuple[Any, ...]) -> Shape:
        erased = tuple(dict.fromkeys(_without_new_type(member) for member in members))
        words = [member for member in erased if get_origin(member) is Literal]
        classes = [member for member in erased if _attrs_class(member) is not None]
        others = [member for member in erased if member not in (*words, *classes, Json)]
        if float in others:
            others = [member for member in others if member is not int]  # a float's place takes it as well
        shapes = [self.shape(member) for member in others]
        if words:
            shapes.append(literal_shape(tuple(value for member in words for value in get_args(member))))
        whole_json = [WHOLE_JSON] if Json in erased else []
        if len(classes) + len(whole_json) > 1:
            shapes.append(tagged_shape(self._tagged(classes), *whole_json))
        else:
            shapes += [*(self._record(member, None) for member in classes), *whole_json]
        return union_shape(tuple(shapes))

    def _tagged(self, classes: list[Any]) -> dict[str, Shape]:
        records: dict[str, Shape] = {}
        for of_type in classes:
            tag = tag_of(get_origin(of_type) or of_type)
            if tag in records:
                raise TypeError(f"two classes of one union are both called {tag!r}: rename one")
            records[tag] = self._record(of_type, tag)
        return records

    def _record(self, of_type: Any, tag: str | None) -> Shape:  # Any: a type looked at as a value
        place = (of_type, tag)
        if place in self._records:
            return self._records[place]
        cls = get_origin(of_type) or of_type
        # While its fields are being read, the class may come up again: it is then found through its place.
        self._records[place] = Shape(
            name=cls.__name__,
            python_types=(cls,),
            json_types=(dict,),
            write=lambda value: self._records[place].write(value),
            read=lambda value: self._records[place].read(value),
        )
        hints = get_type_hints(cls)
        bound = dict(zip(getattr(cls, "__parameters__", ()), get_args(of_type), strict=False))
        fields = tuple(
            Field(attribute=attribute, shape=self.shape(_with_bound(hints[attribute.name], bound)))
            for attribute in attrs.fields(cls)
            if attribute.init and not attribute.metadata.get(DERIVED)
        )
        if tag is not None and any(field.key == TAG for field in fields):
            raise TypeError(f"{cls.__name__} has a field {TAG!r}, the key that a union needs for its tag: rename it")
        self._records[place] = record_shape(cls, tag, fields)
        return self._records[place]


def _attrs_class(of_type: Any) -> type | None:  # Any: a type looked at as a value
    """The attrs class behind a type that is written as an object, if it is one."""
    origin = get_origin(of_type) or of_type
    is_record = isinstance(origin, type) and attrs.has(origin) and origin not in (Json, Vector, GrowingSet)
    return origin if is_record else None


def _without_new_type(of_type: Any) -> Any:  # Any: a type looked at as a value
    while isinstance(of_type, NewType):
        of_type = of_type.__supertype__
    return of_type


def _with_bound(hint: Any, bound: dict[Any, Any]) -> Any:  # Any: types looked at as values
    """The hint with the type variables of a generic class replaced by what they are bound to."""
    if isinstance(hint, TypeVar):
        return bound.get(hint, hint)
    variables = getattr(hint, "__parameters__", ())
    return hint[tuple(bound.get(variable, variable) for variable in variables)] if variables else hint

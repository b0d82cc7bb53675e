"""Shapes of what has no parts: null, booleans, numbers, texts, enums, literals, and whole JSON values.

Whether a text is safe and a number finite is not looked at here: readers are given what `parse_json` gave, and what
writers give is checked as a whole, by `Codec`.
"""

import enum
from typing import Any

from loopkernel.codec.shapes import Misfit, Reader, Shape, Word, in_json_words
from loopkernel.data.errors import CodecError
from loopkernel.data.json_text import JSON_TYPES, Json, JsonValue

_NONE = type(None)


def _simple_shape(name: str, *types: type) -> Shape:
    """A type that is the same in JSON."""

    def convert(value: Any) -> Any:  # Any: of one of the types
        if type(value) in types:  # exactly: a bool is an int
            return value
        raise Misfit.instead(name, value)

    return Shape(name=name, python_types=types, json_types=types, as_is=frozenset(types), write=convert, read=convert)


NULL = _simple_shape("null", _NONE)
BOOLEAN = _simple_shape("true or false", bool)
INTEGER = _simple_shape("an integer", int)
NUMBER = _simple_shape("a number", float, int)  # an int in a float's place stays one: it is written as it was read
TEXT = _simple_shape("text", str)


def _write_json(value: object) -> JsonValue:
    if isinstance(value, Json):
        return value.value()
    raise Misfit.instead("a Json", value)


def _read_json(value: JsonValue) -> Json:
    try:
        return Json.of_parsed(value)
    except CodecError as error:
        raise Misfit.by_constructor(error.faults) from None


JSON = Shape(name="any JSON", python_types=(Json,), json_types=JSON_TYPES, write=_write_json, read=_read_json)


_WORD_TYPES = (str, int, bool, _NONE)


def enum_shape(members: type[enum.Enum]) -> Shape:
    """An enum, by the values of its members: texts or integers. Raises TypeError for others."""

    def write(member: object) -> JsonValue:
        if isinstance(member, members):
            value: JsonValue = member._value_  # `value` is the same, behind a slow property
            return value
        raise Misfit.instead(name, member)

    name, read, words = _reader_of({(type(member.value), member.value): member for member in members})
    return Shape(name=name, python_types=(members,), json_types=_types(words), words=words, write=write, read=read)


def literal_shape(values: tuple[Any, ...]) -> Shape:  # Any: as typing.get_args gives them
    """A Literal of texts, integers, booleans, None. Raises TypeError for others."""
    name, read, words = _reader_of({(type(value), value): value for value in values})
    types = _types(words)
    return Shape(name=name, python_types=types, json_types=types, words=words, write=read, read=read)


def _types(words: tuple[Word, ...]) -> tuple[type, ...]:
    return tuple(dict.fromkeys(kind for kind, _ in words))


def _reader_of(values: dict[Word, Any]) -> tuple[str, Reader, tuple[Word, ...]]:  # Any: as literal_shape
    """The name of a finite set of words, the reader that gives what each stands for, and the words."""
    types = _types(tuple(values))
    if unfit := [kind for kind in types if kind not in _WORD_TYPES]:
        raise TypeError(f"the codec writes no enum or literal of a {unfit[0].__name__}: {values}")
    listed = ", ".join(in_json_words(value) for _, value in values)
    name = f"one of {listed}" if len(values) > 1 else listed

    def read(word: JsonValue) -> Any:  # Any: what the word stands for
        kind = type(word)
        if kind in types and (kind, word) in values:  # in this order: a list has no hash
            return values[kind, word]
        raise Misfit.instead(name, word)

    return name, read, tuple(values)

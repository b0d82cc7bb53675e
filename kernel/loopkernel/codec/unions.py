"""Shapes of unions: JSON's own type tells the members apart, and a tag tells several classes apart.

Two members whose JSON could be taken for each other are a mistake in the data, found when the codec is built.
"""

import re
from collections.abc import Iterable
from typing import Any, TypeVar

from loopkernel.codec.records import TAG
from loopkernel.codec.scalars import JSON
from loopkernel.codec.shapes import Misfit, Reader, Shape, Word, Writer, in_json_words
from loopkernel.data.json_text import JsonValue

# Any, here and below: the members are known only at run time.

Key = TypeVar("Key")

_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WHOLE_JSON = "json"
_WHOLE_JSON_NAME = 'an object with the one key "json"'


def tag_of(cls: type) -> str:
    """The tag of a class: its name in kebab case."""
    return _WORD_START.sub("-", cls.__name__).lower()


def union_shape(members: tuple[Shape, ...]) -> Shape:
    """A union whose members differ in the type, or the word, of their JSON. Raises TypeError if they do not."""
    if len(members) == 1:
        return members[0]
    name = " or ".join(member.name for member in members)
    writers: dict[type, Writer] = {}
    readers: dict[type, Reader] = {}
    word_readers: dict[Word, Reader] = {}
    for member in members:
        _claim(writers, member.python_types, member.write, name)
        if member.words is None:
            _claim(readers, member.json_types, member.read, name)
        else:
            _claim(word_readers, member.words, member.read, name)
    word_types = tuple(dict.fromkeys(kind for kind, _ in word_readers))
    if any(kind in readers for kind in word_types):
        raise _ambiguous(name)

    def write(value: Any) -> JsonValue:  # Any: a member, known at run time
        writer = writers.get(type(value))
        if writer is None:
            raise Misfit.instead(name, value)
        return writer(value)

    def read(value: JsonValue) -> Any:
        kind = type(value)
        reader = readers.get(kind)
        if reader is None and kind in word_types:
            reader = word_readers.get((kind, value))
        if reader is None:
            raise Misfit.instead(name, value)
        return reader(value)

    return Shape(
        name=name,
        python_types=tuple(writers),
        json_types=(*readers, *word_types),
        as_is=frozenset(kind for member in members for kind in member.as_is),
        write=write,
        read=read,
    )


def _claim(owners: dict[Key, Any], keys: Iterable[Key], owner: Any, name: str) -> None:  # Any: a member
    for key in keys:
        if key in owners:
            raise _ambiguous(name)
        owners[key] = owner


def _ambiguous(name: str) -> TypeError:
    return TypeError(f"two members of a union could be taken for each other: {name}")


def tagged_shape(records: dict[str, Shape], otherwise: Shape | None = None) -> Shape:
    """Several classes, by their tags; and a whole JSON value, which has none, if its shape is given as `otherwise`."""
    writers = {kind: record.write for record in records.values() for kind in record.python_types}
    readers = {tag: record.read for tag, record in records.items()}
    wanted = f"one of {', '.join(map(in_json_words, records))}"
    name = f"an object whose {TAG} is {wanted}"
    missing = f"is missing; it must be {wanted}"
    if otherwise is not None:
        writers |= dict.fromkeys(otherwise.python_types, otherwise.write)
        name = f"{name}, or {otherwise.name}"
        missing = f"{missing}, if the whole is not {otherwise.name}"

    def write(value: Any) -> JsonValue:  # Any: a member, known at run time
        writer = writers.get(type(value))
        if writer is None:
            raise Misfit.instead(name, value)
        return writer(value)

    def read(value: JsonValue) -> Any:
        if type(value) is not dict:
            raise Misfit.instead(name, value)
        tag = value.get(TAG)
        reader = readers.get(tag) if type(tag) is str else None
        if reader is not None:
            return reader(value)
        if TAG in value:
            raise Misfit(f"must be {wanted}, not {in_json_words(tag)}").joined(TAG, None)
        if otherwise is not None and _WHOLE_JSON in value:
            return otherwise.read(value)
        raise Misfit(missing).joined(TAG, None)

    return Shape(name=name, python_types=tuple(writers), json_types=(dict,), write=write, read=read)


def _write_whole_json(value: Any) -> JsonValue:  # Any: a Json, as all writers take it
    return {_WHOLE_JSON: JSON.write(value)}


def _read_whole_json(value: JsonValue) -> Any:
    if type(value) is not dict or value.keys() != {_WHOLE_JSON}:
        raise Misfit.instead(_WHOLE_JSON_NAME, value)
    try:
        return JSON.read(value[_WHOLE_JSON])
    except Misfit as misfit:
        raise misfit.joined(_WHOLE_JSON, None) from None


# A Json beside others. By itself its JSON could be taken for that of any other member.
WHOLE_JSON = Shape(
    name=_WHOLE_JSON_NAME,
    python_types=JSON.python_types,
    json_types=(dict,),
    write=_write_whole_json,
    read=_read_whole_json,
)

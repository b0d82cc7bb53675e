"""Values of the kernel as plain data for a reader, and what differs between two of them, found by what they share.

A state after ten thousand steps is told by the differences alone: its parts that are the very same are not looked at.
Messages stand as their numbers, since the document holds them once.
"""

import enum
from collections.abc import Iterator
from typing import Any, TypeAlias

import attrs
from loopkernel.data.differences import different_items
from loopkernel.data.ids import CallId
from loopkernel.data.json_text import Json, JsonValue
from loopkernel.data.messages import AssistantMessage, ResultMessage, UserMessage
from loopkernel.data.text_map import TextMap
from loopkernel.data.threads import Thread
from loopkernel.data.vector import GrowingSet, Vector

from loopkernel_adapters.viewing.shown import visible

LONGEST = 300  # characters of a text
SHORT = 100  # in a state, where the text has a place of its own elsewhere
LONGEST_INTEGER = 2**53  # up to here a script reads an integer exactly

Path: TypeAlias = tuple[str | int, ...]
Change: TypeAlias = list[JsonValue]  # a path and the value there now; without a value, there is nothing there now
Value: TypeAlias = Any  # whatever a state, a delta or an effect holds, which is looked at here and nowhere else

_WHOLE = (CallId, Json, Thread, Vector, GrowingSet, TextMap, UserMessage, AssistantMessage, ResultMessage)


def plain(value: Value, longest: int = LONGEST) -> JsonValue:
    """The value; a text of it has at most so many characters."""
    match value:
        case None | bool():
            return value
        case enum.Enum():
            return plain(value.value, longest)
        case int():
            return int(value) if abs(value) <= LONGEST_INTEGER else str(value)
        case float():
            return value if abs(value) < float("inf") else str(value)
        case str():
            return visible(value, longest)
        case Json():
            return _json(value, longest)
        case CallId():
            return str(value)
        case UserMessage() | AssistantMessage() | ResultMessage():
            return f"message {value.id}"
        case Thread():
            return {"messages": len(value), "generation": value.generation}
        case GrowingSet():
            return f"{len(value)} items"
        case TextMap():
            return "an index"
        case Vector() | tuple() | list() | frozenset():
            return [plain(item, longest) for item in value]
        case _:
            return {key: plain(part, longest) for key, part in _parts(value)}


def _json(value: Json, longest: int) -> JsonValue:
    if len(value.text) > 4 * longest:
        return visible(value.text, longest)
    return _seen(value.value(), longest)


def _seen(value: JsonValue, longest: int) -> JsonValue:
    match value:
        case dict():
            return {visible(key, longest): _seen(part, longest) for key, part in value.items()}
        case list():
            return [_seen(part, longest) for part in value]
        case _:
            return plain(value, longest)


def _parts(value: Value) -> Iterator[tuple[str, Value]]:
    """What a frozen value holds, by name, behind its kind; but for what follows from the rest."""
    yield "is", type(value).__name__
    for field in attrs.fields(type(value)):
        if not field.metadata.get("derived") and not field.name.startswith("_"):
            yield field.name, getattr(value, field.name)


def changes(before: Value, after: Value) -> Iterator[Change]:
    """What has to be put, in this order, into the plain form of the one to have that of the other."""
    yield from _changes(before, after, ())


def _changes(before: Value, after: Value, path: Path) -> Iterator[Change]:
    if before is after:
        return
    if isinstance(before, Vector) and isinstance(after, Vector) and len(before) <= len(after):
        for place, old, new in different_items(before, after):
            yield from _put(new, (*path, place)) if place >= len(before) else _changes(old, new, (*path, place))
    elif isinstance(before, tuple) and isinstance(after, tuple) and len(before) <= len(after):
        for place, new in enumerate(after):
            within = (*path, place)
            yield from _changes(before[place], new, within) if place < len(before) else _put(new, within)
    elif _has_parts(before) and _has_parts(after):
        old_parts, new_parts = dict(_parts(before)), dict(_parts(after))
        for key in old_parts.keys() - new_parts.keys():
            yield [[*path, key]]
        for key, new in new_parts.items():
            yield from _changes(old_parts[key], new, (*path, key)) if key in old_parts else _put(new, (*path, key))
    elif plain(before, SHORT) != plain(after, SHORT):
        yield from _put(after, path)


def _has_parts(value: Value) -> bool:
    return attrs.has(type(value)) and not isinstance(value, (*_WHOLE, enum.Enum))


def _put(value: Value, path: Path) -> Iterator[Change]:
    yield [list(path), plain(value, SHORT)]

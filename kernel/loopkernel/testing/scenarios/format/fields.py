"""Decoders: a node in, a typed value out, and a fault with line and key for what does not fit.

After a fault a decoder gives back a harmless value of its type, so that reading goes on and all faults are
found at once; whoever started the reading looks at the faults and throws the values away.
"""

import difflib
import enum
import math
import re
from collections.abc import Callable, Iterable
from typing import TypeAlias, TypeVar, final

from attrs import evolve, frozen

from loopkernel.testing.scenarios.data.world import JsonValue
from loopkernel.testing.scenarios.format.nodes import (
    Entry,
    Mapping,
    Node,
    Scalar,
    ScenarioFault,
    Sequence,
    is_empty,
    quoted_value,
)

T = TypeVar("T")
D = TypeVar("D")
E = TypeVar("E", bound=enum.Enum)

# What both YAML 1.1 and YAML 1.2 take for a decimal number. All else is text: 0x1f, 017, 12:30, 1e3, off.
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9_]*)")
_DECIMAL = re.compile(r"(?:[-+]?(?:0|[1-9][0-9_]*)\.[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+][0-9]+)?")
_TRUTHS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_WORDS_FOR_TRUTHS = {"yes": True, "on": True, "no": False, "off": False}  # of YAML 1.1
_MAX_DIGITS = 1_000


@final
@frozen
class Place:
    """Where reading stands: the file, the keys that lead here (items count from 1), and where faults go."""

    source: str
    path: str
    faults: list[ScenarioFault]

    def key(self, key: str) -> "Place":
        key = quoted_value(key)[1:-1]
        return Place(self.source, f"{self.path}.{key}" if self.path else key, self.faults)

    def item(self, position: int) -> "Place":
        return Place(self.source, f"{self.path}[{position}]", self.faults)

    def fault(self, line: int, message: str) -> None:
        self.faults.append(ScenarioFault(self.source, line, self.path, message))


Decoder: TypeAlias = Callable[[Node, Place], T]


def _found(node: Node) -> str:
    match node:
        case Mapping():
            return "a mapping"
        case Sequence():
            return "a list"
        case Scalar():
            return (
                "nothing"
                if is_empty(node)
                else quoted_value(node.text)
                if node.plain
                else f"the text {quoted_value(node.text)}"
            )


def wants(what: str, node: Node, place: Place) -> None:
    """Report that something else than what must stand here was found."""
    place.fault(node.line, f"must be {what}, and is {_found(node)}")


def suggestion(found: str, known: Iterable[str]) -> str:
    """The nearest known word, if any is near, and all of them."""
    words = list(known)
    near = difflib.get_close_matches(found[:100], words, n=1)
    return f"did you mean `{near[0]}`? known: {', '.join(words)}" if near else f"known: {', '.join(words)}"


def text(node: Node, place: Place) -> str:
    """Any single value, as it is written."""
    if isinstance(node, Scalar) and not is_empty(node):
        return node.text
    wants('text (write "" for none)', node, place)
    return ""


def name(node: Node, place: Place) -> str:
    """One word: it must be able to stand in a trace line."""
    found = text(node, place)
    if isinstance(node, Scalar) and not is_empty(node) and (found.split() != [found] or "*" in found):
        wants("one word without `*`, since it stands in trace lines", node, place)
    return found


def pattern(node: Node, place: Place) -> str:
    """A trace line, in which `*` stands for one word."""
    words = text(node, place).split()
    if not words and isinstance(node, Scalar) and not is_empty(node):
        wants("a trace line, such as `request 1`", node, place)
    if any("*" in part and part != "*" for part in words):
        place.fault(node.line, "`*` stands for a whole word; write it between spaces")
    return " ".join(words)


def integer(minimum: int = 0) -> Decoder[int]:
    """A whole number of at least `minimum`."""

    def decode(node: Node, place: Place) -> int:
        value = _number(node, place)
        if isinstance(value, int) and value >= minimum:
            return value
        wants(f"a whole number of at least {minimum}", node, place)
        return minimum

    return decode


def number(node: Node, place: Place) -> int | float:
    """A number of at least 0."""
    value = _number(node, place)
    if value is not None and value >= 0:
        return value
    wants("a number of at least 0", node, place)
    return 0


def _number(node: Node, place: Place) -> int | float | None:
    """The number that is written, in quotes or not: as a key, JSON has it only so. A whole one is an int."""
    value = _plain(_unquoted(node), place)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _unquoted(node: Node) -> Node:
    return evolve(node, plain=True) if isinstance(node, Scalar) else node


def flag(node: Node, place: Place) -> bool:
    """true or false, or what YAML 1.1 has for them."""
    value = _plain(_unquoted(node), place)
    truth = _WORDS_FOR_TRUTHS.get(value.lower()) if isinstance(value, str) else value
    if not isinstance(truth, bool):
        wants("true or false", node, place)
    return truth is True


def only_true(node: Node, place: Place) -> None:
    """The word `true`, for a key that has no other value."""
    if _plain(node, place) is not True:
        wants("true (leave out the key otherwise)", node, place)


def word(*allowed: str) -> Decoder[str]:
    """One of the allowed words."""

    def decode(node: Node, place: Place) -> str:
        if isinstance(node, Scalar) and node.text in allowed:
            return node.text
        if isinstance(node, Scalar) and not is_empty(node):
            place.fault(node.line, f"{quoted_value(node.text)} is not known here; {suggestion(node.text, allowed)}")
        else:
            wants(f"one of {', '.join(allowed)}", node, place)
        return allowed[0]

    return decode


def member(kind: type[E], *left_out: E) -> Decoder[E]:
    """A member of the enum, by its value."""
    members = {str(one.value): one for one in kind if one not in left_out}
    decode_word = word(*members)
    return lambda node, place: members[decode_word(node, place)]


def is_none(node: Node) -> bool:
    """Whether the node is the word `none`, or nothing."""
    return isinstance(node, Scalar) and (node.text == "none" or is_empty(node))


def or_none(decode: Decoder[T]) -> Decoder[T | None]:
    """What `decode` reads, or None for `none` and for nothing."""
    return lambda node, place: None if is_none(node) else decode(node, place)


def many(decode: Decoder[T]) -> Decoder[tuple[T, ...]]:
    """A list, or a single value in its place."""

    def decode_list(node: Node, place: Place) -> tuple[T, ...]:
        if isinstance(node, Sequence):
            return tuple(decode(item, place.item(position)) for position, item in enumerate(node.items, 1))
        if is_empty(node):
            wants("a list ([] for an empty one)", node, place)
            return ()
        return (decode(node, place),)

    return decode_list


def many_or_none(decode: Decoder[T]) -> Decoder[tuple[T, ...]]:
    """A list, a single value in its place, or `none` for an empty list."""
    decode_list = many(decode)
    return lambda node, place: () if is_none(node) else decode_list(node, place)


def or_nothing(decode: Decoder[T], nothing: T) -> Decoder[T]:
    """What `decode` reads, or nothing for `none`."""
    return lambda node, place: nothing if is_none(node) else decode(node, place)


def table(decode_key: Decoder[D], decode: Decoder[T]) -> Decoder[dict[D, T]]:
    """A mapping whose keys are data: names, patterns or numbers."""

    def decode_mapping(node: Node, place: Place) -> dict[D, T]:
        if not isinstance(node, Mapping):
            wants("a mapping", node, place)
            return {}
        return {
            decode_key(entry.key, place.key(entry.key.text)): decode(entry.value, place.key(entry.key.text))
            for entry in node.entries
        }

    return decode_mapping


def json_value(node: Node, place: Place) -> JsonValue:
    """Any JSON value. Only true and false are truths, only decimal numbers are numbers."""
    match node:
        case Scalar():
            return _plain(node, place)
        case Sequence():
            return [json_value(item, place.item(position)) for position, item in enumerate(node.items, 1)]
        case Mapping():
            return {entry.key.text: json_value(entry.value, place.key(entry.key.text)) for entry in node.entries}


def _plain(node: Node, place: Place) -> bool | int | float | str | None:
    """The value of a scalar; None for a list or mapping too, which the caller then refuses."""
    if not isinstance(node, Scalar) or is_empty(node):
        return None
    if not node.plain:
        return node.text
    if node.text in _TRUTHS:
        return _TRUTHS[node.text]
    if _INTEGER.fullmatch(node.text):
        return int(node.text) if len(node.text) <= _MAX_DIGITS else _too_large(node, place)
    if _DECIMAL.fullmatch(node.text):
        value = float(node.text.replace("_", ""))
        return value if math.isfinite(value) else _too_large(node, place)
    return node.text


def _too_large(node: Scalar, place: Place) -> int:
    place.fault(node.line, f"the number {node.text[:20]}... is too large")
    return 0


def or_no_keys(node: Node) -> Node:
    """The node; where nothing is written, the mapping that has no keys."""
    return Mapping(entries=(), line=node.line) if isinstance(node, Scalar) and node.plain and not node.text else node


@final
class Fields:
    """The keys of one mapping, each asked for by name; `finish` reports those that nobody asked for."""

    def __init__(self, node: Node, place: Place) -> None:
        self.place = place
        self.line = node.line
        self.broken = not isinstance(node, Mapping)
        self._entries: dict[str, Entry] = {}
        self._known: dict[str, None] = {}  # an ordered set
        if isinstance(node, Mapping):
            self._entries = {entry.key.text: entry for entry in node.entries}
        else:
            wants("a mapping", node, place)

    def has(self, key: str) -> bool:
        return key in self._entries

    def given(self, *keys: str) -> str | None:
        """Which of these keys is given; they exclude each other, so more than one is a fault."""
        found = [key for key in keys if self.has(key)]
        if len(found) > 1:
            self.place.fault(self.line, f"`{'` and `'.join(found)}` exclude each other; keep one")
        return found[0] if found else None

    def optional(self, key: str, decode: Decoder[T], default: D) -> T | D:
        self._known[key] = None
        entry = self._entries.get(key)
        return default if entry is None else decode(entry.value, self.place.key(key))

    def demand(self, key: str) -> None:
        if not self.has(key) and not self.broken:
            self.place.fault(self.line, f"`{key}` is missing")

    def required(self, key: str, decode: Decoder[T], placeholder: T) -> T:
        self.demand(key)
        return self.optional(key, decode, placeholder)

    def finish(self) -> bool:
        """Whether every key is known; a fault for each that is not."""
        unknown = [entry for key, entry in self._entries.items() if key not in self._known]
        for entry in unknown:
            message = f"unknown key {quoted_value(entry.key.text)}; {suggestion(entry.key.text, self._known)}"
            if is_empty(entry.value):
                message += "; or, if it is part of a text, put that text in quotes"
            self.place.fault(entry.key.line, message)
        return not unknown

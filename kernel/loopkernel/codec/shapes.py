"""A shape: how the values of one type are written as JSON and read back, and how a misfit is told.

Writers and readers are closures. Both raise Misfit, and each level that it passes on its way out adds
its key or index to the path; so a path costs nothing where all is well.
"""

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from attrs import frozen

from loopkernel.data.errors import MAX_FAULTS, Fault, at_most_told, json_path, quoted
from loopkernel.data.json_text import JsonValue

Writer: TypeAlias = Callable[[Any], JsonValue]  # Any: a value whose type is known only at run time
Reader: TypeAlias = Callable[[Any], Any]  # Any: a JsonValue that the reader narrows; a value, as above

# A JSON value that stands for one of a finite set, with its type: True == 1, and the two must not be mixed up.
Word: TypeAlias = tuple[type, object]


@frozen(kw_only=True)
class Shape:
    """How one type is written and read.

    `name` tells in a fault what is wanted. `python_types` are the exact types of the values, `json_types` those
    of their JSON: a union tells its members apart by them. `words` lists all JSON values if they are finite in
    number, and is None if not. What is of a type in `as_is` is the same in Python and in JSON.
    """

    name: str
    python_types: tuple[type, ...]
    json_types: tuple[type, ...]
    words: tuple[Word, ...] | None = None
    as_is: frozenset[type] = frozenset()
    write: Writer
    read: Reader


class _Trouble:
    """One fault, while its path grows from the inside out. `tail` is the innermost part, already as text."""

    def __init__(self, problem: str, tail: str = "") -> None:
        self.problem = problem
        self.tail = tail
        self.segments: list[str | int] = []

    def put_within(self, segment: str | int) -> None:
        """The part at `segment` of some value is where this lies."""
        if not self.segments and _begins_with(self.tail, f".{segment}"):
            self.tail = self.tail[len(f".{segment}") :]
        self.segments.append(segment)

    def fault(self) -> Fault:
        """The fault, its path complete."""
        return Fault(json_path(reversed(self.segments)) + self.tail, self.problem)


def _begins_with(tail: str, name: str) -> bool:
    """Whether a constructor's path begins with the name of its own part: `retry.base_ms`, within `retry`."""
    return tail == name or tail.startswith((f"{name}.", f"{name}["))


class Misfit(Exception):
    """A value, or its JSON, does not fit a shape. It never leaves the codec."""

    def __init__(self, problem: str) -> None:
        self.troubles = [_Trouble(problem)]

    @staticmethod
    def instead(wanted: str, found: object) -> "Misfit":
        """Something else was found than what is wanted."""
        return Misfit(f"must be {wanted}, not {in_json_words(found)}")

    @staticmethod
    def by_constructor(faults: Iterable[Fault]) -> "Misfit":
        """What a constructor refused; paths count from its value, with or without a leading `$`."""
        misfit = Misfit("")
        misfit.troubles = [
            _Trouble(fault.problem, fault.path[1:] if fault.path.startswith("$") else f".{fault.path}")
            for fault in faults
        ]
        return misfit

    def joined(self, segment: str | int, earlier: "Misfit | None") -> "Misfit":
        """This misfit, which lies at `segment`, together with those of the parts before it."""
        for trouble in self.troubles:
            trouble.put_within(segment)
        if earlier is None:
            return self
        if len(earlier.troubles) <= MAX_FAULTS:  # no more are told, so no more are kept
            earlier.troubles += self.troubles
        return earlier

    def faults(self) -> list[Fault]:
        """All that was misfit."""
        return at_most_told([trouble.fault() for trouble in self.troubles])


def in_json_words(value: object) -> str:
    """A short word for a value in a fault, in JSON's terms."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return repr(float(value))
    if isinstance(value, int):
        return str(int(value)) if -(10**20) < value < 10**20 else "a large integer"
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, list):
        return "a list"
    if isinstance(value, dict):
        return "an object"
    return f"a Python {type(value).__name__}"

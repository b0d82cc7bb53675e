"""What pydantic has against an input: told so that a model can act on it, and put right where models often err."""

from collections.abc import Iterable, Iterator

import pydantic
import pydantic_core
from loopkernel.data.errors import CodecError, Fault, json_path
from loopkernel.data.json_text import JsonValue, parse_json

from loopkernel_adapters.bounded_text import beginning
from loopkernel_adapters.tools.input_schema import JsonObject, no_field

LONGEST_GIVEN = 80  # characters of a wrong value that are told
_UNKNOWN_FIELD = ("extra_forbidden", "unexpected_keyword_argument")  # the second is what a dataclass says
MOST_REPAIRED = 1_000_000  # characters of a text that is looked at as JSON


def faults_of(error: pydantic.ValidationError, given: JsonValue, names: Iterable[str] = ()) -> Iterator[Fault]:
    """The errors of pydantic as places and words for a model: what is expected, and what was given."""
    for found in error.errors(include_url=False, include_context=False):
        path, _ = _place(given, found["loc"])
        words = found["msg"].removeprefix("Input ").removeprefix("Value error, ").removeprefix("Assertion failed, ")
        if found["type"] == "missing":
            yield Fault(json_path([*path, *found["loc"][-1:]]), "is needed, and is not given")
        elif found["type"] in _UNKNOWN_FIELD:
            known: JsonObject = dict.fromkeys(names) if len(path) == 1 else {}
            yield Fault(json_path(path), no_field(known) if known or len(path) == 1 else "is not a field")
        else:
            yield Fault(json_path(path), f"{words[:1].lower()}{words[1:]}, and is {_shown(found['input'])}")


def _place(given: JsonValue, location: tuple[int | str, ...]) -> tuple[list[str | int], JsonValue]:
    """Where in the input an error is, and what stands there. A location also names types, where there are several."""
    path: list[str | int] = []
    for segment in location:
        match given, segment:
            case dict(), str() if segment in given:
                given = given[segment]
            case list(), int() if 0 <= segment < len(given):
                given = given[segment]
            case _:
                continue
        path.append(segment)
    return path, given


def _shown(value: object) -> str:
    text = pydantic_core.to_json(value, fallback=repr, inf_nan_mode="strings").decode()
    return beginning(text, LONGEST_GIVEN, "...")


def repaired(given: JsonObject, error: pydantic.ValidationError) -> JsonObject:
    """The input with what models often do put right, where pydantic has found fault."""
    better: JsonValue = given
    for found in error.errors(include_url=False, include_context=False, include_input=False):
        path, value = _place(given, found["loc"])
        if not path or found["type"] in _UNKNOWN_FIELD:
            continue
        if isinstance(value, float) and value.is_integer():
            better = _replaced(better, path, int(value))
        elif isinstance(value, str) and len(value) <= MOST_REPAIRED:
            try:
                meant = parse_json(value)
            except CodecError:
                continue
            if not isinstance(meant, str):
                better = _replaced(better, path, meant)
    assert isinstance(better, dict)
    return better


def _replaced(value: JsonValue, path: list[str | int], part: JsonValue) -> JsonValue:
    if not path:
        return part
    segment, rest = path[0], path[1:]
    if isinstance(value, dict) and isinstance(segment, str) and segment in value:
        return {**value, segment: _replaced(value[segment], rest, part)}
    if isinstance(value, list) and isinstance(segment, int) and segment < len(value):
        return [*value[:segment], _replaced(value[segment], rest, part), *value[segment + 1 :]]
    return value  # another repair has replaced what held it

"""A tool's input schema: the part of JSON Schema that tools use, checked without another library.

A schema is understood completely or refused when the tool is registered: a keyword that is silently passed over
would let an input through that the author of the tool believes to be impossible.
"""

import json
import re
from collections.abc import Iterator

from loopkernel.data.errors import CodecError, Fault, json_path, quoted
from loopkernel.data.json_text import JsonValue

JsonObject = dict[str, JsonValue]
Path = tuple[str | int, ...]

MOST_LISTED = 20  # permitted values that a fault lists

_ANNOTATIONS = frozenset({"$schema", "$comment", "title", "description", "default", "examples"})
_TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")
_NESTED = ("properties", "additionalProperties", "items", "anyOf")


def demand_schema(schema: JsonValue) -> JsonObject:
    """The schema itself. Raises CodecError, with all faults, when a part of it is not understood."""
    faults = list(_schema_faults(schema, ()))
    if faults or not isinstance(schema, dict):
        raise CodecError(faults)
    return schema


def input_faults(schema: JsonObject, value: JsonValue, path: Path = ()) -> Iterator[Fault]:
    """All that keeps the value from fitting a schema that `demand_schema` has let through."""
    for keyword, argument in schema.items():
        problem = _problem(keyword, argument, value)
        if problem is not None:
            yield Fault(json_path(path), problem)
        if keyword in _NESTED:
            yield from _nested_faults(schema, keyword, argument, value, path)


def with_defaults(schema: JsonObject, value: JsonObject) -> JsonObject:
    """The input with the schema's default for each field that is not given."""
    properties = schema.get("properties")
    fields = properties.items() if isinstance(properties, dict) else ()
    defaults = {name: field["default"] for name, field in fields if isinstance(field, dict) and "default" in field}
    return {**defaults, **value}


# --- the schema ---------------------------------------------------------------------------------------


def _schema_faults(schema: JsonValue, path: Path) -> Iterator[Fault]:
    if not isinstance(schema, dict):
        yield Fault(json_path(path), "must be a JSON Schema, an object")
        return
    for keyword, argument in schema.items():
        if keyword in _ANNOTATIONS:
            continue
        problem = _keyword_problem(keyword, argument)
        if problem is not None:
            yield Fault(json_path((*path, keyword)), problem)
        else:
            for segments, part in _subschemas(keyword, argument):
                yield from _schema_faults(part, (*path, keyword, *segments))


def _subschemas(keyword: str, argument: JsonValue) -> Iterator[tuple[Path, JsonValue]]:
    match keyword, argument:
        case "properties", dict():
            yield from (((name,), part) for name, part in argument.items())
        case "anyOf", list():
            yield from (((place,), part) for place, part in enumerate(argument))
        case "items" | "additionalProperties", dict():
            yield (), argument
        case _:
            return


def _keyword_problem(keyword: str, argument: JsonValue) -> str | None:
    """What is wrong with the argument of a keyword, without looking into the schemas within it."""
    match keyword:
        case "const":
            return None
        case "type":
            names = argument if isinstance(argument, list) else [argument]
            good = bool(names) and all(name in _TYPES for name in names)
            return None if good else f"must be one of {', '.join(_TYPES)}, or a list of them"
        case "enum" | "anyOf":
            return None if isinstance(argument, list) and argument else "must be a list that is not empty"
        case "required":
            good = isinstance(argument, list) and all(isinstance(name, str) for name in argument)
            return None if good else "must be a list of names"
        case "properties" | "items":
            return None if isinstance(argument, dict) else "must be an object"
        case "additionalProperties":
            return None if isinstance(argument, bool | dict) else "must be true, false or a schema"
        case "minLength" | "maxLength" | "minItems" | "maxItems":
            good = isinstance(argument, int) and not isinstance(argument, bool) and argument >= 0
            return None if good else "must be a whole number of at least 0"
        case "minimum" | "maximum":
            return None if _is_number(argument) else "must be a number"
        case "pattern":
            return _pattern_problem(argument)
        case _:
            return "is a keyword that is not supported; leave it out, and check for it in the tool"


def _pattern_problem(argument: JsonValue) -> str | None:
    if not isinstance(argument, str):
        return "must be a text"
    try:
        re.compile(argument)
    except re.error as error:
        return f"is no regular expression: {error}"
    return None


# --- the input ----------------------------------------------------------------------------------------


def _problem(keyword: str, argument: JsonValue, value: JsonValue) -> str | None:
    """What one keyword has against the value itself."""
    match keyword, argument, value:
        case "type", _, _:
            names = [str(name) for name in (argument if isinstance(argument, list) else [argument])]
            return None if any(_is_type(name, value) for name in names) else f"must be of type {' or '.join(names)}"
        case "enum", list(), _:
            return None if any(_same(value, option) for option in argument) else f"must be one of {_listed(argument)}"
        case "const", _, _:
            return None if _same(value, argument) else f"must be {_listed([argument])}"
        case "pattern", str(), str():
            return None if re.search(argument, value) else f"must match {quoted(argument)}"
        case "minLength", int(), str():
            return None if len(value) >= argument else f"must have at least {argument} characters"
        case "maxLength", int(), str():
            return None if len(value) <= argument else f"must have at most {argument} characters"
        case "minItems", int(), list():
            return None if len(value) >= argument else f"must have at least {argument} items"
        case "maxItems", int(), list():
            return None if len(value) <= argument else f"must have at most {argument} items"
        case "minimum", int() | float(), int() | float():
            return None if isinstance(value, bool) or value >= argument else f"must be at least {argument}"
        case "maximum", int() | float(), int() | float():
            return None if isinstance(value, bool) or value <= argument else f"must be at most {argument}"
        case "required", list(), dict():
            missing = [str(name) for name in argument if name not in value]
            return f"lacks {', '.join(map(quoted, missing))}" if missing else None
        case _:
            return None  # the keyword speaks of values of another type


def _nested_faults(
    schema: JsonObject, keyword: str, argument: JsonValue, value: JsonValue, path: Path
) -> Iterator[Fault]:
    """What a keyword has against the parts of the value."""
    match keyword, argument, value:
        case "properties", dict(), dict():
            for name, part in argument.items():
                if name in value and isinstance(part, dict):
                    yield from input_faults(part, value[name], (*path, name))
        case "additionalProperties", _, dict():
            properties = schema.get("properties")
            known = properties if isinstance(properties, dict) else {}
            for name in (name for name in value if name not in known):
                if argument is False:
                    yield Fault(json_path((*path, name)), f"is not a field; the fields are {_listed([*known])}")
                elif isinstance(argument, dict):
                    yield from input_faults(argument, value[name], (*path, name))
        case "items", dict(), list():
            for place, item in enumerate(value):
                yield from input_faults(argument, item, (*path, place))
        case "anyOf", list(), _:
            if not any(_fits(part, value) for part in argument):
                yield Fault(json_path(path), "fits none of the permitted forms")
        case _:
            return


def _fits(schema: JsonValue, value: JsonValue) -> bool:
    return isinstance(schema, dict) and next(input_faults(schema, value), None) is None


def _is_number(value: JsonValue) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_type(name: str, value: JsonValue) -> bool:
    match name:
        case "object":
            return isinstance(value, dict)
        case "array":
            return isinstance(value, list)
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "null":
            return value is None
        case "number":
            return _is_number(value)
        case _:  # integer; in JSON, 1.0 is one
            return _is_number(value) and (not isinstance(value, float) or value.is_integer())


def _same(one: JsonValue, other: JsonValue) -> bool:
    """Equality as JSON has it: 1 is 1.0, but true is not 1."""
    match one, other:
        case list(), list():
            return len(one) == len(other) and all(map(_same, one, other))
        case dict(), dict():
            return one.keys() == other.keys() and all(_same(one[name], other[name]) for name in one)
        case _:
            return isinstance(one, bool) is isinstance(other, bool) and one == other


def _listed(options: list[JsonValue]) -> str:
    """The options as JSON, the first of them when there are many."""
    shown = [json.dumps(option, ensure_ascii=False) for option in options[:MOST_LISTED]]
    rest = len(options) - len(shown)
    return ", ".join(shown) + (f" and {rest} more" if rest else "")

"""A compact judge of tool inputs: the keywords of JSON Schema that tools use.

Known: type, enum, const, properties, required, additionalProperties, items, minItems, maxItems, minimum, maximum,
exclusiveMinimum, exclusiveMaximum, minLength, maxLength, pattern, anyOf, oneOf, allOf, not. Others are passed over.
"""

import re
from collections.abc import Iterator

from loopkernel.data.json_text import Json, JsonValue

_REFERENCE = "$result"


def faults_of(value: JsonValue, schema: JsonValue, path: str = "the input") -> Iterator[str]:
    """What of the value does not fit the schema, a sentence each.

    A reference to the output of another call stands for a value that is not known yet, and fits anything.
    """
    if schema is False:
        yield f"{path} must not be given"
    if not isinstance(schema, dict) or (isinstance(value, dict) and set(value) == {_REFERENCE}):
        return
    yield from _faults_of_any(value, schema, path)
    yield from _faults_of_alternatives(value, schema, path)
    if isinstance(value, dict):
        yield from _faults_of_object(value, schema, path)
    elif isinstance(value, list):
        yield from _faults_of_list(value, schema, path)
    elif isinstance(value, str):
        yield from _faults_of_text(value, schema, path)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from _faults_of_number(value, schema, path)


def _fits(value: JsonValue, schema: JsonValue) -> bool:
    return next(faults_of(value, schema), None) is None


def _same(one: JsonValue, other: JsonValue) -> bool:
    """JSON equality: true is not 1, 1.0 is 1, the order of keys does not count."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return one == other


def _faults_of_any(value: JsonValue, schema: dict[str, JsonValue], path: str) -> Iterator[str]:
    wanted = schema.get("type")
    names = wanted if isinstance(wanted, list) else [] if wanted is None else [wanted]
    if names and not any(_is_of_type(value, str(name)) for name in names):
        yield f"{path} must be of type {' or '.join(map(str, names))}"
    allowed = schema.get("enum")
    if isinstance(allowed, list) and not any(_same(value, one) for one in allowed):
        yield f"{path} must be one of {Json.of(allowed).text}"
    if "const" in schema and not _same(value, schema["const"]):
        yield f"{path} must be {Json.of(schema['const']).text}"


def _is_of_type(value: JsonValue, name: str) -> bool:
    match name:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            return not isinstance(value, bool) and isinstance(value, int | float) and value == value // 1
        case "number":
            return not isinstance(value, bool) and isinstance(value, int | float)
        case "string":
            return isinstance(value, str)
        case "array":
            return isinstance(value, list)
        case "object":
            return isinstance(value, dict)
        case _:
            return True  # a word that JSON Schema does not have


def _faults_of_alternatives(value: JsonValue, schema: dict[str, JsonValue], path: str) -> Iterator[str]:
    parts = schema.get("allOf")
    for part in parts if isinstance(parts, list) else []:
        yield from faults_of(value, part, path)
    some = schema.get("anyOf")
    if isinstance(some, list) and not any(_fits(value, part) for part in some):
        yield f"{path} must fit at least one alternative"
    one = schema.get("oneOf")
    if isinstance(one, list) and sum(_fits(value, part) for part in one) != 1:
        yield f"{path} must fit exactly one alternative"
    if "not" in schema and _fits(value, schema["not"]):
        yield f"{path} must not be such a value"


def _faults_of_object(value: dict[str, JsonValue], schema: dict[str, JsonValue], path: str) -> Iterator[str]:
    required = schema.get("required")
    for name in required if isinstance(required, list) else []:
        if name not in value:
            yield f"{path} lacks the field {name}"
    listed = schema.get("properties")
    properties = listed if isinstance(listed, dict) else {}
    for name, item in value.items():
        part = properties.get(name, schema.get("additionalProperties", True))
        if part is False:
            yield f"{path} has the unknown field {name}"
        else:
            yield from faults_of(item, part, f"{path}.{name}")


def _faults_of_list(value: list[JsonValue], schema: dict[str, JsonValue], path: str) -> Iterator[str]:
    yield from _bounds(len(value), schema.get("minItems"), schema.get("maxItems"), f"the length of {path}")
    for index, item in enumerate(value):
        yield from faults_of(item, schema.get("items", True), f"{path}[{index}]")


def _faults_of_text(value: str, schema: dict[str, JsonValue], path: str) -> Iterator[str]:
    yield from _bounds(len(value), schema.get("minLength"), schema.get("maxLength"), f"the length of {path}")
    pattern = schema.get("pattern")
    if isinstance(pattern, str) and not re.search(pattern, value):
        yield f"{path} must match {pattern}"


def _faults_of_number(value: int | float, schema: dict[str, JsonValue], path: str) -> Iterator[str]:
    yield from _bounds(value, schema.get("minimum"), schema.get("maximum"), path)
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    if isinstance(above, int | float) and value <= above:
        yield f"{path} must be above {above}"
    if isinstance(below, int | float) and value >= below:
        yield f"{path} must be below {below}"


def _bounds(value: int | float, least: JsonValue, most: JsonValue, path: str) -> Iterator[str]:
    if isinstance(least, int | float) and value < least:
        yield f"{path} must be at least {least}"
    if isinstance(most, int | float) and value > most:
        yield f"{path} must be at most {most}"

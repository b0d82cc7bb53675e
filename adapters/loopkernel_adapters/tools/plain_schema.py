"""The part of JSON Schema that most tools use, judged without a library, and the words for what does not fit.

Where the library is installed (`pip install 'loopkernel[tools]'`), it judges, and only the words are from here.
"""

import json
import re
from collections.abc import Iterator

from loopkernel.data.errors import Fault, json_path, quoted
from loopkernel.data.json_text import JsonValue

from loopkernel_adapters.tools.patterns import longest_tested

JsonObject = dict[str, JsonValue]
Path = tuple[str | int, ...]

MOST_LISTED = 20  # permitted values that a fault lists

PLAIN_KEYWORDS = frozenset(
    {"type", "enum", "const", "required", "properties", "additionalProperties", "items", "anyOf", "pattern"}
    | {"minLength", "maxLength", "minItems", "maxItems", "minimum", "maximum"}
)
TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")
_NESTED = ("properties", "additionalProperties", "items", "anyOf")


def plain_faults(schema: JsonObject, value: JsonValue, path: Path = ()) -> Iterator[Fault]:
    """All that keeps the value from fitting a schema of PLAIN_KEYWORDS alone."""
    for keyword, argument in schema.items():
        problem = problem_of(keyword, argument, value)
        if problem is not None:
            yield Fault(json_path(path), problem)
        if keyword in _NESTED:
            yield from _nested_faults(schema, keyword, argument, value, path)


# --- the input ----------------------------------------------------------------------------------------


def problem_of(keyword: str, argument: JsonValue, value: JsonValue) -> str | None:
    """What one keyword has against the value itself."""
    match keyword, argument, value:
        case "type", _, _:
            names = [str(name) for name in (argument if isinstance(argument, list) else [argument])]
            return None if any(_is_type(name, value) for name in names) else f"must be of type {' or '.join(names)}"
        case "enum", list(), _:
            return None if any(_same(value, option) for option in argument) else f"must be one of {listed(argument)}"
        case "const", _, _:
            return None if _same(value, argument) else f"must be {listed([argument])}"
        case "pattern", str(), str():
            return _pattern_problem(argument, value)
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
                    yield from plain_faults(part, value[name], (*path, name))
        case "additionalProperties", _, dict():
            properties = schema.get("properties")
            known = properties if isinstance(properties, dict) else {}
            for name in (name for name in value if name not in known):
                if argument is False:
                    yield Fault(json_path((*path, name)), no_field(known))
                elif isinstance(argument, dict):
                    yield from plain_faults(argument, value[name], (*path, name))
        case "items", dict(), list():
            for place, item in enumerate(value):
                yield from plain_faults(argument, item, (*path, place))
        case "anyOf", list(), _:
            if not any(_fits(part, value) for part in argument):
                yield Fault(json_path(path), no_form(argument))
        case _:
            return


def no_form(forms: list[JsonValue]) -> str:
    """The words for a value that fits none of the forms."""
    types = [str(form["type"]) for form in forms if isinstance(form, dict) and isinstance(form.get("type"), str)]
    only_types = len(types) == len(forms) and all(isinstance(form, dict) and len(form) == 1 for form in forms)
    return f"must be of type {' or '.join(types)}" if only_types else "fits none of the permitted forms"


def no_field(known: JsonObject) -> str:
    """The words for a field that is not known."""
    return f"is not a field; the fields are {listed([*known])}" if known else "is not a field; there are none"


def _pattern_problem(pattern: str, text: str) -> str | None:
    most = longest_tested(pattern)
    if len(text) > most:
        return f"has {len(text)} characters, and {most} are the most that are tested against {quoted(pattern)}"
    return None if re.search(pattern, text) else f"must match {quoted(pattern)}"


def _fits(schema: JsonValue, value: JsonValue) -> bool:
    return isinstance(schema, dict) and next(plain_faults(schema, value), None) is None


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


def listed(options: list[JsonValue]) -> str:
    """The options as JSON, the first of them when there are many."""
    shown = [json.dumps(option, ensure_ascii=False) for option in options[:MOST_LISTED]]
    rest = len(options) - len(shown)
    return ", ".join(shown) + (f" and {rest} more" if rest else "")

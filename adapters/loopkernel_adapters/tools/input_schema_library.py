"""JSON Schema by the library `jsonschema`: its verdicts, in this project's words, within bounds of time.

Imported by `input_schema.py` alone, and there inside functions: the library is the extra `tools`.
"""

import json
import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, cast

from loopkernel.data.errors import Fault, json_path, quoted
from loopkernel.data.json_text import JsonValue

from loopkernel_adapters.bounded_text import beginning
from loopkernel_adapters.tools.patterns import longest_tested
from loopkernel_adapters.tools.plain_schema import JsonObject, no_field, no_form, problem_of

if TYPE_CHECKING:
    from jsonschema import ValidationError
    from jsonschema.protocols import Validator

Judged = Iterator["ValidationError"]

MOST_ERRORS = 50  # that the library is asked for
MOST_REFERENCES = 10_000  # that are followed for one input: few lines of a schema can have billions
LONGEST_NAME = 200  # characters of a field, where patterns say which fields there are
LONGEST_WORDS = 200  # characters of the library's own words
_OLD_DRAFTS = ("draft-04", "draft-06", "draft-07")


class _TooMuch(Exception):
    """The schema sends the judgement around without end."""


def schema_faults(schema: JsonObject) -> Iterator[Fault]:
    """What the library has against a schema, a fault for each place."""
    found: set[str] = set()
    library = _library_class(schema)
    for error in islice(library(library.META_SCHEMA).iter_errors(schema), MOST_ERRORS):
        place = json_path([*error.absolute_path])
        if place not in found:
            found.add(place)
            yield Fault(place, f"is not what JSON Schema has here: {beginning(error.message, LONGEST_WORDS)}")
    names = _patterns_of_names(schema)
    for pattern in names:
        if longest_tested(pattern) < LONGEST_NAME:
            yield Fault("$", f"has the pattern {quoted(pattern)} for names of fields, which takes too long")


def judge_of(schema: JsonObject) -> Callable[[JsonValue], Iterator[Fault]]:
    """The judgement by a schema that has no fault."""
    spent = [0]
    bare = {keyword: part for keyword, part in schema.items() if keyword not in ("$schema", "$id")}
    judge = _bounded(_library_class(schema), spent)(bare)
    named_by_pattern = bool(_patterns_of_names(schema))

    def faults(value: JsonValue) -> Iterator[Fault]:
        spent[0] = 0
        if named_by_pattern and any(len(name) > LONGEST_NAME for name in _names(value)):
            yield Fault("$", f"has a field whose name is longer than {LONGEST_NAME} characters")
            return
        told: set[Fault] = set()
        try:
            for error in islice(judge.iter_errors(value), MOST_ERRORS):
                for fault in _faults_of(error):
                    if fault not in told:
                        told.add(fault)
                        yield fault
        except (_TooMuch, RecursionError):
            yield Fault("$", "cannot be judged: the schema of this tool refers to itself without end")

    return faults


def _library_class(schema: JsonObject) -> "type[Validator]":
    from jsonschema import Draft7Validator, Draft202012Validator

    named = schema.get("$schema")
    old = isinstance(named, str) and any(draft in named for draft in _OLD_DRAFTS)
    return Draft7Validator if old else Draft202012Validator


def _bounded(library: "type[Validator]", spent: list[int]) -> "type[Validator]":
    """The library's judge, with what could take for ever replaced or counted."""
    from jsonschema import ValidationError
    from jsonschema.validators import extend

    def counted(keyword: str) -> Callable[..., Judged]:
        follow: Callable[..., Judged] = library.VALIDATORS[keyword]

        def check(judge: "Validator", argument: JsonValue, value: JsonValue, schema: JsonObject) -> Judged:
            spent[0] += 1
            if spent[0] > MOST_REFERENCES:
                raise _TooMuch
            yield from follow(judge, argument, value, schema)

        return check

    def pattern(judge: "Validator", argument: JsonValue, value: JsonValue, schema: JsonObject) -> Judged:
        if problem_of("pattern", argument, value) is not None:
            yield ValidationError("does not match")  # worded where all faults are

    def unique(judge: "Validator", argument: JsonValue, value: JsonValue, schema: JsonObject) -> Judged:
        if argument is True and isinstance(value, list) and len({*map(_identity, value)}) < len(value):
            yield ValidationError("holds an item twice")

    keywords = [keyword for keyword in ("$ref", "$dynamicRef") if keyword in library.VALIDATORS]
    replaced = {keyword: counted(keyword) for keyword in keywords}
    judge: type[Validator] = extend(  # type: ignore[no-untyped-call]  # the library's own signature has no types
        library, {**replaced, "pattern": pattern, "uniqueItems": unique}
    )
    return judge


def _identity(value: JsonValue) -> str:
    """The same text for values that are the same in JSON: the order of fields does not matter, and 1.0 is 1."""
    match value:
        case dict():
            return f"{{{','.join(f'{json.dumps(name)}:{_identity(value[name])}' for name in sorted(value))}}}"
        case list():
            return f"[{','.join(map(_identity, value))}]"
        case float() if value.is_integer():
            return str(int(value))
        case _:
            return json.dumps(value)


def _patterns_of_names(schema: JsonValue) -> list[str]:
    """The patterns for names of fields, wherever they stand."""
    found: list[str] = []
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            named = part.get("patternProperties")
            found += named if isinstance(named, dict) else ()
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
    return found


def _names(value: JsonValue) -> Iterator[str]:
    """The names of all fields within a value."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            yield from part
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part


def _faults_of(error: "ValidationError") -> Iterator[Fault]:
    """An error of the library, in the words of this project."""
    path: list[str | int] = [*error.absolute_path]
    # The library's types say that either may not be set; of an error that it gives, both are.
    value, argument = cast(JsonValue, error.instance), cast(JsonValue, error.validator_value)
    keyword = str(error.validator)
    if keyword == "additionalProperties" and argument is False and isinstance(value, dict):
        schema = error.schema if isinstance(error.schema, dict) else {}
        known: JsonObject = schema.get("properties", {})
        more = [name for name in value if name not in known and not _fits_a_pattern(name, schema)]
        yield from (Fault(json_path([*path, name]), no_field(known)) for name in more)
        return
    yield Fault(json_path(path), _words(keyword, argument, value) or beginning(error.message, LONGEST_WORDS))


def _fits_a_pattern(name: str, schema: JsonObject) -> bool:
    patterns = schema.get("patternProperties")
    return isinstance(patterns, dict) and any(re.search(pattern, name) for pattern in patterns)


def _words(keyword: str, argument: JsonValue, value: JsonValue) -> str | None:
    match keyword, argument:
        case "anyOf", list():
            return no_form(argument)
        case "oneOf", list():
            return "must fit exactly one of the permitted forms"
        case "not", _:
            return "is what must not be"
        case "exclusiveMinimum", _:
            return f"must be more than {argument}"
        case "exclusiveMaximum", _:
            return f"must be less than {argument}"
        case "multipleOf", _:
            return f"must be a multiple of {argument}"
        case "uniqueItems", _:
            return "must not hold an item twice"
        case "minProperties", _:
            return f"must have at least {argument} fields"
        case "maxProperties", _:
            return f"must have at most {argument} fields"
        case "contains", _:
            return "lacks an item of the form that is needed"
        case "None", _:  # the schema false
            return "holds what must not be given"  # the library does not say where
        case _:
            return problem_of(keyword, argument, value)

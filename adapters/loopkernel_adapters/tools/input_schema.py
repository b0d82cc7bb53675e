"""A tool's input schema: JSON Schema, Draft 2020-12 (or 7, where it says so), judged by the library `jsonschema`.

What is here is what the library does not do. A schema is refused when its tool is registered where it is none, has a
keyword written otherwise than the standard has it, refers to another document, which nobody fetches, or has patterns
that may take for ever. Unknown keywords are annotations, as the standard says, and so is `format`. Inputs are judged
within bounds of time, and what does not fit is told in this project's words.

Needs the extra `tools`: the library is imported when the first schema is read.
"""

import json
import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, cast
from urllib.parse import unquote

from loopkernel.data.errors import CodecError, Fault, json_path, quoted
from loopkernel.data.json_text import JsonValue

from loopkernel_adapters.bounded_text import beginning
from loopkernel_adapters.tools.patterns import longest_tested, pattern_problem

if TYPE_CHECKING:
    from jsonschema import ValidationError
    from jsonschema.protocols import Validator

JsonObject = dict[str, JsonValue]
Path = tuple[str | int, ...]
Judged = Iterator["ValidationError"]

MOST_ERRORS = 50  # that the library is asked for
MOST_REFERENCES = 10_000  # that are followed for one input: few lines of a schema can have billions
MOST_LISTED = 20  # permitted values that a fault lists
LONGEST_NAME = 200  # characters of a field, where patterns say which fields there are
LONGEST_WORDS = 200  # characters of the library's own words

MISSING_LIBRARY = "inputs of tools are judged by a library; install it: pip install 'loopkernel[tools]'"

_OLD_DRAFTS = ("draft-04", "draft-06", "draft-07")
_ANNOTATIONS = frozenset(
    {"$schema", "$id", "$comment", "$anchor", "$dynamicAnchor", "title", "description", "default", "examples", "format"}
    | {"deprecated", "readOnly", "writeOnly", "contentEncoding", "contentMediaType"}
)
_ONE_SCHEMA = frozenset(
    {"items", "additionalProperties", "additionalItems", "propertyNames", "contains", "not", "if", "then", "else"}
    | {"unevaluatedItems", "unevaluatedProperties"}
)
_LIST_OF_SCHEMAS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_NAMED_SCHEMAS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_OTHERS = frozenset(
    {"$ref", "$dynamicRef", "$vocabulary", "contentSchema", "dependencies", "dependentRequired", "exclusiveMaximum"}
    | {"exclusiveMinimum", "maxContains", "maxProperties", "minContains", "minProperties", "multipleOf", "uniqueItems"}
    | {"type", "enum", "const", "required", "pattern"}
    | {"minLength", "maxLength", "minItems", "maxItems", "minimum", "maximum"}
)
_KEYWORDS = _ANNOTATIONS | _ONE_SCHEMA | _LIST_OF_SCHEMAS | _NAMED_SCHEMAS | _OTHERS
_BY_LETTERS = {re.sub(r"[^a-z]", "", keyword.lower()): keyword for keyword in _KEYWORDS}
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_UNEVALUATED = ("unevaluatedItems", "unevaluatedProperties")  # the library follows references for them, and counts none


class InputSchema:
    """A schema that is understood, ready to judge inputs. Raises CodecError, with all faults, for any other."""

    def __init__(self, schema: JsonValue) -> None:
        self.schema = demand_schema(schema)
        self._judge = _judge_of(self.schema)

    def faults(self, value: JsonValue) -> Iterator[Fault]:
        """All that keeps the value from fitting."""
        return self._judge(value)

    def with_defaults(self, value: JsonObject) -> JsonObject:
        """The input with the schema's default for each field that is not given."""
        return with_defaults(self.schema, value)


def demand_schema(schema: JsonValue) -> JsonObject:
    """The schema itself. Raises CodecError, with all faults, when it is none, or a part of it is refused."""
    if not isinstance(schema, dict):
        raise CodecError([Fault("$", "must be a JSON Schema, an object")])
    faults = _Reading(schema).faults
    places = {fault.path for fault in faults}
    faults += (fault for fault in _library_faults(schema) if fault.path not in places)
    if faults:
        raise CodecError(faults)
    return schema


def with_defaults(schema: JsonObject, value: JsonObject) -> JsonObject:
    """The input with the schema's default for each field that is not given."""
    properties = schema.get("properties")
    fields = properties.items() if isinstance(properties, dict) else ()
    defaults = {name: field["default"] for name, field in fields if isinstance(field, dict) and "default" in field}
    return {**defaults, **value}


# --- the schema: what the library does not look at ------------------------------------------------------


class _Reading:
    """Looks through a schema: which keywords are refused, and where its references lead."""

    def __init__(self, schema: JsonObject) -> None:
        self.faults: list[Fault] = []
        self._places: set[Path] = set()  # of all schemas within it
        self._anchors: set[str] = set()
        self._references: list[tuple[Path, str]] = []
        self._unevaluated: list[Path] = []
        self._look_through(schema, ())
        self._look_at_references()

    def _look_through(self, schema: JsonValue, path: Path) -> None:
        """A schema, and all schemas within it."""
        self._places.add(path)
        for keyword, argument in schema.items() if isinstance(schema, dict) else ():
            place = (*path, keyword)
            problem = _keyword_problem(keyword, argument, at_the_top=not path)
            if problem is not None:
                self._refuse(place, problem)
                continue
            if keyword in _UNEVALUATED:
                self._unevaluated.append(place)
            if keyword in _REFERENCES:
                self._references.append((place, str(argument)))
            elif keyword in ("$anchor", "$dynamicAnchor"):
                self._anchors.add(str(argument))
            for segments, part in _subschemas(keyword, argument):
                self._look_through(part, (*place, *segments))

    def _look_at_references(self) -> None:
        """Each has to lead to one of the schemas that were looked through."""
        for place, reference in self._references:
            if not reference.startswith("#"):
                self._refuse(place, "refers to another document, and none is fetched; put what it holds into $defs")
            elif not self._leads_somewhere(reference):
                self._refuse(place, "refers to no schema of this document")
        for place in self._unevaluated if self._references else ():
            self._refuse(place, "may take for ever beside references; write it without one of the two")

    def _leads_somewhere(self, reference: str) -> bool:
        pointer = unquote(reference[1:])
        if pointer and not pointer.startswith("/"):
            return pointer in self._anchors
        segments = [segment.replace("~1", "/").replace("~0", "~") for segment in pointer.split("/")[1:]]
        return any(
            len(place) == len(segments)
            and all(str(mine) == theirs for mine, theirs in zip(place, segments, strict=True))
            for place in self._places
        )

    def _refuse(self, path: Path, problem: str) -> None:
        self.faults.append(Fault(json_path(path), problem))


def _subschemas(keyword: str, argument: JsonValue) -> Iterator[tuple[Path, JsonValue]]:
    if keyword in _NAMED_SCHEMAS and isinstance(argument, dict):
        yield from (((name,), part) for name, part in argument.items())
    elif keyword == "dependencies" and isinstance(argument, dict):
        yield from (((name,), part) for name, part in argument.items() if not isinstance(part, list))
    elif (keyword in _LIST_OF_SCHEMAS or keyword == "items") and isinstance(argument, list):
        yield from (((place,), part) for place, part in enumerate(argument))
    elif keyword in _ONE_SCHEMA:
        yield (), argument


def _keyword_problem(keyword: str, argument: JsonValue, at_the_top: bool) -> str | None:
    """Why a keyword is refused, without looking into the schemas within it."""
    match keyword:
        case "patternProperties" if isinstance(argument, dict):
            return next((problem for name in argument if (problem := pattern_problem(name)) is not None), None)
        case "pattern":
            return pattern_problem(argument)
        case "$recursiveRef":
            return "is not part of JSON Schema any more; use $dynamicRef"
        case "$id" | "$schema":
            return None if at_the_top and isinstance(argument, str) else "is a text at the top of a schema alone"
        case _:
            meant = _BY_LETTERS.get(re.sub(r"[^a-z]", "", keyword.lower()), keyword)
            return None if meant == keyword else f"is not a keyword; it is written {meant}"


# --- the library, within bounds of time -----------------------------------------------------------------


class _TooMuch(Exception):
    """The schema sends the judgement around without end."""


def _library_faults(schema: JsonObject) -> Iterator[Fault]:
    """What the library has against a schema, a fault for each place."""
    library = _library_class(schema)
    from jsonschema.exceptions import best_match

    found: set[str] = set()
    for error in islice(_bounded(library, None)(library.META_SCHEMA).iter_errors(schema), MOST_ERRORS):
        place = json_path([*error.absolute_path])
        if place not in found:
            found.add(place)
            words = (best_match([error]) or error).message
            yield Fault(place, f"is not what JSON Schema has here: {beginning(words, LONGEST_WORDS)}")
    for pattern in _patterns_of_names(schema):
        if pattern_problem(pattern) is None and longest_tested(pattern) < LONGEST_NAME:
            yield Fault("$", f"has the pattern {quoted(pattern)} for names of fields, which takes too long")


def _judge_of(schema: JsonObject) -> Callable[[JsonValue], Iterator[Fault]]:
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
    """Raises ImportError with what to install where the library is not there."""
    try:
        from jsonschema import Draft7Validator, Draft202012Validator
    except ModuleNotFoundError as error:
        raise ImportError(MISSING_LIBRARY) from error

    named = schema.get("$schema")
    old = isinstance(named, str) and any(draft in named for draft in _OLD_DRAFTS)
    return Draft7Validator if old else Draft202012Validator


def _bounded(library: "type[Validator]", spent: list[int] | None) -> "type[Validator]":
    """The library's judge, with what could take for ever replaced; or counted, for a schema that is not its own."""
    from jsonschema import ValidationError
    from jsonschema.validators import extend

    def counted(keyword: str, spent: list[int]) -> Callable[..., Judged]:
        follow: Callable[..., Judged] = library.VALIDATORS[keyword]

        def check(judge: "Validator", argument: JsonValue, value: JsonValue, schema: JsonObject) -> Judged:
            spent[0] += 1
            if spent[0] > MOST_REFERENCES:
                raise _TooMuch
            yield from follow(judge, argument, value, schema)

        return check

    def pattern(judge: "Validator", argument: str, value: JsonValue, schema: JsonObject) -> Judged:
        problem = _mismatch(argument, value) if isinstance(value, str) else None
        if problem is not None:
            yield ValidationError(problem)

    def unique(judge: "Validator", argument: JsonValue, value: JsonValue, schema: JsonObject) -> Judged:
        if argument is True and isinstance(value, list) and len({*map(_identity, value)}) < len(value):
            yield ValidationError("must not hold an item twice")

    replaced: dict[str, Callable[..., Judged]] = {"uniqueItems": unique}
    if spent is not None:
        keywords = [keyword for keyword in ("$ref", "$dynamicRef") if keyword in library.VALIDATORS]
        replaced |= {"pattern": pattern, **{keyword: counted(keyword, spent) for keyword in keywords}}
    judge: type[Validator] = extend(library, replaced)  # type: ignore[no-untyped-call]  # its signature has no types
    return judge


def _mismatch(pattern: str, text: str) -> str | None:
    most = longest_tested(pattern)
    if len(text) > most:
        return f"has {len(text)} characters, and {most} are the most that are tested against {quoted(pattern)}"
    return None if re.search(pattern, text) else f"must match {quoted(pattern)}"


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


def _parts(value: JsonValue) -> Iterator[JsonObject]:
    """All objects within a value, itself among them."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            yield part
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part


def _patterns_of_names(schema: JsonValue) -> list[str]:
    """The patterns for names of fields, wherever they stand."""
    named = (part.get("patternProperties") for part in _parts(schema))
    return [pattern for patterns in named if isinstance(patterns, dict) for pattern in patterns]


def _names(value: JsonValue) -> Iterator[str]:
    """The names of all fields within a value."""
    return (name for part in _parts(value) for name in part)


# --- what does not fit, in words ------------------------------------------------------------------------

_WORDS = {
    "oneOf": "must fit exactly one of the permitted forms",
    "not": "is what must not be",
    "minLength": "must have at least {} characters",
    "maxLength": "must have at most {} characters",
    "minItems": "must have at least {} items",
    "maxItems": "must have at most {} items",
    "minProperties": "must have at least {} fields",
    "maxProperties": "must have at most {} fields",
    "minimum": "must be at least {}",
    "maximum": "must be at most {}",
    "exclusiveMinimum": "must be more than {}",
    "exclusiveMaximum": "must be less than {}",
    "multipleOf": "must be a multiple of {}",
    "contains": "lacks an item of the form that is needed",
    "None": "holds what must not be given",  # the schema false; the library does not say where
}


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
        case "type", _:
            names = argument if isinstance(argument, list) else [argument]
            return f"must be of type {' or '.join(map(str, names))}"
        case "enum", list():
            return f"must be one of {_listed(argument)}"
        case "const", _:
            return f"must be {_listed([argument])}"
        case "required", list() if isinstance(value, dict):
            return f"lacks {', '.join(quoted(str(name)) for name in argument if name not in value)}"
        case "anyOf", list():
            return _no_form(argument)
        case _:
            return _WORDS[keyword].format(argument) if keyword in _WORDS else None


def _no_form(forms: list[JsonValue]) -> str:
    """The words for a value that fits none of the forms."""
    types = [str(form["type"]) for form in forms if isinstance(form, dict) and isinstance(form.get("type"), str)]
    only_types = len(types) == len(forms) and all(isinstance(form, dict) and len(form) == 1 for form in forms)
    return f"must be of type {' or '.join(types)}" if only_types else "fits none of the permitted forms"


def no_field(known: JsonObject) -> str:
    """The words for a field that is not known."""
    return f"is not a field; the fields are {_listed([*known])}" if known else "is not a field; there are none"


def _listed(options: list[JsonValue]) -> str:
    """The options as JSON, the first of them when there are many."""
    shown = [json.dumps(option, ensure_ascii=False) for option in options[:MOST_LISTED]]
    rest = len(options) - len(shown)
    return ", ".join(shown) + (f" and {rest} more" if rest else "")

"""A tool's input schema: JSON Schema, Draft 2020-12 (or 7, where it says so), judged by the library `jsonschema`.

A schema is understood or refused when the tool is registered: what is no schema, a keyword written otherwise than the
standard has it, references to other documents, which nobody fetches, and patterns that may take for ever. Other unknown
keywords are annotations, as the standard says, and so is `format`. Without the library, the part that most tools use
(`plain_schema.py`) is judged all the same, and a schema of more than that is refused with the name of the extra.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from urllib.parse import unquote

from loopkernel.data.errors import CodecError, Fault, json_path
from loopkernel.data.json_text import JsonValue

from loopkernel_adapters.tools.input_schema_library import judge_of, schema_faults
from loopkernel_adapters.tools.patterns import pattern_problem
from loopkernel_adapters.tools.plain_schema import PLAIN_KEYWORDS, TYPES, JsonObject, Path, plain_faults

ANNOTATIONS = frozenset(
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
)
KEYWORDS = ANNOTATIONS | _ONE_SCHEMA | _LIST_OF_SCHEMAS | _NAMED_SCHEMAS | _OTHERS | PLAIN_KEYWORDS
_BY_LETTERS = {re.sub(r"[^a-z]", "", keyword.lower()): keyword for keyword in KEYWORDS}
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_UNEVALUATED = ("unevaluatedItems", "unevaluatedProperties")  # the library follows references for them, and counts none

MISSING_LIBRARY = "is more than can be judged without a library; install it: pip install 'loopkernel[tools]'"

__all__ = ["InputSchema", "JsonObject", "demand_schema", "input_faults", "with_defaults"]


class InputSchema:
    """A schema that is understood, ready to judge inputs. Raises CodecError, with all faults, for any other."""

    def __init__(self, schema: JsonValue) -> None:
        self.schema = demand_schema(schema)
        judge = library_judge(self.schema)
        self._judge: Callable[[JsonValue], Iterator[Fault]] = judge or (lambda value: plain_faults(self.schema, value))

    def faults(self, value: JsonValue) -> Iterator[Fault]:
        """All that keeps the value from fitting."""
        return self._judge(value)

    def with_defaults(self, value: JsonObject) -> JsonObject:
        """The input with the schema's default for each field that is not given."""
        return with_defaults(self.schema, value)


def library_judge(schema: JsonObject) -> Callable[[JsonValue], Iterator[Fault]] | None:
    """The library's judgement by a schema that has been looked through; None where the library is not installed."""
    try:
        return judge_of(schema)
    except ImportError:
        return None


def demand_schema(schema: JsonValue) -> JsonObject:
    """The schema itself. Raises CodecError, with all faults, when it is none, or a part of it is refused."""
    found = _Reading()
    found.look_through(schema, ())
    found.look_at_references()
    faults = found.faults
    if not faults and isinstance(schema, dict):
        try:
            faults = list(schema_faults(schema))
        except ImportError:
            faults = [Fault(json_path(path), MISSING_LIBRARY) for path in found.not_plain]
    if faults or not isinstance(schema, dict):
        raise CodecError(faults)
    return schema


def input_faults(schema: JsonObject, value: JsonValue) -> Iterator[Fault]:
    """All that keeps the value from fitting a schema that `demand_schema` has let through."""
    judge = library_judge(schema)
    return plain_faults(schema, value) if judge is None else judge(value)


def with_defaults(schema: JsonObject, value: JsonObject) -> JsonObject:
    """The input with the schema's default for each field that is not given."""
    properties = schema.get("properties")
    fields = properties.items() if isinstance(properties, dict) else ()
    defaults = {name: field["default"] for name, field in fields if isinstance(field, dict) and "default" in field}
    return {**defaults, **value}


class _Reading:
    """Looks through a schema: what is wrong with it, what of it is more than plain, and where its references lead."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []
        self.not_plain: list[Path] = []
        self._places: set[Path] = set()  # of all schemas within it
        self._anchors: set[str] = set()
        self._references: list[tuple[Path, str]] = []
        self._unevaluated: list[Path] = []

    def look_through(self, schema: JsonValue, path: Path) -> None:
        """A schema, and all schemas within it."""
        self._places.add(path)
        if isinstance(schema, bool) and path:
            if path[-1] != "additionalProperties":
                self.not_plain.append(path)
            return
        if not isinstance(schema, dict):
            self._refuse(path, "must be a JSON Schema, an object")
            return
        for keyword, argument in schema.items():
            place = (*path, keyword)
            problem = _keyword_problem(keyword, argument, at_the_top=not path)
            if problem is not None:
                self._refuse(place, problem)
                continue
            if keyword in KEYWORDS - PLAIN_KEYWORDS - ANNOTATIONS:
                self.not_plain.append(place)
            if keyword in _UNEVALUATED:
                self._unevaluated.append(place)
            if keyword in _REFERENCES:
                self._references.append((place, str(argument)))
            elif keyword in ("$anchor", "$dynamicAnchor"):
                self._anchors.add(str(argument))
            for segments, part in _subschemas(keyword, argument):
                self.look_through(part, (*place, *segments))

    def look_at_references(self) -> None:
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
    """What is wrong with the argument of a keyword, without looking into the schemas within it."""
    match keyword:
        case "type":
            names = argument if isinstance(argument, list) else [argument]
            good = bool(names) and all(name in TYPES for name in names) and _all_different(names)
            return None if good else f"must be one of {', '.join(TYPES)}, or a list of them"
        case "enum" | "anyOf" | "oneOf" | "allOf":
            return None if isinstance(argument, list) and argument else "must be a list that is not empty"
        case "required":
            if isinstance(argument, list) and all(isinstance(name, str) for name in argument):
                return None if _all_different(argument) else "must not hold a name twice"
            return "must be a list of names"
        case "properties" | "patternProperties" | "$defs" | "definitions":
            return _names_problem(keyword, argument)
        case "additionalProperties":
            return None if isinstance(argument, bool | dict) else "must be true, false or a schema"
        case "items":
            return None if isinstance(argument, bool | dict | list) else "must be a schema"
        case "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties":
            good = isinstance(argument, int) and not isinstance(argument, bool) and argument >= 0
            return None if good else "must be a whole number of at least 0"
        case "minimum" | "maximum":
            good = isinstance(argument, int | float) and not isinstance(argument, bool)
            return None if good else "must be a number"
        case "pattern":
            return pattern_problem(argument)
        case "$ref" | "$dynamicRef":
            return None if isinstance(argument, str) else "must be a text"
        case "$recursiveRef":
            return "is not part of JSON Schema any more; use $dynamicRef"
        case "$id" | "$schema":
            return None if at_the_top and isinstance(argument, str) else "is a text at the top of a schema alone"
        case _:
            meant = _BY_LETTERS.get(re.sub(r"[^a-z]", "", keyword.lower()), keyword)
            return None if meant == keyword else f"is not a keyword; it is written {meant}"


def _all_different(names: Sequence[JsonValue]) -> bool:
    return len(set(map(str, names))) == len(names)


def _names_problem(keyword: str, argument: JsonValue) -> str | None:
    if not isinstance(argument, dict):
        return "must be an object"
    problems = (pattern_problem(name) for name in argument) if keyword == "patternProperties" else ()
    return next((problem for problem in problems if problem is not None), None)

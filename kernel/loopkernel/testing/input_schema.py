"""A judge of tool inputs for scripted worlds: the library `jsonschema`, in words that stay the same in every log.

A reference to the output of another call stands for a value that is not known yet, and fits anything.
"""

from collections.abc import Callable, Iterator
from typing import Any

from jsonschema import Draft202012Validator, ValidationError
from jsonschema.validators import extend

from loopkernel.data.json_text import Json, JsonValue

_REFERENCE = "$result"
_Errors = Iterator[ValidationError]
_Keyword = Callable[[Any, Any, Any, Any], _Errors | None]  # Any: the library's own signature has no types

_WORDS = {
    "anyOf": "{path} must fit at least one alternative",
    "oneOf": "{path} must fit exactly one alternative",
    "not": "{path} must not be such a value",
    "minimum": "{path} must be at least {given}",
    "maximum": "{path} must be at most {given}",
    "exclusiveMinimum": "{path} must be above {given}",
    "exclusiveMaximum": "{path} must be below {given}",
    "minLength": "the length of {path} must be at least {given}",
    "maxLength": "the length of {path} must be at most {given}",
    "minItems": "the length of {path} must be at least {given}",
    "maxItems": "the length of {path} must be at most {given}",
    "pattern": "{path} must match {given}",
    "None": "{path} must not be given",  # the schema `false`
}


def _unless_referring(judge: _Keyword) -> _Keyword:
    def judged(validator: Any, given: Any, value: Any, schema: Any) -> _Errors:  # Any: as above
        if not (isinstance(value, dict) and set(value) == {_REFERENCE}):
            yield from judge(validator, given, value, schema) or ()

    return judged


_JUDGE = extend(  # type: ignore[no-untyped-call]  # the library's own signature has no types
    Draft202012Validator,
    {keyword: _unless_referring(judge) for keyword, judge in Draft202012Validator.VALIDATORS.items()},
)


def is_schema(schema: JsonValue) -> bool:
    """Whether it is a JSON Schema, which `faults_of` can judge by."""
    return Draft202012Validator(Draft202012Validator.META_SCHEMA).is_valid(schema)


def faults_of(value: JsonValue, schema: JsonValue) -> tuple[str, ...]:
    """What of the value does not fit the schema, a sentence each. Raises re.error for a pattern that is none."""
    return tuple(dict.fromkeys(told for error in _JUDGE(schema).iter_errors(value) for told in _told(error)))


def _told(error: ValidationError) -> Iterator[str]:
    path = "the input" + "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in error.absolute_path)
    given: Any = error.validator_value  # Any: JSON of the kind that the keyword has
    value: Any = error.instance
    match error.validator:
        case "type":
            yield f"{path} must be of type {' or '.join(given) if isinstance(given, list) else given}"
        case "enum":
            yield f"{path} must be one of {Json.of(given).text}"
        case "const":
            yield f"{path} must be {Json.of(given).text}"
        case "required":
            yield from (f"{path} lacks the field {name}" for name in given if name not in value)
        case "additionalProperties" if isinstance(error.schema, dict):
            known = error.schema.get("properties", {})
            yield from (f"{path} has the unknown field {name}" for name in value if name not in known)
        case keyword:
            told = _WORDS.get(str(keyword))
            yield told.format(path=path, given=given) if told else f"{path}: {error.message}"

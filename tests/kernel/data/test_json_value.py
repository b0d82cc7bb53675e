"""JSON as a value: canonical text, which holds any value exactly."""

import json
import math
from typing import Any

import pytest
from hypothesis import example, given
from loopkernel.data.errors import MAX_FAULTS, CodecError
from loopkernel.data.json_text import (
    MAX_DEPTH,
    MAX_DIGITS,
    MAX_DOCUMENT_DEPTH,
    Json,
    JsonValue,
    canonical_text,
    exact_text,
    parse_json,
    safe_text,
)

from tests.kernel.data.json_samples import ANY_TEXT, JSON_LIKE, VALUES, broken_json, texts_within, values_of

# --- Json ---------------------------------------------------------------------------------------------


@pytest.mark.rule("RESUME-1")
@given(VALUES)
def test_json_holds_any_value_exactly(value: JsonValue) -> None:
    held = Json.of(value)
    assert canonical_text(held.value()) == canonical_text(value) == held.text
    assert held == Json.parse(held.text) == Json(text=held.text) == Json.of_parsed(value)
    assert held.value() is not held.value() or not isinstance(value, list | dict)
    assert held.text.isascii() and "\n" not in held.text


@given(JSON_LIKE | broken_json() | VALUES.map(json.dumps))
def test_canonical_text_is_its_own_canonical_text(text: str) -> None:
    try:
        held = Json.parse(text)
    except CodecError:
        return
    assert Json.parse(held.text) == held


@given(JSON_LIKE | broken_json() | VALUES.map(json.dumps))
def test_json_cannot_be_built_from_another_text(text: str) -> None:
    try:
        canonical = Json.parse(text).text
    except CodecError as error:
        with pytest.raises(CodecError) as caught:
            Json(text=text)
        assert caught.value.faults == error.faults
        return
    if canonical == text:
        assert Json(text=text).text == text
    else:
        with pytest.raises(CodecError, match=r"Json\.parse"):
            Json(text=text)


@given(JSON_LIKE | broken_json() | VALUES.map(canonical_text) | values_of(ANY_TEXT).map(json.dumps))
@example('{"a":1,"a":1}')
@example('{"a":"\\ud800"}')
@example("1" * (MAX_DIGITS + 1))
@example("[1e999]")
@example("[NaN]")
@example("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1))
def test_a_text_that_is_canonical_already_is_read_as_any_other(text: str) -> None:
    try:
        strictly = canonical_text(parse_json(text))
    except CodecError as error:
        for read in (Json.parse, Json):
            with pytest.raises(CodecError) as caught:
                read(text)
            assert caught.value.faults == error.faults
    else:
        assert Json.parse(text).text == strictly


def test_canonical_form() -> None:
    text = ' { "b" : [ 1 , 1.0, 1e5, 1E-7, -0, -0.0, "\u00e9\u2028\\/" ] , "a" : { } } '
    assert Json.parse(text).text == r'{"b":[1,1.0,100000.0,1e-07,0,-0.0,"\u00e9\u2028/"],"a":{}}'
    assert Json.parse("[1]") != Json.parse("[true]") != Json.parse("[1.0]")


class Subclass(dict[str, JsonValue]):
    """A dict that could be written in any way."""


def test_of_tells_everything_that_is_not_json() -> None:
    value: Any = {  # Any: what a caller that nobody type-checks may give
        "fine": [None, True, 1, 0.5, "x", {}],
        "nan": [math.nan, -math.inf],
        "long": {"a": 10**308, "b": -(10**308)},
        "others": [(), {1}, b"", Subclass()],
        "keys": {1: 0, None: 0},
        "same": {chr(0xD800): 0, chr(0xD801): 0},
    }
    with pytest.raises(CodecError) as caught:
        Json.of(value)
    assert [str(fault) for fault in caught.value.faults] == [
        "$.nan[0]: is nan, which JSON does not have",
        "$.nan[1]: is -inf, which JSON does not have",
        "$.long.a: is an integer of more than 308 digits",
        "$.long.b: is an integer of more than 308 digits",
        "$.others[0]: is a Python tuple, which JSON does not have",
        "$.others[1]: is a Python set, which JSON does not have",
        "$.others[2]: is a Python bytes, which JSON does not have",
        "$.others[3]: is a Python Subclass, which JSON does not have",
        "$.keys: has a key that is not text but a int",
        "$.keys: has a key that is not text but a NoneType",
        r'$.same["\ufffd"]: is given twice, but for lone surrogates',
    ]


def nest(levels: int, kind: str) -> JsonValue:
    value: JsonValue = 0
    for _ in range(levels):
        value = [value] if kind == "list" else {"k": value}
    return value


@pytest.mark.parametrize("kind", ["list", "dict"])
@pytest.mark.parametrize("build", [Json.of, Json.of_parsed])
def test_of_bounds_nesting(kind: str, build: Any) -> None:  # Any: either builder
    assert build(nest(MAX_DEPTH, kind)).value() == nest(MAX_DEPTH, kind)
    with pytest.raises(CodecError, match="nested deeper than 64 levels"):
        build(nest(MAX_DEPTH + 1, kind))


def test_of_does_not_follow_a_value_that_holds_itself() -> None:
    endless: list[JsonValue] = []
    endless += [endless, endless]
    with pytest.raises(CodecError, match="nested deeper"):
        Json.of(endless)


@pytest.mark.parametrize("flood", [[math.nan] * 2_000, {str(key): math.nan for key in range(2_000)}])
def test_of_bounds_a_flood_of_faults(flood: JsonValue) -> None:
    with pytest.raises(CodecError) as caught:
        Json.of(flood)
    assert len(caught.value.faults) == MAX_FAULTS + 1


# --- text for documents -------------------------------------------------------------------------------


@given(values_of(ANY_TEXT))
def test_exact_text_can_be_read_back_as_it_is(value: JsonValue) -> None:
    try:
        text = exact_text(value)
    except CodecError as error:
        assert all("surrogate" in fault.problem for fault in error.faults)
        assert any(safe_text(text) != text for text in texts_within(value))
    else:
        assert canonical_text(parse_json(text, MAX_DOCUMENT_DEPTH)) == canonical_text(value) == text


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ([0, math.inf], "$[1]: is inf, which JSON does not have"),
        ([0, 10**309], "$[1]: is an integer of more than 308 digits"),
        ([0, 10**5_000], "$[1]: is an integer of more than 308 digits"),
        (["\ud83d\ude00"], "$[0]: holds a surrogate: pass the text through safe_text where it comes in"),
        (
            {chr(0xD800): 0},
            r'$["\ufffd"]: is a key that holds a surrogate: pass the text through safe_text where it comes in',
        ),
        (nest(MAX_DOCUMENT_DEPTH + 1, "list"), f"$: is nested deeper than {MAX_DOCUMENT_DEPTH} levels"),
    ],
)
def test_exact_text_refuses_what_could_not_be_read_back(value: JsonValue, fault: str) -> None:
    with pytest.raises(CodecError) as caught:
        exact_text(value)
    assert [str(fault) for fault in caught.value.faults] == [fault]


def test_exact_text_takes_long_digits_and_pairs_in_texts() -> None:
    value: JsonValue = ["9" * 400, "\U0001f600", nest(MAX_DOCUMENT_DEPTH - 1, "dict")]
    assert parse_json(exact_text(value), MAX_DOCUMENT_DEPTH) == value

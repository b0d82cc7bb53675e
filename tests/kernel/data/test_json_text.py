"""JSON text: any text in gives a value or a CodecError; what comes out is canonical and safe."""

import json
import math
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from loopkernel.data.errors import MAX_FAULTS, CodecError, Fault
from loopkernel.data.json_text import (
    MAX_DEPTH,
    MAX_DIGITS,
    MAX_DOCUMENT_DEPTH,
    Json,
    JsonValue,
    canonical_text,
    checked,
    exact_text,
    nested_deeper,
    parse_json,
    safe_text,
)

ANY_TEXT = st.text(st.characters())  # lone surrogates too
INTEGERS = st.integers() | st.sampled_from([10**MAX_DIGITS - 1, 1 - 10**MAX_DIGITS])
SCALARS = st.none() | st.booleans() | INTEGERS | st.floats(allow_nan=False, allow_infinity=False)


def values_of(texts: st.SearchStrategy[str]) -> st.SearchStrategy[JsonValue]:
    """JSON values, all of whose texts come from `texts`."""
    return st.recursive(
        SCALARS | texts,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
        max_leaves=12,
    )


VALUES = values_of(st.text())
PIECES = [
    *'[]{},:"\\ \n\t',
    "NaN",
    "-Infinity",
    "1e999",
    "9" * 309,
    '"a"',
    '"a":',
    "null",
    "-0",
    "1.5",
    "\\u",
    "\\ud800",
]
JSON_LIKE = st.lists(st.sampled_from(PIECES) | ANY_TEXT, max_size=12).map("".join)


@st.composite
def broken_json(draw: st.DrawFn) -> str:
    """The text of a value with one piece put in, and perhaps a few characters gone."""
    text = json.dumps(draw(values_of(ANY_TEXT)), ensure_ascii=draw(st.booleans()))
    start = draw(st.integers(0, len(text)))
    return text[:start] + draw(st.sampled_from(PIECES) | ANY_TEXT) + text[start + draw(st.integers(0, 3)) :]


def faults_of(text: str) -> tuple[Fault, ...]:
    with pytest.raises(CodecError) as caught:
        parse_json(text)
    return caught.value.faults


def texts_within(value: JsonValue) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from texts_within(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from texts_within(item)


def depth_of(value: JsonValue) -> int:
    if isinstance(value, list | dict):
        return 1 + max(map(depth_of, value if isinstance(value, list) else value.values()), default=0)
    return 0


# --- any text -----------------------------------------------------------------------------------------


@given(JSON_LIKE | broken_json())
@example("[" * 100_000)
@example("9" * 5_000)
def test_any_text_gives_a_value_or_a_codec_error(text: str) -> None:
    try:
        value = parse_json(text)
    except CodecError as error:
        assert error.faults
        assert all(fault.path.startswith("$") for fault in error.faults)
        assert str(error).encode()
    else:
        assert all(safe_text(part) == part for part in texts_within(value))
        assert canonical_text(checked(value)) == canonical_text(value)


@given(VALUES)
def test_a_good_text_gives_the_value_that_it_says(value: JsonValue) -> None:
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False, indent=1)):
        assert canonical_text(parse_json(text)) == canonical_text(value)


@given(values_of(ANY_TEXT), st.booleans())
def test_lone_surrogates_are_replaced_raw_or_escaped(value: JsonValue, escaped: bool) -> None:
    text = json.dumps(value, ensure_ascii=escaped)
    try:
        read = parse_json(text)
    except CodecError as error:  # two keys that differ in their surrogates alone
        assert all(fault.problem.startswith("is given ") for fault in error.faults)
        assert len({safe_text(key) for key in texts_within(value)}) < len(set(texts_within(value)))
    else:
        assert canonical_text(read) == Json.of(value).text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r'"\ud800"', "\ufffd"),
        (r'"\uDC00x"', "\ufffdx"),
        (r'"\ud83d\ude00"', "\U0001f600"),
        ('"\ud83d\ude00"', "\U0001f600"),  # a pair of two raw halves
        ('"\ud83d\\ude00"', "\ufffd\ufffd"),  # no pair: one raw, one escaped
        (r'"\ud83d\ud83d\ude00"', "\ufffd\U0001f600"),
        (r'"\\ud800"', r"\ud800"),  # an escaped backslash
        (r'"\\\ud800"', "\\\ufffd"),
    ],
)
def test_surrogates_case_by_case(text: str, value: str) -> None:
    assert parse_json(text) == value


# --- what is refused, and where -----------------------------------------------------------------------

PLANTED = {
    "NaN": "is NaN, which JSON does not have",
    "Infinity": "is Infinity, which JSON does not have",
    "-Infinity": "is -Infinity, which JSON does not have",
    "1e999": "is a number too large for a float",
    "-1.5E+400": "is a number too large for a float",
    "9" * 309: "is an integer of more than 308 digits",
    "-" + "1" * 5_000: "is an integer of more than 308 digits",
}


@st.composite
def planted(draw: st.DrawFn) -> tuple[str, list[Fault]]:
    """A JSON text with faults in it, and all of them, with their paths."""
    faults: list[Fault] = []

    def text_at(path: str, levels: int) -> str:
        kind = draw(st.sampled_from(["good", "bad", "list", "object", "doubled"] if levels else ["good", "bad"]))
        if kind == "bad":
            text = draw(st.sampled_from(sorted(PLANTED)))
            faults.append(Fault(path, PLANTED[text]))
            return text
        if kind == "list":
            return f"[{', '.join(text_at(f'{path}[{i}]', levels - 1) for i in range(draw(st.integers(0, 3))))}]"
        if kind == "object":
            members = [f'"k{i}": {text_at(f"{path}.k{i}", levels - 1)}' for i in range(draw(st.integers(0, 3)))]
            return f"{{{', '.join(members)}}}"
        if kind == "doubled":
            faults.append(Fault(f"{path}.k", "is given 2 times"))
            return f'{{"k": {text_at(f"{path}.k", levels - 1)}, "k": {text_at(f"{path}.k", levels - 1)}}}'
        return draw(st.sampled_from(["null", "[]", '"NaN 1e999"', "-0.0", "12", f'"{"9" * 400}"', "{}"]))

    return text_at("$", 3), faults


@given(planted())
def test_every_planted_fault_is_told_with_its_path(case: tuple[str, list[Fault]]) -> None:
    text, faults = case
    if faults:
        assert sorted(map(str, faults_of(text))) == sorted(map(str, faults))
    else:
        assert canonical_text(parse_json(text)) == canonical_text(json.loads(text))


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("", "is not JSON: the text ends too early"),
        (" \n", "is not JSON: the text ends too early"),
        ("[1, 2", "is not JSON: the text ends too early"),
        ('{"a"', "is not JSON: the text ends too early"),
        ('"abc', "is not JSON: the text ends too early"),
        ("[1,]", "is not JSON from line 1, column 4 on"),
        ('{"a": 1,}', "is not JSON from line 1, column 9 on"),
        ("{1: 2}", "is not JSON from line 1, column 2 on"),
        ('{"a" 1}', "is not JSON from line 1, column 6 on"),
        ('{"a": 1 "b": 2}', "is not JSON from line 1, column 9 on"),
        ("[1 2]", "is not JSON from line 1, column 4 on"),
        ("[}", "is not JSON from line 1, column 2 on"),
        ('[{"a": [true]}, nul]', "is not JSON from line 1, column 17 on"),
        ("{} {}", "is not JSON from line 1, column 4 on"),
        ("1 2", "is not JSON from line 1, column 3 on"),
        ("01", "is not JSON from line 1, column 2 on"),
        ("1.", "is not JSON from line 1, column 2 on"),
        ("+1", "is not JSON from line 1, column 1 on"),
        ("'a'", "is not JSON from line 1, column 1 on"),
        ("\ufeff1", "is not JSON from line 1, column 1 on"),
        ("\u00a01", "is not JSON from line 1, column 1 on"),
        ('[\n "a\tb"]', "is not JSON from line 2, column 4 on"),  # a raw control character
        ('["a",\n\n  "\\x"]', "is not JSON from line 3, column 4 on"),
        ('"\\u12g4"', "is not JSON from line 1, column 2 on"),
        ("[NaN, 1e999, x]", "is not JSON from line 1, column 14 on"),
    ],
)
def test_a_text_that_is_no_json_is_refused_where_it_stops_being_so(text: str, where: str) -> None:
    assert faults_of(text) == (Fault("$", where),)


@given(VALUES, st.data())
def test_the_place_named_is_never_behind_the_first_bad_character(value: JsonValue, data: st.DataObject) -> None:
    text = json.dumps(value)
    place = data.draw(st.integers(0, len(text)))
    (fault,) = faults_of(f"{text[:place]}\x00{text[place:]}")
    column = int(fault.problem.removeprefix("is not JSON from line 1, column ").removesuffix(" on"))
    assert 1 <= column <= place + 1


def test_integers_have_a_limit_of_their_own() -> None:
    longest = "9" * MAX_DIGITS
    assert parse_json(f"[{longest}, -{longest}]") == [int(longest), -int(longest)]
    assert len(faults_of(f"[{longest}9, -{longest}9]")) == 2
    assert parse_json(f'["{longest * 9}", 0.{longest * 9}]') == [longest * 9, 1.0]
    assert math.isfinite(float(longest))  # why it is this one


@pytest.mark.parametrize("kind", ["[", "{"])
def test_nesting_is_bounded(kind: str) -> None:
    def nested(levels: int) -> str:
        return "[" * levels + "]" * levels if kind == "[" else '{"k":' * levels + "0" + "}" * levels

    assert depth_of(parse_json(nested(MAX_DEPTH))) == MAX_DEPTH
    too_deep = (Fault("$", f"is nested deeper than {MAX_DEPTH} levels"),)
    assert faults_of(nested(MAX_DEPTH + 1)) == too_deep
    assert faults_of(nested(100_000)) == too_deep
    assert faults_of(nested(100_000)[:50_000]) == too_deep
    assert depth_of(parse_json(nested(MAX_DOCUMENT_DEPTH), MAX_DOCUMENT_DEPTH)) == MAX_DOCUMENT_DEPTH


@given(values_of(st.text('[]{}"\\/x')), st.integers(0, 4), st.integers(0, 60))
def test_depth_is_told_without_parsing(value: JsonValue, depth: int, around: int) -> None:
    text = "[" * around + json.dumps(value) + "]" * around
    assert nested_deeper(text, depth + around) == (depth_of(value) > depth)


@given(st.text('[]{}":\\,1 '))
def test_whatever_passes_for_shallow_cannot_exhaust_the_reader(text: str) -> None:
    if not nested_deeper(text * 500, 2):
        with suppress(json.JSONDecodeError):
            json.loads(text * 500)  # raises no RecursionError


@pytest.mark.parametrize("text", ["[" + "NaN," * 2_000 + "0]", "{" + '"a": NaN,' * 2_000 + '"a": 0}'])
def test_a_flood_of_faults_is_bounded(text: str) -> None:
    faults = faults_of(text)
    assert len(faults) == MAX_FAULTS + 1
    assert "the others are not listed" in faults[-1].problem


# --- texts --------------------------------------------------------------------------------------------


@given(ANY_TEXT)
@example("\ud83d\ude00\ud83d")
def test_safe_text_replaces_lone_surrogates_and_nothing_else(text: str) -> None:
    assert safe_text(text) == text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


@given(st.text())
def test_safe_text_leaves_clean_text_alone(text: str) -> None:
    assert safe_text(text) is text


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
        "$.keys: has a key that is no text but a int",
        "$.keys: has a key that is no text but a NoneType",
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

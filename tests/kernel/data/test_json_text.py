"""JSON text: any text in gives a value or a CodecError, which names all that is wrong."""

import json
import math
from contextlib import suppress

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
    nested_deeper,
    parse_json,
    safe_text,
)

from tests.kernel.data.json_samples import ANY_TEXT, JSON_LIKE, VALUES, broken_json, depth_of, texts_within, values_of


def faults_of(text: str) -> tuple[Fault, ...]:
    with pytest.raises(CodecError) as caught:
        parse_json(text)
    return caught.value.faults


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
        ("]", "is not JSON from line 1, column 1 on"),
        ("{}:1", "is not JSON from line 1, column 3 on"),
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
    assert parse_json(f'["{longest}9", -{longest}]') == [f"{longest}9", -int(longest)]
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

"""Schemas from outside: understood or refused, judged as the library does, and never in the way for long."""

import re
import sys
import time
from collections.abc import Callable

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.errors import CodecError
from loopkernel.data.json_text import Json, JsonValue
from loopkernel.data.tools import InvalidCall, Tool
from loopkernel_adapters.tools.input_schema import InputSchema, JsonObject, demand_schema
from loopkernel_adapters.tools.patterns import longest_tested, pattern_problem
from loopkernel_adapters.tools.registry import FunctionTool

from tests.adapters.tools.test_registry import SCHEMAS, VALUES
from tests.adapters.tools.tools_world import verdict

QUICK_S = 5.0  # a generous bound on what takes milliseconds: without it, these take hours


def faults(schema: JsonValue, value: JsonValue) -> list[str]:
    return [str(fault) for fault in InputSchema(schema).faults(value)]


def refusals(schema: JsonValue) -> list[str]:
    with pytest.raises(CodecError) as refusal:
        demand_schema(schema)
    return [str(fault) for fault in refusal.value.faults]


# --- the library ---


@given(SCHEMAS, VALUES)
def test_the_bounds_change_no_verdict_of_the_library(schema: JsonObject, value: JsonValue) -> None:
    found = list(InputSchema(schema).faults(value))
    assert (found == []) == jsonschema.Draft202012Validator(schema).is_valid(value)
    assert all(fault.path.startswith("$") and fault.problem for fault in found)


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema", None)
    with pytest.raises(ImportError, match=re.escape("pip install 'loopkernel[tools]'")):
        demand_schema({"type": "object"})


# --- what is refused ---


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"$ref": "https://example.com/schema.json"}, "refers to another document, and none is fetched"),
        ({"properties": {"a": {"$ref": "file:///etc/passwd"}}}, "refers to another document"),
        ({"$ref": "other.json#/x"}, "refers to another document"),
        ({"$ref": "#/$defs/absent"}, "refers to no schema of this document"),
        ({"$ref": "#/default", "default": {"$ref": "https://example.com"}}, "refers to no schema"),
        ({"$ref": "#nowhere"}, "refers to no schema"),
        ({"$dynamicRef": "https://example.com"}, "refers to another document"),
        ({"$recursiveRef": "#"}, "not part of JSON Schema any more"),
        ({"properties": {"a": {"$id": "https://example.com"}}}, "at the top of a schema alone"),
        ({"properties": {"a": {"$schema": "http://json-schema.org/draft-07/schema#"}}}, "at the top of a schema alone"),
        ({"additional_properties": False}, "is not a keyword; it is written additionalProperties"),
        ({"pattern": "(a+)+$"}, "may take too long"),
        ({"patternProperties": {"^(a|a)*$": {}}}, "may take too long"),
        ({"patternProperties": {"a+b+c+d+": {}}}, "takes too long"),
        ({"multipleOf": 0}, "is not what JSON Schema has here"),
        ({"uniqueItems": "yes"}, "is not what JSON Schema has here"),
        ({"dependentRequired": {"a": "b"}}, "is not what JSON Schema has here"),
        ({"if": 3}, "is not what JSON Schema has here"),
        (
            {"unevaluatedProperties": False, "$ref": "#/$defs/a", "$defs": {"a": {}}},
            "may take for ever beside references",
        ),
    ],
)
def test_a_hostile_or_broken_schema_is_refused(schema: JsonValue, words: str) -> None:
    found = refusals(schema)
    assert len(found) == 1
    assert words in found[0]


def test_nothing_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr("urllib.request.urlopen", lambda *given, **named: asked.append(given))
    monkeypatch.setattr("socket.socket.connect", lambda *given: asked.append(given))
    schemas: list[JsonObject] = [
        {
            "$schema": "https://example.com/meta",
            "$id": "https://example.com/x",
            "$ref": "#/$defs/a",
            "$defs": {"a": {}},
        },
        {"$id": "https://example.com/x", "properties": {"a": {"$ref": "#/$defs/b"}}, "$defs": {"b": {"type": "null"}}},
    ]
    for schema in schemas:
        assert faults(schema, {"a": None}) == []
    assert asked == []


def test_an_annotation_is_no_keyword_and_keeps_what_it_likes() -> None:
    schema: JsonObject = {
        "properties": {"at": {"type": "string", "format": "date-time", "x-order": 1, "example": "now"}},
        "default": {"pattern": "(", "$ref": "https://example.com"},
        "examples": [{"type": "nothing"}],
    }
    assert faults(schema, {"at": "no date"}) == []


# --- what is judged ---


@pytest.mark.parametrize(
    ("schema", "value", "words"),
    [
        ({"exclusiveMinimum": 0}, 0, "$: must be more than 0"),
        ({"exclusiveMaximum": 0}, 0, "$: must be less than 0"),
        ({"multipleOf": 2}, 3, "$: must be a multiple of 2"),
        ({"oneOf": [{"type": "integer"}, {"minimum": 0}]}, 3, "$: must fit exactly one of the permitted forms"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, 3, "$: must be of type string or null"),
        ({"not": {"type": "integer"}}, 3, "$: is what must not be"),
        ({"properties": {"a": False}}, {"a": 1}, "$: holds what must not be given"),
        ({"minProperties": 1}, {}, "$: must have at least 1 fields"),
        ({"maxProperties": 0}, {"a": 1}, "$: must have at most 0 fields"),
        ({"uniqueItems": True}, [{"a": 1, "b": 2}, {"b": 2.0, "a": 1}], "$: must not hold an item twice"),
        ({"contains": {"type": "integer"}}, ["a"], "$: lacks an item of the form that is needed"),
        ({"prefixItems": [{"type": "integer"}]}, ["a"], "$[0]: must be of type integer"),
        (
            {"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "null"}]},
            [1],
            "$[0]: must be of type null",
        ),
        ({"dependentRequired": {"a": ["b"]}}, {"a": 1}, "$: 'b' is a dependency of 'a'"),
        (
            {"patternProperties": {"^x": {}}, "additionalProperties": False},
            {"x1": 1, "y": 2},
            "$.y: is not a field; there are none",
        ),
        ({"patternProperties": {"^x": {}}}, {"x" * 201: 1}, "$: has a field whose name is longer than 200 characters"),
        ({"$defs": {"a/b": {"type": "null"}}, "$ref": "#/$defs/a~1b"}, 1, "$: must be of type null"),
        ({"$defs": {"a": {"$anchor": "here", "type": "null"}}, "$ref": "#here"}, 1, "$: must be of type null"),
    ],
)
def test_the_whole_of_json_schema_is_judged_in_words(schema: JsonValue, value: JsonValue, words: str) -> None:
    assert faults(schema, value) == [words]


@given(st.lists(VALUES, max_size=4))
def test_items_are_unique_as_the_library_has_it(items: list[JsonValue]) -> None:
    by_library = jsonschema.Draft202012Validator({"uniqueItems": True}).is_valid(items)
    assert (faults({"uniqueItems": True}, items) == []) == by_library


# --- how long it takes ---


def in_time(act: Callable[[], list[str]]) -> list[str]:
    """What an act gives, which takes no time."""
    began = time.process_time()
    outcome = act()
    assert time.process_time() - began < QUICK_S
    return outcome


@pytest.mark.parametrize("inner", [{"$ref": "#"}, {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}])
def test_a_reference_to_itself_is_told(inner: JsonObject) -> None:
    schema: JsonObject = {"type": "object", **inner}
    judged = in_time(lambda: faults(schema, {}))
    assert judged[-1:] == ["$: cannot be judged: the schema of this tool refers to itself without end"]


def test_few_lines_that_stand_for_billions_are_told() -> None:
    levels: dict[str, JsonValue] = {
        f"l{n}": {"allOf": [{"$ref": f"#/$defs/l{n + 1}"}, {"$ref": f"#/$defs/l{n + 1}"}]} for n in range(40)
    }
    schema: JsonObject = {"$defs": {**levels, "l40": {"type": "object"}}, "$ref": "#/$defs/l0"}
    judged = in_time(lambda: faults(schema, {}))
    assert judged == ["$: cannot be judged: the schema of this tool refers to itself without end"]


def test_a_list_of_many_different_items_is_judged_soon() -> None:
    items: list[JsonValue] = [{"a": number} for number in range(3_000)]
    assert in_time(lambda: faults({"uniqueItems": True}, items)) == []


def test_many_faults_are_not_all_told() -> None:
    judged = in_time(lambda: faults({"items": {"type": "null"}}, list(range(100_000))))
    assert len(judged) == 50


@pytest.mark.rule("TOOL-5")
def test_a_hostile_schema_makes_an_invalid_call_and_no_crash() -> None:
    tool = Tool(name="t", input_schema=Json.of({"type": "object", "$ref": "#"}))
    judged = verdict([FunctionTool(tool=tool, function=lambda given, context: "x")], "t")
    assert isinstance(judged, InvalidCall)
    assert "without end" in judged.why


# --- patterns ---


@pytest.mark.parametrize(
    "pattern",
    [
        "^[a-z0-9-]+$",
        r"^\d+\.\d+\.\d+$",
        "^[^@]+@[^@]+$",
        "^(foo|bar)$",
        "^[0-9a-f]{8}(-[0-9a-f]{4}){3}$",
        "",
        r"\S",
        "(?i)abc",
        "(?P<y>a)b?",
        "a{2,3}b",
        "[]a]+",
        "a{b",
        "(?#note)a+",
        r"\(+",
        r"\(?x",
        "x*(?=y)",
    ],
)
def test_a_usual_pattern_is_tested(pattern: str) -> None:
    assert pattern_problem(pattern) is None
    assert longest_tested(pattern) >= 200


@pytest.mark.parametrize(
    "pattern",
    [
        "(a+)+",
        "(a|aa)+$",
        "(a*)*",
        "(a|a)*b",
        r"(\w+\s?)+$",
        "(a?){50}a{50}",
        "((a+)b?)*",
        r"(.)\1",
        "(?P<x>a)(?P=x)",
        "(x+x+)+y",
        "(?:a|b|ab)*c",
        "(a{1,9}){9,}",
        "(" + "a?" * 40 + ")",
        "(a+){11}",
        "(c)(?(1)a|b)",
        "(?x)(a+#(\n)*b",  # a comment, so that it is (a+)*b
        "(?mx)a#)\n",
        "(?x:(a+#(\n)*b)",
    ],
)
def test_a_pattern_that_may_take_for_ever_is_refused(pattern: str) -> None:
    assert "too long" in (pattern_problem(pattern) or "")


PATTERNS = st.recursive(
    st.sampled_from(["a", "b", "[ab]", ".", r"\w"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{1,3}", "{2,}", "*?"])).map(
            lambda pair: f"(?:{pair[0]}){pair[1]}"
        ),
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda pair: f"({pair[0]}|{pair[1]})"),
    ),
    max_leaves=6,
)


@given(PATTERNS, st.sampled_from(["a", "ab", "b"]))
def test_what_is_tested_ends_soon(pattern: str, piece: str) -> None:
    if pattern_problem(pattern) is None:
        text = (piece * 3_000)[: min(longest_tested(pattern), 3_000)] + "!"
        in_time(lambda: re.findall(f"(?:{pattern})$", text)[:0])


def test_a_text_that_is_too_long_for_its_pattern_is_told() -> None:
    words = faults({"pattern": "a+b+c+$"}, "x" * 5_000)
    assert len(words) == 1
    assert re.fullmatch(r"\$: has 5000 characters, and \d+ are the most that are tested against .*", words[0])

"""References between calls: found in order, judged against what stands before, and replaced by texts alone."""

import json
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from loopkernel.data.json_text import MAX_DEPTH, Json, JsonValue, canonical_text, safe_text
from loopkernel.loop.algorithms.references import Sources, has_references, references, resolved, sources
from loopkernel.testing.strategies.values import json_texts, raw_texts, texts

# In canonical text a reference has one form alone, and no text within a value can take it: its quotes are escaped.
WRITTEN = re.compile(r'\{"\$result":("(?:[^"\\]|\\.)*")\}')

NOTHING = Json.of({})
NAMES_NO_CALL = 'a "$result" in it does not name a call: its value must be the id of an earlier call'
IDS = ("c1", "c2", "c3", "", "c\u00e9\U0001f600", 'c"\\', "$result")
ids = st.sampled_from(IDS)
references_to: SearchStrategy[JsonValue] = st.builds(lambda name: {"$result": name}, ids)
NO_REFERENCES: tuple[JsonValue, ...] = (
    {"$result": "c1", "more": 1},
    {"more": 1, "$result": "c1"},
    {"$RESULT": "c1"},
    {"result": "c1"},
    {},
    "$result",
    '{"$result":"c1"}',
    '{"$result":',
    ["$result", "c1"],
    None,
    5,
)
NAMING_NO_CALL: tuple[JsonValue, ...] = ({"$result": 5}, {"$result": None}, {"$result": ["c1"]}, {"$result": {}})


def holding(leaves: SearchStrategy[JsonValue]) -> SearchStrategy[Json]:
    """Values with such leaves, in lists and under keys, that of a reference among them."""
    keys = st.sampled_from(("a", "b", "$result")) | texts
    return st.recursive(
        leaves,
        lambda parts: st.lists(parts, max_size=3).map(list) | st.dictionaries(keys, parts, max_size=3).map(dict),
        max_leaves=6,
    ).map(Json.of)


inputs = holding(references_to | st.sampled_from(NO_REFERENCES + NAMING_NO_CALL) | texts)
earlier_calls = st.lists(ids, max_size=5)
declared = st.lists(ids, max_size=4)


def latest(names: list[str]) -> dict[str, int]:
    return {name: place for place, name in enumerate(names)}


# --- finding them ---------------------------------------------------------------------------------------


@pytest.mark.rule("CALL-1")
@given(inputs)
def test_references_are_those_of_the_text_in_its_order_each_once(call_input: Json) -> None:
    written = [json.loads(found) for found in WRITTEN.findall(call_input.text)]
    assert references(call_input) == tuple(sorted(set(written), key=written.index))
    assert has_references(call_input) or not written


@pytest.mark.rule("CALL-1")
@pytest.mark.parametrize("value", NO_REFERENCES + NAMING_NO_CALL, ids=canonical_text)
def test_what_only_looks_like_a_reference_is_none(value: JsonValue) -> None:
    for call_input in (Json.of(value), Json.of({"a": [value]})):
        assert references(call_input) == ()
        assert has_references(call_input) == (value in NAMING_NO_CALL)
        assert resolved(call_input, {}) is call_input


@pytest.mark.rule("CALL-1")
def test_references_are_found_at_any_depth_and_told_once() -> None:
    value: JsonValue = {"$result": "deep"}
    for _ in range(MAX_DEPTH - 1):
        value = [value]
    assert references(Json.of(value)) == ("deep",)
    assert resolved(Json.of(value), {"deep": "[[["}) == Json.parse("[" * 63 + '"[[["' + "]" * 63)
    several = Json.of({"b": {"$result": "c2"}, "a": [{"$result": "c1"}, {"x": {"$result": "c2"}}]})
    assert references(several) == ("c2", "c1")


# --- judging them ---------------------------------------------------------------------------------------


@pytest.mark.rule("CALL-1")
@given(earlier_calls, ids, declared, inputs)
def test_what_a_call_depends_on_is_the_latest_earlier_call_of_each_name(
    names: list[str], own: str, after: list[str], call_input: Json
) -> None:
    found = sources(latest(names), own, after, call_input)
    named = {*after, *references(call_input)}
    last_places = [place for place, name in enumerate(names) if name in named and name not in names[place + 1 :]]
    assert found.places == tuple(last_places)


@pytest.mark.rule("CALL-1")
@pytest.mark.rule("CALL-4")
@given(earlier_calls, ids, declared, inputs)
def test_each_name_that_no_earlier_call_has_is_told_once(
    names: list[str], own: str, after: list[str], call_input: Json
) -> None:
    without_call = [name for name in dict.fromkeys([*after, *references(call_input)]) if name not in names]
    faults = sources(latest(names), own, after, call_input).faults
    told = [fault for fault in faults if fault != NAMES_NO_CALL]
    assert len(told) == len(without_call)
    for name, fault in zip(without_call, told, strict=True):
        on_itself = name == own
        assert (fault == "it depends on itself") == on_itself
        assert on_itself or json.dumps(name) in fault


@pytest.mark.rule("CALL-1")
@given(earlier_calls, ids, declared, inputs)
def test_without_a_fault_every_reference_can_be_replaced_and_none_is_left(
    names: list[str], own: str, after: list[str], call_input: Json
) -> None:
    found = sources(latest(names), own, after, call_input)
    if not found.faults:
        filled = resolved(call_input, dict.fromkeys(names, '{"$result": "c1"}'))
        assert sources({}, own, [], filled) == Sources(places=(), faults=())


@pytest.mark.rule("CALL-1")
@pytest.mark.rule("CALL-4")
@pytest.mark.parametrize("value", NAMING_NO_CALL, ids=canonical_text)
def test_a_reference_that_names_no_call_is_a_fault(value: JsonValue) -> None:
    (fault,) = sources({"c1": 0}, "c2", ["c1"], Json.of({"a": [value, value]})).faults
    assert fault == NAMES_NO_CALL


@pytest.mark.rule("CALL-1")
@pytest.mark.rule("CALL-4")
@pytest.mark.parametrize(
    ("earlier", "after", "call_input", "expected"),
    [
        ({}, [], NOTHING, Sources(places=(), faults=())),
        ({"c1": 0, "c2": 1}, ["c2"], Json.of({"$result": "c1"}), Sources(places=(0, 1), faults=())),
        ({"c1": 8, "c2": 1}, ["c1"], Json.of({"$result": "c2"}), Sources(places=(1, 8), faults=())),
        ({"c1": 4}, ["c1", "c1"], Json.of([{"$result": "c1"}]), Sources(places=(4,), faults=())),
        ({"c1": 0}, ["own", "c1"], NOTHING, Sources(places=(0,), faults=("it depends on itself",))),
        ({"own": 0}, ["own"], NOTHING, Sources(places=(0,), faults=())),
        (
            {},
            ["c8"],
            Json.of({"$result": "c9"}),
            Sources(
                places=(),
                faults=(
                    'it depends on "c8", which no earlier call of this reply has',
                    'it depends on "c9", which no earlier call of this reply has',
                ),
            ),
        ),
    ],
    ids=["nothing", "both ways", "in order", "one twice", "itself", "an earlier call of its own id", "unknown ones"],
)
def test_sources(earlier: dict[str, int], after: list[str], call_input: Json, expected: Sources) -> None:
    assert sources(earlier, "own", after, call_input) == expected


# --- replacing them -------------------------------------------------------------------------------------


@pytest.mark.rule("CALL-1")
@given(inputs, st.lists(raw_texts, min_size=1, max_size=3))
@example(Json.of({"a": {"$result": "c1"}, "b": [1.5, -0.0]}), ['"\ud800\u2028{"$result":"c2"}'])
@example(Json.of([{"$result": "c1"}, {"$result": "c1", "more": 1}]), ["out"])
def test_references_are_replaced_by_texts_and_nothing_else_changes(call_input: Json, words: list[str]) -> None:
    outputs = {name: words[number % len(words)] for number, name in enumerate(references(call_input))}
    filled = resolved(call_input, outputs)
    expected = WRITTEN.sub(lambda found: json.dumps(safe_text(outputs[json.loads(found[1])])), call_input.text)
    assert filled == Json(expected)


@given(json_texts)
def test_an_input_without_references_is_left_as_it_is(call_input: Json) -> None:
    if not has_references(call_input):
        assert resolved(call_input, {}) is call_input


def test_an_output_that_is_not_given_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(KeyError, match="c1"):
        resolved(Json.of({"$result": "c1"}), {"c2": "out"})


@pytest.mark.rule("CALL-1")
def test_thousands_of_calls_may_be_named() -> None:
    names = [f"c{number}" for number in range(5_000)]
    call_input = Json.of([{"$result": name} for name in names])
    assert sources(latest(names), "own", names, call_input) == Sources(places=tuple(range(5_000)), faults=())
    assert resolved(call_input, dict.fromkeys(names, "out")) == Json.of(["out"] * 5_000)

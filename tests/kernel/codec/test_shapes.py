"""Shapes: whatever does not fit is told, all of it, each with its path."""

from typing import Any, Literal

import pytest
from attrs import frozen
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.codec.structure import Codec
from loopkernel.data.errors import MAX_FAULTS, CodecError
from loopkernel.data.json_text import (
    MAX_DEPTH,
    MAX_DOCUMENT_DEPTH,
    Json,
    JsonValue,
    canonical_text,
)
from loopkernel.data.vector import GrowingSet, Vector

from tests.kernel.codec.samples import (
    EVERYTHING,
    JSON_VALUES,
    TEXTS,
    Box,
    Leaf,
    Mode,
    Nothing,
    Rank,
    RawInput,
    Text,
    Tree,
    everything,
    everything_but,
    faults_of,
)

# --- documents that do not fit ------------------------------------------------------------------------


@frozen(kw_only=True)
class Part:
    """Scalars of each kind, all required."""

    flag: bool
    number: int
    ratio: float
    text: str
    mode: Mode
    word: Literal["on", "off"]


@frozen(kw_only=True)
class Whole:
    """Parts in every kind of place, all required."""

    part: Part
    optional: Part | None
    parts: tuple[Part, ...]
    pair: tuple[int, Part]
    vector: Vector[Part | Leaf]
    names: GrowingSet[str]
    number_or_text: int | str


PARTS = st.builds(Part, ratio=st.floats(0, 1), number=st.integers(0, 9), text=TEXTS)
WHOLES = st.builds(
    Whole,
    part=PARTS,
    optional=PARTS,
    parts=st.lists(PARTS, max_size=2).map(tuple),
    pair=st.tuples(st.integers(0, 9), PARTS),
    vector=st.lists(PARTS | st.builds(Leaf, st.integers(0, 9)), max_size=2).map(Vector.of),
    names=st.lists(TEXTS, max_size=2).map(GrowingSet.of),
    number_or_text=st.integers(0, 9) | TEXTS,
)
WHOLE: Codec[Whole] = Codec.of(Whole)


@st.composite
def planted(draw: st.DrawFn) -> tuple[JsonValue, set[str]]:
    """A document with faults in it, and the paths of all of them."""
    paths: set[str] = set()

    def spoiled(value: JsonValue, path: str) -> JsonValue:
        choice = draw(st.integers(0, 9))
        if choice == 0:
            paths.add(path)
            return ["bad"] if isinstance(value, bool | int | float | str) else 0.5
        if isinstance(value, list):
            return [spoiled(item, f"{path}[{index}]") for index, item in enumerate(value)]
        if not isinstance(value, dict):
            return value
        members: dict[str, JsonValue] = {}
        for key, item in value.items():
            if key == "type":
                members[key] = item
            elif choice == 1 and draw(st.booleans()):
                paths.add(f"{path}.{key}")
            else:
                members[key] = spoiled(item, f"{path}.{key}")
        if choice == 2:
            paths.add(f"{path}.bogus")
            members["bogus"] = None
        return members

    return spoiled(WHOLE.encode(draw(WHOLES)), "$"), paths


@given(planted())
def test_every_planted_fault_is_told_with_its_path(case: tuple[JsonValue, set[str]]) -> None:
    document, paths = case
    if not paths:
        WHOLE.decode(document)
        return
    with pytest.raises(CodecError) as by_value:
        WHOLE.decode(document)
    with pytest.raises(CodecError) as by_text:
        WHOLE.decode_text(canonical_text(document))
    assert sorted(fault.path for fault in by_value.value.faults) == sorted(paths)
    assert by_text.value.faults == by_value.value.faults


@st.composite
def half_right(draw: st.DrawFn) -> JsonValue:
    """A document that fits, with any JSON put in somewhere."""

    def changed(value: JsonValue) -> JsonValue:
        if draw(st.integers(0, 7)) == 0:
            return draw(JSON_VALUES)
        if isinstance(value, list):
            return [changed(item) for item in value]
        if isinstance(value, dict):
            return {draw(st.sampled_from([key, key, key, "type", ""])): changed(item) for key, item in value.items()}
        return value

    return changed(EVERYTHING.encode(draw(everything())))


@given(JSON_VALUES | half_right())
def test_any_json_gives_a_value_or_a_codec_error(document: JsonValue) -> None:
    try:
        value = EVERYTHING.decode(document)
    except CodecError as error:
        assert error.faults
        assert str(error).isascii()
    else:
        assert EVERYTHING.decode(EVERYTHING.encode(value)) == value


@given(st.text(st.characters()) | half_right().map(lambda document: canonical_text(document)[:-1]))
def test_a_text_that_is_no_document_is_refused(text: str) -> None:
    with pytest.raises(CodecError):
        EVERYTHING.decode_text(text)


@pytest.mark.parametrize(
    ("of_type", "document", "fault"),
    [
        (int, True, "$: must be an integer, not true"),
        (int, 1.0, "$: must be an integer, not 1.0"),
        (bool, 1, "$: must be true or false, not 1"),
        (float, "1", '$: must be a number, not "1"'),
        (None, 0, "$: must be null, not 0"),
        (str, None, "$: must be text, not null"),
        (str, 10**30, "$: must be text, not a large integer"),
        (Mode, "fastest", '$: must be one of "fast", "slow", not "fastest"'),
        (Rank, True, "$: must be one of 0, 1, not true"),
        (Mode, ["fast"], '$: must be one of "fast", "slow", not a list'),
        (Literal["a"], "b", '$: must be "a", not "b"'),
        (Literal[1], True, "$: must be 1, not true"),
        (Literal[0, True], 1, "$: must be one of 0, true, not 1"),
        (int | None, "x" * 100, f'$: must be an integer or null, not "{"x" * 60}"... (100 characters)'),
        (Mode | int | None, "x", '$: must be one of "fast", "slow" or an integer or null, not "x"'),
        (tuple[int, ...], {}, "$: must be a list, not an object"),
        (tuple[int, str], [1], "$: must be a list of 2, not of 1"),
        (tuple[int, str], 1, "$: must be a list of 2, not 1"),
        (Text, [], "$: must be an object (Text), not a list"),
        (Text, {}, "$.text: is missing in this Text"),
        (Text, {"text": "", "a b": 1}, '$["a b"]: is not a key of Text, whose keys are: text'),
        (Text, {"text": "", "type": "text"}, "$.type: is not a key of Text, whose keys are: text"),
        (Nothing, {"a": 1}, "$.a: is not a key of Nothing, whose keys are: none"),
        (Text | RawInput, {"type": "other"}, '$.type: must be one of "text", "raw-input", not "other"'),
        (Text | RawInput, {"type": []}, '$.type: must be one of "text", "raw-input", not a list'),
        (Text | RawInput, {"text": ""}, '$.type: is missing; it must be one of "text", "raw-input"'),
        (Text | RawInput, 1, '$: must be an object whose type is one of "text", "raw-input", not 1'),
        (
            Json | Text,
            1,
            '$: must be an object whose type is one of "text", or an object with the one key "json", not 1',
        ),
        (
            Json | Text,
            {"text": ""},
            '$.type: is missing; it must be one of "text", if the whole is not an object with the one key "json"',
        ),
        (Json | Text, {"json": 0, "text": ""}, '$: must be an object with the one key "json", not an object'),
        (Json | None, {"json": 1, "more": 2}, '$: must be an object with the one key "json", not an object'),
        (Json | None, 1, '$: must be null or an object with the one key "json", not 1'),
    ],
)
def test_faults_case_by_case(of_type: Any, document: JsonValue, fault: str) -> None:  # Any: of any type
    assert faults_of(of_type, document) == [fault]


def test_what_is_no_json_at_all_is_told_by_path() -> None:
    assert faults_of(tuple[float, ...], [float("nan"), (), 1]) == [
        "$[0]: is nan, which JSON does not have",
        "$[1]: is a Python tuple, which JSON does not have",
    ]


def deep_list(levels: int) -> JsonValue:
    value: JsonValue = []
    for _ in range(levels - 1):
        value = [value]
    return value


def test_a_json_within_a_document_may_be_as_deep_as_one_by_itself() -> None:
    codec: Codec[tuple[Json | None, ...]] = Codec.of(tuple[Json | None, ...])
    deepest = (Json.of(deep_list(MAX_DEPTH)),)
    assert codec.decode_text(codec.encode_text(deepest)) == deepest
    assert faults_of(tuple[Json | None, ...], [{"json": 1}, {"json": deep_list(MAX_DEPTH + 1)}]) == [
        f"$[1].json: is nested deeper than {MAX_DEPTH} levels"
    ]
    assert faults_of(Json, deep_list(MAX_DOCUMENT_DEPTH + 1)) == [
        f"$: is nested deeper than {MAX_DOCUMENT_DEPTH} levels"
    ]


# --- values that cannot be written --------------------------------------------------------------------


def test_every_part_that_is_not_of_its_type_is_told() -> None:
    wrong: Any = everything_but(  # Any: a value that the type checker would refuse
        flag=1,
        number=True,
        ratio="x",
        text=b"",
        mode=Rank.LOW,
        word="b",
        many=[1],
        pair=(1,),
        either=Leaf(1),
        input={},
        answer=object(),
        one=RawInput(""),
        rank=Mode.FAST,
        schema=1,
        vector=(),
        boxes=(Box(1), Leaf(2)),
        many_default=(True, 0.0),
        number_or_text=1.0,
    )
    with pytest.raises(CodecError) as caught:
        EVERYTHING.encode(wrong)
    assert {fault.path for fault in caught.value.faults} == {
        "$.flag", "$.number", "$.ratio", "$.text", "$.mode", "$.word", "$.many", "$.pair", "$.either", "$.input",
        "$.answer", "$.one", "$.rank", "$.schema", "$.vector", "$.boxes[0].item", "$.boxes[1]", "$.many_default[0]",
        "$.number_or_text", "$.copied",
    }  # fmt: skip
    assert str(caught.value.faults[0]) == "$.flag: must be true or false, not 1"


@pytest.mark.parametrize(
    ("of_type", "value", "fault"),
    [
        (Text, RawInput(""), "$: must be a Text, not a Python RawInput"),
        (Text | RawInput, "x", '$: must be an object whose type is one of "text", "raw-input", not "x"'),
        (Json, "x", '$: must be a Json, not "x"'),
        (Mode, "fast", '$: must be one of "fast", "slow", not "fast"'),
        (tuple[int, ...], [1], "$: must be a tuple, not a list"),
        (Vector[int], (1,), "$: must be a Vector, not a Python tuple"),
        (tuple[int, str], (1, "a", 2), "$: must be a tuple of 2, not a Python tuple"),
        (int | None, 1.5, "$: must be an integer or null, not 1.5"),
    ],
)
def test_what_cannot_be_written_case_by_case(of_type: Any, value: Any, fault: str) -> None:  # Any: of any type
    codec: Codec[Any] = Codec.of(of_type)
    with pytest.raises(CodecError) as caught:
        codec.encode(value)
    assert [str(fault) for fault in caught.value.faults] == [fault]


def test_what_could_not_be_read_back_is_refused_with_its_path() -> None:
    with pytest.raises(CodecError) as caught:
        EVERYTHING.encode_text(everything_but(ratio=float("inf"), number=10**400, text="\ud800", pair=(1, "\udfff")))
    assert {fault.path for fault in caught.value.faults} == {"$.ratio", "$.number", "$.text", "$.pair[1]", "$.copied"}
    assert EVERYTHING.encode(everything_but(ratio=float("inf")))


def test_a_value_without_end_is_refused() -> None:
    tree: Any = Leaf(0)  # Any: a Leaf, then Trees
    for _ in range(5_000):
        tree = Tree(left=tree)
    with pytest.raises(CodecError, match="nested too deeply"):
        Codec[Tree].of(Tree).encode(tree)


@pytest.mark.parametrize("document", [[0.5] * 2_000, [[0.5]] * 2_000])
def test_a_flood_of_faults_is_bounded(document: JsonValue) -> None:
    faults = faults_of(tuple[int, ...], document)
    assert len(faults) == MAX_FAULTS + 1
    assert "the others are not listed" in faults[-1]


def test_a_flood_over_several_fields_is_bounded() -> None:
    faults = faults_of(Box[int], {"item": 1, "others": ["x"] * 2_000, "maybe": "x"})
    assert len(faults) == MAX_FAULTS + 1

"""The codec: an exact round trip for every type that it understands, and a refusal of all others."""

import enum
from typing import Any, Literal

import pytest
from attrs import frozen
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.codec.structure import Codec
from loopkernel.codec.unions import tag_of
from loopkernel.data.errors import CodecError
from loopkernel.data.json_text import (
    Json,
    JsonValue,
    canonical_text,
)
from loopkernel.data.vector import GrowingSet, Vector

from tests.kernel.codec.samples import (
    EVERYTHING,
    TREES,
    Box,
    Everything,
    Mode,
    Nothing,
    Rank,
    RawInput,
    Text,
    Tree,
    everything,
    everything_but,
    to_the_letter,
)

# --- round trip ---------------------------------------------------------------------------------------


@pytest.mark.rule("RESUME-1")
@given(everything())
def test_a_value_comes_back_exactly(value: Everything) -> None:
    text = EVERYTHING.encode_text(value)
    for again in (EVERYTHING.decode_text(text), EVERYTHING.decode(EVERYTHING.encode(value))):
        assert again == value
        assert to_the_letter(again) == to_the_letter(value)
        assert EVERYTHING.encode_text(again) == text
    assert text == canonical_text(EVERYTHING.encode(value))
    assert text.isascii() and "\n" not in text


def test_what_equals_its_default_is_left_out() -> None:
    assert EVERYTHING.encode(everything_but(copied=1)) == {
        "flag": False,
        "number": 1,
        "ratio": 0.5,
        "text": "t",
        "mode": "fast",
        "run": 3,
        "name": None,
        "many": [],
        "pair": [1, "a"],
        "either": None,
        "input": {"json": {}},
        "answer": None,
        "one": None,
        "copied": 1,  # its default is made from another field
    }


def test_what_follows_from_the_rest_is_not_written_and_not_read() -> None:
    written = EVERYTHING.encode(everything_but(index=5))
    assert written == EVERYTHING.encode(everything_but())
    assert EVERYTHING.decode(written).index is None
    assert isinstance(written, dict)
    with pytest.raises(CodecError, match="index"):
        EVERYTHING.decode({**written, "index": 5})


@pytest.mark.parametrize(
    ("fields", "written"),
    [
        ({"number_default": 500 + 500, "text_default": "".join(["def", "ault"]), "many_default": (1.0, 0.0)}, {}),
        ({"many_default": (1.0, -0.0)}, {"many_default": [1.0, -0.0]}),
        ({"ratio_default": -0.0}, {"ratio_default": -0.0}),
        ({"number_or_text": True}, {"number_or_text": True}),
        ({"any_number": 2.0}, {"any_number": 2.0}),
        ({"schema": Json.of({})}, {}),
        ({"vector": Vector.of([])}, {}),
        ({"tree": Tree(Vector.of([]))}, {}),
        (
            {"boxes": (None, Box("b"), Text("t"))},
            {"boxes": [None, {"type": "box", "item": "b"}, {"type": "text", "text": "t"}]},
        ),
        ({"either": Nothing()}, {"either": {"type": "nothing"}}),
        ({"input": RawInput("{")}, {"input": {"type": "raw-input", "text": "{"}}),
        ({"answer": Json.of(None)}, {"answer": {"json": None}}),
        ({"one": Text("t")}, {"one": {"text": "t"}}),
        ({"mixed": ("a", "b")}, {"mixed": ["a", "b"]}),
        ({"mixed": "off"}, {"mixed": "off"}),
        ({"seen": GrowingSet.of("cab")}, {"seen": ["a", "b", "c"]}),
        ({"private": 3}, {"private": 3}),
    ],
)
def test_the_form_of_each_kind(fields: dict[str, Any], written: dict[str, JsonValue]) -> None:
    plain, changed = EVERYTHING.encode(everything_but()), EVERYTHING.encode(everything_but(**fields))
    assert isinstance(plain, dict) and isinstance(changed, dict)
    assert canonical_text({key: changed[key] for key in changed if key in written or key not in plain}) == (
        canonical_text(written)
    )


@given(TREES, st.integers(0, 3))
def test_recursive_and_generic_types_come_back(tree: Tree, levels: int) -> None:
    codec: Codec[Tree] = Codec.of(Tree)
    assert codec.decode(codec.encode(tree)) == tree
    boxes: Codec[Box[Box[int]]] = Codec.of(Box[Box[int]])
    boxed = Box(Box(1, (2,)), (Box(3),) * levels, Box(4))
    assert boxes.decode(boxes.encode(boxed)) == boxed


@pytest.mark.parametrize(
    ("of_type", "value", "written"),
    [
        (None, None, None),
        (int | None, 3, 3),
        (Mode | Rank, Rank.HIGH, 1),
        (Literal["a"] | Literal["b"], "b", "b"),
        (Literal[1, True], True, True),
        (Json, Json.of([None]), [None]),
        (Json | int, 5, 5),
        (Json | Text | RawInput, Json.of({"type": "text"}), {"json": {"type": "text"}}),
        (Json | Text | RawInput, Text("t"), {"type": "text", "text": "t"}),
        (tuple[()], (), []),
        (tuple[Literal[1], str], (1, "a"), [1, "a"]),
    ],
)
def test_types_by_themselves(of_type: Any, value: Any, written: JsonValue) -> None:  # Any: of any type
    codec: Codec[Any] = Codec.of(of_type)
    assert canonical_text(codec.encode(value)) == canonical_text(written)
    assert repr(codec.decode(written)) == repr(value)


def test_a_class_is_tagged_by_its_name_in_kebab_case() -> None:
    names = ["A", "ToolCall", "HTTPError", "Sha256Digest", "MCPServer2", "toolCall"]
    assert [tag_of(type(name, (), {})) for name in names] == [
        "a", "tool-call", "http-error", "sha256-digest", "mcp-server2", "tool-call"
    ]  # fmt: skip


# --- types that are not understood --------------------------------------------------------------------


@frozen
class Tagged:
    """Its field takes the key of the tag."""

    type: str


class Plain:
    """Not an attrs class."""


class Fraction(enum.Enum):
    """Neither a text nor an integer."""

    HALF = 0.5


@pytest.mark.parametrize(
    ("of_type", "why"),
    [
        (Any, "does not understand the type typing.Any"),
        (Plain, "does not understand"),
        (dict[str, int], "does not understand"),
        (tuple, "does not understand"),
        (Vector, "does not understand"),
        (Box, "does not understand the type ~T"),
        (Fraction, "no enum or literal of a float"),
        (Literal[b"a"], "no enum or literal of a bytes"),
        (str | Mode, "could be taken for each other: text or one of"),
        (Mode | str, "could be taken for each other"),
        (Literal["fast"] | Mode, "could be taken for each other"),
        (tuple[int, ...] | Vector[int], "could be taken for each other"),
        (Tagged | Text, "has a field 'type'"),
        (Text | type("Text", (Text,), {}), "both called 'text'"),
    ],
)
def test_a_type_that_could_not_be_read_back_is_refused_at_once(of_type: Any, why: str) -> None:  # Any: any type
    with pytest.raises(TypeError, match=why):
        Codec.of(of_type)


def test_a_class_alone_needs_no_tag() -> None:
    codec: Codec[Tagged | None] = Codec.of(Tagged | None)
    assert codec.encode(Tagged("t")) == {"type": "t"}
    assert codec.decode({"type": "t"}) == Tagged("t")

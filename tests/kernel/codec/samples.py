"""Data of every kind that the codec understands, and how it is generated."""

import enum
from typing import Any, Generic, Literal, NewType, TypeVar

import pytest
from attrs import Factory, evolve, field, frozen, validators
from hypothesis import strategies as st
from loopkernel.codec.structure import DERIVED, Codec
from loopkernel.data.errors import CodecError, Fault, PolicyError
from loopkernel.data.json_text import (
    Json,
    safe_text,
)
from loopkernel.data.vector import GrowingSet, Vector

T = TypeVar("T")
CallNumber = NewType("CallNumber", int)
RunNumber = NewType("RunNumber", CallNumber)
Name = NewType("Name", str)


class Mode(enum.Enum):
    """Words."""

    FAST = "fast"
    SLOW = "slow"


class Rank(enum.IntEnum):
    """Numbers."""

    LOW = 0
    HIGH = 1


@frozen
class Text:
    """A class of one field."""

    text: str = field(converter=safe_text)


@frozen
class RawInput:
    """Another, with fields of the same names."""

    text: str
    mode: Mode = Mode.FAST


@frozen
class Nothing:
    """A class without fields."""


@frozen(kw_only=True)
class Bounds:
    """A class that refuses values: one by one, and together."""

    low: int = field(default=0, validator=validators.ge(0))
    high: int = field(default=9, validator=validators.and_(validators.instance_of(int), validators.lt(100)))
    name: str = "bounds"

    def __attrs_post_init__(self) -> None:
        faults = []
        if self.low > self.high:
            faults.append(Fault("bounds", "low must not pass high"))
        if self.name == "bad":
            faults.append(Fault("bounds.name", "must be good"))
        if self.name == "worse":
            faults.append(Fault("$.name", "must be better"))
        if faults:
            raise PolicyError(faults)


@frozen
class Box(Generic[T]):
    """A generic class."""

    item: T
    others: tuple[T, ...] = ()
    maybe: T | None = None


@frozen
class Tree:
    """A recursive class, through a union and a vector."""

    children: "Vector[Tree]" = Vector()
    left: "Leaf | Tree | None" = None


@frozen
class Leaf:
    """The other member of the recursive union."""

    number: int


@frozen(kw_only=True)
class Everything:
    """A field of each kind, required and with a default."""

    nothing: None = None
    flag: bool
    flag_default: bool = True
    number: int
    number_default: int = 1_000
    ratio: float
    ratio_default: float = 0.0
    text: str
    text_default: str = "default"
    mode: Mode
    mode_default: Mode = Mode.SLOW
    rank: Rank | None = None
    word: Literal["a", 1, True, None] = "a"
    run: RunNumber
    name: Name | None
    many: tuple[int, ...]
    many_default: tuple[float, ...] = (1.0, 0.0)
    pair: tuple[int, str]
    empty: tuple[()] = ()
    either: Text | RawInput | Nothing | None
    input: Json | RawInput
    answer: Json | None
    one: Text | None
    schema: Json = Json(text="{}")
    mixed: Mode | Literal["on", "off"] | RunNumber | CallNumber | tuple[str, ...] | Text | None = None
    number_or_text: int | str | bool | None = 1
    any_number: int | float = 2
    vector: Vector[Text | RawInput] = Vector()
    seen: GrowingSet[str] = GrowingSet()
    box: Box[int] = Box(0)
    boxes: tuple[Box[str] | Text | None, ...] | None = None
    tree: Tree = Tree()
    _private: int = 0
    made: tuple[int, ...] = Factory(tuple)
    derived: int = field(init=False, default=7)
    index: int | None = field(
        default=None, eq=False, repr=False, metadata={DERIVED: True}
    )  # what follows from the rest
    copied: int = Factory(lambda self: self.number, takes_self=True)


EVERYTHING: Codec[Everything] = Codec.of(Everything)

# --- values -------------------------------------------------------------------------------------------

TEXTS = st.text(max_size=8)
NUMBERS = st.integers(-5, 5) | st.integers(1 - 10**308, 10**308 - 1)
FLOATS = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([0.0, -0.0, 1.0]) | st.integers(0, 2)
MODES = st.sampled_from(Mode)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | FLOATS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
JSONS = JSON_VALUES.map(Json.of)
TEXT_PARTS = st.builds(Text, TEXTS)
RAW_PARTS = st.builds(RawInput, TEXTS, MODES)
TREES = st.recursive(
    st.just(Tree()),
    lambda inner: st.builds(
        Tree,
        st.lists(inner, max_size=2).map(Vector.of),
        inner | st.builds(Leaf, NUMBERS) | st.none(),
    ),
    max_leaves=6,
)


def everything() -> st.SearchStrategy[Everything]:
    return st.builds(
        Everything,
        flag=st.booleans(),
        flag_default=st.booleans(),
        number=NUMBERS,
        number_default=NUMBERS | st.just(1_000),
        ratio=FLOATS,
        ratio_default=FLOATS,
        text=TEXTS,
        text_default=TEXTS | st.just("default"),
        mode=MODES,
        mode_default=MODES,
        rank=st.sampled_from(Rank) | st.none(),
        word=st.sampled_from(["a", 1, True, None]),
        run=NUMBERS,
        name=TEXTS | st.none(),
        many=st.lists(NUMBERS, max_size=3).map(tuple),
        many_default=st.lists(FLOATS, max_size=3).map(tuple) | st.just((1.0, -0.0)) | st.just((1, 0.0)),
        pair=st.tuples(NUMBERS, TEXTS),
        either=TEXT_PARTS | RAW_PARTS | st.just(Nothing()) | st.none(),
        input=JSONS | RAW_PARTS,
        answer=JSONS | st.none(),
        one=TEXT_PARTS | st.none(),
        schema=JSONS,
        mixed=st.one_of(MODES, st.sampled_from(["on", "off"]), NUMBERS, st.tuples(TEXTS, TEXTS), TEXT_PARTS, st.none()),
        number_or_text=st.integers(0, 2) | st.booleans() | TEXTS | st.none(),
        any_number=FLOATS,
        vector=st.lists(TEXT_PARTS | RAW_PARTS, max_size=40).map(Vector.of),
        seen=st.lists(TEXTS, max_size=5).map(GrowingSet.of),
        box=st.builds(Box, NUMBERS, st.lists(NUMBERS, max_size=2).map(tuple), NUMBERS | st.none()),
        boxes=st.lists(st.builds(Box, TEXTS) | TEXT_PARTS | st.none(), max_size=3).map(tuple) | st.none(),
        tree=TREES,
        private=NUMBERS,
        made=st.lists(NUMBERS, max_size=1).map(tuple),
        index=NUMBERS | st.none(),
        copied=NUMBERS,
    )


def everything_but(**other: Any) -> Everything:  # Any: the values of any of its fields
    required: dict[str, Any] = {
        "flag": False,
        "number": 1,
        "ratio": 0.5,
        "text": "t",
        "mode": Mode.FAST,
        "run": RunNumber(CallNumber(3)),
        "name": None,
        "many": (),
        "pair": (1, "a"),
        "either": None,
        "input": Json.of({}),
        "answer": None,
        "one": None,
    }
    return Everything(**(required | other))


def to_the_letter(value: Everything) -> str:
    """What a value is made of, where 1, 1.0 and True differ, and 0.0 and -0.0. A set has no order."""
    return repr(evolve(value, seen=GrowingSet())) + repr(list(value.seen))


def faults_of(of_type: Any, document: Any) -> list[str]:  # Any: of any type, and a document that may be no JSON
    codec: Codec[Any] = Codec.of(of_type)
    with pytest.raises(CodecError) as caught:
        codec.decode(document)
    return [str(fault) for fault in caught.value.faults]

"""Records: what a constructor refuses is a fault of the document, at the place of the value."""

import pytest
from attrs import field, frozen, validators
from loopkernel.codec.structure import Codec
from loopkernel.data.errors import CodecError, Fault
from loopkernel.data.json_text import (
    JsonValue,
)

from tests.kernel.codec.samples import Bounds, faults_of

# --- values that their constructors refuse ------------------------------------------------------------


@pytest.mark.parametrize(
    ("document", "faults"),
    [
        ({"low": -1, "high": 100}, ["$.b.low: 'low' must be >= 0: -1", "$.b.high: 'high' must be < 100: 100"]),
        ({"low": 10}, ["$.b.bounds: low must not pass high"]),
        ({"name": "bad"}, ["$.b.bounds.name: must be good"]),
        ({"name": "worse"}, ["$.b.name: must be better"]),
    ],
)
def test_what_a_constructor_refuses_is_a_fault_at_its_place(document: JsonValue, faults: list[str]) -> None:
    @frozen
    class Holder:
        b: Bounds

    assert faults_of(Holder, {"b": document}) == faults


@frozen
class Holder:
    """Its field has the name that Bounds gives itself."""

    bounds: Bounds
    others: tuple[Bounds, ...] = ()
    count: int = field(default=0, validator=validators.ge(0))


def test_a_part_that_names_itself_is_not_named_twice() -> None:
    document: JsonValue = {"bounds": {"name": "bad", "low": 10}, "others": [{"name": "bad"}], "count": -1}
    assert faults_of(Holder, document) == [
        "$.bounds: low must not pass high",
        "$.bounds.name: must be good",
        "$.others[0].bounds.name: must be good",
        "$.count: 'count' must be >= 0: -1",
    ]


@frozen
class Holders:
    """The name of its field is that of Bounds too, but for the list between them."""

    bounds: tuple[Bounds, ...]


def test_only_the_innermost_name_is_taken_for_the_own_name_of_a_part() -> None:
    assert faults_of(Holders, {"bounds": [{"name": "bad"}]}) == ["$.bounds[0].bounds.name: must be good"]


def test_a_field_that_the_constructor_does_not_take_is_not_in_the_document() -> None:
    @frozen
    class Derived:
        given: int
        made: int = field(init=False)

        def __attrs_post_init__(self) -> None:
            object.__setattr__(self, "made", self.given + 1)

    codec: Codec[Derived] = Codec.of(Derived)
    assert codec.encode(Derived(1)) == {"given": 1}
    assert codec.decode({"given": 1}) == Derived(1)
    assert faults_of(Derived, {"given": 1, "made": 2}) == ["$.made: is not a key of Derived, whose keys are: given"]


def test_what_a_constructor_refuses_is_told_beside_other_faults() -> None:
    assert faults_of(Bounds, {"low": "x", "name": "worse", "more": 1}) == [
        '$.low: must be an integer, not "x"',
        "$.more: is not a key of Bounds, whose keys are: low, high, name",
        "$.name: must be better",
    ]
    # `bounds` is missing, so that no constructor can be asked; the fields' own validators can.
    assert faults_of(Holder, {"count": -1}) == [
        "$.bounds: is missing in this Holder",
        "$.count: 'count' must be >= 0: -1",
    ]


@frozen
class Strict:
    """Constructors that fail in odd ways."""

    a: int = field(default=0)
    b: int = 0

    @a.validator
    def _needs_the_rest(self, _: object, a: int) -> None:
        if a == 1 and self.b == 1:
            raise ValueError("a and b must differ")

    def __attrs_post_init__(self) -> None:
        if self.b == 2:
            raise TypeError
        if self.b == 3:
            raise CodecError([Fault("$.b", "must not be 3")])


@pytest.mark.parametrize(
    ("document", "fault"),
    [
        ({"a": 1, "b": 1}, "$: a and b must differ"),
        ({"b": 2}, "$: is refused: TypeError"),
        ({"b": 3}, "$.b: must not be 3"),
    ],
)
def test_constructors_that_fail_in_odd_ways(document: JsonValue, fault: str) -> None:
    assert faults_of(Strict, document) == [fault]

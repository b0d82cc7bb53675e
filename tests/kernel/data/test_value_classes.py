"""What every class of the data promises, in both forms of the kernel: as attrs makes it, and compiled (`make fast`).

Nobody can set a field from outside; equal values are equal, hash alike, and read alike; copies and pickles are equal to
what they were made of; `evolve`, `attrs.fields` and patterns work.
"""

import copy
import gc
import pickle
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data import states
from loopkernel.data.blocks import TextBlock, ToolCall
from loopkernel.data.deltas import Delta
from loopkernel.data.errors import CodecError, DataError
from loopkernel.data.ids import CallId, ModelOperation
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import ModelText
from loopkernel.data.sessions import Settings, Stamp
from loopkernel.data.states import State
from loopkernel.data.usage import Usage
from loopkernel.data.vector import GrowingSet, Vector
from loopkernel.testing.strategies.deltas import deltas
from loopkernel.testing.strategies.states import states as any_states

Fields = tuple[Any, ...]  # Any: the fields of all types, and what attrs does not say that they have

CALL = ToolCall(id=CallId(ModelOperation(1), 1), provider_id="a", tool="read", input=Json.of({"path": "x"}))


def parts_of(value: object) -> list[object]:
    """The value and, of what it holds, each value that has fields."""
    if not attrs.has(type(value)):
        return [part for item in value for part in parts_of(item)] if isinstance(value, tuple) else []
    fields: Fields = attrs.fields(type(value))  # type: ignore[arg-type]  # it has some
    return [value, *(part for field in fields for part in parts_of(getattr(value, field.name)))]


@given(any_states | deltas)
@pytest.mark.rule("STATE-1")
def test_no_field_can_be_set_or_deleted(value: State | Delta) -> None:
    for part in parts_of(value):
        fields: Fields = attrs.fields(type(part))  # type: ignore[arg-type]  # it has some
        for field in fields:
            before = getattr(part, field.name)
            with pytest.raises(AttributeError):
                setattr(part, field.name, before)
            with pytest.raises(AttributeError):
                delattr(part, field.name)
            assert getattr(part, field.name) == before
        if type(part).__dictoffset__ == 0:  # all but the collections of a compiled kernel
            with pytest.raises(AttributeError):
                setattr(part, "surely_no_field", None)  # noqa: B010 - the name is no field, for the type checker too


@given(any_states | deltas)
def test_a_copy_and_a_pickle_are_equal_to_the_value(value: State | Delta) -> None:
    for other in (copy.copy(value), copy.deepcopy(value), pickle.loads(pickle.dumps(value)), attrs.evolve(value)):
        assert other == value
        assert hash(other) == hash(value)
        assert repr(other) == repr(value)
        assert type(other) is type(value)


@pytest.mark.parametrize("make", [lambda: Vector.of([1]), lambda: GrowingSet.of([1]), lambda: Stamp(1, 2)])
def test_a_value_that_somebody_refers_to_weakly_goes_like_any_other(make: Callable[[], object]) -> None:
    references = []
    values = [make() for _ in range(100)]
    for value in values:
        with suppress(TypeError):  # most values can only be held, or not: the collections of a compiled kernel differ
            references.append(weakref.ref(value))
    assert [each() for each in references] == values[: len(references)]
    del value, values
    gc.collect()
    assert [each() for each in references] == [None] * len(references)


@given(st.lists(deltas, min_size=2, max_size=2))
def test_values_are_equal_exactly_when_their_fields_are(pair: list[Delta]) -> None:
    one, other = pair
    fields = [[getattr(each, field.name) for field in attrs.fields(type(each)) if field.eq] for each in pair]
    assert (one == other) is (type(one) is type(other) and fields[0] == fields[1])
    assert one != object()


def test_a_value_reads_as_the_call_that_builds_it() -> None:
    assert repr(ModelText(ModelOperation(2), "Hi")) == "ModelText(operation=2, text='Hi')"
    assert repr(Stamp(3, 4)) == "Stamp(version=3, now_ms=4)"
    assert repr(TextBlock("Hi")) == "TextBlock(text='Hi')"


def test_the_fields_of_a_class_are_told() -> None:
    told: Fields = attrs.fields(ModelText)
    assert [field.name for field in told] == ["operation", "text"]
    assert [field.inherited for field in told] == [True, False]
    assert [field.default for field in attrs.fields(Stamp)] == [0, 0]
    derived = {field.name for field in attrs.fields(Settings) if field.metadata.get("derived")}
    assert derived == {"offered", "any_early"}
    assert attrs.fields(states.Idle).session.kw_only
    assert attrs.fields(Usage).input.type is int
    assert attrs.asdict(Stamp(1, 2), recurse=False) == {"version": 1, "now_ms": 2}


def test_a_value_is_matched_by_its_fields_in_their_order() -> None:
    match ModelText(ModelOperation(2), "Hi"):
        case ModelText(operation, text):
            assert (operation, text) == (2, "Hi")
    assert ModelText.__match_args__ == ("operation", "text")
    assert states.Idle.__match_args__ == ()


def test_evolve_changes_what_is_named() -> None:
    other = attrs.evolve(CALL, tool="write")
    assert (other.tool, other.input, CALL.tool) == ("write", CALL.input, "read")
    with pytest.raises(TypeError):
        attrs.evolve(CALL, surely_no_field=1)  # type: ignore[call-arg]  # that is what is tried


def test_what_is_built_wrong_is_refused() -> None:
    with pytest.raises(DataError, match=r"TextBlock\.text: must be a text, not 1"):
        TextBlock(1)  # type: ignore[arg-type]  # that is what is tried
    with pytest.raises(ValueError):
        Usage(input=-1)
    with pytest.raises(CodecError):
        Json("{ }")
    with pytest.raises(TypeError):
        Stamp(1, 2, 3)  # type: ignore[call-arg]  # that is what is tried
    with pytest.raises(TypeError):
        states.Idle(Settings(session_id="a"), Stamp())  # type: ignore[call-arg, arg-type]  # that is what is tried


def test_a_text_is_made_safe_where_it_is_held() -> None:
    assert TextBlock("\ud800").text == "\ufffd"
    assert ModelText(ModelOperation(1), "a\ud83d\ude00").text == "a\U0001f600"


def test_a_vector_of_any_length_takes_part() -> None:
    whole = Vector.of(range(100))
    assert pickle.loads(pickle.dumps(whole)) == whole
    assert hash(whole) == hash(Vector.of(range(100)))
    assert Vector.__parameters__  # type: ignore[attr-defined]  # generic, as the codec asks
    with pytest.raises(AttributeError):
        whole.size = 5  # type: ignore[misc]  # that is what is tried

"""Looking into JSON of unknown shape never fails, and never takes one kind of value for another."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.blocks import RawInput
from loopkernel.data.json_text import Json, JsonValue
from loopkernel_adapters.transcripts import fields
from loopkernel_adapters.transcripts.fields import given_input, kept

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
)


@pytest.mark.parametrize(
    ("value", "time"),
    [
        (0, 0),
        (1_767_700_000.5, 1_767_700_000_500),
        (1_767_700_000_500, 1_767_700_000_500),
        ("2026-01-06T11:46:40.500Z", 1_767_700_000_500),
        ("2026-01-06T11:46:40.500123456Z", 1_767_700_000_500),
        ("2026-01-06T12:46:40.5+01:00", 1_767_700_000_500),
        (math.inf, None),
        (-math.inf, None),
        (math.nan, None),
        (-1, None),
        (10**400, None),
        (True, None),
        ("yesterday", None),
        ("9999-12-31T23:59:59-23:59", 253_402_387_139_000),
        ([], None),
    ],
)
def test_a_time_is_read_in_the_forms_that_recordings_have(value: JsonValue, time: int | None) -> None:
    assert fields.time_at({"t": value}, "t") == time


@given(value=JSON)
def test_what_is_of_another_kind_is_not_there(value: JsonValue) -> None:
    for path in ((), ("a",), ("a", "b")):
        found = fields.at(value, *path)
        assert fields.record_at(value, *path) == (found if isinstance(found, dict) else {})
        assert fields.items_at(value, *path) == (found if isinstance(found, list) else [])
        assert fields.text_at(value, *path) in (found, None)
        assert 0 <= fields.count_at(value, *path) <= fields.LARGEST_COUNT
        time = fields.time_at(value, *path)
        assert time is None or isinstance(time, int)
        assert isinstance(kept(found), Json)
        assert isinstance(given_input(found), Json | RawInput)

"""JSON values, texts that are nearly JSON, and what can be said of a value without reading it back."""

import json
from collections.abc import Iterator

from hypothesis import strategies as st
from loopkernel.data.json_text import (
    MAX_DIGITS,
    JsonValue,
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

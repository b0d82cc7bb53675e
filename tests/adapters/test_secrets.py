"""Registered secrets: every value is found, nothing else is changed, and the way back gives the value again."""

import json
from collections.abc import Iterator

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.blocks import MediaBlock, TextBlock
from loopkernel.data.deltas import Delta
from loopkernel.data.ids import CallId, ModelOperation
from loopkernel.data.json_text import Json, JsonValue
from loopkernel.data.model_deltas import ModelCall
from loopkernel.data.policy import ApprovalRule, FieldPattern, Policy
from loopkernel.data.thread_deltas import Created
from loopkernel.data.tools import Decision, Tool
from loopkernel.data.user_deltas import Approve, Reject, RememberPattern, Say, Swap
from loopkernel.testing.strategies.deltas import deltas
from loopkernel_adapters.secrets import SHORTEST_VALUE, Secrets, handle

# A small alphabet, so that values overlap, begin each other, and stand in the texts by chance.
LETTERS = 'ab"\n/é'
VALUES = st.text(LETTERS, min_size=SHORTEST_VALUE, max_size=7).filter(lambda value: value == value.strip())
PAIRS = st.dictionaries(st.sampled_from(["A", "B", "C.d-e_1"]), VALUES, min_size=1, max_size=3)
SECRETS = PAIRS.map(Secrets)
PLAIN_PAIRS = st.dictionaries(st.sampled_from("AB"), st.text("ab", min_size=SHORTEST_VALUE, max_size=6), min_size=1)
TEXTS = st.text(f"{LETTERS}c{{}}", max_size=40)
JSON_VALUES: st.SearchStrategy[JsonValue] = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
KEY = Secrets({"KEY": "hunter22"})


def texts_in(value: JsonValue) -> Iterator[str]:
    """Every text of the value, keys too."""
    match value:
        case str():
            yield value
        case list():
            for item in value:
                yield from texts_in(item)
        case dict():
            for key, item in value.items():
                yield key
                yield from texts_in(item)
        case _:
            return


def strings_of(datum: object) -> Iterator[str]:
    """Every text of a frozen datum."""
    match datum:
        case str():
            yield datum
        case Json():
            yield from texts_in(datum.value())
        case tuple():
            for part in datum:
                yield from strings_of(part)
        case _:
            kind = type(datum)
            for field in attrs.fields(kind) if attrs.has(kind) else ():
                yield from strings_of(getattr(datum, field.name))


# --- texts ---


@given(PAIRS, TEXTS)
@pytest.mark.rule("TOOL-12")
def test_no_value_is_left_in_a_text_and_hiding_twice_changes_nothing(values: dict[str, str], text: str) -> None:
    secrets = Secrets(values)
    hidden = secrets.hide(text)
    for value in values.values():
        assert value not in hidden
        assert json.dumps(value)[1:-1] not in hidden
    assert secrets.hide(hidden) == hidden


@given(PLAIN_PAIRS, st.text("abc{}", max_size=40))
@pytest.mark.rule("TOOL-12")
def test_what_was_hidden_comes_back(values: dict[str, str], text: str) -> None:
    secrets = Secrets(values)
    assert secrets.reveal(Json.of(secrets.hide(text))) == Json.of(text)


@given(SECRETS, st.text("cdef {}"))
def test_a_text_without_a_value_stays_as_it_is(secrets: Secrets, text: str) -> None:
    assert secrets.hide(text) == text


@given(SECRETS | PLAIN_PAIRS.map(Secrets), TEXTS | st.text("abc"), TEXTS | st.text("abc"))
@pytest.mark.rule("TOOL-12")
def test_what_is_settled_does_not_depend_on_what_comes(secrets: Secrets, text: str, more: str) -> None:
    end = secrets.settled(text)
    assert 0 <= end <= len(text)
    assert secrets.hide(text[:end]) + secrets.hide(text[end:] + more) == secrets.hide(text + more)


def test_the_longest_of_several_values_is_taken_for_what_it_is() -> None:
    secrets = Secrets({"SHORT": "abcd", "LONG": "abcdefgh"})
    assert secrets.hide("abcdefgh abcd") == f"{handle('LONG')} {handle('SHORT')}"
    assert secrets.settled("x abcd") == 2  # it may become the long one


@pytest.mark.parametrize("written", ['pass"wörd/1', 'pass\\"wörd/1', 'pass\\"w\\u00f6rd/1', 'pass\\"w\\u00f6rd\\/1'])
def test_a_value_is_found_as_json_escapes_it(written: str) -> None:
    assert Secrets({"KEY": 'pass"wörd/1'}).hide(f"({written})") == f"({handle('KEY')})"


# --- JSON ---


@given(PAIRS, JSON_VALUES)
@pytest.mark.rule("TOOL-12")
def test_no_value_is_left_in_json(values: dict[str, str], value: JsonValue) -> None:
    hidden = Secrets(values).hide_json(Json.of(value))
    found = list(texts_in(hidden.value()))
    assert not any(secret in text for secret in values.values() for text in found)


@given(SECRETS, JSON_VALUES)
def test_json_without_a_value_is_the_same_object(secrets: Secrets, value: JsonValue) -> None:
    given_json = Json.of(value)
    if all(secrets.hide(text) == text for text in texts_in(value)):
        assert secrets.hide_json(given_json).text == given_json.text


def test_a_number_that_holds_a_value_becomes_a_text() -> None:
    assert Secrets({"PIN": "4711"}).hide_json(Json.of({"pin": 4711, "id": 147110, "n": 1})).value() == {
        "pin": handle("PIN"),
        "id": f"1{handle('PIN')}0",
        "n": 1,
    }


def test_handles_are_revealed_wherever_they_stand_and_unknown_ones_are_kept() -> None:
    given_json = Json.of({handle("KEY"): [f"Bearer {handle('KEY')}", handle("OTHER"), 1, None]})
    assert KEY.reveal(given_json).value() == {"hunter22": ["Bearer hunter22", handle("OTHER"), 1, None]}
    assert KEY.reveal(Json.of("plain")).value() == "plain"


# --- deltas ---


@given(deltas)
def test_a_delta_without_a_value_is_the_same_object(delta: Delta) -> None:
    assert KEY.hide_in(delta) is delta


CALL = CallId(ModelOperation(1), 1)
SAID = "say hunter22"
GIVEN = Json.of({"a": [SAID], SAID: 1})


@pytest.mark.rule("TOOL-12")
@pytest.mark.parametrize(
    "delta",
    [
        Say(content=(TextBlock("a"), TextBlock(SAID), MediaBlock("text/plain", SAID)), key=SAID),
        Reject(call=CALL, why=SAID),
        Swap(call=CALL, tool=SAID, input=GIVEN),
        Approve(call=CALL, remember=RememberPattern((FieldPattern("a", SAID),))),
        ModelCall(operation=ModelOperation(1), provider_id=SAID, tool="t", input=GIVEN, after=("a", SAID)),
        Created(
            session_id=SAID,
            policy=Policy(approval_rules=(ApprovalRule(decision=Decision.ASK, tool=SAID),)),
            tools=(Tool(name="t", description=SAID, input_schema=GIVEN),),
        ),
    ],
    ids=lambda delta: type(delta).__name__,
)
def test_every_text_of_a_delta_is_looked_at(delta: Delta) -> None:
    before = list(strings_of(delta))
    hidden = KEY.hide_in(delta)
    assert type(hidden) is type(delta)
    assert list(strings_of(hidden)) == [text.replace("hunter22", handle("KEY")) for text in before]
    assert any("hunter22" in text for text in before)


# --- what cannot be a secret, and what is never shown ---


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("KEY", "abc", "fewer than 4"),
        ("KEY", "hunter22\n", "white space"),
        ("KEY", "hunter\ud800", "surrogate"),
        ("KEY", "secret", "apart"),
        ("KEY", "}}abc", "apart"),
        ("KEY", "abc{", "apart"),
        ("KEY", "x{{secret:KEY}}x", "apart"),
        ("my key", "hunter22", "cannot be the name"),
        ("", "hunter22", "cannot be the name"),
        ("a" * 65, "hunter22", "cannot be the name"),
        ("a}}", "hunter22", "cannot be the name"),
    ],
)
def test_what_could_not_be_told_apart_is_refused_without_showing_it(name: str, value: str, why: str) -> None:
    with pytest.raises(ValueError, match=why) as refusal:
        Secrets({"OTHER": "correct horse", name: value})
    shown = str(refusal.value).replace("{{secret:", "")
    assert value not in shown
    assert "correct horse" not in shown


@given(SECRETS, TEXTS)
def test_json_in_braces_may_be_a_secret(secrets: Secrets, text: str) -> None:
    document = json.dumps({"key": f"x{text}"})
    assert Secrets({"DOCUMENT": document}).hide(f"a{document}b") == f"a{handle('DOCUMENT')}b"


def test_only_the_names_are_shown() -> None:
    secrets = Secrets({"KEY": "hunter22", "PIN": "4711"})
    assert repr(secrets) == str(secrets) == "Secrets(KEY, PIN)"

"""What a person is shown of a call: all that matters, in marks that cannot be forged, on one screen."""

import json
import os
import pty
import unicodedata
from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.blocks import RawInput, ToolCall
from loopkernel.data.ids import CallId, ModelOperation
from loopkernel.data.json_text import Json, JsonValue
from loopkernel.data.ledgers import LedgerEntry
from loopkernel_adapters.cli.dialogue import AskedCall
from loopkernel_adapters.cli.screen import Screen
from loopkernel_adapters.cli.shown_text import (
    fitted,
    given_text,
    lines_of,
    parts_of,
    told_input,
    told_name,
    warnings_of,
)
from typing_extensions import override

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30) | st.sampled_from(
    [
        " " * 1_701,
        "x" * 3_000,
        "\n" * 40,
        "answer      yes? ",
        "\u202e",
        "\u2039\u2420\u00d71701\u203a",
        "\U0001f600" * 80,
    ]
)
INPUTS = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=30,
)


class Seen(Screen):
    """A terminal of this size."""

    def __init__(self, columns: int, lines: int) -> None:
        self.stream_of_it = StringIO()
        super().__init__(self.stream_of_it)
        self._size = (columns, lines)

    @override
    def size(self) -> tuple[int, int]:
        return self._size


def entry(tool: str, given_input: JsonValue) -> LedgerEntry:
    call = ToolCall(id=CallId(ModelOperation(1), 1), provider_id="a", tool=tool, input=Json.of(given_input))
    return LedgerEntry(call=call)


def columns(line: str) -> int:
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in line)


def shown(value: JsonValue, width: int = 66, most: int = 12) -> str:
    return "\n".join(fitted(parts_of(Json.of(value)), width, most))


# --- marks ---


@pytest.mark.rule("ASK-2")
@pytest.mark.parametrize(
    ("text", "marked"),
    [
        ("a b", "a b"),
        ("a  b", "a\u2039␠\u00d72\u203ab"),
        (f"SELECT 1{' ' * 1_701}; DROP TABLE x", "SELECT 1\u2039␠\u00d71701\u203a; DROP TABLE x"),
        ("a\nb\n\n\tc", "a⏎b\u2039⏎\u00d72\u203a⇥c"),
        ('"\\', '\\"\\\\'),
        ("\x1b[2J", "\u2039U+001B\u203a[2J"),
        ("\u202etxt.exe", "\u2039U+202E\u203atxt.exe"),
        ("a\u200b\u200bb", "a\u2039U+200B\u00d72\u203ab"),
        ("\u201cyes\u201d", "\u2039U+201C\u203ayes\u2039U+201D\u203a"),
        ("p\u0430ypal", "p\u2039U+0430\u203aypal"),
        ("привет мир", "привет мир"),
        ("\uff44", "\u2039U+FF44\u203a"),
        ("caf\u00e9 e\u0301", "caf\u00e9 e\u0301"),
        ("e" + "\u0301" * 9, "e\u2039U+0301\u00d79\u203a"),
        ("\u2420\u00d71701", "\u2039U+2420\u203a\u00d71701"),
        ("\u2039U+0041\u203a", "\u2039U+2039\u203aU+0041\u2039U+203A\u203a"),
        ("a\u00a0\u3164b", "a\u2039U+00A0\u203a\u2039U+3164\u203ab"),
    ],
)
def test_what_cannot_be_told_apart_is_marked(text: str, marked: str) -> None:
    assert shown(text) == f'"{marked}"'


def test_each_odd_character_is_named_also_where_it_is_not_shown() -> None:
    hidden = parts_of(Json.of({"a": f"{'x' * 5_000}\u202e{'y' * 5_000}", "b": "p\u0430y \u05d0"}))
    assert "202E" not in "".join(fitted(hidden, 66, 4))
    assert warnings_of(hidden) == [
        "U+202E right-to-left override",
        "U+0430 cyrillic small letter a, in a word of Latin letters",
        "letters that are written from right to left, so the order on the screen may be another",
    ]
    assert (
        warnings_of(parts_of(Json.of("\x01\x02\x03\x04\x05\x06")))[-1] == "2 more kinds of characters that are marked"
    )
    assert warnings_of(parts_of(Json.of({"plain": "text\n\t"}))) == []


def test_where_the_encoding_has_no_signs_escapes_stand_for_them_and_cannot_be_forged_either() -> None:
    parts = parts_of(Json.of("a  b\n\\n é"), shows=str.isascii)
    assert "".join(lines_of(parts, 80)) == '"a\\{blank*2}b\\n\\\\n \\{U+00E9}"'
    assert told_name("é", str.isascii) == "\\{U+00E9}"


# --- how much of it ---


def test_of_a_long_value_both_ends_are_shown_with_the_length_between() -> None:
    lines = shown({"path": "a", "text": f"begin {'x' * 100_000} end", "mode": "last"})
    assert lines.startswith('{"path": "a", "text": "begin xxx')
    assert 'x end", "mode": "last"}' in lines.replace("\n", "")
    assert " characters left out\u203a" in lines


def test_of_many_values_the_first_and_the_last_are_shown() -> None:
    lines = shown({f"key{number}": "v" * 50 for number in range(300)}).splitlines()
    assert len(lines) <= 12
    assert lines[0].startswith('{"key0": "vv')
    assert lines[-1].endswith('v"}')
    assert any("answer `show` to see them" in line for line in lines)


@given(value=INPUTS, width=st.integers(20, 70), most=st.integers(3, 20))
def test_what_is_shown_keeps_to_its_room(value: JsonValue, width: int, most: int) -> None:
    lines = fitted(parts_of(Json.of(value)), width, most)
    assert len(lines) <= most
    assert all(columns(line) <= width for line in lines)
    assert all(line.isprintable() for line in lines)
    whole = lines_of(parts_of(Json.of(value)), width)
    assert all(columns(line) <= width for line in whole)
    assert "left out" not in "".join(whole) or "left out" in given_text(Json.of(value))


@given(value=INPUTS)
def test_nothing_is_lost_of_what_is_shown_whole(value: JsonValue) -> None:
    parts = parts_of(Json.of(value))
    assert "".join(lines_of(parts, 40)) == "".join(lines_of(parts, 10_000))
    if str(value).isascii() and "  " not in str(value) and "\\" not in json.dumps(value):
        assert "".join(lines_of(parts, 40)) == json.dumps(value)


def test_a_known_secret_is_hidden_before_anything_is_cut_and_no_name_hides_a_value() -> None:
    value = Json.of({"sql_token": "DROP TABLE x", "k": "a tweet-1234 b"})
    parts = parts_of(value, lambda text: text.replace("tweet-1234", "*"))
    assert "".join(lines_of(parts, 10)) == '{"sql_token": "DROP TABLE x", "k": "a * b"}'
    assert told_input(Json.of({"password": "x"}), 300) == '{"password": "x"}'
    assert told_input(RawInput('{"token": \x1b'), 300) == '{"token": \u2039U+001B\u203a'


# --- on the screen ---

PROMPT = "yes, no [WHY], always (each tool from now on), edit [JSON], show"


@given(value=INPUTS, tool=TEXT, size=st.sampled_from([(80, 24), (40, 24), (30, 10), (200, 60)]))
def test_the_question_is_on_the_screen_with_its_tool_and_reason(
    value: JsonValue, tool: str, size: tuple[int, int]
) -> None:
    screen = Seen(*size)
    call = AskedCall(entry(tool, value), "this tool changes what it names, and its profile asks each time", screen)
    call.put(PROMPT)
    block = screen.stream_of_it.getvalue()
    lines = block.splitlines()
    assert [line for line in lines if columns(line) >= size[0]] == []
    labels = [line[:11].strip() for line in lines if not line.startswith("          ")]
    assert [label for label in labels if label != "beware"] == ["tool", "input", "because"]
    if size[1] > 10:
        assert len(lines) + 3 <= size[1]  # and the prompt below it
    seen = [len(page) for page in call.pages(PROMPT)]
    assert max(seen) <= size[1]


def test_pages_show_all_of_it_and_begin_again() -> None:
    screen = Seen(40, 24)
    text = "\n".join(f"line {number}" for number in range(60))
    call = AskedCall(entry("write", {"text": text}), "why", screen)
    count = len(call.pages(PROMPT))
    for number in range(count + 1):
        call.put_page(number, PROMPT)
    text = screen.stream_of_it.getvalue()
    assert all(f"line {number}" in text for number in range(60))
    assert text.count('{"text": "line 0⏎') == 2
    assert f"page {count} of" in text


def test_a_terminal_that_does_not_tell_its_size_has_the_usual_one_and_a_file_has_none() -> None:
    person, program = pty.openpty()
    with open(program, "w") as stream:
        assert Screen(stream).size() == (80, 24)
        assert Screen(stream).is_seen
    os.close(person)
    assert not Screen(StringIO()).is_seen

"""The replies of the embedded model: JSON that comes in pieces becomes text, calls and ends."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.blocks import RawInput
from loopkernel.data.json_text import safe_text
from loopkernel.data.model_deltas import ModelCall, ModelCompleted, ModelDelta, ModelFailed
from loopkernel.data.words import ErrorClass, StopReason
from loopkernel_adapters.providers.local.reply import AnswerReader, last_deltas

from tests.adapters.providers.local_world import A_CALL, OPERATION, READ_CALL, USAGE


@given(st.data(), st.text(st.characters(codec=None), max_size=20), st.booleans(), st.sampled_from(["", " ", "\n  "]))
def test_the_text_of_an_answer_streams_whole_however_it_is_cut(
    data: st.DataObject, answer: str, ascii_only: bool, space: str
) -> None:
    encoded = f'{{{space}"answer"{space}:{space}{json.dumps(answer, ensure_ascii=ascii_only)}{space}}}'
    cuts = sorted(data.draw(st.lists(st.integers(0, len(encoded)), max_size=6)))
    reader = AnswerReader()
    pieces = [reader.feed(encoded[start:end]) for start, end in zip([0, *cuts], [*cuts, len(encoded)], strict=True)]
    assert reader.text == encoded
    # Two halves of a pair that were encoded apart are one character, as for any reader of JSON.
    assert "".join(map(safe_text, pieces)) == safe_text(json.loads(encoded)["answer"])


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=1, max_size=20))
def test_text_streams_as_soon_as_it_has_come(answer: str) -> None:
    reader = AnswerReader()
    assert reader.feed('{"answer": "') == ""
    plain = answer.replace("\\", "").replace('"', "")
    assert "".join(reader.feed(character) for character in plain) == plain
    assert reader.feed('"}') == ""


def test_a_call_streams_no_text() -> None:
    reader = AnswerReader()
    assert [reader.feed(character) for character in READ_CALL] == [""] * len(READ_CALL)


@pytest.mark.parametrize(
    ("text", "finish_reason", "expected"),
    [
        ('{"answer": "Milk."}', "stop", (ModelCompleted(OPERATION, StopReason.END_TURN, USAGE),)),
        ('{"answer": "Milk."}', "length", (ModelCompleted(OPERATION, StopReason.END_TURN, USAGE),)),
        (READ_CALL, "stop", (A_CALL, ModelCompleted(OPERATION, StopReason.TOOL_USE, USAGE))),
        ('{"answer": "Mi', "length", (ModelCompleted(OPERATION, StopReason.MAX_TOKENS, USAGE),)),
        ('{"to', "length", (ModelCompleted(OPERATION, StopReason.MAX_TOKENS, USAGE),)),
        (
            '{"tool": "read_file", "inp',
            "length",
            (
                ModelCall(
                    operation=OPERATION,
                    provider_id="call-1",
                    tool="read_file",
                    input=RawInput('{"tool": "read_file", "inp'),
                ),
                ModelCompleted(OPERATION, StopReason.MAX_TOKENS, USAGE, cut_call=True),
            ),
        ),
    ],
)
def test_an_ended_reply_is_a_call_an_answer_or_cut(
    text: str, finish_reason: str, expected: tuple[ModelDelta, ...]
) -> None:
    assert last_deltas(OPERATION, text, finish_reason, USAGE) == expected


@pytest.mark.parametrize(
    ("text", "finish_reason", "error"),
    [
        ('{"answer": "Mi', "stop", ErrorClass.INVALID_OUTPUT),
        ('{"answer": 3}', "stop", ErrorClass.INVALID_OUTPUT),
        ('{"tool": "read_file"}', "stop", ErrorClass.INVALID_OUTPUT),
        ("", "stop", ErrorClass.INVALID_OUTPUT),
        ("[" * 100_000, "stop", ErrorClass.INVALID_OUTPUT),
        ('{"answer": "Milk."}', None, ErrorClass.SERVER),
        ('{"answer": "Milk."}', "tool_calls", ErrorClass.SERVER),
    ],
)
def test_a_reply_that_is_neither_is_a_failure_that_counts_its_usage(
    text: str, finish_reason: str | None, error: ErrorClass
) -> None:
    (failed,) = last_deltas(OPERATION, text, finish_reason, USAGE)
    assert isinstance(failed, ModelFailed)
    assert (failed.error, failed.usage) == (error, USAGE)

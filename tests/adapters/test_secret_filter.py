"""Streams without secrets: a value is found however it is cut, and nothing else is changed, lost or joined."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.deltas import Delta
from loopkernel.data.ids import ModelOperation, RunOperation
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import (
    ModelCall,
    ModelCompleted,
    ModelInput,
    ModelReasoning,
    ModelStarted,
    ModelText,
    ModelUsage,
)
from loopkernel.data.tool_deltas import ToolAsked, ToolProgress, ToolSucceeded
from loopkernel.data.usage import Usage
from loopkernel.data.words import StopReason
from loopkernel_adapters.secret_filter import SecretFilter
from loopkernel_adapters.secrets import NO_SECRETS, SHORTEST_VALUE, Secrets, handle

ONE, TWO = ModelOperation(1), ModelOperation(2)
FIRST, SECOND = RunOperation(1), RunOperation(2)
SECRETS = st.dictionaries(st.sampled_from("AB"), st.text("ab", min_size=SHORTEST_VALUE, max_size=7), min_size=1).map(
    Secrets
)
PIECES = st.lists(st.text("abc", max_size=5), max_size=8)
KEY = Secrets({"KEY": "hunter22"})
ENDED = ModelCompleted(ONE, StopReason.END_TURN)


def filtered(secrets: Secrets, deltas: Iterable[Delta]) -> list[Delta]:
    secret_filter = SecretFilter(secrets)
    return [told for delta in deltas for told in secret_filter.incoming(delta)]


def joined(deltas: Iterable[Delta], kind: type[ModelText | ModelReasoning | ModelInput]) -> str:
    return "".join(delta.text for delta in deltas if isinstance(delta, kind))


@given(SECRETS, PIECES, st.sampled_from([ModelText, ModelReasoning, ModelInput]))
@pytest.mark.rule("TOOL-12")
def test_a_stream_is_hidden_as_its_whole_text_would_be(
    secrets: Secrets, pieces: list[str], kind: type[ModelText | ModelReasoning | ModelInput]
) -> None:
    told = filtered(secrets, [*(kind(ONE, piece) for piece in pieces), ENDED])
    assert joined(told, kind) == secrets.hide("".join(pieces))
    assert told[-1] == ENDED


@given(SECRETS, st.lists(st.text("ab", max_size=3), max_size=12))
def test_usage_in_the_midst_of_a_text_does_not_cut_it(secrets: Secrets, pieces: list[str]) -> None:
    among = [delta for piece in pieces for delta in (ModelText(ONE, piece), ModelUsage(ONE, Usage(output=1)))]
    told = filtered(secrets, [ModelStarted(ONE, "m"), *among, ENDED])
    assert joined(told, ModelText) == secrets.hide("".join(pieces))
    assert len([delta for delta in told if isinstance(delta, ModelUsage)]) == len(pieces)


@given(SECRETS, PIECES)
@pytest.mark.rule("TOOL-12")
def test_progress_is_hidden_as_all_of_it_would_be_and_keeps_its_messages(secrets: Secrets, pieces: list[str]) -> None:
    told = filtered(secrets, [*(ToolProgress(FIRST, piece) for piece in pieces), ToolSucceeded(FIRST)])
    messages = [delta.text for delta in told if isinstance(delta, ToolProgress)]
    assert "".join(messages) == secrets.hide("".join(pieces))
    if "".join(messages) == "".join(pieces):
        assert messages == pieces
    assert told[-1] == ToolSucceeded(FIRST)


@given(
    st.lists(
        st.sampled_from([ModelText, ModelReasoning, ModelInput]).flatmap(
            lambda kind: st.text("hunter2", max_size=6).map(lambda text: kind(ONE, text))
        ),
        max_size=8,
    )
)
def test_each_block_keeps_its_own_text(deltas: list[ModelText | ModelReasoning | ModelInput]) -> None:
    def blocks(of: Iterable[Delta]) -> list[tuple[type[Delta], str]]:
        found: list[tuple[type[Delta], str]] = []
        for delta in of:
            assert isinstance(delta, ModelText | ModelReasoning | ModelInput)
            if found and found[-1][0] is type(delta):
                found[-1] = (type(delta), found[-1][1] + delta.text)
            else:
                found.append((type(delta), delta.text))
        return found

    told = [delta for delta in filtered(KEY, [*deltas, ENDED]) if delta != ENDED]
    assert [block for block in blocks(told) if block[1]] == [
        (kind, KEY.hide(text)) for kind, text in blocks(deltas) if text
    ]


def test_what_ends_a_block_sets_free_what_was_held_back() -> None:
    call = ModelCall(operation=ONE, provider_id="a", tool="t", input=Json.of({}))
    told = filtered(KEY, [ModelText(ONE, "a hunt"), call, ModelText(ONE, "er22 hunter22"), ENDED])
    assert told == [
        ModelText(ONE, "a "),
        ModelText(ONE, "hunt"),
        call,
        ModelText(ONE, f"er22 {handle('KEY')}"),
        ENDED,
    ]


def test_the_late_words_of_another_reply_set_nothing_free() -> None:
    told = filtered(KEY, [ModelText(TWO, "hunt"), ModelText(ONE, "late"), ModelText(TWO, "er22")])
    assert told == [ModelText(ONE, "late"), ModelText(TWO, handle("KEY"))]


def test_each_run_has_progress_of_its_own() -> None:
    told = filtered(KEY, [ToolProgress(FIRST, "a hunt"), ToolProgress(SECOND, "er22"), ToolProgress(FIRST, "er22!")])
    assert told == [ToolProgress(SECOND, "er22"), ToolProgress(FIRST, f"a {handle('KEY')}!")]


def test_a_question_comes_after_the_progress_before_it() -> None:
    asked = ToolAsked(FIRST, "is it hunter22?")
    told = filtered(KEY, [ToolProgress(FIRST, "half the h"), asked])
    assert told == [ToolProgress(FIRST, "half the h"), ToolAsked(FIRST, f"is it {handle('KEY')}?")]


@given(PIECES)
def test_without_secrets_every_delta_comes_through_at_once(pieces: list[str]) -> None:
    secret_filter = SecretFilter(NO_SECRETS)
    for piece in pieces:
        for delta in (ModelText(ONE, piece), ToolProgress(FIRST, piece)):
            (told,) = secret_filter.incoming(delta)
            assert told is delta

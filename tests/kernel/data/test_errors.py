"""The errors: every fault is told, and none can make the message unreadable or larger than the document."""

import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.errors import (
    LONGEST_SHOWN,
    MAX_FAULTS,
    CodecError,
    Fault,
    LawBroken,
    PolicyError,
    at_most_told,
    json_path,
    quoted,
)

FAULTS = (Fault("$.a", "is missing"), Fault("$.b[3]", "must be text, not 5"))


@pytest.mark.parametrize(("error", "subject"), [(CodecError(FAULTS), "document"), (PolicyError(FAULTS), "policy")])
def test_the_message_lists_every_fault_and_says_what_to_do(error: CodecError | PolicyError, subject: str) -> None:
    assert error.faults == FAULTS
    assert str(error) == (
        f"this {subject} has 2 faults; correct what is named and try again:\n"
        "  $.a: is missing\n"
        "  $.b[3]: must be text, not 5"
    )


def test_one_fault_is_told_in_the_singular() -> None:
    assert str(CodecError(FAULTS[:1])).startswith("this document has 1 fault;")


@pytest.mark.parametrize("error", [CodecError(FAULTS), PolicyError(FAULTS), LawBroken("DELTA-1", "two replies")])
def test_an_error_can_be_copied_and_pickled(error: Exception) -> None:
    for twin in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert type(twin) is type(error)
        assert str(twin) == str(error)
        assert vars(twin) == vars(error)


def test_a_broken_law_is_our_own_fault_and_asks_for_the_log() -> None:
    error = LawBroken("one-answer", "call 1.2 was answered twice")
    assert (error.law, error.detail) == ("one-answer", "call 1.2 was answered twice")
    assert str(error) == (
        "law one-answer does not hold: call 1.2 was answered twice. "
        "This is a fault of loopkernel itself: please report it with the log."
    )


@pytest.mark.parametrize(
    ("segments", "path"),
    [
        ([], "$"),
        (["session", "thread", 3, "text"], "$.session.thread[3].text"),
        (["kebab-key", "_x1"], "$.kebab-key._x1"),
        (["a b", "", "1st", "ä", 'q"'], r'$["a b"][""]["1st"]["\u00e4"]["q\""]'),
        (["k" * (LONGEST_SHOWN + 1)], f'$["{"k" * LONGEST_SHOWN}"... ({LONGEST_SHOWN + 1} characters)]'),
    ],
)
def test_a_path_names_keys_and_indexes(segments: list[str | int], path: str) -> None:
    assert json_path(segments) == path


@given(st.text(st.characters()))
def test_what_is_quoted_is_short_plain_ascii(text: str) -> None:
    shown = quoted(text)
    assert shown.isascii()
    assert shown.isprintable() or "\x7f" in shown
    assert len(shown) <= 6 * 2 * LONGEST_SHOWN + 40


def test_a_flood_of_faults_is_cut_and_says_so() -> None:
    flood = [Fault(f"$[{index}]", "is bad") for index in range(MAX_FAULTS + 1)]
    assert at_most_told(flood[:-1]) == flood[:-1]
    assert at_most_told(flood)[:-1] == flood[:-1]
    assert at_most_told(flood)[-1] == Fault("$", f"has more than {MAX_FAULTS} faults; the others are not listed")

"""What a chat tells in long lines is broken between words, as wide as the screen, and nothing of it is lost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopkernel_adapters.cli.chat_commands import ABOUT_COLUMN, HELP, folded


@given(st.lists(st.text("ab-/", min_size=5, max_size=9), min_size=20, max_size=40), st.integers(30, 60))
def test_no_word_is_lost_or_broken_and_no_line_is_too_long(words: list[str], columns: int) -> None:
    lines = folded(" ".join(words), columns)
    assert " ".join(lines).split() == words
    assert all(len(line) <= columns for line in lines)


@pytest.mark.parametrize(("columns", "indent"), [(30, 4), (90, ABOUT_COLUMN)])
def test_what_a_command_is_for_stays_in_its_column(columns: int, indent: int) -> None:
    for line in HELP.splitlines():
        _, *more = folded(line, columns)
        assert all(each.startswith(" " * indent) is line.startswith("  /") for each in more)


def test_what_is_not_a_terminal_breaks_no_line() -> None:
    assert [folded(line, 1_000) for line in HELP.splitlines()] == [[line] for line in HELP.splitlines()]
    assert folded("", 80) == [""]

"""Trace patterns: word by word, `*` for one word."""

from hypothesis import given
from hypothesis import strategies as st
from loopkernel.testing.scenarios.trace import matches

WORDS = st.lists(st.text(alphabet="ab1:_-", min_size=1, max_size=3), min_size=1, max_size=5)


@given(WORDS)
def test_a_line_matches_itself_and_stars_in_any_place(words: list[str]) -> None:
    line = " ".join(words)
    assert matches(line, line)
    for place in range(len(words)):
        assert matches(" ".join([*words[:place], "*", *words[place + 1 :]]), line)


@given(WORDS, WORDS)
def test_lines_match_only_if_they_are_equal(pattern: list[str], line: list[str]) -> None:
    assert matches(" ".join(pattern), " ".join(line)) == (pattern == line)


@given(WORDS)
def test_a_star_is_neither_no_word_nor_two(words: list[str]) -> None:
    line = " ".join(words)
    assert not matches(f"{line} *", line)
    assert not matches(line, f"{line} x")
    assert not matches("*", f"{line} x")


def test_a_star_within_a_word_is_an_ordinary_character() -> None:
    assert not matches("tool c* started", "tool c1 started")

"""Shortened results: within the limit untouched; beyond it head, note and tail; and media never larger than before."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from loopkernel.data.blocks import MediaBlock, TextBlock, UserBlock, text_of
from loopkernel.data.errors import PolicyError
from loopkernel.data.policy import ResultLimit
from loopkernel.loop.algorithms.shortening import shortened
from loopkernel.testing.strategies.conversation import contents

Content = tuple[UserBlock, ...]

NO_TEXT = ResultLimit(chars=0, head=0, tail=0, media_chars=0)
OPEN = ResultLimit(chars=10**9, head=0, tail=0, media_chars=10**9)


@st.composite
def limits(draw: st.DrawFn) -> ResultLimit:
    head, tail = draw(st.integers(0, 20)), draw(st.integers(0, 20))
    chars = head + tail + draw(st.integers(0, 60))
    return ResultLimit(chars=chars, head=head, tail=tail, media_chars=draw(st.integers(0, 60)))


long_texts = st.builds(lambda piece, times: piece * times, st.text(max_size=4), st.integers(0, 60))
long_blocks = st.one_of(
    long_texts.map(TextBlock), st.builds(MediaBlock, st.sampled_from(("image/png", "\u00e9" * 99, "")), long_texts)
)
long_contents = st.lists(long_blocks, max_size=4).map(tuple)


def media_of(content: Content) -> list[MediaBlock]:
    return [block for block in content if isinstance(block, MediaBlock)]


@pytest.mark.rule("TOOL-11")
@given(long_contents | contents, limits())
@example((TextBlock("abc" * 30),), NO_TEXT)
def test_only_what_is_over_the_limit_changes_and_the_rest_is_the_same_object(
    content: Content, limit: ResultLimit
) -> None:
    short = shortened(content, limit)
    replaced = [block for block in media_of(content) if block not in short]
    assert (short is not content) == (short != content) == (len(text_of(content)) > limit.chars or replaced != [])
    assert all(len(block.data) > limit.media_chars for block in replaced)


@pytest.mark.rule("TOOL-11")
@given(long_contents | contents, limits())
def test_a_text_over_the_limit_is_cut_to_its_head_and_tail_however_long_the_note(
    content: Content, limit: ResultLimit
) -> None:
    text = text_of(content)
    if len(text) > limit.chars:
        left_out = len(text) - limit.head - limit.tail
        tail = text[len(text) - limit.tail :]
        body = shortened(content, limit)[0]
        assert body == TextBlock(f"{text[: limit.head]}\n[{left_out:,} characters left out]\n{tail}")


@pytest.mark.rule("TOOL-11")
@given(long_contents | contents, limits())
def test_media_never_become_larger(content: Content, limit: ResultLimit) -> None:
    alone: Content = tuple(media_of(content))
    sizes = [len(block.text if isinstance(block, TextBlock) else block.data) for block in shortened(alone, limit)]
    assert all(size <= len(block.data) for size, block in zip(sizes, media_of(content), strict=True))


@pytest.mark.rule("TOOL-11")
@given(long_contents | contents, limits())
def test_content_within_the_limit_is_left_as_it_is(content: Content, limit: ResultLimit) -> None:
    within = all(len(block.data) <= limit.media_chars for block in media_of(content))
    if within and len(text_of(content)) <= limit.chars:
        assert shortened(content, limit) is content
    assert shortened(content, OPEN) is content
    assert shortened(content, None) is content


@pytest.mark.rule("TOOL-11")
@given(long_contents, limits())
def test_media_keep_their_order_and_only_large_ones_are_replaced(content: Content, limit: ResultLimit) -> None:
    short = shortened(content, limit)
    given_media = media_of(content)
    assert media_of(short) == [block for block in given_media if block in short]
    assert all(block in short for block in given_media if len(block.data) <= limit.media_chars)


@pytest.mark.rule("TOOL-11")
@given(long_contents, st.integers(0, 20))
def test_shortening_again_changes_nothing_where_the_note_fits_into_the_limit(content: Content, side: int) -> None:
    limit = ResultLimit(chars=2 * side + 40, head=side, tail=side)
    once = shortened(content, limit)
    assert shortened(once, limit) is once


@pytest.mark.rule("TOOL-11")
@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (ResultLimit(chars=99, head=0, tail=0), "\n[100 characters left out]\n"),
        (ResultLimit(chars=99, head=2, tail=0), "00\n[98 characters left out]\n"),
        (ResultLimit(chars=99, head=0, tail=3), "\n[97 characters left out]\n\U0001f600\U0001f600\U0001f600"),
        (ResultLimit(chars=99, head=30, tail=43), "0" * 30 + "\n[27 characters left out]\n" + "\U0001f600" * 43),
        (ResultLimit(chars=99, head=30, tail=44), "0" * 30 + "\n[26 characters left out]\n" + "\U0001f600" * 44),
        (ResultLimit(chars=99, head=50, tail=49), "0" * 50 + "\n[1 characters left out]\n" + "\U0001f600" * 49),
        (ResultLimit(chars=100, head=1, tail=1), "0" * 50 + "\U0001f600" * 50),
    ],
    ids=["all", "head", "tail", "as long as the note", "shorter than it", "one character", "at the limit"],
)
def test_a_text_of_100_characters(limit: ResultLimit, expected: str) -> None:
    content = (TextBlock("0" * 50 + "\U0001f600" * 50),)
    assert shortened(content, limit) == (TextBlock(expected),)


@pytest.mark.rule("TOOL-11")
def test_texts_count_together_and_stand_before_the_media() -> None:
    image = MediaBlock("image/png", "data")
    content = (image, TextBlock("a" * 30), image, TextBlock("b" * 30))
    limit = ResultLimit(chars=60, head=1, tail=1, media_chars=4)
    assert shortened(content, limit) == (TextBlock("a\n[59 characters left out]\nb"), image, image)
    assert shortened(content, ResultLimit(chars=61, head=1, tail=1, media_chars=4)) is content
    large = MediaBlock("image/png", "a" * 50)
    expected = (TextBlock("a\n[59 characters left out]\nb"), TextBlock('["image/png" left out: 50 characters]'), image)
    assert shortened((*content[1:2], large, *content[2:]), limit) == expected


@pytest.mark.rule("TOOL-11.2")
def test_a_large_medium_becomes_a_text_that_names_its_type_and_size_where_it_stood() -> None:
    large = MediaBlock("image/png", "a" * 5_000_001)
    largest = MediaBlock("image/png", "a" * 5_000_000)
    placeholder = TextBlock('["image/png" left out: 5,000,001 characters]')
    assert shortened((large, TextBlock("b"), largest), ResultLimit()) == (placeholder, TextBlock("b"), largest)


@pytest.mark.rule("TOOL-11.2")
@pytest.mark.parametrize(("length", "replaced"), [(37, False), (38, True)])
def test_a_medium_that_is_smaller_than_what_would_stand_for_it_stays(length: int, replaced: bool) -> None:
    content = (MediaBlock("image/png", "a" * length),)
    assert (shortened(content, NO_TEXT) is not content) == replaced


def test_a_limit_below_nothing_is_refused() -> None:
    with pytest.raises(PolicyError, match="media_chars"):
        ResultLimit(media_chars=-1)

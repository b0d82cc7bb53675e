"""What is kept of an output: exactly its beginning and its end, and the count of what was between them."""

import re

from hypothesis import given
from hypothesis import strategies as st
from loopkernel_adapters.tools.output_bounds import Capture

SIZES = st.integers(0, 12)
PIECES = st.lists(st.one_of(st.binary(max_size=30), st.text(max_size=8).map(str.encode)), max_size=8)


def slow_text(content: bytes, head: int, tail: int) -> str:
    """The same said in another way: from the whole content, byte by byte."""
    if len(content) <= head + tail:
        return content.decode("utf-8", "replace")
    begin = content[:head]
    for cut in range(1, 4):  # the longest beginning of a character that stands at the end
        if cut <= len(begin) and begin[-cut:].decode("utf-8", "ignore") == "" and begins_character(begin[-cut:]):
            begin = begin[:-cut]
            break
    end = content[len(content) - tail :] if tail else b""
    continued = 0
    while continued < min(4, len(end)) and end[continued] & 0xC0 == 0x80:
        continued += 1
    end = end[continued:] if continued < 4 else end
    left_out = len(content) - len(begin) - len(end)
    return f"{begin.decode('utf-8', 'replace')}\n({left_out} bytes are left out here)\n{end.decode('utf-8', 'replace')}"


def begins_character(piece: bytes) -> bool:
    """Whether bytes could follow that make these a character."""
    fillers = [
        bytes([first, *[second] * more]) for more in range(3) for first in (0x80, 0x90, 0xA0) for second in (0x80,)
    ]
    for filler in fillers:
        try:
            if len((piece + filler).decode()) == 1:
                return True
        except UnicodeDecodeError:
            continue
    return False


@given(PIECES, SIZES, SIZES)
def test_a_capture_keeps_what_a_slow_reading_keeps(pieces: list[bytes], head: int, tail: int) -> None:
    capture = Capture(head, tail)
    for piece in pieces:
        capture.add(piece)
    content = b"".join(pieces)
    assert capture.total == len(content)
    assert capture.text() == slow_text(content, head, tail)


@given(st.text(min_size=1).filter(lambda text: "\ufffd" not in text), SIZES, SIZES)
def test_no_character_of_a_text_is_cut_in_two(text: str, head: int, tail: int) -> None:
    capture = Capture(head, tail)
    capture.add(text.encode())
    assert "\ufffd" not in capture.text()


def test_an_endless_output_takes_little_memory() -> None:
    capture = Capture(1_000, 1_000)
    for _ in range(2_000):
        capture.add(b"y\n" * 5_000)
    assert capture.total == 20_000_000
    assert len(capture._head) + len(capture._tail) <= 1_000 + 2 * 1_000 + 10_000
    assert re.search(r"\n\(19998000 bytes are left out here\)\n", capture.text())


def test_the_last_line_is_the_last_that_says_something() -> None:
    capture = Capture(10, 20)
    capture.add(b"first\nsecond line\n\n")
    assert capture.last_line(6) == "d line"
    assert capture.last_line(60) == "second line"

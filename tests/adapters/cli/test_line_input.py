"""Lines from pipes, files and terminals: each whole and once, and nobody who waits for one is ever stuck."""

import asyncio
import os
import pty
import sys
import termios
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopkernel_adapters.cli import line_input
from loopkernel_adapters.cli.line_input import LineInput, standard_input
from loopkernel_adapters.cli.outcomes import Unusable

LINES = st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"), max_size=5), max_size=5)


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """The reading and the writing end of a pipe, which the test may close."""
    ends = os.pipe()
    yield ends
    for end in ends:
        with suppress(OSError):
            os.close(end)


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    """The two ends of a terminal: the program's, and the person's."""
    person, program = pty.openpty()
    yield program, person
    os.close(program)
    os.close(person)


async def all_lines(source: LineInput) -> list[str]:
    lines: list[str] = []
    while (line := await source.line()) is not None:
        lines.append(line)
    return lines


@given(lines=LINES, cuts=st.lists(st.integers(0, 40), max_size=5), ended=st.booleans())
def test_a_pipe_gives_its_lines_however_they_come(lines: list[str], cuts: list[int], ended: bool) -> None:
    async def run() -> list[str]:
        reading, writing = os.pipe()
        content = "\n".join(lines).encode() + (b"\n" if ended and lines else b"")
        try:
            asking = asyncio.ensure_future(all_lines(LineInput(reading)))
            place = 0
            for cut in sorted(cuts):
                place += os.write(writing, content[place:cut])
                await asyncio.sleep(0)
            os.write(writing, content[place:])
            os.close(writing)
            return await asking
        finally:
            os.close(reading)

    expected = lines if ended or not lines or lines[-1] else lines[:-1]
    assert asyncio.run(run()) == expected


def test_after_the_end_there_is_no_line_ever_again(pipe: tuple[int, int]) -> None:
    async def run() -> None:
        source = LineInput(pipe[0])
        os.write(pipe[1], b"last")
        os.close(pipe[1])
        assert [await source.line() for _ in range(3)] == ["last", None, None]
        assert await LineInput(None).line() is None

    asyncio.run(run())


def test_a_file_and_a_device_without_content_are_read_too(tmp_path: Path) -> None:
    (tmp_path / "answers").write_text("yes\nno")
    for path, lines in ((tmp_path / "answers", ["yes", "no"]), (Path(os.devnull), [])):
        with path.open() as file:
            assert asyncio.run(all_lines(LineInput(file.fileno()))) == lines


def test_whoever_gives_up_waiting_takes_no_line(pipe: tuple[int, int]) -> None:
    async def run() -> None:
        source = LineInput(pipe[0])
        os.write(pipe[1], b"begun")
        impatient = asyncio.ensure_future(source.line())
        for _ in range(5):
            await asyncio.sleep(0)
        impatient.cancel()
        with pytest.raises(asyncio.CancelledError):
            await impatient
        assert not asyncio.get_running_loop().remove_reader(pipe[0])  # nobody watches it any more
        os.write(pipe[1], b" and ended\n")
        assert await source.line() == "begun and ended"
        assert not asyncio.get_running_loop().remove_reader(pipe[0])

    asyncio.run(run())


def test_bytes_that_are_no_text_are_shown_as_such(pipe: tuple[int, int]) -> None:
    os.write(pipe[1], b"a\xff\n")
    assert asyncio.run(LineInput(pipe[0]).line()) == "a\ufffd"


def test_a_line_that_does_not_end_ends_the_input_and_is_told(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_input, "LONGEST_LINE", 10)
    os.write(pipe[1], b"x" * 11)
    source = LineInput(pipe[0])
    with pytest.raises(Unusable, match="a line of more than 10 bytes"):
        asyncio.run(source.line())
    assert asyncio.run(source.line()) is None


def test_a_terminal_that_is_gone_has_no_more_lines() -> None:
    person, program = pty.openpty()
    os.close(person)
    try:
        assert asyncio.run(LineInput(program).line()) is None
    finally:
        os.close(program)


def test_what_was_typed_before_it_was_asked_for_is_forgotten(terminal: tuple[int, int]) -> None:
    async def run() -> None:
        source = LineInput(terminal[0])
        assert source.is_terminal
        os.write(terminal[1], b"yes\nyes\n")
        assert await source.line() == "yes"
        source.forget_typing()
        os.write(terminal[1], b"no\n")
        assert await source.line() == "no"
        os.write(terminal[1], b"\x04")  # the end of the input, as it is typed
        assert await source.line() is None

    asyncio.run(run())


def test_what_a_pipe_holds_is_kept(pipe: tuple[int, int]) -> None:
    source = LineInput(pipe[0])
    os.write(pipe[1], b"yes\n")
    source.forget_typing()
    assert not source.is_terminal
    assert asyncio.run(source.line()) == "yes"


def test_the_terminal_stays_as_it_was(terminal: tuple[int, int]) -> None:
    before = termios.tcgetattr(terminal[0]), os.get_blocking(terminal[0])
    os.write(terminal[1], b"yes\n")
    source = LineInput(terminal[0])
    assert asyncio.run(source.line()) == "yes"
    source.forget_typing()
    assert (termios.tcgetattr(terminal[0]), os.get_blocking(terminal[0])) == before


def test_without_a_standard_input_there_are_no_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert asyncio.run(standard_input().line()) is None


def is_command(line: str) -> bool:
    return line == "/help"


@given(lines=st.lists(st.sampled_from(["", "a", "ü", "/usr", "/help"]), min_size=1, max_size=6))
def test_lines_typed_in_one_go_are_one_message_and_a_command_stands_alone(lines: list[str]) -> None:
    expected: list[list[str]] = [[]]
    for line in lines:
        expected[-1:] = [expected[-1], [line], []] if is_command(line) else [[*expected[-1], line]]

    async def run() -> list[str | None]:
        person, program = pty.openpty()
        try:
            source = LineInput(program)
            os.write(person, "".join(f"{line}\n" for line in lines).encode())
            return [await source.message(is_command) for part in expected if part]
        finally:
            os.close(person)
            os.close(program)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(line_input, "PASTE_SECONDS", 0)
        assert asyncio.run(run()) == ["\n".join(part) for part in expected if part]


def test_a_message_whose_reader_is_cancelled_is_for_the_next_one_and_no_answer(terminal: tuple[int, int]) -> None:
    async def run() -> None:
        source = LineInput(terminal[0])
        os.write(terminal[1], b"one\ntwo\n")
        reading = asyncio.ensure_future(source.message(is_command))
        while len(source._begun) < 2:
            await asyncio.sleep(0)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        assert reading.cancelled()
        os.write(terminal[1], b"yes\n")
        assert await source.line() == "yes"
        assert await source.message(is_command) == "one\ntwo"

    asyncio.run(run())


def test_what_a_pipe_holds_is_a_message_a_line(pipe: tuple[int, int]) -> None:
    async def run() -> None:
        source = LineInput(pipe[0])
        os.write(pipe[1], b"one\ntwo\n")
        assert [await source.message(is_command) for _ in range(2)] == ["one", "two"]

    asyncio.run(run())

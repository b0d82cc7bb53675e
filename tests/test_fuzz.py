"""`make fuzz`: how far a part of it has come, as the bar shows it."""

import io
import sys

import pytest
from loopkernel.later_typing import override

from scripts.fuzz import percent_in, shown

LINES = ("................ [ 12%]\n", "a warning\n", "3 of 4: graph: 40 states\n", "61 passed in 2 s\n")


class Terminal(io.StringIO):
    """What is written to a terminal."""

    @override
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("line", "percent"), [(LINES[0], 12), (LINES[2], 75), ("x [100%]", 100), ("12%", 7), ("", 7)])
def test_a_line_tells_how_much_is_done_or_it_is_as_much_as_before(line: str, percent: int) -> None:
    assert percent_in(line.rstrip(), 7) == percent


def test_each_line_is_shown_and_a_bar_is_below_them_at_a_terminal_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [line.rstrip() for line in LINES]
    assert list(shown(LINES, "round 1")) == lines
    plain = capsys.readouterr()
    assert plain.out.splitlines() == [f"  {line}" for line in lines]
    assert plain.err == ""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    assert list(shown(LINES, "round 1")) == lines
    assert capsys.readouterr().out == plain.out
    for told in ("0/100", "12/100", "75/100", "round 1"):
        assert told in terminal.getvalue()

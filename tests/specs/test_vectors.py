"""The golden logs of every release fold to the states and effects that they were recorded with."""

from pathlib import Path

import pytest
from attrs import evolve
from loopkernel.data.errors import CodecError
from loopkernel.testing.vectors import divergence, from_line, main, to_line

VECTORS = Path(__file__).resolve().parents[2] / "specs" / "vectors"
FILES = sorted(VECTORS.glob("*.jsonl"))
LINES = [line for file in FILES for line in file.read_text(encoding="ascii").splitlines()]


def test_there_are_golden_logs_of_the_first_release() -> None:
    assert (VECTORS / "release-0.1.jsonl") in FILES
    assert len(LINES) > 50


@pytest.mark.rule("RESUME-1")
def test_every_golden_log_folds_to_what_it_was_recorded_with() -> None:
    diverged = {golden.scenario: found for golden in map(from_line, LINES) if (found := divergence(golden))}
    assert diverged == {}


@pytest.mark.rule("RESUME-1")
def test_a_golden_log_is_read_and_written_back_as_it_stands() -> None:
    assert [to_line(from_line(line)) for line in LINES] == LINES


def test_a_golden_log_that_differs_is_told_apart() -> None:
    golden = from_line(LINES[0])
    assert divergence(evolve(golden, effects="0" * 64)) == "other effects"
    assert divergence(evolve(golden, state="0" * 64)) == "another state at the end"
    assert divergence(evolve(golden, log=golden.log[:-1])) is not None


@pytest.mark.parametrize("line", ["", "{}", "[]", '{"scenario":"a","log":[],"effects":"","state":""}', LINES[0][:-2]])
def test_what_is_no_golden_log_is_refused(line: str) -> None:
    with pytest.raises(CodecError):
        from_line(line)


def test_the_command_says_what_it_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = tmp_path / "good.jsonl", tmp_path / "bad.jsonl"
    good.write_text(LINES[0] + "\n", encoding="ascii")
    bad.write_text(to_line(evolve(from_line(LINES[0]), effects="0" * 64)) + "\n", encoding="ascii")
    assert main(["check", str(good)]) == 0
    assert main(["check", str(good), str(bad)]) == 1
    assert main(["check", str(tmp_path / "none.jsonl")]) == 2
    assert "other effects" in capsys.readouterr().out

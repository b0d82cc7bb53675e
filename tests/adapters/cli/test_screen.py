"""What is written to the terminal: as it comes, harmless, and to nobody when nobody reads."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopkernel_adapters.cli.main import main
from loopkernel_adapters.cli.outcomes import ExitStatus
from loopkernel_adapters.cli.screen import Screen, printable

from tests.adapters.cli.cli_world import COMMAND, READ_NOTES, prepare, run, write_script


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a workspace and a script in it."""
    return prepare(tmp_path, monkeypatch)


def test_text_is_shown_as_it_streams(folder: Path) -> None:
    stream = io.StringIO()
    screen = Screen(stream)
    seen: list[str] = []
    for piece in ("It ", "says"):
        screen.stream("model", piece)
        seen.append(stream.getvalue())
    screen.labelled("reply", "ended")
    assert seen == ["model       It ", "model       It says"]
    assert stream.getvalue() == "model       It says\nreply       ended\n"


@given(st.text())
def test_nothing_that_a_terminal_would_obey_is_written(text: str) -> None:
    shown = printable(text)
    assert all(character >= " " and character != "\x7f" for character in shown if character not in "\n\t")
    if text.isprintable():
        assert shown == text


def test_escapes_in_the_words_of_model_tool_and_task_are_harmless(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "workspace" / "notes.txt").write_text("\x1b[2Jgone")
    write_script(folder, [{"text": "\x1b]0;title\x07", "calls": [READ_NOTES]}, {"text": "\u202eover\r"}])
    assert run(task="\x1b[31mred") == 0
    output = capsys.readouterr().out
    assert not set(output) & {"\x1b", "\x07", "\r", "\u202e"}
    assert "\\u001b[2Jgone" in output


# --- the process ---


def test_the_command_works_as_a_process_whatever_the_encoding(folder: Path) -> None:
    (folder / "workspace" / "notes.txt").write_text("Straße\n")
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    arguments = ["run", "Read notes.txt.", "--workspace", "workspace", "--provider", "scripted:script.json"]
    ended = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, env=environment)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "Stra\\xdfe" in ended.stdout
    assert "identical" in ended.stdout


def test_a_reader_that_goes_away_is_no_fault(folder: Path) -> None:
    arguments = ["run", "Read notes.txt.", "--workspace", "workspace", "--provider", "scripted:script.json"]
    with subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        errors = process.stderr.read()
    assert (process.returncode, errors) == (0, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no device that is always full")
def test_an_output_that_cannot_be_written_is_told() -> None:
    arguments = ["run", "Read notes.txt.", "--workspace", "workspace", "--provider", "scripted:script.json"]
    with open("/dev/full", "w") as full:
        ended = subprocess.run([*COMMAND, *arguments], stdout=full, stderr=subprocess.PIPE, text=True)
    assert ended.returncode == ExitStatus.UNUSABLE
    assert "the output cannot be written" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_without_an_output_it_works_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    assert run() == ExitStatus.NATURAL_END


def test_help_is_no_failure(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert "exit status" in capsys.readouterr().out

"""The prompt as a process has it: at a terminal, behind a pipe, and under Ctrl-C."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from loopkernel_adapters.cli.main import main

from tests.adapters.cli.answering import answered_by_a_program
from tests.adapters.cli.cli_world import COMMAND, FILES, labelled, prepare, write_script
from tests.adapters.cli.pseudo_terminal import END_OF_INPUT, INTERRUPT, at_a_terminal

PROMPT = "show? "
ARGUMENTS = [
    "run",
    "go",
    "--workspace",
    "workspace",
    "--provider",
    "scripted:script.json",
    *FILES,
    "--log",
    "log.jsonl",
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a workspace, and a script that writes two files."""
    prepare(tmp_path, monkeypatch)
    calls = [{"tool": "write_file", "input": {"path": name, "text": "x"}} for name in ("one.txt", "two.txt")]
    write_script(tmp_path, [{"calls": calls}, {"text": "Done."}])
    return tmp_path


def written(folder: Path) -> set[str]:
    return {path.name for path in (folder / "workspace").iterdir()} - {"notes.txt"}


def demand_whole_log() -> None:
    """The log tells the whole run, and every law held."""
    assert main(["replay", "log.jsonl"]) == 0


# --- at a terminal ---


def test_a_person_at_a_terminal_is_asked_for_each_call(folder: Path) -> None:
    with at_a_terminal(*ARGUMENTS) as person:
        person.wait_for(PROMPT)
        assert written(folder) == set()
        person.type(b"yes\n")
        person.wait_for(PROMPT)
        assert written(folder) == {"one.txt"}
        person.type(b"no, thank you\n")
        assert person.wait_for_end() == 0
        lines = person.lines()
    assert written(folder) == {"one.txt"}
    answered = next(place for place, line in enumerate(lines) if line.endswith(f"{PROMPT}yes"))
    assert lines[answered + 1].startswith("result 1.1")  # the terminal has ended the line, and nothing did it again
    demand_whole_log()


def test_what_was_typed_before_the_question_does_not_answer_it(folder: Path) -> None:
    with at_a_terminal(*ARGUMENTS, typed_ahead=b"yes\nyes\n") as person:
        for _ in range(2):
            person.wait_for(PROMPT)
            person.type(b"no\n")
        person.wait_for_end()
    assert written(folder) == set()


@pytest.mark.rule("CANCEL-2")
def test_ctrl_c_at_the_prompt_cancels_the_turn(folder: Path) -> None:
    with at_a_terminal(*ARGUMENTS) as person:
        person.wait_for(PROMPT)
        person.type(INTERRUPT)
        assert person.wait_for_end() == 1
        shown, lines = person.shown, person.lines()
    assert "Traceback" not in shown
    assert any(line.startswith("interrupt   cancelling") for line in lines)
    assert labelled("\n".join(lines), "outcome") == ["user_abort, after 1 request and 0 tool runs"]
    assert written(folder) == set()
    demand_whole_log()


def test_the_end_of_the_input_rejects_what_is_asked(folder: Path) -> None:
    with at_a_terminal(*ARGUMENTS) as person:
        person.wait_for(PROMPT)
        person.type(END_OF_INPUT)
        person.wait_for_end()
        shown = person.shown
    assert shown.count("rejected: there is no input, so nobody can be asked") == 2
    assert "Traceback" not in shown
    assert written(folder) == set()


def test_a_terminal_that_goes_away_ends_the_run(folder: Path) -> None:
    with at_a_terminal(*ARGUMENTS) as person:
        person.wait_for(PROMPT)
        person.hang_up()
        person.process.wait()
    assert written(folder) == set()


def test_whoever_sends_the_output_elsewhere_still_sees_the_question(folder: Path) -> None:
    with (folder / "output.txt").open("w") as output, at_a_terminal(*ARGUMENTS, stdout=output.fileno()) as person:
        for _ in range(2):
            person.wait_for(PROMPT)
            person.type(b"yes\n")
        person.wait_for_end()
        assert any(line.startswith("tool        write_file") for line in person.lines())
    assert written(folder) == {"one.txt", "two.txt"}
    assert PROMPT not in (folder / "output.txt").read_text()


# --- behind a pipe ---


def test_a_pipe_answers_too(folder: Path) -> None:
    ended = answered_by_a_program([*COMMAND, *ARGUMENTS], PROMPT, "yes", "no")
    assert ended.stderr == ""
    assert [line.rpartition("? ")[2] for line in labelled(ended.stdout, "answer")] == ["yes", "no"]
    assert written(folder) == {"one.txt"}
    demand_whole_log()


@pytest.mark.parametrize("given", ["pipe", "file"])
def test_what_was_there_before_the_question_does_not_answer_it(folder: Path, given: str) -> None:
    (folder / "answers").write_text("yes\nyes\nyes\n")
    with (folder / "answers").open() as file:
        command = [*COMMAND, *ARGUMENTS]
        if given == "file":
            ended = subprocess.run(command, stdin=file, capture_output=True, text=True)
        else:
            ended = subprocess.run(command, input=file.read(), capture_output=True, text=True)
    assert ended.stderr == ""
    assert written(folder) == set()
    assert ended.stdout.count("there is no input, so nobody can be asked") == 2
    assert ("3 lines came before the question, and can be no answer to it: not taken" in ended.stdout) == (
        given == "pipe"
    )
    demand_whole_log()


def test_a_pipe_that_says_yes_without_end_is_no_answer_and_does_not_keep_it_busy(folder: Path) -> None:
    with subprocess.Popen(["yes"], stdout=subprocess.PIPE) as endless:
        ended = subprocess.run([*COMMAND, *ARGUMENTS], stdin=endless.stdout, capture_output=True, text=True)
        endless.kill()
    assert ended.stderr == ""
    assert written(folder) == set()
    demand_whole_log()


@pytest.mark.parametrize("given", ["nothing", "closed"])
def test_without_an_input_every_call_is_rejected_and_the_run_ends(folder: Path, given: str) -> None:
    command = [*COMMAND, *ARGUMENTS]
    if given == "closed":
        command = ["sh", "-c", 'exec "$@" <&-', "sh", *command]
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert ended.stderr == ""
    assert "there is no input" in ended.stdout
    assert labelled(ended.stdout, "outcome") == ["model_stop, after 2 requests and 0 tool runs"]
    assert written(folder) == set()
    demand_whole_log()


def test_a_pipe_that_answers_late_is_waited_for(folder: Path) -> None:
    with subprocess.Popen([*COMMAND, *ARGUMENTS], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        shown = b""
        for answer in (b"ye", b"s\n"):  # in two pieces
            while PROMPT.encode() not in shown:
                piece = os.read(process.stdout.fileno(), 65_536)
                assert piece, f"it ended without asking: {shown.decode()}"
                shown += piece
            process.stdin.write(answer)
            process.stdin.flush()
        process.stdin.close()
        process.stdout.read()
    assert written(folder) == {"one.txt"}


# --- while a retry counts down ---

MEANWHILE = "or another message: "


@pytest.fixture
def failing(folder: Path) -> Path:
    """The folder, with a script whose first request fails, and the second if it comes."""
    failed = {"fails": "overloaded", "message": "too many requests"}
    write_script(folder, [failed, {"text": "Here I am."}])
    return folder


@pytest.mark.rule("RETRY-4")
def test_whoever_does_not_want_to_wait_retries_at_once(failing: Path) -> None:
    with at_a_terminal(*ARGUMENTS, typed_ahead=b"dismiss\n") as person:
        person.wait_for(MEANWHILE)
        person.type(b"\n")
        person.wait_for(MEANWHILE)
        person.type(b"retry\n")
        assert person.wait_for_end() == 0
        lines = "\n".join(person.lines())
    (told,) = labelled(lines, "retry")
    assert told == "retrying in 5 s (retry 1 of 5), then 10 s, 20 s, 40 s, 60 s, then the error is shown"
    assert labelled(lines, "model") == ["Here I am."]
    assert labelled(lines, "reply")[0] == "1: failed, overloaded: too many requests"
    assert labelled(lines, "error") == []  # withheld, since it was recovered
    demand_whole_log()


@pytest.mark.rule("RETRY-4")
def test_whoever_gives_up_dismisses_the_error(failing: Path) -> None:
    with at_a_terminal(*ARGUMENTS) as person:
        person.wait_for(MEANWHILE)
        person.type(b" dismiss \n")
        assert person.wait_for_end() == 1
        lines = "\n".join(person.lines())
    assert labelled(lines, "outcome") == ["error, after 1 request and 0 tool runs"]
    demand_whole_log()


@pytest.mark.rule("INPUT-1")
def test_another_message_ends_the_turn_and_starts_its_own(failing: Path) -> None:
    with at_a_terminal(*ARGUMENTS) as person:
        person.wait_for(MEANWHILE)
        person.type(b"what now?\n")
        assert person.wait_for_end() == 0
        lines = "\n".join(person.lines())
    assert labelled(lines, "user") == ["go", "what now?"]
    assert [end.partition(";")[0] for end in labelled(lines, "turn")] == ["ended: interrupted", "ended: model_stop"]
    demand_whole_log()


@pytest.mark.rule("COMPACT-4")
def test_whoever_asks_for_a_compaction_meanwhile_is_told_what_becomes_of_it(failing: Path) -> None:
    with at_a_terminal(*ARGUMENTS) as person:
        person.wait_for(MEANWHILE)
        person.type(b"/compact\n")
        person.wait_for(MEANWHILE)
        person.type(b"retry\n")
        assert person.wait_for_end() == 0
        lines = "\n".join(person.lines())
    assert labelled(lines, "refused") == ["compact: not-now"]  # there is nothing yet to cut
    assert labelled(lines, "user") == ["go"]
    demand_whole_log()


@pytest.mark.rule("CANCEL-2")
def test_ctrl_c_while_it_counts_down_cancels_the_turn(failing: Path) -> None:
    with at_a_terminal(*ARGUMENTS) as person:
        person.wait_for(MEANWHILE)
        person.type(INTERRUPT)
        assert person.wait_for_end() == 1
        lines = "\n".join(person.lines())
    assert "Traceback" not in lines
    assert labelled(lines, "cancelled") == ["cancelled by you (user:cancelled)"]
    assert labelled(lines, "outcome") == ["user_abort, after 1 request and 0 tool runs"]
    demand_whole_log()


@pytest.mark.rule("RETRY-4")
def test_the_end_of_the_input_leaves_the_countdown_to_run(failing: Path) -> None:
    write_script(failing, [{"fails": "server", "retry_after_ms": 5_100}, {"text": "Here I am."}])
    with at_a_terminal(*ARGUMENTS) as person:
        person.wait_for(MEANWHILE)
        person.type(END_OF_INPUT)
        person.wait_for("\n")  # nothing is asked any more: Ctrl-C is what is left
        person.type(INTERRUPT)
        assert person.wait_for_end() == 1
    demand_whole_log()


@pytest.mark.rule("RETRY-4")
def test_behind_a_pipe_a_countdown_asks_for_no_message(failing: Path) -> None:
    call = {"tool": "write_file", "input": {"path": "one.txt", "text": "x"}}
    failed = {"text": "I was", "fails": "overloaded"}
    write_script(failing, [{"calls": [call]}, {"text": "Done."}])
    (failing / "flaky.json").write_text(json.dumps([failed]))
    arguments = ["--provider", "scripted:flaky.json", "--fallback-model", "scripted:script.json", "--retries", "0"]
    ended = answered_by_a_program([*COMMAND, *ARGUMENTS, *arguments], PROMPT, "yes")
    assert ended.stderr == ""
    assert labelled(ended.stdout, "user") == ["go"]
    assert labelled(ended.stdout, "reply")[:2] == [
        "1: failed, overloaded: as the script says",
        "1: retracted; what was shown of it does not count",
    ]
    assert written(failing) == {"one.txt"}
    assert ended.returncode == 0
    demand_whole_log()

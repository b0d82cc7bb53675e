"""A kernel that is another program is judged step by step, and gets a clean verdict however it misbehaves."""

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from attrs import evolve
from loopkernel.codec import record_to_text, state_to_text
from loopkernel.data.thread_deltas import Created
from loopkernel.replaying import START, LogRecord, replay
from loopkernel.testing.conformance import foreign_process
from loopkernel.testing.conformance.foreign_kernel import compared, run_foreign_kernel
from loopkernel.testing.conformance.foreign_process import ForeignProcess

SCENARIOS = """
scenario: a-first-turn
model: [{text: Hi.}]
user: [{at: 0, say: hello}]
---
scenario: a-sub-agent
tools: {ask: {child: true}}
model: [{calls: [{id: c1, tool: ask, input: {prompt: go}}]}, {text: Done.}]
user: [{at: 0, say: hello}]
children: {c1: {model: [{text: Gone.}]}}
"""
RIGHT = """
from loopkernel.codec import effects_to_text, record_from_text, state_to_text
from loopkernel.replaying import START, fold
states = {}
for line in sys.stdin:
    log, _, record = line.rstrip("\\n").partition(" ")
    (step,) = fold([record_from_text(record)], states.get(log, START))
    states[log] = step.after
    CHANGE
    say(effects_to_text(step.effects), state_to_text(step.after))
"""
ENOUGH = 60.0  # seconds, for programs that answer
BRIEF = 0.3  # for those that never do


def judged(
    program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], *options: str, patience: float = ENOUGH
) -> tuple[int, list[str], str]:
    """The exit status, the lines and the errors of judging such a Python program."""
    (tmp_path / "two.yaml").write_text(SCENARIOS)
    say = "import sys, os\ndef say(*lines):\n    for line in lines: print(line, flush=True)\n"
    command = shlex.join([sys.executable, "-c", say + program])
    status = run_foreign_kernel([command, str(tmp_path), "--patience", str(patience), *options])
    told = capsys.readouterr()
    return status, told.out.splitlines(), told.err


def test_a_kernel_that_is_this_one_agrees(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, lines, errors = judged(RIGHT.replace("CHANGE", ""), tmp_path, capsys)
    assert (status, errors) == (0, "")
    assert lines == ["pass a-first-turn", "pass a-sub-agent", "2 scenarios: 2 agree in every step, 0 do not"]


@pytest.mark.rule("RESUME-1")
def test_this_kernel_as_a_program_agrees_and_answers_each_record_also_one_of_other_rules(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "two.yaml").write_text(SCENARIOS)
    program = [sys.executable, "-m", "loopkernel.testing.conformance.kernel_process"]
    status = run_foreign_kernel([shlex.join(program), str(tmp_path), "--patience", str(ENOUGH)])
    assert (status, capsys.readouterr().out.splitlines()[-1]) == (0, "2 scenarios: 2 agree in every step, 0 do not")
    created = Created(session_id="s")
    records = [LogRecord(evolve(created, rules_version=1), 0), LogRecord(created, 0)]
    asked = "".join(f"1 {record_to_text(record)}\n" for record in records)
    told = subprocess.run(program, input=asked, capture_output=True, text=True, check=True, timeout=ENOUGH)
    answers = told.stdout.splitlines()
    assert json.loads(answers[0]) == [{"type": "refused", "action": "create", "reason": "invalid"}]
    assert answers[1::2] == [state_to_text(START), state_to_text(replay(records[1:]))]


def test_what_is_wrong_with_a_sub_agent_only_is_said_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change = "if log == '3': say('[]', '{}'); continue"
    status, lines, _ = judged(RIGHT.replace("CHANGE", change), tmp_path, capsys, "--json")
    assert status == 1
    first, second = map(json.loads, lines)
    assert first == {"scenario": "a-first-turn", "outcome": "pass", "difference": None}
    assert second["outcome"] == "fail"
    assert second["difference"].startswith("step 1 (Created) of the sub-agent c1: the effects differ at /0: ")


READING = "for line in sys.stdin: "
WRONG = {
    READING + "say('[]', '{}')": 'step 1 (Created): the effects differ at /0: {"type": "run-started"',
    READING + "say('oops', 'x')": 'step 1 (Created): the effects differ: the answer is not JSON: "oops"',
    READING + "os.write(1, b'\\xff\\n\\n')": "step 1 (Created): the effects differ: the answer is not JSON: ",
    READING + "os.write(1, b'[]\\n{}\\n{}\\n')": "step 1 (Created): before it was asked, the kernel said '{}",
    READING + "{}['key']": "step 1 (Created): the kernel has ended with status 1; on its standard error: Traceback",
    READING + "os.kill(os.getpid(), 9)": "step 1 (Created): the kernel has ended by signal 9",
    "sys.exit(0)": "step 1 (Created): the kernel has ended with status 0",
}


@pytest.mark.parametrize("program", WRONG, ids=range(len(WRONG)))
def test_a_wrong_kernel_is_told_where(program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, lines, errors = judged(program, tmp_path, capsys)
    assert status == 1
    assert any(line.partition(": ")[2].startswith(WRONG[program]) for line in lines)
    assert lines[-1] == "2 scenarios: 0 agree in every step, 2 do not"
    assert errors == ""


@pytest.mark.parametrize(
    "program",
    ["sys.stdin.readline(); sys.stdin.read()", "os.write(1, b'[]\\n{'); sys.stdin.read()"],
)
def test_one_that_never_answers_is_given_up(program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, lines, _ = judged(program, tmp_path, capsys, patience=BRIEF)
    assert status == 1
    assert lines[0].startswith("fail a-first-turn: step 1 (Created): no answer within 0.3 s")
    assert "Does it read line by line, end its lines, and flush what it writes?" in lines[0]


@pytest.mark.parametrize(
    ("heard", "seen"),
    [
        (b"", "step 1: no answer within 0.3 s. Does it"),
        (b"[]\n", "step 1: no answer within 0.3 s, but for 1 whole line. Does it"),
        (b"[]\n{", "step 1: no answer within 0.3 s, but for 1 whole line and '{'. Does it"),
        (b"x" * 200, f"step 1: no answer within 0.3 s, but for 0 whole lines and '{'x' * 80}'. Does it"),
    ],
)
def test_what_came_of_an_answer_is_told(heard: bytes, seen: str) -> None:
    with ForeignProcess("true", BRIEF) as process:
        process._heard += heard
        assert process._silent("step 1").startswith(seen)


def test_an_answer_that_never_ends_is_cut_short(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign_process, "MOST_BYTES", 1 << 20)
    status, lines, _ = judged("while True: sys.stdout.write('x' * 65536)", tmp_path, capsys)
    assert status == 1
    assert lines[0].endswith("step 1 (Created): the answer does not end after 1 MiB; it is two lines")


def test_one_that_closes_its_output_and_lives_on_is_killed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign_process, "_END_SECONDS", 0.1)
    program = "import signal; os.close(1); signal.pause()"
    status, lines, _ = judged(program, tmp_path, capsys)
    assert status == 1
    assert lines[0].endswith("step 1 (Created): the kernel has closed its output, and lives on")


def test_after_three_that_it_did_not_survive_it_is_given_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    five = "---".join(f"\nscenario: turn-{number}\nuser: []\n" for number in range(5))
    (tmp_path / "five.yaml").write_text(five)
    status = run_foreign_kernel(["false", str(tmp_path / "five.yaml")])
    told = capsys.readouterr()
    assert status == 1
    assert [line.split(":")[0] for line in told.out.splitlines()[:-1]] == [f"fail turn-{n}" for n in range(3)]
    assert told.err.startswith("given up after 3 scenarios in a row without an answer; 2 were not run.")


@pytest.mark.parametrize("command", ["./there-is-none", "'", ""])
def test_one_that_cannot_be_started_is_wrong_usage(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "two.yaml").write_text(SCENARIOS)
    assert run_foreign_kernel([command, str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith("the kernel cannot be started (")


def test_files_that_cannot_be_read_are_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_foreign_kernel(["true", str(tmp_path)]) == 2
    assert "no scenario files in this folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("wanted", "given", "told"),
    [
        ('{"a":[1,2]}', '{"a":[1,3]}', " at /a/1: 2 is due, 3 was answered"),
        ('{"a":1}', '{"b":1}', " at /: a is missing, b should not be there"),
        ("[1,2]", "[1]", " at /1: 2 is missing"),
        ("[1]", "[1,2]", " at /1: 2 should not be there"),
        ("[1]", "[true]", " at /0: 1 is due, true was answered"),
        ("[1]", "[1.0]", " at /0: 1 is due, 1.0 was answered"),
        ('{"a":1,"b":2}', '{"b":2,"a":1}', " in how the same values are written, from character 3 on: "),
        ("[1,2]", "[1, 2]", " in how the same values are written, from character 4 on: "),
        ("[1]", "[1] ", " in how the same values are written, from character 4 on: "),
    ],
)
def test_the_place_of_a_difference_is_told(wanted: str, given: str, told: str) -> None:
    assert compared(wanted, given).startswith(told)

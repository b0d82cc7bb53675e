"""The command: a line for each scenario, what is wrong with bad files and usage, and the exit status."""

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from loopkernel.testing.contract import contract_folder
from loopkernel.testing.scenarios import command
from loopkernel.testing.scenarios.command import run_command

GOOD = "scenario: good\nmodel: [{text: Hello.}]\nuser: [{at: 0, say: hi}]\nexpect: {requests: 1}\n"
BAD = "scenario: bad\nmodel: [{text: Hello.}]\nuser: [{at: 0, say: hi}]\nexpect: {requests: 2, state: Done}\n"


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[str]]:
    """Exit status, and the lines of the output; nothing may be said beside it."""
    status = run_command(arguments)
    captured = capsys.readouterr()
    assert captured.err == ""
    return status, captured.out.splitlines()


def write(folder: Path, **files: str) -> str:
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path = path.with_suffix(".yml") if name.endswith("_yml") else path.with_suffix(".yaml")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return str(folder)


def test_each_scenario_has_a_line_and_the_last_line_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write(tmp_path, b=f"{GOOD}---\n{BAD}", a__c_yml="scenario: nothing\n")
    (tmp_path / "notes.txt").write_text("not a scenario", encoding="utf-8")
    assert run(capsys, folder) == (
        1,
        [
            "pass nothing",
            "pass good",
            "fail bad: `requests`: expected 2, saw 1",
            "3 scenarios: 2 passed, 1 failed",
        ],
    )


def test_the_status_is_0_unless_one_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write(tmp_path, a=GOOD)
    assert run(capsys, folder)[0] == 0


def test_json_is_one_object_a_line_and_nothing_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write(tmp_path, a=f"{GOOD}---\n{BAD}", b="scenario: Not An Id\n")
    status, lines = run(capsys, folder, "--json")
    a, b = str(tmp_path / "a.yaml"), str(tmp_path / "b.yaml")
    assert status == 1
    *judged, unreadable = map(json.loads, lines)
    assert judged == [
        {"scenario": "good", "file": a, "outcome": "pass", "difference": None},
        {"scenario": "bad", "file": a, "outcome": "fail", "difference": "`requests`: expected 2, saw 1"},
    ]
    assert unreadable["scenario"] is None
    assert (unreadable["file"], unreadable["outcome"]) == (b, "fail")
    assert unreadable["difference"].startswith(f"{b}:1: scenario: must be an id")


def test_verbose_shows_all_differences_and_the_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write(tmp_path, a=BAD)
    assert run(capsys, folder, "--verbose")[1] == [
        "fail bad: `requests`: expected 2, saw 1",
        "     at the end: expected state Done, saw Idle",
        "           0 ms  request 1",
        "           0 ms  reply 1 end_turn",
        "           0 ms  turn ended model_stop",
        "1 scenarios: 0 passed, 1 failed",
    ]


def test_a_bad_file_is_told_with_file_and_line_and_the_others_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write(tmp_path, a="scenario: a\nmodle: []\nuser: [{nth: 2, say: hi}]\n", b=GOOD)
    file = tmp_path / "a.yaml"
    status, lines = run(capsys, folder)
    assert status == 1
    assert lines[0].startswith(f"fail {file}:2: unknown key `modle`; did you mean `model`?")
    assert lines[1].startswith(f"     {file}:3: user[1]: `nth` and `after_ms` go with `when`")
    assert lines[2] == "pass good"


def test_a_path_without_scenarios_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing, empty = tmp_path / "missing.yaml", tmp_path / "empty"
    empty.mkdir()
    status, lines = run(capsys, str(missing), str(empty), write(tmp_path / "full", a=GOOD))
    assert status == 1
    assert lines[:3] == [
        f"fail {missing}:1: no such file or folder: check the path",
        f"fail {empty}:1: no scenario files in this folder: name one that has *.yaml or *.yml files in it",
        "pass good",
    ]


def test_an_id_is_unique_over_all_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write(tmp_path, a=GOOD, b=GOOD)
    status, lines = run(capsys, folder)
    assert status == 1
    assert lines[1] == f"fail good: the id good is taken by a scenario of {tmp_path / 'a.yaml'}; ids are unique"


def test_a_policy_or_value_that_cannot_hold_is_a_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "scenario: a\npolicy: {compaction: {keep_turns: 1, keep_messages: 1}}\n"
    lines = run(capsys, write(tmp_path, a=text))[1]
    assert lines[0].startswith("fail a: the policy cannot hold: compaction: must give exactly one of keep_turns")


def test_wrong_usage_has_a_status_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        run_command(["--nonsense", "a.yaml"])
    assert stopped.value.code == 2
    assert "usage: python -m loopkernel.testing.scenarios" in capsys.readouterr().err


def test_it_is_a_command(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "loopkernel.testing.scenarios", write(tmp_path, a=GOOD)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["pass good", "1 scenarios: 1 passed, 0 failed"]


def test_without_a_path_the_scenarios_of_the_contract_are_run(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def listing(paths: Iterable[str]) -> Iterator[command.Verdict]:
        asked.extend(paths)
        return iter(())

    monkeypatch.setattr(command, "run_paths", listing)
    assert run_command([]) == 0
    (folder,) = asked
    assert len(command.scenario_files(Path(folder))) > 20
    assert (contract_folder() / "laws.md").is_file()

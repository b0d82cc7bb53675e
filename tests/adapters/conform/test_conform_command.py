"""`loopkernel conform` on the command line: what it refuses, and how an agent that cannot be judged is told."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from loopkernel.testing.contract import contract_folder
from loopkernel_adapters.cli.main import main
from loopkernel_adapters.conform import running
from loopkernel_adapters.conform.catalogue import SCENARIOS, scenario_named
from loopkernel_adapters.conform.patience import wait_for
from loopkernel_adapters.conform.running import Found
from loopkernel_adapters.conform.scenario import Scenario
from loopkernel_adapters.conform.scorecard import Breach, Weight

AGENT = f"""
name = "stranger"
wire = "chat"
version = ["{sys.executable}", "--version"]
start = ["{sys.executable}", "-c", "print('{{prompt}}')"]
"""


@pytest.fixture
def agent(tmp_path: Path) -> str:
    """The file of an agent that can be started, and asks nobody."""
    path = tmp_path / "agent.toml"
    path.write_text(AGENT)
    return str(path)


def broken(text: str, scenario: Scenario, again: str, line: int) -> Found:
    """What playing gives, without playing: a breach that should not be."""
    breach = Breach(law="PAIR", weight=Weight.SHOULD, scenario=scenario.name, detail="no answer", again=again)
    return Found(scenario=scenario, checks=("PAIR", "ORDER"), breaches=(breach,), choices={"parallel": "together"})


def test_it_lists_the_scenarios(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conform", "--list"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(SCENARIOS)


def test_scenarios_of_the_contract_are_listed_and_played_in_place_of_the_catalogue(
    agent: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(contract_folder() / "scenarios" / "broken_streams.yaml")
    assert main(["conform", "--scenarios", file, "--list"]) == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert len(names) > 1 and not {*names} & {each.name for each in SCENARIOS}
    monkeypatch.setattr(running, "played", broken)
    report = tmp_path / "card.json"
    given = ["conform", "--agent", agent, "--scenarios", file, "--report", str(report), "--fail-on", "nothing"]
    assert main([*given, "--json"]) == 0
    assert [each["name"] for each in json.loads(report.read_text())["scenarios"]] == names
    assert f"--scenarios {file} --only {names[0]}" in report.read_text()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "name its file with --agent"),
        (["--scenarios", "nowhere", "--list"], "no such file or folder"),
        (["--agent", "nowhere"], "neither a file nor one of the agents that are known here"),
        (["--agent", "FILE", "--only", "nothing"], "there is no scenario 'nothing'"),
    ],
)
def test_what_cannot_be_is_refused_in_words(
    agent: str, arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["conform", *(agent if word == "FILE" else word for word in arguments)]) == 2
    assert complaint in capsys.readouterr().err


def test_a_program_that_is_not_there_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "agent.toml"
    path.write_text(AGENT.replace(f'version = ["{sys.executable}"', 'version = ["no-such-program"'))
    assert main(["conform", "--agent", str(path)]) == 2
    assert "no-such-program cannot be started" in capsys.readouterr().err


def test_what_a_program_said_that_does_not_tell_its_version_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "agent.toml"
    path.write_text(
        'name = "a"\nwire = "chat"\nversion = ["sh", "-c", "echo no module: a >&2; echo v1 >&2; exit 3"]\nstart = ["a"]'
    )
    assert main(["conform", "--agent", str(path)]) == 2
    told = capsys.readouterr().err
    assert "ended with status 3" in told
    assert told.index("\n  no module: a\n") < told.index("\n  v1\n")


@pytest.mark.parametrize(("fail_on", "status"), [("must", 0), ("should", 1), ("nothing", 0)])
def test_the_exit_status_goes_by_the_weight(
    agent: str, fail_on: str, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "played", broken)
    page, junit, report = (tmp_path / name for name in ("card.html", "card.xml", "card.json"))
    forms = ["--html", str(page), "--junit", str(junit), "--report", str(report)]
    for _ in range(2):  # the second time over what the first has written
        assert main(["conform", "--agent", agent, "--only", "one-call", "--fail-on", fail_on, *forms]) == status
    assert "PAIR is broken" in page.read_text()
    assert 'failures="1"' in junit.read_text()
    assert json.loads(report.read_text())["worst"] == "should"


def test_what_is_not_played_is_told_and_nothing_played_is_no_success(
    agent: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(running, "played", broken)
    assert main(["conform", "--agent", agent, "--only", "second-prompt"]) == 2
    captured = capsys.readouterr()
    assert "second-prompt: the agent file does not say how a session is gone on with" in captured.out
    assert "no scenario could be played" in captured.err


@pytest.mark.slow
def test_an_agent_that_asks_nobody_is_told_as_such(agent: str) -> None:
    found = running.played(Path(agent).read_text(), scenario_named("one-call"), "again")
    assert "the agent never asked the model with its tools" in found.trouble
    assert "it said last: say-1" in found.trouble
    assert not found.breaches


@pytest.mark.slow
def test_a_person_who_interrupts_leaves_nothing_behind(tmp_path: Path) -> None:
    path, alive = tmp_path / "agent.toml", tmp_path / "alive"
    code = f"import os, signal; open('{alive}', 'w').write('x'); signal.pause()"
    path.write_text(AGENT.replace("print('{prompt}')", code.replace("'", "\\'")).replace("\\'", "'"))
    command = [sys.executable, "-m", "loopkernel_adapters", "conform", "--agent", str(path), "--only", "one-call"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        assert wait_for(alive.exists, 120)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) != 0
    assert wait_for(lambda: not _goes_on(str(alive)), 60)


def _goes_on(word: str) -> bool:
    """Whether a process has that word in its command."""
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if word.encode() in each.read_bytes() and int(each.parent.name) != os.getpid():
                return True
    return False

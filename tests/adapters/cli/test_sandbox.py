"""`--sandbox`: said aloud, kept for when the run is gone on with, and never left out without a word."""

import json
from pathlib import Path

import pytest
from loopkernel_adapters.tools import sandbox as sandboxes
from loopkernel_adapters.tools.sandbox import Sandbox, SandboxUnavailable

from tests.adapters.cli.sessions import CHAT, MODEL, STORE, CommandLine, says, script, shell

ISOLATED = "shell: commands run in a sandbox: they write in the workspace alone, without network"
NETWORKED = "shell: commands run in a sandbox: they write in the workspace alone, with the network"
NOT_ISOLATED = "shell: commands are not isolated, and can do what you can; --sandbox isolates them"
APPROVED = ("--approve", "always")
# Does what it is asked to, and isolates nothing.
STAND_IN = """#!/bin/sh
while [ "$1" != -- ]; do shift; done; shift
echo isolated >> isolated.txt
exec "$@"
"""


@pytest.fixture
def stand_in(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program in the place of bubblewrap, which is here wherever the tests are."""
    program = tmp_path_factory.mktemp("programs") / "bwrap"
    program.write_text(STAND_IN)
    program.chmod(0o755)
    monkeypatch.setattr(sandboxes, "SEARCHED", str(program.parent))
    return program


def times_isolated() -> int:
    """How many commands were run so, that which tries the sandbox among them."""
    path = Path("isolated.txt")
    return len(path.read_text().splitlines()) if path.exists() else 0


def noted() -> object:
    (note,) = Path(".loopkernel").glob("*.begun/*")
    return json.loads(note.read_text())["isolation"]


def test_it_is_said_whether_commands_are_isolated(loopkernel: CommandLine, stand_in: Path) -> None:
    script(says("one"))
    for options, told, for_programs in (
        ((), NOT_ISOLATED, None),
        (("--sandbox",), ISOLATED, "sandbox"),
        (("--sandbox-network",), NETWORKED, "sandbox-network"),
    ):
        assert told in loopkernel(*CHAT, *options).out
        assert told in loopkernel("run", "go", *MODEL, *options).out
        (line,) = loopkernel(*CHAT, *options, "--json").objects_of("run")
        assert line["shell"] == for_programs
    assert "shell:" not in loopkernel(*CHAT, "--tools", "files").out


def test_a_run_is_gone_on_with_in_the_sandbox_that_it_was_begun_in(loopkernel: CommandLine, stand_in: Path) -> None:
    script(shell("echo hello"), says("Done."))
    assert loopkernel("run", "go", *MODEL, *APPROVED, "--sandbox").status == 0
    assert (times_isolated(), noted()) == (2, "sandbox")
    assert ISOLATED in loopkernel("resume", "last").out
    assert times_isolated() == 3
    assert NETWORKED in loopkernel("resume", "last", "--sandbox-network").out
    assert loopkernel("fork", "last", "--at", "2").status == 0
    assert ISOLATED in loopkernel("resume", "last").out


def test_a_run_that_was_not_isolated_is_from_now_on(loopkernel: CommandLine, stand_in: Path) -> None:
    script(shell("echo hello"), says("Done."))
    assert loopkernel("run", "go", *MODEL, *APPROVED).status == 0
    assert (times_isolated(), noted()) == (0, None)
    resumed = loopkernel("resume", "last", "--sandbox")
    assert ISOLATED in resumed.out
    assert times_isolated() == 1
    assert "Commands run in a sandbox" in loopkernel("log", "last", "--json").out  # the model is told


@pytest.mark.parametrize("command", [("run", "go"), ("chat",)])
def test_where_there_is_no_sandbox_nothing_begins(
    loopkernel: CommandLine, monkeypatch: pytest.MonkeyPatch, folder: Path, command: tuple[str, ...]
) -> None:
    monkeypatch.setattr(sandboxes, "SEARCHED", "/nowhere")
    script(says("one"))
    for option in ("--sandbox", "--sandbox-network"):
        ended = loopkernel(*command, *MODEL, option)
        assert ended.status == 2
        assert f"{option} cannot be had, so nothing was begun: bubblewrap is not installed" in ended.err
        assert sorted(path.name for path in folder.iterdir()) == ["script.json"]


def test_a_run_that_was_begun_in_a_sandbox_does_not_go_on_without(
    loopkernel: CommandLine, monkeypatch: pytest.MonkeyPatch, stand_in: Path
) -> None:
    script(shell("echo hello"), says("Done."))
    loopkernel("run", "go", *MODEL, *APPROVED, "--sandbox")
    monkeypatch.setattr(sandboxes, "SEARCHED", "/nowhere")
    ended = loopkernel("resume", "last")
    assert (ended.status, "--sandbox cannot be had" in ended.err) == (2, True)


def test_few_tools_need_no_sandbox(loopkernel: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandboxes, "SEARCHED", "/nowhere")
    script(says("one"))
    assert loopkernel("run", "go", *MODEL, "--sandbox", "--tools", "files").status == 0


@pytest.mark.parametrize("where", [("--log", "run.jsonl"), ("--store", "sqlite:runs.sqlite"), ("--store", "jsonl:.")])
def test_a_log_among_the_files_of_the_workspace_is_refused(
    loopkernel: CommandLine, stand_in: Path, folder: Path, where: tuple[str, ...]
) -> None:
    script(says("one"))
    ended = loopkernel("run", "go", *MODEL, "--sandbox", *where)
    assert ended.status == 2
    assert f"--sandbox: the log would lie in the workspace itself, {folder}" in ended.err
    assert sorted(path.name for path in folder.iterdir()) == ["script.json"]
    Path("logs").mkdir()
    Path("other").mkdir()
    assert loopkernel("run", "go", *MODEL, "--sandbox", *where, "--workspace", "other").status == 0
    assert loopkernel("run", "go", *MODEL, "--sandbox", "--log", "logs/run.jsonl").status == 0
    assert loopkernel("run", "go", *MODEL, "--sandbox", "--store", "memory").status == 0


def test_a_command_in_a_real_sandbox_cannot_change_the_log(loopkernel: CommandLine, folder: Path) -> None:
    try:
        Sandbox(workspace=folder.resolve()).confined()
    except SandboxUnavailable as error:
        pytest.skip(f"NOT TESTED in a sandbox: {error}")
    Path("logs").mkdir()
    attack = "for f in .loopkernel/* logs/*; do echo x >> $f; rm -rf $f; done; echo x > .loopkernel/x; echo done > done"
    script(shell(attack), says("Done."))
    assert loopkernel("run", "go", *MODEL, *APPROVED, "--sandbox").status == 0
    assert Path("done").read_text() == "done\n"
    assert sorted(path.name for path in STORE.parent.iterdir()) == [
        "runs.sqlite",
        "runs.sqlite-locks",
        "runs.sqlite.begun",
    ]
    assert loopkernel("replay", "last").status == 0
    assert noted() == "sandbox"
    log = Path("logs", "run.jsonl")
    assert loopkernel("run", "go", *MODEL, *APPROVED, "--sandbox", "--log", str(log)).status == 0
    assert loopkernel("replay", str(log)).status == 0
    assert sorted(path.name for path in log.parent.iterdir()) == ["run.jsonl", "run.jsonl.begun.json"]

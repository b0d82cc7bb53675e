"""`--mcp`: servers of the Model Context Protocol from the command line, and what becomes of one that has changed."""

import json
import os
import select
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.adapters.cli.sessions import MODEL, PATIENCE_SECONDS, CommandLine, calls, says, script
from tests.adapters.cli_world import COMMAND
from tests.adapters.mcp.test_mcp_servers import RAW


@pytest.fixture
def server(folder: Path) -> Path:
    """A server of one tool, `echo`."""
    return Path(shutil.copy(RAW, folder / "server.py"))


def test_a_server_is_pinned_until_it_is_named_again(loopkernel: CommandLine, server: Path) -> None:
    named = ("--mcp", shlex.join([f"raw={sys.executable}", "-S", str(server), "honest"]))
    script(calls("mcp__raw__echo", text="hi"), says("Done."))
    begun = loopkernel("run", "go", *MODEL, *named, lines=("yes",))
    assert begun.labelled("tool") == ["mcp__raw__echo"]  # it asks, since nobody trusts it
    assert begun.labelled("result 1.1") == ["done: hi"]
    again = loopkernel("resume", "last", lines=("go", "yes"))
    assert again.labelled("result 3.1") == ["done: hi"]

    server.write_text(server.read_text().replace("says it again", "sends your files to me"))
    refused = loopkernel("resume", "last")
    assert refused.status == 2
    assert "the server raw offers other tools than when it was pinned" in refused.err
    assert "name each server that the run is to have with --mcp" in refused.err
    assert "sends your files to me" not in loopkernel("log", "last", "--json").out
    assert loopkernel("resume", "last", *named).status == 0
    assert "sends your files to me" in loopkernel("log", "last", "--json").out

    (told,) = loopkernel("resume", "last", "--json").objects_of("run")
    assert "mcp__raw__echo" in str(told["tools"])
    for without in (("--mcp", "none"), ()):
        (told,) = loopkernel("resume", "last", "--json", *without).objects_of("run")
        assert "mcp__raw__echo" not in str(told["tools"])


def test_servers_that_others_may_have_named_are_not_run(loopkernel: CommandLine, server: Path) -> None:
    named = ("--mcp", shlex.join([f"raw={sys.executable}", "-S", str(server), "honest"]))
    script(says("Done."))
    assert loopkernel("run", "go", *MODEL, *named).status == 0
    (note,) = Path(".loopkernel").glob("*.begun/*")
    note.write_text(json.dumps({**json.loads(note.read_text()), "servers": {"x=touch harm": "0" * 64}}))
    note.chmod(0o644)  # as a folder has it that was cloned
    for command in (("resume", "last"), ("fork", "last", "--at", "2")):
        refused = loopkernel(*command)
        assert (refused.status, "names MCP servers" in refused.err, "chmod 600" in refused.err) == (2, True, True)
    assert not Path("harm").exists()
    for again in (named, ()):
        assert loopkernel("resume", "last", *again).status == 0
    assert note.stat().st_mode & 0o777 == 0o600


def test_a_signal_that_comes_while_a_server_is_opened_ends_the_server_too(folder: Path) -> None:
    script(says("Done."))
    os.mkfifo("server")
    mute = "sh -c 'exec 3> server; echo >&3; exec sleep 600'"  # it neither answers nor ends with its input
    with subprocess.Popen([*COMMAND, "run", "go", *MODEL, "--mcp", mute], stderr=subprocess.PIPE) as process:
        held = os.open("server", os.O_RDONLY | os.O_NONBLOCK)
        try:
            assert select.select([held], [], [], PATIENCE_SECONDS)[0], "no server was started"
            assert os.read(held, 100) == b"\n"
            process.terminate()
            _, told = process.communicate()
            assert select.select([held], [], [], PATIENCE_SECONDS)[0], "the server lives on"
            assert os.read(held, 100) == b""  # nobody has the other end of the pipe
        finally:
            os.close(held)
            process.kill()
    assert (process.returncode, told) == (1, b"loopkernel: interrupted\n")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x=", "the server x= cannot be started"),
        ("absent-program --now", "the server absent-program cannot be started: No such file or directory"),
        ("'", "quote it as for a shell"),
        (" ", "as in --mcp 'files=python server.py'"),
        ("", "it is empty"),
        ("near=http://", "names no host"),
        ("http://[1", "names no host"),
    ],
)
def test_what_is_no_server_is_told_before_anything_is_made(loopkernel: CommandLine, text: str, told: str) -> None:
    script(says("Done."))
    ended = loopkernel("run", "go", *MODEL, "--mcp", text)
    assert (ended.status, ended.out) == (2, "")
    assert told in ended.err
    assert not Path(".loopkernel").exists()


def test_without_the_extra_it_is_named(loopkernel: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    script(says("Done."))
    monkeypatch.delitem(sys.modules, "loopkernel_adapters.tools.mcp", raising=False)
    monkeypatch.setitem(sys.modules, "mcp", None)
    ended = loopkernel("run", "go", *MODEL, "--mcp", "x")
    assert ended.status == 2
    assert "pip install 'loopkernel[mcp]'" in ended.err


def test_a_server_gets_the_variables_that_are_named_and_only_their_names_are_noted(
    loopkernel: CommandLine, server: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIVEN", "tweet-tweet")
    monkeypatch.setenv("KEPT", "tu-whit-tu-whoo")
    named = (
        "--mcp",
        shlex.join([f"raw={sys.executable}", "-S", str(server), "environment"]),
        "--mcp-variable",
        "GIVEN",
    )
    script(calls("mcp__raw__echo", text="hi"), says("Done."))
    begun = loopkernel("run", "go", *MODEL, *named, "--approve", "always")
    again = loopkernel("resume", "last", lines=("go",))
    for ended in (begun, again):
        assert "tweet-tweet" in ended.out
        assert "tu-whit-tu-whoo" not in ended.out
    (note,) = Path(".loopkernel", "runs.sqlite.begun").iterdir()
    assert "tweet-tweet" not in note.read_text()
    monkeypatch.delenv("GIVEN")
    assert "the servers need the environment variable GIVEN; export it first" in loopkernel("resume", "last").err
    assert "export it first" in loopkernel("run", "go", *MODEL, *named).err

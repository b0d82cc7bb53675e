"""`--mcp`: servers of the Model Context Protocol from the command line, and what becomes of one that has changed."""

import os
import select
import shlex
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from loopkernel_adapters.cli.options import Options
from loopkernel_adapters.cli.servers import named_server, with_variables
from loopkernel_adapters.tools.mcp import HttpServer, StdioServer

from tests.adapters.cli.cli_world import COMMAND
from tests.adapters.cli.sessions import MODEL, PATIENCE_SECONDS, CommandLine, calls, says, script
from tests.adapters.mcp.test_mcp_http import Server, handler
from tests.adapters.mcp.test_mcp_servers import RAW


@contextmanager
def serving(size: int) -> Iterator[tuple[str, list[str | None]]]:
    """The address of a server, and what stood in the header `Authorization` of all that it was asked."""
    seen = list[str | None]()
    answers = handler(size, compressed=False, silent_end=None)

    class Listening(answers):  # type: ignore[valid-type,misc]  # made for this server alone
        def parse_request(self) -> bool:
            parsed = bool(super().parse_request())
            seen.append(self.headers.get("authorization"))
            return parsed

    with Server(("127.0.0.1", 0), Listening) as server:
        serves = threading.Thread(target=server.serve_forever, args=(0.01,))
        serves.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/mcp", seen
        finally:
            server.shutdown()
            serves.join()


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


@pytest.mark.parametrize("one_server", ["", "raw="])
def test_a_server_gets_the_variables_that_are_named_and_only_their_names_are_noted(
    loopkernel: CommandLine, server: Path, monkeypatch: pytest.MonkeyPatch, one_server: str
) -> None:
    monkeypatch.setenv("GIVEN", "tweet-tweet")
    monkeypatch.setenv("KEPT", "tu-whit-tu-whoo")
    named = (
        "--mcp",
        shlex.join([f"raw={sys.executable}", "-S", str(server), "environment"]),
        "--mcp-variable",
        f"{one_server}GIVEN",
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


def test_a_key_that_a_server_tells_reaches_no_screen_and_no_log(
    loopkernel: CommandLine, server: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIVEN", "tweet-4711-tweet")
    command = shlex.join([f"raw={sys.executable}", "-S", str(server), "environment"])
    named = ("--mcp", command, "--mcp-variable", "GIVEN")
    script(calls("mcp__raw__echo", text="hi"), says("Done."))
    begun = loopkernel("run", "go", *MODEL, *named, "--approve", "always")
    again = loopkernel("resume", "last", lines=("go",))
    for shown in (begun.out, again.out, loopkernel("log", "last", "--json").out):
        assert "{{key:GIVEN}}" in shown
        assert "tweet-4711-tweet" not in shown


def test_a_server_behind_an_address_is_sent_its_header_whose_value_stands_nowhere(
    loopkernel: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "tweet-tweet")
    script(calls("mcp__far__t"), says("Done."))
    with serving(5) as (address, seen):
        named = ("--mcp", f"far={address}", "--mcp-header", "far=Authorization: Bearer {TOKEN}")
        begun = loopkernel("run", "go", *MODEL, *named, "--approve", "always")
        again = loopkernel("resume", "last")
    assert begun.labelled("result 1.1") == ["done: zzzzz"]
    assert again.status == 0
    assert set(seen) == {"Bearer tweet-tweet"}
    assert "tweet-tweet" not in begun.out + loopkernel("log", "last", "--json").out
    (note,) = Path(".loopkernel", "runs.sqlite.begun").iterdir()
    assert "tweet-tweet" not in note.read_text()


COMMANDS_AND_ADDRESS = tuple((text, None) for text in ("one=first", "two=second --now", "far=http://h/mcp"))


def test_each_server_gets_what_is_named_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("A", "B", "C"):
        monkeypatch.setenv(name, name.lower())
    options = Options(
        servers=COMMANDS_AND_ADDRESS,
        server_variables=("A", "two=B"),
        server_headers=("far=X-One: {B}={C}", "far=X-Two: {C}"),
    )
    one, two, far = with_variables([named_server(text, None) for text, _ in options.servers], options)
    assert isinstance(one, StdioServer)
    assert isinstance(two, StdioServer)
    assert isinstance(far, HttpServer)
    assert (one.environment, two.environment) == ({"A": "a"}, {"A": "a", "B": "b"})
    assert far.headers == {"X-One": "b=c", "X-Two": "c"}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (("--mcp-variable", "far=TOKEN"), "is an address, and takes no variable; see --mcp-header"),
        (("--mcp-variable", "ner=TOKEN"), "no server is called ner, which is to get something; there is near, far"),
        (("--mcp-variable", "=TOKEN"), "it names no server before the ="),
        (("--mcp-variable", "near=tweet-tweet"), "no environment variable of the name given"),
        (("--mcp-header", "near=X: {TOKEN}"), "is a command, and takes no header; see --mcp-variable"),
        (("--mcp-header", "fear=X: {TOKEN}"), "no server is called fear"),
        (("--mcp-header", "far=X: tweet-tweet"), "put the value into an environment variable"),
        (("--mcp-header", "far=X: {tweet}"), "no environment variable of the name given"),
        (("--mcp-header", "far=X tweet-tweet"), "give a server and a header, as in 'NAME="),
        (("--mcp-header", "X: {TOKEN}"), "give a server and a header, as in 'NAME="),
        (("--mcp-header", "far=X: {LINES}"), "would have a line end or another character"),
    ],
)
def test_what_goes_to_no_server_is_told_without_its_value(
    loopkernel: CommandLine, monkeypatch: pytest.MonkeyPatch, given: tuple[str, str], told: str
) -> None:
    monkeypatch.setenv("TOKEN", "tweet-tweet")
    monkeypatch.setenv("LINES", "tweet-tweet\nX-Other: x")
    script(says("Done."))
    ended = loopkernel("run", "go", *MODEL, "--mcp", "near=absent-program", "--mcp", "far=http://localhost:1", *given)
    assert (ended.status, ended.out) == (2, "")
    assert told in ended.err
    assert "tweet-tweet" not in ended.err
    without = loopkernel("run", "go", *MODEL, *given)
    assert without.status == 2
    assert told in without.err or "and there is none; name it with --mcp" in without.err

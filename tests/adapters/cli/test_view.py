"""`loopkernel view` and `whatif`: what is written, what is said, and what is refused in words."""

import json
import re
import signal
import subprocess
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from loopkernel.codec import policy_to_text
from loopkernel_adapters.transcripts.replaying import AS_RECORDED
from loopkernel_adapters.viewing.page import unpacked

from tests.adapters.cli.cli_world import COMMAND
from tests.adapters.cli.sessions import MODEL, CommandLine, calls, says, script
from tests.adapters.transcripts_repair.recorded import claude_session, codex_session


@pytest.fixture(autouse=True)
def files(folder: Path) -> Path:
    """Two sessions of others, of which one has lost a result, and a file that is none."""
    inner = folder / "sessions"
    inner.mkdir()
    (inner / "claude.jsonl").write_bytes(b"".join(claude_session()))
    (inner / "codex.jsonl").write_bytes(b"".join(codex_session()[:-2]))
    (inner / "notes.txt").write_text("Buy milk.\n")
    return inner


def document(file: Path) -> dict[str, Any]:
    """What the page shows."""
    (data,) = re.findall(r'id="document">([^<]*)<', file.read_text())
    told = unpacked(data)
    assert isinstance(told, dict)
    return told


@pytest.fixture
def run(loopkernel: CommandLine) -> None:
    script(calls("read_file", path="notes.txt"), says("It is not there."))
    assert loopkernel("run", "Read notes.txt.", *MODEL, "--tools", "files").status == 0


# --- a page -----------------------------------------------------------------------------------------------


def test_a_run_becomes_a_page(loopkernel: CommandLine, run: None) -> None:
    ended = loopkernel("view", "last", "--html", "page.html")
    assert (ended.status, ended.err) == (0, "")
    assert ended.labelled("shown")[0].endswith("0 findings")
    (shown,) = document(Path("page.html"))["runs"]
    told = loopkernel("log", "last", "--json").out.splitlines()
    assert len(shown["steps"]) == len(told)
    assert "It is not there." in json.dumps(shown["messages"])


def test_a_recording_becomes_a_page_with_its_faults_at_their_steps(loopkernel: CommandLine) -> None:
    ended = loopkernel("view", "sessions/codex.jsonl")
    assert ended.status == 0
    shown = document(Path("codex.html"))["runs"][0]
    assert shown["kind"] == "codex"
    (note,) = [note for note in shown["notes"] if note["kind"] == "unanswered-call"]
    assert "refuses" in note["effect"]
    assert shown["steps"][note["step"] - 1]["delta"] in ("Model call", "Model completed", "Change tools")


def test_each_conversation_of_a_recording_is_there(loopkernel: CommandLine) -> None:
    assert loopkernel("view", "sessions/claude.jsonl").status == 0
    assert len(document(Path("claude.html"))["runs"]) == 2


def test_a_page_is_never_written_over_a_file(loopkernel: CommandLine) -> None:
    Path("claude.html").write_text("mine")
    assert loopkernel("view", "sessions/claude.jsonl").status == 0
    assert Path("claude-2.html").exists()
    ended = loopkernel("view", "sessions/claude.jsonl", "--html", "claude.html")
    assert ended.status == 2
    assert "nothing is overwritten; name another file with --html" in ended.err
    assert Path("claude.html").read_text() == "mine"


def test_a_run_stands_beside_itself_under_another_policy(loopkernel: CommandLine) -> None:
    ended = loopkernel("view", "sessions/claude.jsonl", "--policy", "default")
    assert ended.status == 0
    told = document(Path("claude.html"))
    assert told["sides"]["text"].startswith("they part at line 4: the call of Bash waits")
    left, right = (told["runs"][told["sides"][side]]["steps"] for side in ("left", "right"))
    one, other = told["sides"]["steps"]
    assert [step["delta"] for step in left[1 : one - 1]] == [step["delta"] for step in right[1 : other - 1]]


def test_two_runs_stand_beside_each_other_from_where_they_part(loopkernel: CommandLine, run: None) -> None:
    assert loopkernel("fork", "last", "--at", "5", "--out", "fork.jsonl").status == 0
    listed = json.loads(loopkernel("runs", "--json").out.splitlines()[0])
    assert loopkernel("fork", listed["run"], "--at", "7", "--out", "later.jsonl").status == 0
    ended = loopkernel("view", "fork.jsonl", "later.jsonl", "--html", "both.html")
    assert (ended.status, ended.err) == (0, "")
    assert document(Path("both.html"))["sides"]["steps"] == [6, 6]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["a", "b", "c"], "takes one run, or two side by side, not 3"),
        (["a", "b", "--policy", "claude"], "leave out a run, or --policy"),
        (["a", "--policy", "x", "--policy", "y", "--policy", "z"], "under one policy or two, not 3"),
        (["a", "b", "--serve"], "--serve shows one run as it goes on"),
        (["sessions/claude.jsonl", "--serve"], "is a recording, which does not go on"),
        (["sessions/claude.jsonl", "--policy", "nobody"], "there is no policy nobody"),
        (["sessions/notes.txt"], "sessions/notes.txt"),
        (["sessions/claude.jsonl", "--html", "nowhere/page.html"], "there is no folder nowhere"),
    ],
    ids=str,
)
def test_what_cannot_be_shown_is_refused_in_words(loopkernel: CommandLine, arguments: list[str], said: str) -> None:
    ended = loopkernel("view", *arguments)
    assert ended.status == 2
    assert said in ended.err
    assert "Traceback" not in ended.err
    assert not list(Path().glob("*.html"))


def test_a_run_is_served_until_it_is_interrupted(loopkernel: CommandLine, run: None) -> None:
    with subprocess.Popen([*COMMAND, "view", "last", "--serve"], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        (address,) = re.findall(r"http://\S+", server.stdout.readline())
        with urlopen(f"{address}news?since=2", timeout=60) as answer:
            assert json.load(answer)["runs"][0]["steps"][0]["n"] == 3
        server.send_signal(signal.SIGINT)
        assert server.wait(60) == 0


# --- figures ----------------------------------------------------------------------------------------------


def test_a_folder_is_told_in_figures(loopkernel: CommandLine) -> None:
    ended = loopkernel("whatif", "sessions", "--policy", "default", "--policy", "strands", "--html", "figures.html")
    assert (ended.status, ended.err) == (0, "")
    assert ended.labelled("files") == ["2 read, 0 not readable, 1 no recordings"]
    lines = [line for line in ended.out.splitlines() if "sessions/" in line]
    assert [re.split(r"  +", line)[1] for line in lines] == ["default", "strands"] * 2
    assert [line for line in ended.out.splitlines() if line.startswith("all 2")]
    told = document(Path("figures.html"))["figures"]
    assert len(told["rows"]) == 6
    assert len(told["charts"]) == 2


def test_the_figures_under_the_policy_of_the_recording_are_nothing(loopkernel: CommandLine, run: None) -> None:
    Path("own.json").write_text(policy_to_text(AS_RECORDED))
    told = [
        json.loads(line) for line in loopkernel("whatif", "sessions", "--policy", "own.json", "--json").out.splitlines()
    ]
    assert [line["nothing"] for line in told] == [True, True]
    assert [line["parts_at"] for line in told] == [None, None]
    other = json.loads(loopkernel("whatif", "last", "--policy", "default", "--json").out)
    assert other["calls"] == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["sessions"], "name one with --policy"),
        (["sessions/notes.txt", "--policy", "claude"], "notes.txt"),
        (["sessions/*.md", "--policy", "claude"], "no file fits"),
        (["sessions", "--policy", "nobody"], "there is no policy nobody"),
    ],
    ids=str,
)
def test_figures_of_nothing_are_refused_in_words(loopkernel: CommandLine, arguments: list[str], said: str) -> None:
    ended = loopkernel("whatif", *arguments)
    assert ended.status == 2
    assert said in ended.err
    assert "Traceback" not in ended.err

"""`loopkernel runs` and `loopkernel log`: what was recorded, for people and for programs; and how a run is named."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from loopkernel.codec import record_from_text
from loopkernel.replaying import fold

from tests.adapters.cli.sessions import CHAT, MODEL, STORE, CommandLine, calls, says, script, writes


def ids(loopkernel: CommandLine, *where: str) -> list[str]:
    """The runs that are listed, the latest last."""
    return [str(line["run"]) for line in loopkernel("runs", "--json", *where).objects()]


def test_the_runs_are_listed_with_what_was_said_and_where_they_stand(loopkernel: CommandLine) -> None:
    script(says("one"))
    loopkernel("run", "Read\x1b it.", *MODEL)
    loopkernel(*CHAT)
    listed = loopkernel("runs")
    first, second, empty, _ = listed.out.splitlines()
    assert first.endswith("Read\\u001b it.")
    assert " idle " in first
    assert second.endswith("(nothing was said)")
    assert empty == ""
    told = loopkernel("runs", "--json").objects()
    assert [line["words"] for line in told] == ["Read\x1b it.", ""]
    assert [line["run"] for line in told] == [line.split()[0] for line in (first, second)]
    assert all({"first_ms", "last_ms", "records", "state", "tokens", "outcome", "problem"} < set(line) for line in told)


def test_a_sub_agent_is_no_run_of_its_own_and_has_a_log_all_the_same(loopkernel: CommandLine) -> None:
    script(calls("delegate", prompt="help"), says("I helped."), says("All done."))
    assert loopkernel("run", "go", *MODEL, "--sub-agents").labelled("sub-agent") != []
    (run,) = ids(loopkernel)
    assert loopkernel("log", f"{run}/1/1.1").labelled("user") == ["help"]
    assert loopkernel("replay", f"{run}/1/1.1").status == 0


@pytest.mark.rule("RESUME-1")
def test_the_records_of_a_run_are_those_of_the_codec(loopkernel: CommandLine) -> None:
    script(writes("a"), says("Done."))
    loopkernel("run", "go", *MODEL, "--approve", "always")
    told = loopkernel("log", "last", "--json")
    steps = fold([record_from_text(line) for line in told.out.splitlines()])
    assert steps[-1].after.session is not None
    assert loopkernel("log", "last").labelled("state") == [type(steps[-1].after).__name__]


def test_a_run_is_named_by_its_id_by_a_beginning_of_it_or_as_the_last(loopkernel: CommandLine) -> None:
    script(says("one"))
    for task in ("first", "second"):
        loopkernel("run", task, *MODEL)
    first, second = ids(loopkernel)
    assert loopkernel("log", first).labelled("user") == ["first"]
    assert loopkernel("log", second[:-2]).labelled("user") == ["second"]
    assert loopkernel("log", "last").labelled("user") == ["second"]
    ambiguous = loopkernel("log", first[:8])
    assert ambiguous.status == 2
    assert "begins the ids of 2 runs" in ambiguous.err
    absent = loopkernel("log", "nobody")
    assert absent.status == 2
    assert "there is no run nobody" in absent.err
    assert "runs` lists those that are there" in absent.err


@pytest.mark.parametrize("command", [("runs",), ("log", "last"), ("replay", "last"), ("resume", "last")])
def test_where_nothing_was_recorded_it_says_how_to_begin(loopkernel: CommandLine, command: tuple[str, ...]) -> None:
    ended = loopkernel(*command)
    assert ended.status == 2
    assert "there are no runs in sqlite:.loopkernel/runs.sqlite" in ended.err
    assert "chat`" in ended.err
    assert not STORE.parent.exists()  # looking makes nothing


def test_a_run_that_is_damaged_is_listed_as_such_and_the_others_can_be_used(loopkernel: CommandLine) -> None:
    script(says("one"))
    for task in ("first", "second"):
        loopkernel("run", task, *MODEL, "--store", "jsonl:logs")
    first, second = ids(loopkernel, "--store", "jsonl:logs")
    log = Path("logs", f"{first}.jsonl")
    whole = log.read_bytes()
    log.write_bytes(whole.replace(b'"first"', b'"worst"'))
    assert log.read_bytes() != whole
    listed = loopkernel("runs", "--store", "jsonl:logs")
    assert listed.status == 0
    assert "unreadable" in next(line for line in listed.out.splitlines() if line.startswith(first))
    assert loopkernel("log", second, "--store", "jsonl:logs").status == 0
    for command in ("log", "replay", "resume"):
        ended = loopkernel(command, first, "--store", "jsonl:logs", *(MODEL if command == "resume" else ()))
        assert ended.status == 2
        assert "damaged" in ended.err


@pytest.mark.parametrize("content", [b"", b"no database", b"SQLite format 3\0" + b"\xff" * 5000, None])
def test_a_store_that_is_no_store_is_told(loopkernel: CommandLine, content: bytes | None) -> None:
    path = Path("runs.sqlite")
    if content is None:
        with closing(sqlite3.connect(path)) as other, other:
            other.execute("create table things (name text)")
        other.close()
    else:
        path.write_bytes(content)
    script(says("one"))
    for command in (("runs",), ("log", "last"), ("resume", "last"), ("run", "go", *MODEL)):
        ended = loopkernel(*command, "--store", "sqlite:runs.sqlite")
        assert ended.status == 2
        assert ended.err.startswith("loopkernel: the store sqlite:runs.sqlite cannot be opened: ")


@pytest.mark.parametrize(
    ("store", "told"),
    [
        ("nonsense", "there is no store nonsense; choose sqlite:FILE, jsonl:DIR, postgres:DSN or memory"),
        ("sqlite:", "there is no store sqlite:"),
        ("sqlite:absent/runs", "there is no such folder"),
        ("sqlite:folder", "is a folder"),
        ("jsonl:file", "is a file"),
        ("jsonl:absent/logs", "No such file"),
    ],
)
def test_a_store_that_cannot_be_is_told(loopkernel: CommandLine, store: str, told: str) -> None:
    Path("folder").mkdir()
    Path("file").touch()
    script(says("one"))
    ended = loopkernel("run", "go", *MODEL, "--store", store)
    assert ended.status == 2
    assert told in ended.err


def test_a_torn_tail_is_told_wherever_the_log_lies(loopkernel: CommandLine) -> None:
    script(says("one"))
    loopkernel("run", "go", *MODEL, "--store", "jsonl:logs")
    (path,) = Path("logs").glob("*.jsonl")
    path.write_bytes(path.read_bytes()[:-9])
    for where in (("last", "--store", "jsonl:logs"), (str(path),)):
        ended = loopkernel("replay", *where)
        assert (ended.status, len(ended.labelled("torn tail"))) == (1, 1)
        assert len(loopkernel("log", *where).labelled("torn tail")) == 1
    assert len(loopkernel("resume", "last", "--store", "jsonl:logs").labelled("torn tail")) == 1
    assert loopkernel("replay", "last", "--store", "jsonl:logs").labelled("torn tail") == []


def test_a_run_in_memory_is_gone_with_the_process(loopkernel: CommandLine, folder: Path) -> None:
    script(says("one"))
    ended = loopkernel("run", "go", *MODEL, "--store", "memory")
    assert ended.status == 0
    assert "identical" in ended.labelled("replayed")[0]
    assert ended.labelled("go on") == ["not possible: this run was in memory, and ends with the command"]
    told = loopkernel("run", "go", *MODEL, "--store", "memory", "--json").objects_of("run")
    assert [line["resume"] for line in told] == [None]
    assert sorted(path.name for path in folder.iterdir()) == ["script.json"]
    ended = loopkernel("resume", "last", "--store", "memory")
    assert (ended.status, "nothing outlasts its command" in ended.err) == (2, True)
    assert json.loads(loopkernel("runs", "--json", "--store", "memory").out or "[]") == []


@pytest.mark.parametrize("command", [("log",), ("resume",), ("replay",), ("fork", "--at", "1")])
def test_a_store_in_the_place_of_a_run_is_told_as_that(loopkernel: CommandLine, command: tuple[str, ...]) -> None:
    script(says("one"))
    loopkernel("run", "go", *MODEL)
    name, *more = command
    ended = loopkernel(name, str(STORE), *more)
    assert ended.status == 2
    assert f"runs --store sqlite:{STORE}` lists its runs" in ended.err

"""`loopkernel diagnose`, `repair`, `continue` and `fork`: from a bricked session to a chat in two commands."""

import json
import resource
import shlex
import shutil
import stat
from pathlib import Path

import pytest
from attrs import evolve
from loopkernel.data.thread_deltas import Created, Forked
from loopkernel.loop.algorithms.wording import LOST
from loopkernel.replaying import replay
from loopkernel_adapters.cli.fork import AFTERWARDS
from loopkernel_adapters.stores import durable_files as new_file
from loopkernel_adapters.stores.durable_files import write_all
from loopkernel_adapters.stores.jsonl import lines_of, read_log

from tests.adapters.cli.sessions import MODEL, CommandLine, Ended, calls, says, script
from tests.adapters.transcripts.recordings_world import EXAMPLES
from tests.adapters.transcripts_repair.recorded import (
    chat_call,
    chat_result,
    chat_session,
    claude_session,
    codex_session,
    line,
)


@pytest.fixture(autouse=True)
def files(folder: Path) -> Path:
    """A session of each format that lacks a result, and one of a format that is not written."""
    (folder / "claude.jsonl").write_bytes(b"".join([*claude_session()[:-2], b'{"type":"user","mess']))
    (folder / "codex.jsonl").write_bytes(b"".join(codex_session()[:-2]))
    (folder / "chat.json").write_text(json.dumps([*chat_session()[:-2], {"role": "user", "content": "Well?"}]))
    (folder / "whole.jsonl").write_bytes(b"".join(codex_session()))
    pi = [
        {"type": "session", "version": 3, "id": "s", "timestamp": "2026-01-02T03:04:05.000Z", "cwd": "/x"},
        _pi("1", None, {"role": "user", "content": "Look."}),
        _pi("2", "1", {"role": "assistant", "model": "m", "stopReason": "toolUse", "content": [_PI_CALL]}),
    ]
    (folder / "pi.jsonl").write_bytes(b"".join(map(line, pi)))
    script(says("I go on."))
    return folder


_PI_CALL = {"type": "toolCall", "id": "call_1", "name": "bash", "arguments": {"command": "ls"}}


def _pi(number: str, parent: str | None, message: object) -> object:
    time = "2026-01-02T03:04:05.000Z"
    return {"type": "message", "id": number, "parentId": parent, "timestamp": time, "message": message}


def test_a_bricked_session_is_found_out_and_gone_on_with_in_two_commands(loopkernel: CommandLine) -> None:
    found = loopkernel("diagnose", "claude.jsonl")
    assert (found.status, found.err) == (1, "")
    assert found.labelled("fault") == [
        "line 13: the call toolu_3 never got a result",
        "line 14: line 14, the last, was never finished",
    ]
    assert "the provider refuses every later request" in found.out
    (go_on,) = found.labelled("go on")
    assert shlex.split(go_on)[-2:] == ["continue", "claude.jsonl"]
    ended = loopkernel("continue", "claude.jsonl", *MODEL, lines=("Please go on.",))
    assert (ended.status, ended.err) == (0, "")
    assert ended.labelled("model") == ["I go on."]
    assert len(ended.labelled("repaired")) == 2
    resumed = shlex.split(ended.labelled("go on")[0])
    script(says("Once more."))
    again = loopkernel(*resumed[resumed.index("resume") :], *MODEL, lines=("And on.",))
    assert again.labelled("model") == ["Once more."]
    assert loopkernel("replay", "last").labelled("laws")[0].endswith("all held")


@pytest.mark.rule("RESUME-5")
def test_what_the_model_is_told_of_the_lost_call(loopkernel: CommandLine) -> None:
    assert loopkernel("continue", "claude.jsonl", *MODEL, "--log", "run.jsonl", lines=("On.",)).status == 0
    created = read_log(Path("run.jsonl")).records[0].delta
    assert isinstance(created, Created)
    assert LOST in repr(created.start[-1])


@pytest.mark.parametrize("name", ["claude.jsonl", "codex.jsonl", "chat.json"])
def test_a_repair_in_its_own_format(loopkernel: CommandLine, name: str) -> None:
    before = Path(name).read_bytes()
    (advised,) = loopkernel("diagnose", name).labelled("or repair")
    words = shlex.split(advised)
    ended = loopkernel(*words[words.index("repair") :])
    new = Path(words[-1])
    assert (ended.status, ended.err) == (0, "")
    assert stat.S_IMODE(new.stat().st_mode) == 0o600
    assert Path(name).read_bytes() == before
    assert loopkernel("diagnose", str(new)).status == 0
    assert loopkernel("repair", str(new), "--out", "again").status == 0
    assert Path("again").read_bytes() == new.read_bytes()
    assert loopkernel("continue", str(new), *MODEL, lines=("On.",)).labelled("model") == ["I go on."]


@pytest.mark.parametrize("arguments", [("pi.jsonl",), ("claude.jsonl", "--as-log"), ("codex.jsonl", "--as-log")])
def test_a_repair_as_a_log(loopkernel: CommandLine, arguments: tuple[str, ...]) -> None:
    ended = loopkernel("repair", *arguments, "--out", "new.jsonl")
    assert (ended.status, ended.err) == (0, "")
    assert any("never got a result" in told for told in ended.labelled("repaired"))
    assert loopkernel("repair", *arguments, "--out", "again.jsonl").status == 0
    assert Path("new.jsonl").read_bytes() == Path("again.jsonl").read_bytes()
    assert loopkernel("replay", "new.jsonl").status == 0
    assert loopkernel("resume", "new.jsonl", *MODEL, lines=("On.",)).labelled("model") == ["I go on."]
    assert loopkernel("replay", "new.jsonl").status == 0


def test_a_sub_agent_is_gone_on_with_by_its_name(loopkernel: CommandLine) -> None:
    ended = loopkernel("continue", "claude.jsonl", *MODEL, lines=("On.",))
    (others,) = ended.labelled("others")
    name = shlex.split(others)[-1]
    assert name.startswith("/")
    chosen = loopkernel("continue", "claude.jsonl", "--conversation", name, *MODEL, lines=("On.",))
    assert chosen.labelled("begins")[0].startswith("from 4 messages of claude.jsonl")
    wrong = loopkernel("continue", "claude.jsonl", "--conversation", "nobody", *MODEL)
    assert wrong.status == 2
    assert repr(name) in wrong.err


def test_nothing_is_ever_overwritten(loopkernel: CommandLine, folder: Path) -> None:
    (folder / "there").write_text("mine")
    (folder / "link").symlink_to("nowhere")
    for out in ("there", "link", "claude.jsonl", ".", "no/such/folder/file"):
        ended = loopkernel("repair", "claude.jsonl", "--out", out)
        assert ended.status == 2, out
        assert "name another file" in ended.err
    assert (folder / "there").read_text() == "mine"
    assert sorted(path.name for path in folder.iterdir() if "unfinished" in path.name) == []


def test_a_file_that_comes_into_being_meanwhile_is_kept(
    loopkernel: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = write_all

    def write(descriptor: int, content: bytes) -> None:
        Path("new.jsonl").write_text("mine")
        written(descriptor, content)

    monkeypatch.setattr(new_file, "write_all", write)
    assert loopkernel("repair", "claude.jsonl", "--out", "new.jsonl").status == 2
    assert Path("new.jsonl").read_text() == "mine"


def test_a_full_disk_leaves_nothing_behind(loopkernel: CommandLine, folder: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, hard))
    try:
        ended = loopkernel("repair", "claude.jsonl", "--out", "new.jsonl")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert ended.status == 2
    assert "new.jsonl cannot be written" in ended.err
    assert not [path for path in folder.iterdir() if "new" in path.name]


def test_a_session_without_a_fault(loopkernel: CommandLine) -> None:
    ended = loopkernel("diagnose", "whole.jsonl")
    assert (ended.status, ended.labelled("fault")) == (0, [])
    assert loopkernel("repair", "whole.jsonl", "--out", "new.jsonl").status == 0
    assert Path("new.jsonl").read_bytes() == Path("whole.jsonl").read_bytes()


def test_a_diagnosis_for_programs(loopkernel: CommandLine) -> None:
    (told,) = loopkernel("diagnose", "codex.jsonl", "--json").objects()
    assert told["format"] == "codex"
    (fault,) = told["faults"] if isinstance(told["faults"], list) else []
    assert (fault["place"], fault["kind"]) == (10, "unanswered-call")
    assert "refuses" in fault["effect"]
    assert str(told["repair"]).endswith("--out codex.repaired.jsonl")


def test_a_diagnosis_of_many_faults_is_short(loopkernel: CommandLine) -> None:
    messages = [{"role": "user", "content": "Go."}]
    for _ in range(20):
        messages += [chat_call("call_1"), chat_result("call_1")]  # type: ignore[list-item]  # messages of any shape
    Path("many.json").write_text(json.dumps(messages))
    short = loopkernel("diagnose", "many.json")
    assert short.labelled("faults") == ["19, of which a provider refuses 19, sent as they stand"]
    assert len(short.labelled("fault")) == 3
    places = ", ".join(f"record {number}" for number in (10, 12, 14, 16, 18))
    assert short.labelled("and") == [f"16 more of reused-id: {places}, ..."]
    assert "--all tells each in full" in short.out
    assert len(loopkernel("diagnose", "many.json", "--all").labelled("fault")) == 19


def _run(loopkernel: CommandLine) -> Ended:
    script(says("Hello."))
    ended = loopkernel("run", "Hi.", *MODEL, "--log", "run.jsonl")
    assert ended.status == 0
    return ended


def test_a_log_of_our_own_needs_no_repair(loopkernel: CommandLine) -> None:
    _run(loopkernel)
    ended = loopkernel("diagnose", "run.jsonl")
    assert ended.status == 0
    assert shlex.split(ended.labelled("go on")[0])[-2:] == ["resume", "run.jsonl"]
    for arguments in (("repair", "run.jsonl", "--out", "new"), ("continue", "run.jsonl", *MODEL)):
        refused = loopkernel(*arguments)
        assert refused.status == 2
        assert "resume run.jsonl" in refused.err


def test_a_damaged_log_of_our_own_is_gone_on_with_as_a_recording(loopkernel: CommandLine) -> None:
    _run(loopkernel)
    lines = Path("run.jsonl").read_bytes().split(b"\n")
    lines[-2] = lines[-2][:-9]
    Path("run.jsonl").write_bytes(b"\n".join(lines))
    found = loopkernel("diagnose", "run.jsonl")
    assert found.status == 1
    assert "invariant: broken-record" in found.out
    place = len(lines) - 1
    assert found.labelled("fault") == [
        f"line {place}: the line is damaged, and was passed over: this is not a line of a log"
    ]
    assert "cut it" not in found.out  # which would leave out all that follows as well
    repaired = loopkernel("repair", "run.jsonl", "--out", "new.jsonl")
    assert repaired.status == 0
    assert repaired.labelled("repaired")[0].endswith("this is not a line of a log: go on without what cannot be read")
    assert loopkernel("replay", "new.jsonl").status == 0


def test_nothing_is_advised_that_would_be_refused(loopkernel: CommandLine) -> None:
    """Of what holds no conversation: a log of which only the beginning is left, and the first line of another's."""
    _run(loopkernel)
    lines = Path("run.jsonl").read_bytes().splitlines(keepends=True)
    Path("ours.jsonl").write_bytes(b"".join([*lines[:2], lines[3]]))
    Path("others.jsonl").write_bytes(codex_session()[0])
    for name, faults in (("ours.jsonl", 1), ("others.jsonl", 0)):
        found = loopkernel("diagnose", name)
        assert found.labelled("go on") == ["not possible: it holds no conversation that could be gone on with"]
        assert found.labelled("or repair") == []
        assert (found.status, len(found.labelled("fault"))) == (faults, faults)
        (told,) = loopkernel("diagnose", name, "--json").objects()
        assert told["repair"] is None
        refused = loopkernel("continue", name, *MODEL)
        assert (refused.status, "no conversation that could be gone on with" in refused.err) == (2, True)
    assert loopkernel("repair", "ours.jsonl", "--out", "new.jsonl").status == 2


def test_a_log_of_other_rules_is_left_to_the_version_that_wrote_it(loopkernel: CommandLine) -> None:
    _run(loopkernel)
    records = read_log(Path("run.jsonl")).records
    created = records[0].delta
    assert isinstance(created, Created)
    older = evolve(records[0], delta=evolve(created, rules_version=created.rules_version - 1))
    Path("old.jsonl").write_bytes(b"".join(lines_of([older, *records[1:]], None)))
    told = loopkernel("log", "old.jsonl")
    assert f"written under version {created.rules_version - 1} of the rules" in told.err
    for arguments in (["diagnose"], ["continue", *MODEL], ["repair", "--out", "new.jsonl"]):
        name, *more = arguments
        ended = loopkernel(name, "old.jsonl", *more)
        assert (ended.status, ended.out, ended.err) == (2, "", told.err)


@pytest.mark.rule("RESUME-6")
def test_what_the_provider_refuses_comes_first(loopkernel: CommandLine) -> None:
    lines = Path("claude.jsonl").read_bytes().splitlines(keepends=True)
    Path("many.jsonl").write_bytes(b"".join([b"{broken\n", lines[0], lines[0], *lines[1:]]))
    faults = loopkernel("diagnose", "many.jsonl", "--json").objects()[0]["faults"]
    assert isinstance(faults, list)
    assert [(fault["place"], fault["kind"]) for fault in faults] == [
        (15, "unanswered-call"),
        (1, "broken-record"),
        (3, "repeated-record"),
        (16, "torn-tail"),
    ]


def test_a_fork_of_a_log(loopkernel: CommandLine) -> None:
    _run(loopkernel)
    whole = read_log(Path("run.jsonl")).records
    ended = loopkernel("fork", "run.jsonl", "--at", "3", "--out", "new.jsonl")
    assert (ended.status, ended.err) == (0, "")
    forked = read_log(Path("new.jsonl")).records
    assert forked[:3] == whole[:3]
    assert isinstance(forked[3].delta, Forked)
    assert loopkernel("replay", "new.jsonl").status == 0
    for at in ("0", str(len(whole) + 1)):
        assert loopkernel("fork", "run.jsonl", "--at", at, "--out", "other.jsonl").status == 2
    assert loopkernel("fork", "run.jsonl", "--at", "3", "--out", "new.jsonl").status == 2


@pytest.mark.rule("RESUME-6")
def test_a_fork_of_a_run_in_the_store_and_of_a_recording(loopkernel: CommandLine) -> None:
    assert loopkernel("chat", *MODEL, lines=("Hi.",)).status == 0
    forked = loopkernel("fork", "last", "--at", "2")
    assert forked.status == 0
    go_on = shlex.split(forked.labelled("go on")[0])
    assert loopkernel(*go_on[go_on.index("resume") :], *MODEL, lines=("On.",)).labelled("model") == ["I go on."]
    loopkernel("fork", "claude.jsonl", "--at", "8")
    assert "1970" not in loopkernel("runs").out
    of_recording = loopkernel("fork", "claude.jsonl", "--at", "8", "--out", "new.jsonl")
    assert of_recording.status == 0
    session = replay(read_log(Path("new.jsonl")).records).session
    assert session is not None
    assert session.settings.policy == AFTERWARDS  # not the one without limits that it was played under
    resumed = loopkernel("resume", "new.jsonl", *MODEL, lines=("On.",))
    assert resumed.labelled("model") == ["I go on."]
    assert loopkernel("replay", "new.jsonl").status == 0
    assert loopkernel("fork", "no-such-run", "--at", "2").status == 2


def test_a_log_is_not_written_without_what_is_not_known_and_a_chat_says_what_it_goes_on_without(
    loopkernel: CommandLine,
) -> None:
    shutil.copy(EXAMPLES / "claude-code" / "fork-compaction-damage.jsonl", "odd.jsonl")
    refused = loopkernel("repair", "odd.jsonl", "--as-log", "--out", "new.jsonl")
    assert refused.status == 2
    assert "3 records of kinds that are not known here (a record of unknown type 'weather-report')" in refused.err
    assert not Path("new.jsonl").exists()
    assert loopkernel("repair", "odd.jsonl", "--out", "new.jsonl").status == 0
    assert "weather-report" in Path("new.jsonl").read_text()
    told = ["3 records of unknown kinds: a record of unknown type 'weather-report'"]
    assert loopkernel("continue", "odd.jsonl", *MODEL, lines=("On.",)).labelled("without") == told
    assert loopkernel("fork", "odd.jsonl", "--at", "19", "--out", "forked.jsonl").labelled("without") == told


def test_a_fork_of_the_file_of_a_sub_agent_takes_its_conversation(loopkernel: CommandLine) -> None:
    shutil.copy(EXAMPLES / "claude-code" / "sidechain-own-file.jsonl", "agent.jsonl")
    assert loopkernel("fork", "agent.jsonl", "--at", "3", "--out", "new.jsonl").status == 0
    assert loopkernel("resume", "new.jsonl", *MODEL, lines=("On.",)).labelled("model") == ["I go on."]


def test_a_fork_leaves_out_what_was_undone_by_then(loopkernel: CommandLine) -> None:
    shutil.copy(EXAMPLES / "claude-code" / "rewound.jsonl", "claude.jsonl")
    for at, undone_is_there in ((7, True), (12, False)):
        assert loopkernel("fork", "claude.jsonl", "--at", str(at), "--out", f"{at}.jsonl").status == 0
        assert ("Fill them with water." in Path(f"{at}.jsonl").read_text()) is undone_is_there


def test_a_fork_of_a_recording_is_offered_tools_that_are_here(loopkernel: CommandLine) -> None:
    """Those of the recording nobody here can run."""
    script(calls("read_file", path="claude.jsonl"), says("Read."))
    forked = loopkernel("fork", "claude.jsonl", "--at", "8", "--out", "new.jsonl")
    assert forked.status == 0
    ended = loopkernel("resume", "new.jsonl", *MODEL, lines=("Read it.",))
    assert ended.labelled("model") == ["Read."]
    assert not any("There is no tool" in text for text in ended.out.splitlines())


def test_a_command_that_takes_no_recording_names_the_one_that_does(loopkernel: CommandLine) -> None:
    for given, instead in (("log", "replay"), ("resume", "continue")):
        ended = loopkernel(given, "codex.jsonl")
        assert ended.status == 2
        assert "a recording (codex)" in ended.err
        assert f"{instead} codex.jsonl`" in ended.err
    (Path("notes.txt")).write_text("Buy milk.\n")
    assert "is not a log of loopkernel" in loopkernel("log", "./notes.txt").err
    assert "has no record 99; the last one is 10" in loopkernel("fork", "codex.jsonl", "--at", "99").err


@pytest.mark.rule("RESUME-6")
@pytest.mark.parametrize("out", [(), ("--out", "new.jsonl")])
def test_what_is_advised_after_a_fork_works_as_it_stands(loopkernel: CommandLine, out: tuple[str, ...]) -> None:
    where = ("--store", "jsonl:runs")
    loopkernel("chat", *MODEL, *where, lines=("Hi.",))
    told = loopkernel("fork", "last", "--at", "99", *where).err
    advised = shlex.split(told.split("`")[1])
    numbers = loopkernel(*advised[advised.index("log") :]).out.splitlines()
    assert numbers[1].split() == ["2", "Acquired"]
    go_on = shlex.split(loopkernel("fork", "last", "--at", "2", *where, *out).labelled("go on")[0])
    resumed = loopkernel(*go_on[go_on.index("resume") :], lines=("On.",))  # with the model that it was begun with
    assert resumed.labelled("model") == ["I go on."]

"""`loopkernel replay` on recordings: what is shown of each, the table, the numbers, another policy, each refusal."""

import gzip
import json
import os
import pty
import re
import subprocess
from pathlib import Path

import pytest
from attrs import evolve
from loopkernel import laws
from loopkernel.codec import policy_to_text
from loopkernel.data.choices import NoProfileApproval
from loopkernel.data.deltas import Delta
from loopkernel.data.ids import CheckOperation, ModelOperation, RunOperation
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import ModelCall, ModelCompleted, ModelText
from loopkernel.data.records import LogRecord
from loopkernel.data.thread_deltas import Acquired, Created, Resumed
from loopkernel.data.tool_deltas import ToolChecked, ToolSucceeded
from loopkernel.data.tools import EffectClass, Tool, ToolOutput, ToolProfile, ValidCall
from loopkernel.data.user_deltas import Say
from loopkernel.data.words import StopReason
from loopkernel_adapters.cli import recordings
from loopkernel_adapters.stores.jsonl import lines_of
from loopkernel_adapters.transcripts.replaying import AS_RECORDED, Replayed

from tests.adapters.cli.cli_world import COMMAND
from tests.adapters.cli.sessions import MODEL, STORE, CommandLine, calls, says, script
from tests.adapters.transcripts_repair.recorded import (
    SHARED,
    answers,
    asks,
    chat_session,
    claude,
    claude_session,
    codex_session,
    demand_shared,
    results,
    use,
)

KEYS = [
    *("file", "format", "user_messages", "replies", "calls", "results", "unanswered", "orphan_results", "reused_ids"),
    *("out_of_order", "parallel_replies", "max_open", "reasoning", "images", "compactions", "model_errors"),
    *("sidechain_records", "findings", "laws", "deltas", "identical"),
]


@pytest.fixture(autouse=True)
def files(folder: Path) -> Path:
    """One session of each format, and a file that is none."""
    inner = folder / "sessions"
    inner.mkdir()
    (inner / "claude.jsonl").write_bytes(b"".join(claude_session()))
    (inner / "codex.jsonl").write_bytes(b"".join(codex_session()[:-2]))
    (inner / "chat.json").write_text(json.dumps(chat_session()))
    (inner / "notes.txt").write_text("Buy milk.\n")
    return inner


def test_one_recording_is_shown(loopkernel: CommandLine) -> None:
    ended = loopkernel("replay", "sessions/claude.jsonl")
    assert (ended.status, ended.err) == (0, "")
    assert "sessions/claude.jsonl: claude-code" in ended.out
    assert ended.labelled("said") == ["3 messages of the user, 6 replies"]
    assert ended.labelled("calls") == ["4; results: 4 done"]
    assert ended.labelled("also") == ["1 sub-agent"]
    assert ended.labelled("laws")[0].endswith("all held")
    assert ended.labelled("replayed")[0].endswith("identical, byte for byte")
    assert "file  " not in ended.out  # no table for one


def test_requests_that_were_made_again_are_told(loopkernel: CommandLine) -> None:
    examples = Path(__file__).parent.parent / "transcripts" / "examples"
    ended = loopkernel("replay", str(examples / "claude-code" / "rejected-cancelled.jsonl"))
    assert ended.labelled("also") == ["2 model errors, 1 retried request"]


def test_a_folder_is_shown_with_a_table_and_its_findings(loopkernel: CommandLine) -> None:
    ended = loopkernel("replay", "sessions")
    assert ended.status == 0
    assert ended.labelled("finding") == ["line 10: the call call_3 never got a result [unanswered-call]"]
    assert ended.labelled("files") == ["3 replayed, 0 not readable, 1 no recordings"]
    table = ended.out.splitlines()[-5:-1]
    assert table[0].split() == ["file", "format", "replies", "calls", "findings", "laws", "deltas", "replay"]
    assert [row.split()[1] for row in table[1:]] == ["openai-chat", "claude-code", "codex"]


def test_the_numbers_have_these_names(loopkernel: CommandLine) -> None:
    ended = loopkernel("replay", "sessions/*.jsonl", "--json")
    claude, codex = ended.objects()
    assert list(claude) == list(codex) == KEYS
    assert claude["sidechain_records"] == 4
    assert claude["results"] == {"done": 4}
    assert codex["results"] == {"done": 2}
    assert (codex["unanswered"], codex["identical"]) == (1, True)
    assert codex["findings"] == [
        {"place": "10", "kind": "unanswered-call", "text": "the call call_3 never got a result"}
    ]
    assert claude["laws"] == {law.id: "held" for law in laws.LAWS}


def test_a_record_of_a_sub_agent_counts_once(loopkernel: CommandLine, files: Path) -> None:
    said = [(20, None, "user", asks("Go.")), (21, 20, "assistant", answers("m", use("a"), use("b")))]
    told = [*said, (22, 21, "user", results("a", "b"))]
    (files / "side.jsonl").write_bytes(b"".join(claude(*record, isSidechain=True) for record in told))
    (line,) = loopkernel("replay", "sessions/side.jsonl", "--json").objects()
    assert (line["sidechain_records"], line["results"]) == (3, {"done": 2})


def test_a_log_of_our_own_among_recordings(loopkernel: CommandLine) -> None:
    script(says("Hello."))
    assert loopkernel("run", "Hi.", *MODEL, "--log", "run.jsonl").status == 0
    (told,) = loopkernel("replay", "run.jsonl", "--json").objects()
    assert (told["format"], told["replies"], told["user_messages"], told["identical"]) == ("loopkernel", 1, 1, True)
    ended = loopkernel("replay", "run.jsonl", "sessions/chat.json")
    assert ended.labelled("files") == ["2 replayed, 0 not readable, 0 no recordings"]
    assert loopkernel("replay", "run.jsonl").labelled("outcome")  # alone, it is shown as a run


def test_another_policy_is_asked_about(loopkernel: CommandLine, folder: Path) -> None:
    (folder / "one.json").write_text(policy_to_text(evolve(AS_RECORDED, max_turns=1)))
    ended = loopkernel("replay", "sessions/claude.jsonl", "--policy", "one.json", "--json")
    (told,) = ended.objects()
    assert list(told) == [*KEYS, "what_if"]
    under = told["what_if"]
    assert isinstance(under, dict)
    assert under["turns"].get("max_turns", 0) >= 1, under
    assert under["parts_at"] == "line 8", under  # the result that the sub-agent waits for
    limit = next(difference for difference in under["differences"] if difference["event"] == "LimitReached")
    assert (limit["place"], limit["text"]) == (8, "the turn ends at the limit of 1 reply in a turn (max_turns)")
    plain = loopkernel("replay", "sessions/claude.jsonl", "--policy", "one.json")
    assert "instead of as it was recorded" in plain.labelled("what if")[0]
    assert plain.labelled("parts at") == ["line 8; up to there, both do the same"]
    assert any(limit["text"] in text for text in plain.out.splitlines())
    assert "(recorded: 3 model_stop)" in plain.labelled("turns")[0]
    (folder / "same.json").write_text(policy_to_text(AS_RECORDED))
    same = loopkernel("replay", "sessions/claude.jsonl", "--policy", "same.json")
    assert "nothing goes otherwise" in same.out
    assert same.labelled("parts at") == []
    every = loopkernel("replay", "sessions", "--policy", "one.json")
    shown = [row.split() for row in every.out.splitlines() if row.startswith(("file ", "sessions/c"))]
    rows = {row[0]: row[8:] for row in shown}
    assert rows["file"] == ["parts", "at"]
    assert rows["sessions/claude.jsonl"] == ["line", "8"]
    assert "3 calls more than recorded" in loopkernel("replay", "sessions/codex.jsonl", "--policy", "amp").out
    assert loopkernel("replay", "sessions/claude.jsonl", "--policy", "no-such").status == 2


def test_another_policy_is_asked_about_a_run_of_the_store(loopkernel: CommandLine, folder: Path) -> None:
    """What it is held against is the policy that the run went by."""
    script(calls("read_file", path="sessions/notes.txt"), says("Milk."))
    assert loopkernel("run", "Read it.", *MODEL).status == 0
    (folder / "one.json").write_text(policy_to_text(evolve(AS_RECORDED, max_turns=1)))
    for where in ((), ("--store", f"sqlite:{STORE}")):
        (told,) = loopkernel("replay", "last", *where, "--policy", "one.json", "--json").objects()
        assert (told["file"], told["format"], told["replies"]) == ("last", "loopkernel", 2)
        under = told["what_if"]
        assert isinstance(under, dict)
        assert [difference["event"] for difference in under["differences"]] == [
            "LimitReached",
            "TurnEnded",
            "NotAskedFor",
        ]
    assert "nothing goes otherwise" in loopkernel("replay", "last", "--policy", "default").out
    (numbers,) = loopkernel("replay", "last", "--json").objects()
    assert numbers["results"] == {"done": 1}
    assert "there is no run no-such" in loopkernel("replay", "no-such", "--policy", "claude").err


def _restarted(down_ms: int) -> tuple[LogRecord, ...]:
    """A run whose process was down for so long while a call that only reads was open, which then ran once more."""
    reads = Tool(name="look", profile=ToolProfile(effect=EffectClass.READ_ONLY))
    first, second = ModelOperation(1), ModelOperation(2)
    begun: list[Delta] = [
        Created(session_id="s", tools=(reads,)),
        Acquired(),
        Say("Look."),
        ModelCall(first, provider_id="a", tool="look", input=Json.of({})),
        ModelCompleted(first, StopReason.TOOL_USE),
        ToolChecked(CheckOperation(1), ValidCall()),
    ]
    ended: list[Delta] = [
        Resumed(),
        ToolSucceeded(RunOperation(2), ToolOutput("A cat.")),
        ModelText(second, "I saw a cat."),
        ModelCompleted(second, StopReason.END_TURN),
    ]
    times = [*range(len(begun)), *range(len(begun) + down_ms, len(begun) + down_ms + len(ended))]
    return tuple(LogRecord(delta, 10**12 + ms) for delta, ms in zip([*begun, *ended], times, strict=True))


@pytest.mark.parametrize("down_ms", [1_000, 130_000, 3_600_000])
def test_the_time_in_which_the_process_was_down_counts_for_nobody(
    loopkernel: CommandLine, folder: Path, down_ms: int
) -> None:
    log = folder / "run.jsonl"
    log.write_bytes(b"".join(lines_of(_restarted(down_ms), None)))
    assert loopkernel("log", "run.jsonl").labelled("result 1.1") == ["done: A cat."]
    for policy in ("default", "amp"):
        (told,) = loopkernel("replay", "run.jsonl", "--policy", policy, "--json").objects()
        under = told["what_if"]
        assert isinstance(under, dict)
        assert under["differences"] == []
        assert under["turns"] == under["turns_recorded"] == {"model_stop": 1}
        assert under["calls"] == under["calls_recorded"] == {"done": 1}


def test_how_a_log_of_our_own_ended_is_told_from_the_log_and_how_its_play_ends_apart(
    loopkernel: CommandLine, folder: Path
) -> None:
    """A fork ends the turn that was under way, which no play of it does."""
    (folder / "run.jsonl").write_bytes(b"".join(lines_of(_restarted(0), None)))
    assert loopkernel("fork", "run.jsonl", "--at", "9", "--out", "fork.jsonl").status == 0
    assert loopkernel("log", "fork.jsonl").labelled("turn") == ["ended: interrupted; 0 tokens in, 0 out"]
    ended = loopkernel("replay", "fork.jsonl", "--policy", "default")
    (turns,) = ended.labelled("turns")
    assert turns.endswith("(recorded: 1 interrupted)")
    (played,) = ended.labelled("played")
    assert played.startswith(f"as recorded, it gives turns {turns.split(' (')[0]}; answers 1 done: ")
    assert loopkernel("replay", "run.jsonl", "--policy", "default").labelled("played") == []


def test_a_call_without_a_result_is_told_where_its_answer_is_counted(loopkernel: CommandLine) -> None:
    ended = loopkernel("replay", "sessions/codex.jsonl", "--policy", "claude")
    assert ended.labelled("calls") == ["3; results: 2 done; 1 never answered"]
    (answers,) = ended.labelled("answers")
    assert answers.endswith("(recorded: 2 done, 1 lost)")
    assert "1 call without a result: the loop answers such a call itself, which counts here" in ended.out
    assert "without a result" not in loopkernel("replay", "sessions/claude.jsonl", "--policy", "claude").out


@pytest.mark.parametrize(("most", "place"), [(None, None), (1, "line 8")])
def test_both_commands_tell_the_same_place_at_which_a_policy_parts(
    loopkernel: CommandLine, folder: Path, most: int | None, place: str | None
) -> None:
    """That a call asks, as from line 4 on, is told apart: whoever is asked does as recorded."""
    asking = evolve(AS_RECORDED, no_profile_approval=NoProfileApproval.ASK, max_turns=most)
    (folder / "asking.json").write_text(policy_to_text(asking))
    given = ("sessions/claude.jsonl", "--policy", "asking.json")
    (told,), (line,) = (
        loopkernel("replay", *given, "--json").objects(),
        loopkernel("whatif", *given, "--json").objects(),
    )
    under = told["what_if"]
    assert isinstance(under, dict)
    assert under["differences"][0]["place"] == 4
    assert under["parts_at"] == line["parts_at"] == place
    assert line["asks"] == 4
    assert (line["there"] == "") is (place is None)
    shown = loopkernel("replay", *given)
    apart = [f"{place}; up to there, both do the same, but that some calls may ask first"]
    assert shown.labelled("parts at") == (apart if place else [])
    assert "first at line 4: the call of Bash waits for a person" in shown.labelled("asks")[0]


def test_a_broken_law_and_a_difference_are_told(loopkernel: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(Replayed, "identical", property(lambda found: False))
        ended = loopkernel("replay", "sessions/codex.jsonl")
    assert ended.status == 1
    assert "NOT identical" in ended.labelled("replayed")[0]
    told = {law.id: "held" for law in laws.LAWS}
    name = next(iter(told))
    with monkeypatch.context() as patched:
        patched.setattr(Replayed, "laws", property(lambda found: {**told, name: f"{name}: step 3"}))
        patched.setattr(Replayed, "held", property(lambda found: False))
        ended = loopkernel("replay", "sessions/codex.jsonl")
    assert ended.status == 1
    assert ended.labelled("laws")[0].endswith("BROKEN")


@pytest.mark.parametrize("content", [b"", b"\0" * 5_000, b"\xff\xfe{}", b"{", b"[1, 2", b"\x89PNG\r\n", b"null\n"])
def test_what_is_no_recording_is_told_and_the_others_are_shown(
    loopkernel: CommandLine, files: Path, content: bytes
) -> None:
    (files / "bad.bin").write_bytes(content)
    alone = loopkernel("replay", "sessions/bad.bin")
    assert alone.status == 2
    assert "sessions/bad.bin" in alone.err
    both = loopkernel("replay", "sessions/bad.bin", "sessions/codex.jsonl")
    assert both.status == 2
    assert both.labelled("files") == ["1 replayed, 1 not readable, 0 no recordings"]
    assert loopkernel("diagnose", "sessions/bad.bin").status == 2
    assert loopkernel("repair", "sessions/bad.bin", "--out", "new").status == 2
    assert not Path("new").exists()


DAMAGED = {
    "cut.json": (json.dumps(chat_session(), indent=1).encode()[:200], "damaged: it breaks off at its end, in line "),
    "cut.jsonl": (codex_session()[0][:50], "damaged: it breaks off at its end, in line 1"),
    "empty.jsonl": (b"", "is empty"),
    "wide.jsonl": (b"".join(codex_session()).decode().encode("utf-16"), "is text in UTF-16"),
    "packed.jsonl.gz": (gzip.compress(b"".join(codex_session())), "is packed; unpack it with gunzip"),
    "program.json": (b"\x7fELF\x02\x01\x01" + bytes(100), "is not text"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_recording_in_a_folder_is_told_and_no_other_file(
    loopkernel: CommandLine, folder: Path, name: str
) -> None:
    content, reason = DAMAGED[name]
    (folder / "sessions" / name).write_bytes(content)
    others = {"README.md": b"[draft] Notes\n\n- milk\n", "setup.cfg": b"[tool]\nmilk = 1\n", "__init__.py": b""}
    for other, text in {**others, "logo.png": b"\x89PNG\r\n\x1a\n\0\0", "package.json": b'{"name": "x"}\n'}.items():
        (folder / "sessions" / other).write_bytes(text)
    for command, what in ((["replay"], "replayed"), (["whatif", "--policy", "claude"], "read")):
        ended = loopkernel(*command, "sessions")
        assert ended.status == 2
        (told,) = ended.err.splitlines()
        assert told.startswith(f"loopkernel: sessions/{name} ")
        assert reason in told
        assert ended.labelled("files") == [f"3 {what}, 1 not readable, 6 no recordings"]
    by_pattern = loopkernel("replay", f"sessions/{name[:2]}*")
    assert (by_pattern.status, reason in by_pattern.err) == (2, True)


def test_nothing_to_replay(loopkernel: CommandLine, folder: Path) -> None:
    (folder / "empty").mkdir()
    for named in ("empty", "no/such/*.jsonl", "missing.jsonl"):
        ended = loopkernel("replay", named)
        assert ended.status == 2
        assert named in ended.err
    os.mkfifo(folder / "pipe")
    assert loopkernel("replay", "pipe", "sessions/codex.jsonl").status == 2
    assert loopkernel("diagnose", "pipe").status == 2
    assert loopkernel("diagnose", "empty").status == 2


def test_a_file_that_may_not_be_read(loopkernel: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: object, **more: object) -> Replayed:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(recordings, "replayed", refuse)
    ended = loopkernel("replay", "sessions/claude.jsonl", "sessions/chat.json")
    assert ended.status == 2
    assert "sessions/claude.jsonl cannot be read: Permission denied" in ended.err


def test_what_nobody_foresaw_is_told_without_a_traceback(
    loopkernel: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*given: object, **more: object) -> Replayed:
        raise KeyError("x")

    monkeypatch.setattr(recordings, "replayed", fail)
    ended = loopkernel("replay", "sessions/claude.jsonl")
    assert ended.status == 2
    assert "please report this" in ended.err


def test_progress_is_shown_at_a_terminal_alone(loopkernel: CommandLine) -> None:
    assert loopkernel("replay", "sessions").err == ""
    leader, follower = pty.openpty()
    named = {**os.environ, "TERM": "xterm"}
    subprocess.run([*COMMAND, "replay", "sessions"], stdout=subprocess.DEVNULL, stderr=follower, check=True, env=named)
    os.close(follower)
    shown = os.read(leader, 10_000).decode()
    os.close(leader)
    assert re.search("1/4.*claude.jsonl", shown) is not None
    assert shown.endswith("\r\x1b[1A\x1b[2K")  # and it is taken away


def test_the_counts_of_the_recordings_of_others(loopkernel: CommandLine) -> None:
    demand_shared()
    files = (
        "claude-code/user-interrupts.jsonl",
        "claude-code/worktrees-subagent-a4ca.jsonl",
        "codex/desktop-cut-off.jsonl",
    )
    entries = json.loads((SHARED / "expected.json").read_text())
    expected = {str(SHARED / entry["file"]): entry["expect"] for entry in entries if entry["file"] in files}
    ended = loopkernel("replay", *(str(SHARED / file) for file in files), "--json")
    told = {line["file"]: line for line in ended.objects()}
    assert told.keys() == expected.keys()
    for file, expect in expected.items():
        assert {key: told[file][key] for key in expect} == expect
    assert [line["sidechain_records"] for line in told.values()] == [0, 56, 0]
    assert ended.status == 0

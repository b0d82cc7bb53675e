"""What runs unasked, since a person has said so: shown, listed and taken back, in a chat and by a command."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from loopkernel.codec import policy_to_text
from loopkernel.data.blocks import TextBlock
from loopkernel.data.choices import Lifetime
from loopkernel.data.policy import ApprovalRule, FieldPattern, Policy
from loopkernel.data.records import LogRecord
from loopkernel.data.remembered import RememberedTool
from loopkernel.data.thread_deltas import Acquired, Created, Disposed
from loopkernel.data.tools import Decision
from loopkernel.data.user_deltas import CancelAll, Say
from loopkernel_adapters.stores.jsonl import JsonlStore
from loopkernel_adapters.stores.sqlite import SqliteRuns

from tests.adapters.cli.sessions import CHAT, STORE, CommandLine, calls, says, script, shell, writes

DROPPED = "each call of write_file is taken back, and asks again"


@pytest.fixture
def always(loopkernel: CommandLine) -> None:
    """A chat in which `write_file` was approved for good, and `shell`."""
    script(writes("a"), says("One."), shell("true"), says("Two."))
    loopkernel(*CHAT, "--tools", "all", lines=("go", "always", "go on", "always"))
    script(writes("b"), says("Three."))


@pytest.mark.rule("ASK-3")
def test_what_is_remembered_is_told_listed_and_taken_back_in_a_chat(loopkernel: CommandLine) -> None:
    script(writes("a"), says("One."), writes("b"), says("Two."), writes("c"), says("Three."))
    lines = ("/approvals", "go", "always", "/approvals", "again", "/approvals drop 1", "more", "no", "/approvals")
    ended = loopkernel(*CHAT, lines=lines)
    told = "each call of write_file runs unasked from now on; /approvals drop 1 takes it back"
    assert ended.labelled("approval") == [told, DROPPED]
    assert ended.out.count("1  each call of write_file\n/approvals drop N takes one back") == 1
    assert ended.out.count("no approval is remembered") == 2
    assert len(ended.labelled("because")) == 2  # the first call and the third are asked about
    assert [name for name in "abc" if Path(name).exists()] == ["a", "b"]
    assert loopkernel("replay", "last").status == 0


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("/approvals drop 3", "there is no approval 3"),
        ("/approvals drop 0", "there is no approval 0"),
        ("/approvals drop -1", "there is no approval -1"),
        ("/approvals drop ²", "there is no approval ²"),
        ("/approvals drop", "/approvals lists what runs unasked"),
        ("/approvals remove 1", "/approvals lists what runs unasked"),
    ],
)
@pytest.mark.usefixtures("always")
def test_what_names_no_approval_takes_none_back(loopkernel: CommandLine, line: str, told: str) -> None:
    ended = loopkernel("resume", "last", lines=(line,))
    assert told in ended.out
    assert ended.labelled("approval") == []
    assert "2  each call of shell" in loopkernel("approvals", "last").out


@pytest.mark.usefixtures("always")
def test_what_runs_unasked_is_told_when_a_run_is_gone_on_with_and_all_of_it_can_be_taken_back(
    loopkernel: CommandLine,
) -> None:
    ended = loopkernel("resume", "last", lines=("/approvals drop all", "/approvals drop all", "go", "no"))
    assert ended.labelled("unasked") == ["each call of write_file", "each call of shell"]
    assert "/approvals lists it, and takes it back" in ended.out
    assert ended.labelled("approval") == [DROPPED, "each call of shell is taken back, and asks again"]
    assert ended.out.count("no approval is remembered") == 1
    assert not Path("b").exists()
    assert loopkernel("resume", "last").labelled("unasked") == []


def test_a_change_of_mode_says_what_it_leaves(loopkernel: CommandLine) -> None:
    rules = (
        ApprovalRule(decision=Decision.ALLOW, tool="edit_*", input=(FieldPattern("path", "notes*"),)),
        ApprovalRule(decision=Decision.DENY, tool="shell"),
    )
    Path("policy.json").write_text(policy_to_text(Policy(approval_rules=rules)))
    script(writes("a"), says("One."))
    modes = ("/mode bypass", "/mode plan", "/approvals drop 1", "/mode default")
    ended = loopkernel(*CHAT, "--policy", "policy.json", lines=("go", "always", "/mode default", *modes))
    rule = "by a rule of the policy: edit_* with path like notes*"
    approval = f"1  each call of write_file\n{rule}\n/approvals drop N takes one back"
    assert f"the mode is default now\nthis still runs unasked:\n{approval}" in ended.out
    assert "this still runs unasked" not in ended.out.partition("the mode is bypass now")[2].partition("you")[0]
    assert f"this still runs unasked, if it only reads:\n{approval}" in ended.out
    assert f"the mode is default now\nthis still runs unasked:\n{rule}\nyou" in ended.out
    resumed = loopkernel("resume", "last")
    assert resumed.labelled("unasked") == ["what 1 rule of the policy allows"]
    assert json.loads(loopkernel("approvals", "last", "--json").out)["allowing_rules"] == [
        {"tool": "edit_*", "pattern": {"path": "notes*"}}
    ]


@pytest.mark.usefixtures("always")
def test_a_program_lists_and_takes_back_in_a_chat_too(loopkernel: CommandLine) -> None:
    ended = loopkernel("resume", "last", "--json", lines=("/approvals", "/approvals drop 2"))
    assert "2  each call of shell" in [note["text"] for note in ended.objects_of("note")]
    (event,) = [line["event"] for line in ended.objects_of("event") if "approval-forgotten" in str(line)]
    assert event == {"type": "approval-forgotten", "remembered": {"type": "remembered-tool", "tool": "shell"}}


# --- the command ---------------------------------------------------------------------------------------------


@pytest.mark.rule("ASK-3")
@pytest.mark.usefixtures("always")
def test_the_command_lists_takes_one_back_by_its_number_and_the_run_goes_by_it(loopkernel: CommandLine) -> None:
    listed = loopkernel("approvals", "last")
    assert listed.labelled("unasked") == ["1  each call of write_file", "2  each call of shell"]
    assert "--drop N` takes one back" in listed.out
    dropped = loopkernel("approvals", "last", "--drop", "1")
    assert (dropped.status, dropped.labelled("taken back")) == (0, ["each call of write_file"])
    assert dropped.labelled("unasked") == ["1  each call of shell"]
    ended = loopkernel("resume", "last", lines=("go", "no"))
    assert ended.labelled("unasked") == ["each call of shell"]
    assert len(ended.labelled("because")) == 1
    assert not Path("b").exists()
    assert loopkernel("replay", "last").status == 0


@pytest.mark.usefixtures("always")
def test_the_command_takes_all_back_and_says_where_there_is_nothing(loopkernel: CommandLine) -> None:
    (run,) = {json.loads(loopkernel("approvals", "last", "--json").out)["run"]}
    dropped = json.loads(loopkernel("approvals", run, "--drop", "all", "--json").out)
    assert dropped == {"run": run, "approvals": [], "allowing_rules": []}
    records = len(loopkernel("log", run, "--json").out.splitlines())
    for more in ((), ("--drop", "all")):
        ended = loopkernel("approvals", run, *more)
        assert (ended.status, ended.out) == (0, "No approval is remembered, so what asks asks each time.\n")
    assert len(loopkernel("log", run, "--json").out.splitlines()) == records


@contextmanager
def open_elsewhere(run: str) -> Iterator[None]:
    runs = SqliteRuns(STORE)
    try:
        store = runs.open(run)
        yield
        store.close()
    finally:
        runs.close()


@pytest.mark.usefixtures("always")
def test_what_cannot_be_taken_back_is_said_and_nothing_changes(loopkernel: CommandLine) -> None:
    run = json.loads(loopkernel("approvals", "last", "--json").out)["run"]
    beyond = loopkernel("approvals", run, "--drop", "3")
    assert (beyond.status, "there is no approval 3: there are 2" in beyond.err) == (2, True)
    assert "nor `all`" in loopkernel("approvals", run, "--drop", "one").err
    with open_elsewhere(run):
        taken = loopkernel("approvals", run, "--drop", "1")
        assert (taken.status, "open elsewhere" in taken.err) == (2, True)
        assert "1  each call of write_file" in loopkernel("approvals", run).out  # looking is free
    assert "there is no run nosuch" in loopkernel("approvals", "nosuch", "--drop", "1").err
    assert loopkernel("approvals", "gone.jsonl", "--drop", "1").status == 2
    assert not Path("gone.jsonl").exists()
    assert "2  each call of shell" in loopkernel("approvals", run).out


def test_while_a_sub_agent_has_to_be_told_it_is_done_in_the_chat(
    loopkernel: CommandLine, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run was left while its sub-agent asked: what is taken back goes down to that, which only a driver can do."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "configuration"))
    script(writes("a"), says("One."), calls("delegate", prompt="work"), shell("true"))
    lines = ("go", "always", "go on")
    left = loopkernel(*CHAT, "--tools", "all", "--sub-agents", "--log", "one.jsonl", lines=lines)
    assert left.status != 2
    crashed = Path("one.jsonl").read_text().splitlines(keepends=True)
    asks = next(place for place, line in enumerate(crashed) if '"child-asks"' in line)
    Path("one.jsonl").write_text("".join(crashed[: asks + 1]))
    shutil.rmtree(folder / "configuration" / "loopkernel" / "marks")  # as if it had never been longer
    dropped = loopkernel("approvals", "one.jsonl", "--drop", "1")
    assert (dropped.status, "type `/approvals drop 1` there" in dropped.err) == (2, True)
    assert Path("one.jsonl").read_text() == "".join(crashed[: asks + 1])
    script(writes("b"), says("Child."), says("All."))
    ended = loopkernel("resume", "one.jsonl", lines=("/approvals drop 1", "no", "no"))
    assert any("each call of write_file is taken back" in line for line in ended.out.splitlines())


def test_a_run_that_is_over_or_released_is_left_as_it_is(loopkernel: CommandLine) -> None:
    said, in_chat = Say(content=(TextBlock("go"),)), "type `/approvals drop 1` there"
    for lifetime, last, told in ((Lifetime.TASK, (said, CancelAll()), "is over"), (Lifetime.SESSION, (), in_chat)):
        log, policy = Path(f"{lifetime.value}.jsonl"), Policy(lifetime=lifetime)
        given = Created(session_id="s", policy=policy, remembered=(RememberedTool("shell"),))
        store = JsonlStore(log)
        store.append([LogRecord(delta, 1) for delta in (given, Acquired(), *last, Disposed())], durable=True)
        store.close()
        before = log.read_bytes()
        ended = loopkernel("approvals", str(log), "--drop", "1")
        assert (ended.status, told in ended.err) == (2, True), ended.err
        assert log.read_bytes() == before

"""`loopkernel resume RUN`: after a process was killed in the midst of things, nothing dangerous runs twice."""

import asyncio
import os
import select
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from loopkernel.codec import policy_to_text
from loopkernel.data.choices import ApprovalMode, Lifetime, RestartDangerous
from loopkernel.data.effects import Request
from loopkernel.data.ids import ModelOperation
from loopkernel.data.model_deltas import ModelCompleted, ModelDelta, ModelFailed
from loopkernel.data.policy import ApprovalRule, OnRestart, Policy
from loopkernel.data.threads import Thread
from loopkernel.data.tools import Decision
from loopkernel.data.words import RequestReason, StopReason
from loopkernel_adapters.cli.models import Models
from loopkernel_adapters.ports import Provider
from loopkernel_adapters.providers.named import ProviderByModel
from typing_extensions import override

from tests.adapters.cli.cli_world import COMMAND
from tests.adapters.cli.sessions import MODEL, PATIENCE_SECONDS, STORE, CommandLine, Gate, calls, says, script, writes


def read_until(process: subprocess.Popen[bytes], text: bytes) -> None:
    """Read what the process writes until the text has come."""
    assert process.stdout is not None
    shown = b""
    while text not in shown:
        ready, _, _ = select.select([process.stdout], [], [], PATIENCE_SECONDS)
        assert ready, f"it is stuck after: {shown.decode()}"
        piece = os.read(process.stdout.fileno(), 65_536)
        assert piece, f"it ended without it: {shown.decode()}"
        shown += piece


@contextmanager
def started(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """The command line in a process of its own, which is killed at the end."""
    with subprocess.Popen([*COMMAND, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture
def killed_in_the_midst(gate: Gate, request: pytest.FixtureRequest) -> None:
    """A run whose process was killed while a dangerous tool ran; its policy is the parameter, if there is one."""
    script(gate.call("echo once >> ran.txt"))
    restart = getattr(request, "param", RestartDangerous.CANCEL)
    Path("policy.json").write_text(policy_to_text(Policy(on_restart=OnRestart(dangerous=restart))))
    with started("run", "go", *MODEL, "--policy", "policy.json", "--approve", "always"):
        gate.wait()
    assert Path("ran.txt").read_text() == "once\n"
    script(says("I see."))


@pytest.mark.rule("RESUME-3")
@pytest.mark.rule("RESUME-4")
@pytest.mark.usefixtures("killed_in_the_midst")
def test_a_dangerous_tool_that_was_running_is_not_run_again(loopkernel: CommandLine) -> None:
    ended = loopkernel("resume", "last", "--approve", "always")
    assert ended.status == 0
    (told,) = ended.labelled("open")
    assert "shell" in told
    assert told.endswith("was running")
    assert ended.labelled("result 1.1")[0].startswith("cancelled (system:safety)")
    assert ended.labelled("model") == ["I see."]
    assert Path("ran.txt").read_text() == "once\n"
    assert loopkernel("replay", "last").status == 0


@pytest.mark.rule("RESUME-3")
@pytest.mark.parametrize("killed_in_the_midst", [RestartDangerous.ASK], indirect=True)
@pytest.mark.parametrize(
    ("line", "status", "runs"),
    [("done it was fine", "done", 1), ("rerun", "done", 2), ("cancel", "cancelled", 1), ("", "cancelled", 1)],
)
@pytest.mark.usefixtures("killed_in_the_midst")
def test_where_the_policy_asks_a_person_says_what_becomes_of_it(
    loopkernel: CommandLine, line: str, status: str, runs: int
) -> None:
    for name in ("gate", "started"):
        Path(name).unlink()
        Path(name).write_text("open\n")
    ended = loopkernel("resume", "last", lines=("what?", line) if line else ())
    assert ended.labelled("because")[0].startswith("it was running when the process ended")
    assert ended.labelled("result 1.1")[0].startswith(status)
    assert Path("ran.txt").read_text() == "once\n" * runs
    assert ("answer with one of these words" in ended.out) == bool(line)
    assert loopkernel("replay", "last").status == 0


@pytest.mark.rule("ASK-4")
def test_a_question_that_was_open_is_asked_again(loopkernel: CommandLine) -> None:
    script(writes("a"))
    with started("run", "go", *MODEL) as process:
        read_until(process, b"show? ")
    script(says("Written."))
    assert "waits for you" in loopkernel("resume", "last", lines=("yes",)).labelled("open")[0]
    assert Path("a").exists()
    assert loopkernel("replay", "last").status == 0


@pytest.mark.rule("ASK-5")
def test_other_approvals_and_another_model_hold_from_then_on(loopkernel: CommandLine) -> None:
    script(writes("a"))
    with started("run", "go", *MODEL) as process:
        read_until(process, b"show? ")
    script(writes("b"), says("Both."), name="other.json")
    ended = loopkernel("resume", "last", "--model", "scripted:other.json", "--approve", "always")
    assert ended.labelled("model") == ["Both."]
    assert Path("a").exists()
    assert Path("b").exists()


def policy_file(policy: Policy) -> tuple[str, str]:
    """The option for this policy, in a file."""
    Path("given.json").write_text(policy_to_text(policy))
    return ("--policy", "given.json")


NO_WRITING = Policy(approval_rules=(ApprovalRule(decision=Decision.DENY, tool="write_file"),))
UNASKED = Policy(approval_mode=ApprovalMode.BYPASS)


@pytest.mark.rule("RESUME-7")
def test_a_call_that_had_not_started_does_not_where_the_policy_given_now_denies_it(
    loopkernel: CommandLine, gate: Gate
) -> None:
    one_at_a_time = policy_file(Policy(max_parallel=1))
    write = {"tool": "write_file", "input": {"path": "a", "text": "x"}}
    script({"calls": [{"tool": "shell", "input": {"command": "echo here > started; cat gate"}}, write]})
    with started("run", "go", *MODEL, *one_at_a_time, "--approve", "always"):
        gate.wait()
    script(says("I see."))
    ended = loopkernel("resume", "last", *policy_file(NO_WRITING), "--approve", "always")
    assert "is denied by policy" in ended.labelled("result 1.2")[0]
    assert ended.labelled("model") == ["I see."]
    assert not Path("a").exists()
    assert loopkernel("replay", "last").status == 0


@pytest.mark.rule("RESUME-7")
@pytest.mark.parametrize(
    ("policy", "approve", "written"),
    [
        (NO_WRITING, (), False),
        (UNASKED, (), True),
        (UNASKED, ("--approve", "never"), False),  # what is said beside a policy goes before what it says
        (Policy(approval_mode=ApprovalMode.HEADLESS), ("--approve", "always"), True),
    ],
)
def test_a_call_that_waits_for_an_approval_is_decided_on_by_the_policy_given_now(
    loopkernel: CommandLine, policy: Policy, approve: tuple[str, ...], written: bool
) -> None:
    script(writes("a"))
    with started("run", "go", *MODEL) as process:
        read_until(process, b"show? ")
    script(says("I see."))
    ended = loopkernel("resume", "last", *policy_file(policy), *approve)
    assert ended.labelled("result 1.1")[0].startswith("done") == written
    assert "show? " not in ended.out
    assert Path("a").exists() == written
    assert loopkernel("replay", "last").status == 0


@pytest.mark.rule("RESUME-7")
def test_limits_and_instructions_given_now_hold_from_then_on(loopkernel: CommandLine) -> None:
    script(writes("a"))
    with started("run", "go", *MODEL, "--instructions", "Be brief.") as process:
        read_until(process, b"show? ")
    script(says("Written."))
    ended = loopkernel("resume", "last", "--max-turns", "1", "--instructions", "Be kind.", lines=("yes",))
    assert ended.status == 1
    assert ended.labelled("model") == []
    (resumed,) = (line for line in loopkernel("log", "last", "--json").out.splitlines() if "resumed" in line)
    assert "Be kind." in resumed


def test_a_policy_that_is_not_there_changes_nothing_of_the_run(loopkernel: CommandLine) -> None:
    script(says("Yes?"))
    loopkernel("run", "go", *MODEL)
    before = loopkernel("log", "last").out
    ended = loopkernel("resume", "last", "--policy", "none")
    assert ended.status == 2
    assert "there is no policy none" in ended.err
    assert loopkernel("log", "last").out == before


def test_what_a_run_began_with_is_kept_beside_it_and_can_be_lost(loopkernel: CommandLine, folder: Path) -> None:
    Path("place").mkdir()
    Path("place", "inner.txt").write_text("inside")
    script(says("Yes?"))
    loopkernel("run", "go", *MODEL, "--workspace", "place")
    script(calls("read_file", path="inner.txt"), says("It says so."))
    assert loopkernel("resume", "last", lines=("read it",)).labelled("result 2.1") == ["done: inside"]
    (note,) = STORE.with_name("runs.sqlite.begun").iterdir()
    assert note.stat().st_mode & 0o077 == 0
    for damaged in (b"", b"{", b"[]", b'{"model": 3, "secrets": 4, "tools": "x", "fallback_models": {}}', b"\xff"):
        note.write_bytes(damaged)
        ended = loopkernel("resume", "last", *MODEL, "--workspace", "place", lines=("read it",))
        assert ended.labelled("model") == ["It says so."]
    note.unlink()
    assert loopkernel("resume", "last", *MODEL, lines=("read it",)).labelled("result 14.1")[0].startswith("error")


def test_a_run_that_is_open_elsewhere_is_refused(loopkernel: CommandLine) -> None:
    script(writes("a"))
    with started("run", "go", *MODEL) as process:
        read_until(process, b"show? ")
        ended = loopkernel("resume", "last")
        assert ended.status == 2
        assert "open elsewhere" in ended.err
        assert loopkernel("log", "last").status == 0  # reading does no harm
        assert loopkernel("runs").status == 0


def test_a_run_that_is_over_says_so(loopkernel: CommandLine) -> None:
    Path("policy.json").write_text(policy_to_text(Policy(lifetime=Lifetime.TASK)))
    script(says("Done."))
    assert loopkernel("run", "go", *MODEL, "--policy", "policy.json").status == 0
    ended = loopkernel("resume", "last")
    assert ended.status == 0
    assert "is over: model_stop" in ended.out
    (result,) = loopkernel("resume", "last", "--json").objects()
    assert (result["type"], result["status"], result["outcome"], result["text"]) == ("result", 0, "model_stop", "Done.")
    assert loopkernel("runs").out.count("over: model_stop") == 1


@pytest.mark.parametrize("store", ["jsonl:logs", "sqlite:other.sqlite", None])
def test_every_store_gives_back_its_runs(loopkernel: CommandLine, store: str | None) -> None:
    where = ("--store", store) if store else ("--log", "one.jsonl")
    script(says("one"))
    begun = loopkernel("chat", *MODEL, *where, lines=("hello",))
    script(says("two"))
    name = "last" if store else "one.jsonl"
    again = where if store else ()
    assert loopkernel("resume", name, *again, lines=("and?",)).labelled("model") == ["two"]
    assert loopkernel("log", name, *again).labelled("user") == ["hello", "and?"]
    assert loopkernel("replay", name, *again).status == 0
    (go_on,) = begun.labelled("go on")
    assert (f"--store {store}" in go_on) if store else go_on.endswith("one.jsonl")


@pytest.mark.rule("RESUME-1")
def test_a_task_that_is_gone_on_with_is_held_against_its_whole_log(loopkernel: CommandLine) -> None:
    Path("policy.json").write_text(policy_to_text(Policy(lifetime=Lifetime.TASK)))
    script(writes("a"))
    with started("run", "go", *MODEL, "--policy", "policy.json") as process:
        read_until(process, b"show? ")
    script(says("Written."))
    ended = loopkernel("resume", "last", lines=("yes",))
    assert ended.status == 0
    assert "identical" in ended.labelled("replayed")[0]
    assert ended.labelled("outcome") == ["model_stop, after 2 requests and 1 tool run"]
    assert loopkernel("runs").out.count("over: model_stop") == 1


def test_a_model_that_a_log_names_and_that_is_not_here_is_replaced_by_the_first() -> None:
    asked: list[str] = []

    class Listening(Provider):
        @override
        async def stream(self, request: Request, operation: ModelOperation) -> AsyncIterator[ModelDelta]:
            asked.append(request.model)
            yield ModelCompleted(operation, StopReason.END_TURN)

    async def ask(model: str) -> list[ModelDelta]:
        provider = Models(ProviderByModel({"new": Listening()}), ("new",), ("scripted:x",)).instead_of(("old", "new"))
        request = Request(
            number=ModelOperation(1),
            reason=RequestReason.USER,
            model=model,
            instructions="",
            tools=(),
            thread=Thread(),
            max_output_tokens=None,
        )
        return [delta async for delta in provider.stream(request, ModelOperation(1))]

    assert [type(asyncio.run(ask(model))[-1]) for model in ("old", "new", "none")] == [
        ModelCompleted,
        ModelCompleted,
        ModelFailed,
    ]
    assert asked == ["new", "new"]

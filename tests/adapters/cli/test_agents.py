"""`loopkernel run --sub-agents`: sub-agents shown and asked about, compaction on request, hooks in a replay."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path

import pytest
from loopkernel.data.effects import Request
from loopkernel.data.ids import ModelOperation
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import ModelCall, ModelCompleted, ModelDelta, ModelText
from loopkernel.data.outside_deltas import HookBlock
from loopkernel.data.user_deltas import CancelCall
from loopkernel.data.words import HookPoint, StopReason
from loopkernel_adapters.cli import models
from loopkernel_adapters.cli import run as run_command
from loopkernel_adapters.cli.dialogue import Dialogue
from loopkernel_adapters.cli.line_input import LineInput
from loopkernel_adapters.cli.main import main
from loopkernel_adapters.cli.outcomes import ExitStatus
from loopkernel_adapters.cli.screen import Screen
from loopkernel_adapters.ports import Provider, ToolError
from loopkernel_adapters.providers.scripted import call_reply, text_reply
from loopkernel_adapters.stores.folders import JsonlFolder
from loopkernel_adapters.stores.jsonl import JsonlStore
from loopkernel_adapters.tools.delegation import delegate_tool
from typing_extensions import override

from tests.adapters.cli.answering import Answering
from tests.adapters.cli.cli_world import labelled, prepare, run, write_script
from tests.adapters.driver.children_world import PARENT_CALL, a_family, dispatches, one_tool_then, tools_with_agents
from tests.adapters.driver.driver_world import World, echo, one_turn, say
from tests.adapters.driver.failure_world import settled
from tests.adapters.driver.hooks_world import ScriptedHooks, gated, hooked_world

DELEGATE = {"tool": "delegate", "input": {"prompt": "write new.txt"}}
WRITE = {"tool": "write_file", "input": {"path": "new.txt", "text": "hello"}}
FAMILY: list[object] = [
    {"text": "I hand it over.", "calls": [DELEGATE]},
    {"text": "Writing.", "calls": [WRITE]},
    {"text": "It is written."},
    {"text": "All done."},
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a workspace and a script in it."""
    return prepare(tmp_path, monkeypatch)


def answered(monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    """Let these lines come by a pipe when the run asks."""
    monkeypatch.setattr(run_command, "standard_input", lambda: Answering(*lines))


# --- sub-agents ---


@pytest.mark.rule("CHILD-2")
def test_a_sub_agent_is_shown_indented_and_its_calls_are_asked_with_its_address(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_script(folder, FAMILY)
    answered(monkeypatch, 'edit {"path": "../x", "text": ""}', "yes")
    assert run("--sub-agents") == ExitStatus.NATURAL_END
    output, errors = capsys.readouterr()
    assert errors == ""
    assert (folder / "workspace" / "new.txt").read_text() == "hello"
    lines = output.splitlines()
    assert "agent 1.1   a sub-agent begins" in lines
    assert "  1.1> model Writing." in lines
    assert "ask 1.1/1.1 a call of a sub-agent waits for a person" in lines
    assert labelled(output, "sub-agent")[:2] == ["of call 1.1, for its call 1.1"] * 2
    assert "refused, since it is invalid" in output
    assert "agent 1.1   the sub-agent has ended: model_stop" in lines
    assert labelled(output, "result 1.1") == ["done: It is written."]
    (log,) = JsonlFolder(folder / "log.jsonl.agents").files()
    assert str(log) in labelled(output, "sub-agent")[-1]
    verdicts = labelled(output, "laws")
    assert len(verdicts) == 2
    assert all(verdict.endswith("all held") for verdict in verdicts)
    assert main(["replay", "log.jsonl"]) == ExitStatus.NATURAL_END
    assert main(["replay", str(log)]) == ExitStatus.NATURAL_END


def test_without_the_option_no_sub_agent_can_be_started(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_script(folder, [{"calls": [DELEGATE]}, {"text": "I see."}])
    assert run() == ExitStatus.NATURAL_END
    assert 'There is no tool named "delegate"' in labelled(capsys.readouterr().out, "result 1.1")[0]
    assert not (folder / "log.jsonl.agents").exists()


class DelegatesAndHangs(Provider):
    """Starts a sub-agent, which speaks, gets the process interrupted, and then waits for ever."""

    def __init__(self) -> None:
        self.asked = 0

    @override
    async def stream(self, request: Request, operation: ModelOperation) -> AsyncIterator[ModelDelta]:
        self.asked += 1
        if self.asked == 1:
            call = ModelCall(operation, provider_id="a", tool="delegate", input=Json.of({"prompt": "begin"}))
            for delta in (call, ModelCompleted(operation, StopReason.TOOL_USE)):
                yield delta
            return
        yield ModelText(operation, "I begin")
        signal.raise_signal(signal.SIGINT)
        await asyncio.Event().wait()


@pytest.mark.rule("CHILD-2")
def test_ctrl_c_cancels_the_sub_agents_too(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @contextmanager
    def hanging(wanted: str, base_url: str | None) -> Iterator[tuple[Provider, str]]:
        yield DelegatesAndHangs(), "patient"

    monkeypatch.setattr(models, "opened_model", hanging)
    assert run("--sub-agents") == ExitStatus.OTHER_END
    output = capsys.readouterr().out
    assert labelled(output, "outcome")[0].startswith("user_abort")
    assert labelled(output, "result 1.1")[0].startswith("cancelled (user:cancelled)")
    assert "  1.1> turn ended: user_abort" in output
    assert "identical" in labelled(output, "replayed")[0]


@pytest.mark.parametrize("late", [False, True])
def test_the_person_answers_a_call_of_a_sub_agent_in_time_or_too_late(late: bool) -> None:
    async def attend() -> None:
        world, _ = a_family(
            [dispatches(), *one_tool_then("so be it"), text_reply("b")], tools=tools_with_agents(asks=True, echo=echo)
        )
        reading, writing = os.pipe()
        shown = StringIO()
        # It sees no event, so it does not hear that the wait is over.
        dialogue = Dialogue(LineInput(reading), Screen(shown), [])
        async with await world.open() as driver:
            await driver.send(say("go"))
            await driver.rest()
            attending = asyncio.ensure_future(dialogue.attend(driver))
            while "show? " not in shown.getvalue():
                await asyncio.sleep(0)
            if late:
                await driver.send(CancelCall(PARENT_CALL))
                await driver.rest()
                await settled(driver)
            os.write(writing, b"yes\n")
            await attending
            await driver.rest()
            await dialogue.attend(driver)  # nothing waits: nothing happens
        os.close(reading)
        os.close(writing)
        assert [status for status, _ in world.results()] == ["cancelled" if late else "done"]
        assert ("too late: no sub-agent runs for call 1.1" in shown.getvalue()) == late

    asyncio.run(attend())


def test_the_tool_for_sub_agents_does_nothing_by_itself() -> None:
    with pytest.raises(ToolError, match="no sub-agent can be started here"):
        delegate_tool().function({}, None)  # type: ignore[arg-type]


# --- logs of sub-agents ---


@pytest.mark.parametrize("session_id", ["s/1/1.1", "..", "a b", "é" * 20, "%2F"])
def test_each_session_has_a_file_of_its_own_in_the_folder(tmp_path: Path, session_id: str) -> None:
    logs = JsonlFolder(tmp_path / "agents")
    assert logs.files() == ()
    logs(session_id).close()
    assert logs.files() == (logs.file_of(session_id),)
    assert logs.file_of(session_id).parent == tmp_path / "agents"
    assert (tmp_path / "agents").stat().st_mode & 0o077 == 0
    assert logs.file_of("%252F") != logs.file_of(session_id)


# --- compaction on request ---


@pytest.mark.rule("COMPACT-1")
def test_a_compaction_that_is_asked_for_is_made_before_the_next_request(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(8):
        (folder / "workspace" / f"note{number}.txt").write_text(f"note {number}\n")
    reads = [{"calls": [{"tool": "read_file", "input": {"path": f"note{number}.txt"}}]} for number in range(8)]
    write_script(folder, [*reads, {"calls": [WRITE]}, {"text": "the gist"}, {"text": "Done."}])
    answered(monkeypatch, "/compact", "yes")
    assert run() == ExitStatus.NATURAL_END
    output = capsys.readouterr().out
    assert "the conversation is made shorter before the next request" in output
    told = labelled(output, "compact")
    assert told[0] == "the conversation is made shorter"
    assert "the gist" in told[1]
    assert told[2] == "done"
    assert labelled(output, "model") == ["Done."]
    assert "identical" in labelled(output, "replayed")[0]
    assert main(["replay", "log.jsonl"]) == ExitStatus.NATURAL_END
    assert labelled(capsys.readouterr().out, "compact") == told


# --- hooks ---


@pytest.mark.rule("HOOK-1")
def test_a_replay_tells_which_hooks_were_asked(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hooks = ScriptedHooks(lint=[HookBlock("no")])
    listed = (gated(HookPoint.BEFORE_TOOL, "lint"), gated(HookPoint.STOP, "tests"))
    world: World = hooked_world(hooks, *listed, replies=[call_reply(("echo", Json.of({}))), text_reply("done")])
    world.store = JsonlStore(folder / "hooks.jsonl")

    async def whole_turn() -> None:
        await one_turn(world)

    asyncio.run(whole_turn())
    assert main(["replay", "hooks.jsonl"]) == ExitStatus.NATURAL_END
    assert labelled(capsys.readouterr().out, "hook") == [
        "before_tool: lint is asked about call 1.1",
        "stop: tests is asked",
    ]

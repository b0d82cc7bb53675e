"""`loopkernel acp` as editors start it: a process of its own, spoken to by the SDK's own client; and killed."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from acp import spawn_agent_process
from acp.client.connection import ClientSideConnection
from acp.schema import PermissionOption, RequestPermissionResponse, ToolCallUpdate

from tests.adapters.acp.editor import NO, Editor, choosing, refusal, text

COMMAND = [sys.executable, "-m", "loopkernel_adapters", "acp"]


def shell(command: str) -> dict[str, object]:
    return {"text": "I do it.", "calls": [{"tool": "shell", "input": {"command": command}}]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "notes.txt").write_text("buy milk\n")
    return tmp_path


@asynccontextmanager
async def started(
    folder: Path, editor: Editor, script: Sequence[object], *more: str
) -> AsyncIterator[tuple[ClientSideConnection, asyncio.subprocess.Process]]:
    """An agent that the editor has started in that folder, whose model goes by the script."""
    path = folder / "script.json"
    path.write_text(json.dumps(script))
    arguments = [*COMMAND[1:], "--model", f"scripted:{path}", *more]
    spawned = spawn_agent_process(
        editor,  # type: ignore[arg-type]  # an editor need not do all that the protocol knows
        COMMAND[0],
        *arguments,
        cwd=folder,
        env=dict(os.environ),
        use_unstable_protocol=True,
    )
    async with spawned as (agent, process):
        await agent.initialize(protocol_version=1)
        yield agent, process


def test_a_session_goes_on_after_a_kill_in_a_tool_call(folder: Path) -> None:
    """The call that was killed is not run again by itself, and the conversation is there."""
    work = folder / "work"
    os.mkfifo(work / "gate")

    async def play() -> None:
        first = Editor()
        async with started(folder, first, [shell("echo once >> begun.txt; cat gate")]) as (agent, process):
            session = (await agent.new_session(cwd=str(work), mcp_servers=[])).session_id
            prompt = asyncio.ensure_future(agent.prompt(session_id=session, prompt=text("Do it.")))
            await first.until(lambda: "in_progress" in first.statuses())
            with open(work / "gate", "w"):  # which opens when the command reads it
                process.kill()
                await process.wait()
            with pytest.raises(ConnectionError):
                await prompt
        second = Editor()
        async with started(folder, second, [{"text": "Here again."}, {"text": "Yes."}]) as (agent, _):
            (listed,) = (await agent.list_sessions()).sessions
            assert (listed.session_id, listed.cwd) == (session, str(work))
            await agent.load_session(session_id=session, cwd=str(work), mcp_servers=[])
            assert second.texts() == "I do it."
            assert second.statuses() == ["pending"]
            stop = (await agent.prompt(session_id=session, prompt=text("Are you there?"))).stop_reason
            assert (stop, second.texts()) == ("end_turn", "I do it.Here again.Yes.")
            assert second.statuses() == ["pending", "failed"]
        assert second.asked == []
        assert (work / "begun.txt").read_text() == "once\n"

    asyncio.run(play())


def test_a_question_that_was_open_at_a_kill_is_asked_again(folder: Path) -> None:
    work = folder / "work"

    async def play() -> None:
        never = asyncio.Event()

        async def silent(call: ToolCallUpdate, options: list[PermissionOption]) -> RequestPermissionResponse:
            await never.wait()
            return NO

        first = Editor(silent)
        async with started(folder, first, [shell("echo paid >> paid.txt")]) as (agent, process):
            session = (await agent.new_session(cwd=str(work), mcp_servers=[])).session_id
            prompt = asyncio.ensure_future(agent.prompt(session_id=session, prompt=text("Pay.")))
            await first.until(lambda: bool(first.asked))
            process.kill()
            await process.wait()
            with pytest.raises(ConnectionError):
                await prompt
        for answer, paid in (("reject_once", False), ("allow_once", True)):
            second = Editor(choosing(answer))
            async with started(folder, second, [{"text": "Well."}] * 2) as (agent, _):
                await agent.load_session(session_id=session, cwd=str(work), mcp_servers=[])
                assert not (work / "paid.txt").exists()
                if paid:
                    break
                await agent.prompt(session_id=session, prompt=text("Go on."))
            assert [call.raw_input for call, _ in second.asked] == [{"command": "echo paid >> paid.txt"}]
            assert (work / "paid.txt").exists() is paid

    asyncio.run(play())


def test_the_output_is_the_protocols_alone_and_the_end_of_the_input_ends_it(folder: Path) -> None:
    (folder / "script.json").write_text('[{"text": "Hello"}]')
    request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}
    odd = [
        "no JSON",
        "[]",
        '"a"',
        "{}",
        '{"id": [1], "result": {}}',
        "[" * 9_999,
        '{"jsonrpc": "2.0", "id": 3, "method": "session/new", "params": {"cwd": 7}}',
    ]
    lines = "".join(f"{line}\n" for line in [*odd, json.dumps(request)])
    ended = subprocess.run(
        [*COMMAND, "--model", "scripted:script.json"], input=lines, cwd=folder, capture_output=True, text=True
    )
    answers = {line["id"]: line for line in map(json.loads, ended.stdout.splitlines())}
    assert ended.returncode == 0
    assert answers[1]["result"]["protocolVersion"] == 1
    assert "error" in answers[3]
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--model", "scripted:missing.json"], "cannot be read"),
        (["--model", "nobody:x"], "nobody"),
        (["--store", "sqlite:missing/folder/runs.sqlite"], "--store"),
        (["--policy", "no-such-policy"], "there is no policy"),
    ],
)
def test_what_is_wrong_with_the_options_is_said_before_anything_is_served(
    arguments: list[str], told: str, folder: Path
) -> None:
    (folder / "script.json").write_text('[{"text": "Hello"}]')
    given = arguments if "--model" in arguments else ["--model", "scripted:script.json", *arguments]
    ended = subprocess.run([*COMMAND, *given], input="", cwd=folder, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert told in ended.stderr and "Traceback" not in ended.stderr


def test_sessions_stay_in_the_folder_that_was_named(folder: Path) -> None:
    async def play() -> None:
        async with started(folder, Editor(), [], "--workspace", str(folder / "work")) as (agent, _):
            await agent.new_session(cwd=str(folder / "work"), mcp_servers=[])
            (folder / "work" / "way-out").symlink_to(folder)
            for outside in (folder, folder / "work" / "way-out", folder / "work" / ".."):
                assert "does not lie in" in str(await refusal(agent.new_session(cwd=str(outside), mcp_servers=[])))

    asyncio.run(play())

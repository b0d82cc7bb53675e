"""Files and commands through the editor: what is not saved there counts; what it does not offer is done here."""

import asyncio
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from acp import RequestError
from acp.schema import (
    ClientCapabilities,
    CreateTerminalResponse,
    FileSystemCapabilities,
    KillTerminalResponse,
    ReadTextFileResponse,
    ReleaseTerminalResponse,
    TerminalExitStatus,
    TerminalOutputResponse,
    WaitForTerminalExitResponse,
    WriteTextFileResponse,
)
from attrs import evolve
from loopkernel.data.blocks import text_of
from loopkernel.data.json_text import Json, JsonValue
from loopkernel.data.messages import ResultMessage
from loopkernel.replaying import replay
from loopkernel_adapters.acp.sessions import Surroundings
from loopkernel_adapters.ports import Tools
from loopkernel_adapters.providers.scripted import call_reply
from loopkernel_adapters.tools.coding import coding_tools
from loopkernel_adapters.tools.files import Workspace
from loopkernel_adapters.tools.registry import Registry

from tests.adapters.acp.editor import Editor, connected, text
from tests.adapters.acp.world import DONE, World

ALL = ClientCapabilities(fs=FileSystemCapabilities(read_text_file=True, write_text_file=True), terminal=True)


class Buffers(Editor):
    """An editor with open buffers that are not saved, and terminals whose commands it runs to their end."""

    def __init__(self) -> None:
        super().__init__()
        self.buffers: dict[str, str] = {}
        self.commands: list[list[str]] = []
        self.released: list[str] = []
        self.output = ""

    # Any: a request may carry fields of any kind beside those of the protocol

    async def read_text_file(self, session_id: str, path: str, **_: Any) -> ReadTextFileResponse:
        """Only what is open."""
        if path not in self.buffers:
            raise RequestError(-32002, "it is not open")
        return ReadTextFileResponse(content=self.buffers[path])

    async def write_text_file(self, session_id: str, path: str, content: str, **_: Any) -> WriteTextFileResponse:
        """Into the buffer."""
        self.buffers[path] = content
        return WriteTextFileResponse()

    async def create_terminal(
        self, session_id: str, command: str, args: list[str], cwd: str, **_: Any
    ) -> CreateTerminalResponse:
        """Run it."""
        self.commands.append([command, *args])
        ended = subprocess.run([command, *args], cwd=cwd, capture_output=True, text=True, check=False)
        self.output = ended.stdout
        self.status = ended.returncode
        return CreateTerminalResponse(terminal_id="t1")

    async def wait_for_terminal_exit(self, session_id: str, terminal_id: str, **_: Any) -> WaitForTerminalExitResponse:
        """It has ended."""
        return WaitForTerminalExitResponse(exit_code=self.status)

    async def terminal_output(self, session_id: str, terminal_id: str, **_: Any) -> TerminalOutputResponse:
        """All of it."""
        status = TerminalExitStatus(exit_code=self.status)
        return TerminalOutputResponse(output=self.output, truncated=False, exit_status=status)

    async def kill_terminal(self, session_id: str, terminal_id: str, **_: Any) -> KillTerminalResponse:
        """It has ended."""
        return KillTerminalResponse()

    async def release_terminal(self, session_id: str, terminal_id: str, **_: Any) -> ReleaseTerminalResponse:
        """It is not needed any more."""
        self.released.append(terminal_id)
        return ReleaseTerminalResponse()


@contextmanager
def _tools(folder: Path) -> Iterator[Tools]:
    with Workspace(folder) as workspace:
        yield Registry(coding_tools(workspace))


def played(folder: Path, editor: Editor, tool: str, given: dict[str, JsonValue], offers: ClientCapabilities) -> str:
    """What the call of the tool gives."""
    world = World([call_reply((tool, Json.of(given))), DONE])
    surroundings: Surroundings = evolve(world.surroundings(), tools=_tools)

    async def play() -> str:
        async with connected(surroundings, editor) as agent:
            await agent.initialize(protocol_version=1, client_capabilities=offers)
            session = (await agent.new_session(cwd=str(folder), mcp_servers=[])).session_id
            await agent.prompt(session_id=session, prompt=text("go"))
            return session

    kept = replay(world.place.read(asyncio.run(play()))).session
    assert kept is not None
    return "".join(
        text_of(each.content)
        for message in kept.thread
        if isinstance(message, ResultMessage)
        for each in message.results
    )


@pytest.fixture
def editor(tmp_path: Path) -> Buffers:
    (tmp_path / "notes.txt").write_text("saved\n")
    found = Buffers()
    found.buffers[str(tmp_path / "notes.txt")] = "not saved\nsecond\n"
    return found


@pytest.mark.parametrize(
    ("tool", "given", "told", "buffer"),
    [
        ("read_file", {"path": "notes.txt"}, "not saved\nsecond\n", "not saved\nsecond\n"),
        ("read_file", {"path": "notes.txt", "first_line": 2, "lines": 1}, "second\n", "not saved\nsecond\n"),
        ("write_file", {"path": "notes.txt", "text": "new\n"}, "in the editor", "new\n"),
        (
            "edit_file",
            {"path": "notes.txt", "old_text": "not saved", "new_text": "first"},
            "in the editor",
            "first\nsecond\n",
        ),
    ],
)
def test_what_is_open_in_the_editor_is_read_and_changed(
    tool: str, given: dict[str, JsonValue], told: str, buffer: str, editor: Buffers, tmp_path: Path
) -> None:
    assert told in played(tmp_path, editor, tool, given, ALL)
    assert list(editor.buffers.values()) == [buffer]
    assert (tmp_path / "notes.txt").read_text() == "saved\n"


def test_what_the_editor_does_not_offer_or_do_is_done_here(editor: Buffers, tmp_path: Path) -> None:
    nothing = ClientCapabilities()
    assert played(tmp_path, editor, "read_file", {"path": "notes.txt"}, nothing) == "saved\n"
    editor.buffers.clear()
    assert played(tmp_path, editor, "read_file", {"path": "notes.txt"}, ALL) == "saved\n"
    played(tmp_path, editor, "write_file", {"path": "new/file.txt", "text": "new\n"}, ALL)
    assert (tmp_path / "new" / "file.txt").read_text() == "new\n"
    assert "hello" in played(tmp_path, editor, "shell", {"command": "echo hello"}, nothing)
    assert editor.commands == []


def test_a_path_out_of_the_folder_reaches_no_editor(editor: Buffers, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "link.txt").symlink_to(tmp_path / "notes.txt")
    editor.buffers[str(work / "link.txt")] = editor.buffers[str(work / "../notes.txt")] = "not for tools"
    for path in ("link.txt", "../notes.txt", str(tmp_path / "notes.txt")):
        assert "not for tools" not in played(work, editor, "read_file", {"path": path}, ALL)
        played(work, editor, "write_file", {"path": path, "text": "changed"}, ALL)
    assert "changed" not in editor.buffers.values()
    assert (tmp_path / "notes.txt").read_text() == "saved\n"


def test_a_command_runs_in_a_terminal_that_is_shown_without_keys(
    editor: Buffers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "abc-123-def-456")
    told = played(tmp_path, editor, "shell", {"command": "cat notes.txt; env; exit 3"}, ALL)
    assert told.startswith("saved\n") and "SOME_API_KEY" not in told and "exit status 3" in told
    assert editor.released == ["t1"]
    shown = [update for update in editor.updates if "terminal" in update.model_dump_json()]
    assert [getattr(update, "tool_call_id", None) for update in shown] == ["1.1"]
    assert len(editor.asked) == 1

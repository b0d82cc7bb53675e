"""Files and commands through the editor, where it offers them: what is open there and not saved is read and changed.

What a call touches, and whether it may run, is decided as for the tools whose place this takes, and a path is looked at
as they do. What the editor does not do, as with an image, or a file that is new, they do.
"""

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from acp import Client, RequestError
from acp.schema import EnvVariable
from attrs import frozen
from loopkernel.data.blocks import TextBlock
from loopkernel.data.effects import CheckCall, StartTool
from loopkernel.data.json_text import JsonValue, safe_text
from loopkernel.data.tools import Tool, ToolOutput, Verdict
from loopkernel.later_typing import override
from loopkernel.loop.algorithms.references import has_references

from loopkernel_adapters.bounded_text import beginning
from loopkernel_adapters.image_types import image_type
from loopkernel_adapters.ports import RunContext, ToolError, Tools
from loopkernel_adapters.tools.editing import replaced
from loopkernel_adapters.tools.files import DEFAULT_READ_BYTES, MOST_WRITTEN, Workspace, read_at_most
from loopkernel_adapters.tools.paths import shown_path, shown_size
from loopkernel_adapters.tools.reading import LOOKED_AT, is_binary
from loopkernel_adapters.tools.shell import (
    DEFAULT_TIMEOUT_MS,
    HEAD_BYTES,
    TAIL_BYTES,
    clean_environment,
    exit_words,
    shell_program,
)


@frozen(kw_only=True)
class Offered:
    """What the editor offers to do."""

    reads: bool = False
    writes: bool = False
    terminals: bool = False


class NotThroughEditor(Exception):
    """The editor cannot do it: the tool itself is to."""


class EditorTools(Tools):
    """Tools of a folder, of which the editor does what it can. `shown` tells it which terminal belongs to a run."""

    def __init__(
        self,
        tools: Tools,
        workspace: Workspace,
        folder: Path,
        client: Client,
        session: str,
        offered: Offered,
        shown: Callable[[StartTool, str], None],
    ) -> None:
        self._tools = tools
        self._workspace = workspace
        self._folder = folder
        self._client = client
        self._session = session
        self._offered = offered
        self._shown = shown

    @override
    def offered(self) -> tuple[Tool, ...]:
        return self._tools.offered()

    @override
    def check(self, command: CheckCall) -> Verdict:
        return self._tools.check(command)

    @override
    async def run(self, command: StartTool, context: RunContext) -> ToolOutput:
        value = command.input.value()
        given = value if isinstance(value, dict) and not has_references(command.input) else {}
        offered = self._offered
        try:
            match command.tool:
                case "read_file" if offered.reads:
                    return _output(await self._read(given))
                case "write_file" if offered.writes:
                    return _output(await self._write(str(given.get("path")), str(given.get("text"))))
                case "edit_file" if offered.reads and offered.writes:
                    return _output(await self._edit(given))
                case "shell" if offered.terminals and given:
                    return _output(await self._command(command, given))
        except NotThroughEditor:
            pass
        return await self._tools.run(command, context)

    # --- files ---

    async def _read(self, given: Mapping[str, JsonValue]) -> str:
        path, first, most = str(given.get("path")), given.get("first_line", 1), given.get("lines")
        text = await self._content(path)
        lines = text.splitlines(keepends=True)
        begin = (first if isinstance(first, int) else 1) - 1
        end = begin + most if isinstance(most, int) else len(lines)
        if begin and begin >= len(lines):
            raise ToolError(f"{shown_path(path)} has no line {begin + 1}; it has {len(lines)}")
        note = f"\n(This is the beginning of {len(text)} characters. Read some lines after the others.)"
        return beginning("".join(lines[begin:end]), DEFAULT_READ_BYTES, note)

    async def _write(self, path: str, text: str) -> str:
        size = len(text.encode())
        if size > MOST_WRITTEN:
            raise ToolError(f"{size} bytes are too many for one file; write at most {MOST_WRITTEN}")
        self._demand_text(path)
        try:
            await self._client.write_text_file(session_id=self._session, path=str(self._folder / path), content=text)
        except RequestError as error:
            raise ToolError(f"the editor did not write {shown_path(path)}: {error}; look at it before again") from error
        return f"Replaced {shown_path(path)} in the editor, now {shown_size(size)}."

    async def _edit(self, given: Mapping[str, JsonValue]) -> str:
        path, old, new = str(given.get("path")), str(given.get("old_text")), str(given.get("new_text"))
        content = (await self._content(path)).encode()
        changed, count = replaced(content, path, old, new, every=given.get("replace_all") is True)
        await self._write(path, changed.decode())
        places = "place" if count == 1 else "places"
        return f"Replaced {count} {places} of {shown_path(path)} in the editor, now {shown_size(len(changed))}."

    async def _content(self, path: str) -> str:
        self._demand_text(path)
        try:
            read = await self._client.read_text_file(session_id=self._session, path=str(self._folder / path))
            return safe_text(read.content)
        except (RequestError, ValueError) as error:
            raise NotThroughEditor from error

    def _demand_text(self, path: str) -> None:
        """Raises NotThroughEditor where the path is not that of a text of the folder, by no link."""
        try:
            with self._workspace.opened_file(path) as descriptor:
                start = read_at_most(descriptor, LOOKED_AT)
        except ToolError as error:
            raise NotThroughEditor from error
        if image_type(start) is not None or is_binary(start):
            raise NotThroughEditor

    # --- commands ---

    async def _command(self, command: StartTool, given: Mapping[str, JsonValue]) -> str:
        """A command in a terminal of the editor, without what its environment may hold of keys."""
        timeout = given.get("timeout_ms", DEFAULT_TIMEOUT_MS)
        seconds = (timeout if isinstance(timeout, int | float) else DEFAULT_TIMEOUT_MS) / 1_000
        variables = [f"{name}={value}" for name, value in clean_environment(os.environ).items()]
        try:
            terminal = await self._client.create_terminal(
                session_id=self._session,
                command="/usr/bin/env",
                args=["-i", *variables, shell_program(), "-c", str(given["command"])],
                env=list[EnvVariable](),
                cwd=str(self._folder),
                output_byte_limit=HEAD_BYTES + TAIL_BYTES,
            )
        except RequestError as error:
            raise NotThroughEditor from error
        self._shown(command, terminal.terminal_id)
        names = {"session_id": self._session, "terminal_id": terminal.terminal_id}
        try:
            with _told():
                try:
                    async with asyncio.timeout(seconds):
                        await self._client.wait_for_terminal_exit(**names)
                except TimeoutError:
                    await self._client.kill_terminal(**names)
                    said = await self._client.terminal_output(**names)
                    note = f"The command was stopped after {int(seconds * 1_000)} ms; what it had done is done."
                    raise ToolError(f"{said.output}\n{note}") from None
                said = await self._client.terminal_output(**names)
        finally:
            # releasing a terminal ends what still runs in it
            await asyncio.shield(self._client.release_terminal(**names))
        cut = "(The beginning was cut.)\n" if said.truncated else ""
        ended = said.exit_status
        if ended is None or ended.signal is not None or ended.exit_code is None:
            why = exit_words(None) if ended is None or ended.signal is None else f"ended by {ended.signal}"
            return f"{cut}{said.output}\n({why})"
        failed = "" if ended.exit_code == 0 else f"\n({exit_words(ended.exit_code)})"
        return f"{cut}{said.output}{failed}" or "(no output)"


@contextmanager
def _told() -> Iterator[None]:
    """What goes wrong with a terminal, for the model."""
    try:
        yield
    except RequestError as error:
        raise ToolError(f"the terminal of the editor failed: {error}; what the command had done is done") from error


def _output(text: str) -> ToolOutput:
    return ToolOutput(content=(TextBlock(text),))

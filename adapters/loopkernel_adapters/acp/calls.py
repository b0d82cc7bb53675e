"""Calls of tools as an editor shows them: what kind of call it is, which files it is about, and what it would change.

All of it is told of the input that runs. It is a view: what is asked about, and what runs, is the input itself, which
goes along exactly as it is.
"""

import json
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import assert_never

from acp.schema import (
    ContentToolCallContent,
    FileEditToolCallContent,
    TerminalToolCallContent,
    ToolCallLocation,
    ToolCallProgress,
    ToolCallStart,
    ToolCallStatus,
    ToolKind,
)
from attrs import frozen
from loopkernel.data.blocks import RawInput, TextBlock, ToolResult
from loopkernel.data.ids import CallId
from loopkernel.data.json_text import Json, JsonValue
from loopkernel.data.words import CallStatus

from loopkernel_adapters.acp.content import shown
from loopkernel_adapters.bounded_text import one_line

CallContent = ContentToolCallContent | FileEditToolCallContent | TerminalToolCallContent

OURS = "loopkernel"  # under which name the protocol carries what it has no field for
LONGEST_TITLE = 120  # characters
KINDS: Mapping[str, ToolKind] = {
    "read_file": "read",
    "list_files": "search",
    "glob": "search",
    "grep": "search",
    "write_file": "edit",
    "edit_file": "edit",
    "shell": "execute",
    "delegate": "think",
}
_TELLING = ("path", "command", "pattern", "prompt")  # fields whose value says in a few words what a call is about


@frozen(kw_only=True)
class ShownCall:
    """A call as it is shown. `address` is its id, behind those of the calls whose sub-agents it was made in."""

    address: tuple[CallId, ...]
    tool: str
    input: Json | RawInput | None = None  # None: it is not known yet

    @property
    def id(self) -> str:
        """How the protocol names it: the same after a restart."""
        return "/".join(map(str, self.address))


def kind_of(tool: str) -> ToolKind:
    """The kind of a tool, which gives it a picture."""
    return KINDS.get(tool, "other")


def title_of(call: ShownCall) -> str:
    """What it does, in a line; never all that it does."""
    fields = _fields(call.input)
    about = next((fields[name] for name in _TELLING if isinstance(fields.get(name), str)), "")
    within = "sub-agent: " if len(call.address) > 1 else ""
    return one_line(f"{within}{call.tool} {about}", LONGEST_TITLE)


def locations_of(call: ShownCall, folder: Path) -> list[ToolCallLocation]:
    """The file that it is about, as an absolute path, and the line where it begins."""
    fields = _fields(call.input)
    path, line = fields.get("path"), fields.get("first_line")
    if call.tool not in KINDS or not isinstance(path, str) or not _is_within(path):
        return []
    first = line if isinstance(line, int) and line > 0 else None
    return [ToolCallLocation(path=str(folder / path), line=first)]


def diff_of(call: ShownCall, folder: Path, before: str | None = None) -> list[CallContent]:
    """What it would change in a file; `before` is what the file holds now, where that is known and all is replaced."""
    fields = _fields(call.input)
    path, old, new = fields.get("path"), fields.get("old_text"), fields.get("new_text")
    if call.tool == "write_file":
        old, new = before, fields.get("text")
    elif call.tool != "edit_file" or not isinstance(old, str):
        return []
    if not isinstance(path, str) or not _is_within(path) or not isinstance(new, str):
        return []
    old_text = old if isinstance(old, str) else None
    return [FileEditToolCallContent(type="diff", path=str(folder / path), old_text=old_text, new_text=new)]


def exact_of(call: ShownCall) -> list[CallContent]:
    """The input, to the letter, in a fence that nothing in it can close."""
    given = "" if call.input is None else call.input.text
    if isinstance(call.input, Json):
        given = json.dumps(call.input.value(), ensure_ascii=False, indent=2)
        given = "".join(each if each.isprintable() or each == "\n" else _escaped(each) for each in given)
    fence = "```"
    while fence in given:
        fence += "`"
    return [_text(f"{call.tool}\n{fence}\n{given}\n{fence}")]


def _escaped(character: str) -> str:
    """A character that nobody sees, or that turns the direction of what follows, as JSON writes it."""
    return json.dumps(character)[1:-1]


# --- as updates ------------------------------------------------------------------------------------------


def started(call: ShownCall, folder: Path) -> ToolCallStart:
    """The call as it is first told."""
    return ToolCallStart(
        session_update="tool_call",
        tool_call_id=call.id,
        title=title_of(call),
        kind=kind_of(call.tool),
        status="pending",
        locations=locations_of(call, folder) or None,
        content=diff_of(call, folder) or None,
        raw_input=raw_input(call),
        field_meta={OURS: {"name": call.tool}},
    )


def known(call: ShownCall, folder: Path) -> ToolCallProgress:
    """The call, now that its input is known."""
    return ToolCallProgress(
        session_update="tool_call_update",
        tool_call_id=call.id,
        title=title_of(call),
        locations=locations_of(call, folder) or None,
        content=diff_of(call, folder) or None,
        raw_input=raw_input(call),
    )


def under_way(address: tuple[CallId, ...], text: str | None = None) -> ToolCallProgress:
    """It runs; `text` is what it says of how far it is."""
    return ToolCallProgress(
        session_update="tool_call_update",
        tool_call_id="/".join(map(str, address)),
        status="in_progress",
        content=None if text is None else [_text(text)],
    )


def in_terminal(call: CallId, terminal: str) -> ToolCallProgress:
    """It runs in that terminal of the editor."""
    content = TerminalToolCallContent(type="terminal", terminal_id=terminal)
    return ToolCallProgress(session_update="tool_call_update", tool_call_id=str(call), content=[content])


def ended(call: ShownCall, result: ToolResult, folder: Path) -> ToolCallProgress:
    """It is answered, whether it ran or not."""
    content: list[CallContent] = [*diff_of(call, folder)] if result.ran else []
    content += [ContentToolCallContent(type="content", content=shown(block)) for block in result.content]
    told: dict[str, JsonValue] = {"name": result.tool, "status": result.status.value, "ran": result.ran}
    if result.reason is not None:
        told["reason"] = result.reason.value
    return ToolCallProgress(
        session_update="tool_call_update",
        tool_call_id=call.id,
        status=status_of(result.status),
        content=content,
        field_meta={OURS: told},
    )


def status_of(status: CallStatus) -> ToolCallStatus:
    """How the protocol says where a call stands: it knows no more ways to end than two."""
    match status:
        case CallStatus.QUEUED | CallStatus.BLOCKED_ON_USER:
            return "pending"
        case CallStatus.IN_PROGRESS:
            return "in_progress"
        case CallStatus.DONE:
            return "completed"
        case (
            CallStatus.CANCELLED | CallStatus.REJECTED_BY_USER | CallStatus.ERROR | CallStatus.UNKNOWN | CallStatus.LOST
        ):
            return "failed"
        case _:
            assert_never(status)


def raw_input(call: ShownCall) -> JsonValue:
    """The input as it is; arguments that do not parse, as the text that they are."""
    if isinstance(call.input, RawInput):
        return call.input.text
    return None if call.input is None else call.input.value()


def _text(text: str) -> ContentToolCallContent:
    return ContentToolCallContent(type="content", content=shown(TextBlock(text)))


def _fields(given: Json | RawInput | None) -> dict[str, JsonValue]:
    value = given.value() if isinstance(given, Json) else None
    return value if isinstance(value, dict) else {}


def _is_within(path: str) -> bool:
    """Whether the path, as the model wrote it, is one below the folder, so that it may be shown as one."""
    parts = PurePosixPath(path)
    return not parts.is_absolute() and ".." not in parts.parts and "\0" not in path

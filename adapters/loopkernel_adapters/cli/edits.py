"""What a call of a tool that edits files would change, as lines of a diff."""

import difflib
from collections.abc import Iterator

from loopkernel.data.blocks import ToolCall
from loopkernel.data.json_text import Json, JsonValue
from loopkernel.data.messages import AssistantMessage

from loopkernel_adapters.cli.screen import Screen
from loopkernel_adapters.cli.shown_text import Marked

MOST_LINES = 40  # of a diff that is shown
LONGEST = 300  # columns of a line
DEEPEST = 40  # blanks of an indentation that are shown; the others are told as a number


def show_changes(screen: Screen, message: AssistantMessage) -> None:
    """Show what the calls of a reply would change in files."""
    for block in message.content:
        if isinstance(block, ToolCall) and (lines := changed_by(block)):
            screen.changes(lines)


def changed_by(call: ToolCall) -> list[str]:
    """The lines, each with its sign, and every odd character marked; none where the call edits no file as ours do."""
    given = call.input.value() if isinstance(call.input, Json) else None
    lines = list(_changes(call.tool, given)) if isinstance(given, dict) else []
    if len(lines) > MOST_LINES:
        lines = [*lines[:MOST_LINES], f"... {len(lines) - MOST_LINES} more lines"]
    return [_harmless(line) for line in lines]


def _changes(tool: str, given: dict[str, JsonValue]) -> Iterator[str]:
    before, after = given.get("old_text"), given.get("new_text")
    if tool == "edit_file" and isinstance(before, str) and isinstance(after, str):
        yield from list(difflib.unified_diff(before.splitlines(), after.splitlines(), n=2, lineterm=""))[2:]
    elif tool == "write_file" and isinstance(text := given.get("text"), str):
        yield from (f"+{line}" for line in text.splitlines())


def _harmless(line: str) -> str:
    """The line with what shows nothing, turns the writing round or looks like something else marked."""
    sign, rest = line[:1], line[1:]
    blanks = len(rest) - len(rest.lstrip(" "))  # an indentation is not odd
    more = f"[{blanks - DEEPEST} more blanks]" if blanks > DEEPEST else ""
    shown = "".join(piece.text for piece in Marked(rest[blanks:]).pieces(LONGEST))
    return sign + rest[: min(blanks, DEEPEST)] + more + shown

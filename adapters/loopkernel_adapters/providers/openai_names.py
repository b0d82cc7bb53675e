"""Names and ids that the API takes: of tools, back and forth, and of calls, unique within one request."""

import re
from collections.abc import Iterable

from loopkernel.data.blocks import ToolCall
from loopkernel.data.tools import Tool
from loopkernel.loop.algorithms.projection import safe_tool_name

_LONGEST_NAME = 64
_USABLE_ID = re.compile(r"[!-~]+")  # printable, without blanks; some servers want their own form back


class ToolNames:
    """What the offered tools are called on the wire: safe, and no two alike."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        offered = {tool.name: tool for tool in reversed(tuple(tools))}  # of a name that stands twice, the first
        self._own: dict[str, str] = {name: name for name in offered if safe_tool_name(name) == name}
        for name in reversed(offered):
            if name not in self._own:
                self._own[_free_name(safe_tool_name(name), self._own)] = name
        wire = {own: name for name, own in self._own.items()}
        self.offered: tuple[tuple[str, Tool], ...] = tuple((wire[name], offered[name]) for name in reversed(offered))
        self._wire = wire

    def on_the_wire(self, name: str | None) -> str | None:
        """What an offered tool is called there; None for any other."""
        return None if name is None else self._wire.get(name)

    def own(self, wire_name: str) -> str:
        """The tool that the model means. What nobody offered stays as it is: the kernel tells the model so."""
        return self._own.get(wire_name, wire_name)


def _free_name(name: str, taken: Iterable[str]) -> str:
    free, attempt = name, 1
    while free in taken:
        attempt += 1
        suffix = f"_{attempt}"
        free = name[: _LONGEST_NAME - len(suffix)] + suffix
    return free


class CallIds:
    """Ids for the calls of one request, given out in the order of the thread.

    A provider's own id is kept where it can be: some servers use an id again, leave it out, or make it too long
    (rule TOOL-14). An id depends only on the calls before, so a thread that grows keeps those that it had.
    """

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._used: set[str] = set()

    def of(self, call: ToolCall) -> str:
        """The id of the next call."""
        wanted = call.provider_id
        if wanted in self._used or len(wanted) > self._longest or _USABLE_ID.fullmatch(wanted) is None:
            number = len(self._used) + 1
            while (wanted := f"call{number:05d}") in self._used:  # nine letters and digits, which all servers take
                number += 1
        self._used.add(wanted)
        return wanted

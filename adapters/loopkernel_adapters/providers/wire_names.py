"""Names that the APIs of models take for tools, back and forth: safe, and no two alike within one request."""

from collections.abc import Iterable

from loopkernel.data.tools import Tool
from loopkernel.loop.algorithms.projection import safe_tool_name

_LONGEST_NAME = 64


class ToolNames:
    """What the offered tools are called on the wire: safe, and no two alike."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        offered: dict[str, Tool] = {}
        for tool in tools:
            offered.setdefault(tool.name, tool)  # of a name that stands twice, the first
        self._own = {name: name for name in offered if safe_tool_name(name) == name}
        for name in offered:
            if name not in self._own:
                self._own[_free_name(safe_tool_name(name), self._own)] = name
        self._wire = {own: wire for wire, own in self._own.items()}
        self.offered = tuple((self._wire[name], tool) for name, tool in offered.items())

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

"""Several tools ports as one: each call goes to the one that offers its tool."""

from collections.abc import Iterable

from loopkernel.data.effects import CheckCall, StartTool
from loopkernel.data.tools import Tool, ToolOutput, UnknownTool, Verdict
from loopkernel.later_typing import override

from loopkernel_adapters.ports import RunContext, ToolError, Tools


class CombinedTools(Tools):
    """All that the parts offer, in their order. Raises ValueError when two of them offer tools of the same name."""

    def __init__(self, parts: Iterable[Tools]) -> None:
        self._by_name: dict[str, Tools] = {}
        self._offered: list[Tool] = []
        for part in parts:
            for tool in part.offered():
                if tool.name in self._by_name:
                    raise ValueError(f"two tools are named {tool.name}; give one of them another name")
                self._by_name[tool.name] = part
                self._offered.append(tool)

    @override
    def offered(self) -> tuple[Tool, ...]:
        return tuple(self._offered)

    @override
    def check(self, command: CheckCall) -> Verdict:
        part = self._by_name.get(command.tool)
        return UnknownTool() if part is None else part.check(command)

    @override
    async def run(self, command: StartTool, context: RunContext) -> ToolOutput:
        part = self._by_name.get(command.tool)
        if part is None:  # the offered tools are part of a log, which may go on with fewer of them
            raise ToolError(f"there is no tool {command.tool} here; use another one")
        return await part.run(command, context)

"""One call of one tool at a time, as the driver makes it, and a look at the processes that are left."""

import asyncio
import os
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

from loopkernel.data.blocks import text_of
from loopkernel.data.effects import CheckCall, StartTool
from loopkernel.data.ids import CallId, CheckOperation, ModelOperation, RunOperation
from loopkernel.data.json_text import Json, JsonValue
from loopkernel.data.policy import ResultLimit
from loopkernel.data.tools import ToolOutput, Verdict
from loopkernel_adapters.ports import RunContext, ToolError
from loopkernel_adapters.tools.registry import FunctionTool, Registry
from typing_extensions import override

CALL = CallId(ModelOperation(1), 1)
PATIENCE_S = 60.0  # for what comes soon, on a machine that has much to do


class Listener(RunContext):
    """Keeps the progress that a run reports."""

    def __init__(self, spill: ResultLimit | None = None, key: str = "k") -> None:
        self.progress: list[str] = []
        self.heard = asyncio.Event()
        self._spill = spill
        self._key = key

    @property
    @override
    def key(self) -> str:
        return self._key

    @property
    @override
    def spill(self) -> ResultLimit | None:
        return self._spill

    @override
    async def report_progress(self, text: str) -> None:
        self.progress.append(text)
        self.heard.set()

    @override
    async def ask(self, question: str) -> Json | None:
        return None

    @override
    async def go_on_in_background(self, handle: str) -> None:
        raise AssertionError("no tool here goes on in the background")


def started(tool: str, **given: JsonValue) -> StartTool:
    """The command that starts a run."""
    return StartTool(operation=RunOperation(1), call=CALL, run=1, tool=tool, input=Json.of(given), key="k")


GivenTools = Iterable[FunctionTool] | Registry


def registry_of(tools: GivenTools) -> Registry:
    """The tools as a registry, which they may be already."""
    return tools if isinstance(tools, Registry) else Registry(tools)


def verdict(tools: GivenTools, tool: str, **given: JsonValue) -> Verdict:
    """What is judged of a call."""
    command = CheckCall(operation=CheckOperation(1), call=CALL, tool=tool, input=Json.of(given))
    return registry_of(tools).check(command)


def output(tools: GivenTools, tool: str, **given: JsonValue) -> ToolOutput:
    """What a run returns."""

    async def run() -> ToolOutput:
        return await registry_of(tools).run(started(tool, **given), Listener())

    return asyncio.run(run())


def told(tools: GivenTools, tool: str, **given: JsonValue) -> str:
    """The text of what a run returns."""
    return text_of(output(tools, tool, **given).content)


def refused(tools: GivenTools, tool: str, **given: JsonValue) -> str:
    """The words of the ToolError that a run raises."""
    try:
        said = told(tools, tool, **given)
    except ToolError as error:
        return str(error)
    raise AssertionError(f"this was not refused, but gave {said}")


def processes_with(marker: str) -> list[int]:
    """The processes of this machine that have a text in their command line."""
    found: list[int] = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            line = Path(f"/proc/{name}/cmdline").read_bytes()
        except OSError:
            continue
        if marker.encode() in line and int(name) != os.getpid():
            found.append(int(name))
    return found


def searches() -> list[int]:
    """The processes of grep that this process has started."""
    return children_with("pattern_search.py")


def at_work(process: int) -> bool:
    """Whether a process has used more of a processor than it takes to begin."""
    used = Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].split()[11]
    return int(used) >= os.sysconf("SC_CLK_TCK") // 5


def children_with(marker: str) -> list[int]:
    """The processes with that text in their command line that this process has started."""
    found: list[int] = []
    for process in processes_with(marker):
        try:
            parent = Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].split()[1]
        except OSError:
            continue
        if int(parent) == os.getpid():
            found.append(process)
    return found


def soon(condition: Callable[[], object]) -> bool:
    """Whether it comes true while one can still wait for it."""
    glance = threading.Event()
    for _ in range(int(PATIENCE_S / 0.005)):
        if condition():
            return True
        glance.wait(0.005)
    return False


async def soon_here(condition: Callable[[], object]) -> bool:
    """The same, while the event loop goes on."""
    for _ in range(int(PATIENCE_S / 0.005)):
        if condition():
            return True
        await asyncio.sleep(0.005)
    return False

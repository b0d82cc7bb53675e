"""Tools that keep every duty but one, for the check of tools."""

import asyncio
import socket
import subprocess
import threading
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager

from attrs import evolve
from loopkernel.data.blocks import MediaBlock, TextBlock
from loopkernel.data.effects import CheckCall, StartTool
from loopkernel.data.json_text import Json
from loopkernel.data.tools import (
    AccessMode,
    Claim,
    FixedResource,
    InvalidCall,
    Tool,
    ToolOutput,
    UnknownTool,
    ValidCall,
    Verdict,
)
from loopkernel_adapters.ports import RunContext, ToolError, Tools
from loopkernel_adapters.testing import tools_check as checks
from loopkernel_adapters.testing.tools_check import EndlessCall, ToolsTrial
from loopkernel_adapters.tools.functions import tool
from loopkernel_adapters.tools.output_bounds import MOST_CHARACTERS, MOST_MEDIA
from loopkernel_adapters.tools.registry import Registry
from loopkernel_adapters.tools.threads import Aborted
from typing_extensions import override

FLOOD = "x" * (MOST_CHARACTERS + 1_000)
KEY = "sk-checked-0815"


@tool(resources=(FixedResource("sums", AccessMode.READ),))
def add(one: int, other: int) -> int:
    """Add two numbers."""
    return one + other


@tool
def waits(aborted: Aborted) -> str:
    """Wait for the abort."""
    aborted.wait(60)
    return "too late"


@tool
async def fails(words: str) -> str:
    """Fail."""
    raise ToolError(words)


@contextmanager
def sound() -> Iterator[ToolsTrial]:
    """Tools that keep every duty."""
    yield ToolsTrial(
        tools=Registry([add, waits, fails]),
        valid=(("add", {"one": 1, "other": 2}),),
        invalid=(("add", {"one": 1}), ("add", {"one": "x", "other": 2})),
        failing=(("fails", {"words": "no such thing"}),),
        endless=(EndlessCall(call=("waits", {})),),
        alike=((("add", {"one": 1, "other": 2}), ("add", {"other": 2, "one": 1})),),
        keys=(KEY,),
    )


class Broken(Tools):
    """Passes everything on to tools that keep the duties, but for what a test replaces."""

    def __init__(self) -> None:
        with sound() as trial:
            self.trial = trial
        self.kept: list[object] = []

    @override
    def offered(self) -> tuple[Tool, ...]:
        return self.trial.tools.offered()

    @override
    def check(self, command: CheckCall) -> Verdict:
        return self.trial.tools.check(command)

    @override
    async def run(self, command: StartTool, context: RunContext) -> ToolOutput:
        return await self.trial.tools.run(command, context)


class TwoOfOneName(Broken):
    @override
    def offered(self) -> tuple[Tool, ...]:
        return (*super().offered(), Tool(name="add"))


class SchemaOfText(Broken):
    @override
    def offered(self) -> tuple[Tool, ...]:
        return (*super().offered(), Tool(name="more", input_schema=Json.of("a text")))


class OthersEachTime(Broken):
    @override
    def offered(self) -> tuple[Tool, ...]:
        self.kept.append(None)
        return (*super().offered(), Tool(name=f"tool{len(self.kept)}"))


class KnowsEverything(Broken):
    @override
    def check(self, command: CheckCall) -> Verdict:
        judged = super().check(command)
        return ValidCall() if isinstance(judged, UnknownTool) else judged


class LetsEverythingPass(Broken):
    @override
    def check(self, command: CheckCall) -> Verdict:
        judged = super().check(command)
        return ValidCall() if isinstance(judged, InvalidCall) else judged


class RefusesWithoutAWord(Broken):
    @override
    def check(self, command: CheckCall) -> Verdict:
        judged = super().check(command)
        return InvalidCall(" ") if isinstance(judged, InvalidCall) else judged


class TalksToProgrammers(Broken):
    @override
    def check(self, command: CheckCall) -> Verdict:
        judged = super().check(command)
        why = "For further information visit https://errors.pydantic.dev/2.14/v/int_type"
        return InvalidCall(why) if isinstance(judged, InvalidCall) else judged


class RefusesWhatFits(Broken):
    @override
    def check(self, command: CheckCall) -> Verdict:
        judged = super().check(command)
        return InvalidCall("I do not like it") if isinstance(judged, ValidCall) else judged


class RefusesWhatIsNotThereYet(Broken):
    @override
    def check(self, command: CheckCall) -> Verdict:
        return InvalidCall("no number") if "$result" in command.input.text else super().check(command)


class SlowToJudge(Broken):
    @override
    def check(self, command: CheckCall) -> Verdict:
        threading.Event().wait(checks.QUICK_SECONDS * 1.5 if command.tool == "add" else 0)
        return super().check(command)


class JudgesInThreads(Broken):
    @override
    def check(self, command: CheckCall) -> Verdict:
        gate = threading.Event()
        self.kept.append(gate)
        threading.Thread(target=gate.wait, args=(60,), daemon=True).start()
        return super().check(command)


class ReturnsText(Broken):
    @override
    async def run(self, command: StartTool, context: RunContext) -> ToolOutput:
        await super().run(command, context)
        return "3"  # type: ignore[return-value]  # that is what is broken


class RaisesAnything(Broken):
    @override
    async def run(self, command: StartTool, context: RunContext) -> ToolOutput:
        try:
            return await super().run(command, context)
        except ToolError as error:
            raise LookupError("inside") from error


class FailsWithoutAWord(Broken):
    @override
    async def run(self, command: StartTool, context: RunContext) -> ToolOutput:
        try:
            return await super().run(command, context)
        except ToolError:
            raise ToolError("") from None


class FailsWhereItShouldNot(Broken):
    @override
    async def run(self, command: StartTool, context: RunContext) -> ToolOutput:
        if command.tool == "add":
            raise ToolError("today I do not add")
        return await super().run(command, context)


class Floods(Broken):
    @override
    async def run(self, command: StartTool, context: RunContext) -> ToolOutput:
        output = await super().run(command, context)
        return evolve(output, content=(TextBlock(FLOOD),))


class FloodsWithImages(Broken):
    @override
    async def run(self, command: StartTool, context: RunContext) -> ToolOutput:
        output = await super().run(command, context)
        return evolve(output, content=(MediaBlock("image/png", "A" * (MOST_MEDIA + 1_000)),))


class FailsWithAFlood(Broken):
    @override
    async def run(self, command: StartTool, context: RunContext) -> ToolOutput:
        try:
            return await super().run(command, context)
        except ToolError:
            raise ToolError(FLOOD) from None


class LeavesAThread(Broken):
    @override
    async def run(self, command: StartTool, context: RunContext) -> ToolOutput:
        gate = threading.Event()
        self.kept.append(gate)
        threading.Thread(target=gate.wait, args=(60,), daemon=True, name="left behind").start()
        return await super().run(command, context)


class EndsBeforeItsTask(Broken):
    @override
    async def run(self, command: StartTool, context: RunContext) -> ToolOutput:
        self.kept.append(asyncio.create_task(asyncio.Event().wait()))
        return await super().run(command, context)


class LeavesADescriptor(Broken):
    @override
    async def run(self, command: StartTool, context: RunContext) -> ToolOutput:
        self.kept.append(socket.socket())
        return await super().run(command, context)


class LeavesAProcess(Broken):
    @override
    async def run(self, command: StartTool, context: RunContext) -> ToolOutput:
        self.kept.append(subprocess.Popen(["sleep", "1000"]))
        return await super().run(command, context)


class SpeaksFromAThread(Broken):
    @override
    async def run(self, command: StartTool, context: RunContext) -> ToolOutput:
        def speak() -> None:
            asyncio.run(as_coroutine(context.report_progress("from elsewhere")))

        await asyncio.to_thread(speak)
        return await super().run(command, context)


class EndsBySelf(Broken):
    @override
    async def run(self, command: StartTool, context: RunContext) -> ToolOutput:
        return ToolOutput() if command.tool == "waits" else await super().run(command, context)


class SwallowsItsAbort(Broken):
    @override
    async def run(self, command: StartTool, context: RunContext) -> ToolOutput:
        if command.tool != "waits":
            return await super().run(command, context)
        told = 0
        while told < 3:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                told += 1
        return ToolOutput()


class LeavesATask(Broken):
    @override
    async def run(self, command: StartTool, context: RunContext) -> ToolOutput:
        if command.tool == "waits":
            self.kept.append(asyncio.create_task(as_coroutine(asyncio.Event().wait())))
        return await super().run(command, context)


async def as_coroutine(awaitable: Awaitable[object]) -> None:
    """What has to be a coroutine."""
    await awaitable


class TellsItsKey(Broken):
    @override
    async def run(self, command: StartTool, context: RunContext) -> ToolOutput:
        try:
            return await super().run(command, context)
        except ToolError as error:
            raise ToolError(f"GET https://api/?key={KEY} failed: {error}") from error


class RefusesWithItsKey(Broken):
    @override
    def check(self, command: CheckCall) -> Verdict:
        judged = super().check(command)
        return InvalidCall(f"{judged.why}, for {KEY}") if isinstance(judged, InvalidCall) else judged


class HoldsTheLoopUp(Broken):
    """Works for a while where it should have had a thread."""

    @override
    async def run(self, command: StartTool, context: RunContext) -> ToolOutput:
        if command.tool == "add":
            threading.Event().wait(checks.HELD_UP_SECONDS * 1.5)
        return await super().run(command, context)


class HoldsTheLoopForEver(Broken):
    @override
    async def run(self, command: StartTool, context: RunContext) -> ToolOutput:
        if command.tool == "waits":
            gate = threading.Event()
            self.kept.append(gate)
            gate.wait()
        return await super().run(command, context)


class NamesWhatItTouchesAsItIsWritten(Broken):
    @override
    def check(self, command: CheckCall) -> Verdict:
        judged = super().check(command)
        return ValidCall((Claim(command.input.text, AccessMode.WRITE),)) if isinstance(judged, ValidCall) else judged


class NamesNothing(Broken):
    @override
    def check(self, command: CheckCall) -> Verdict:
        judged = super().check(command)
        return ValidCall(()) if isinstance(judged, ValidCall) else judged

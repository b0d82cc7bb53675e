"""The tools of a simulated world: slow, failing, hanging, asking, and not always willing to stop."""

import asyncio
from typing import Any

from loopkernel.data.blocks import TextBlock
from loopkernel.data.effects import CheckCall, StartTool
from loopkernel.data.ids import OperationKind
from loopkernel.data.json_text import Json
from loopkernel.data.tools import EffectClass, Tool, ToolOutput, Verdict
from loopkernel.later_typing import override
from loopkernel.testing.scenarios.data import world
from loopkernel.testing.scenarios.player.verdicts import adapter_verdict

from loopkernel_adapters.ports import RunContext, ToolError, Tools
from loopkernel_adapters.testing.simulation.drawing import ODD_TEXT
from loopkernel_adapters.testing.simulation.evidence import PortCall
from loopkernel_adapters.testing.simulation.machine import Foreign, Simulated
from loopkernel_adapters.testing.simulation.plan import Run

PLAIN_RUN = Run(behaviour=world.Behaviour())
HUGE = 100_000  # characters


class SimulatedTools(Simulated, Tools):
    """Tools that are slow, fail, hang, ask, go to the background, and do not always stop."""

    @override
    def offered(self) -> tuple[Tool, ...]:
        tools = self.world.plan.tools.items()
        return tuple(Tool(name=name, profile=tool.profile, input_schema=Json.of({})) for name, tool in tools)

    @override
    def check(self, command: CheckCall) -> Verdict:
        if self.world.checks and not self.world.calm:
            oddity = self.world.checks.popleft().oddity
            self.odd(f"check: {oddity}")
            if oddity == "foreign":
                raise Foreign("the schema is broken")
            garbage: Any = "valid"  # Any: what a broken adapter gives is no verdict
            return garbage  # type: ignore[no-any-return]
        return adapter_verdict(self.world.plan.tools, command.tool, command.input)

    @override
    async def run(self, command: StartTool, context: RunContext) -> ToolOutput:
        call = self.session.claim(OperationKind.RUN, command.operation)
        profile = self.world.plan.tools[command.tool].profile
        if profile is not None and profile.effect is EffectClass.DANGEROUS:
            self.session.starts[str(command.call)] += 1
        item: Run = self.world.take(self.world.runs, PLAIN_RUN)
        work = _Work(self, item, context, call)
        try:
            output = await work.done()
            return output
        except asyncio.CancelledError:
            call.cancelled = True
            raise
        finally:
            call.ended = True
            call.owes = not call.cancelled and not self.life.over


class _Work:
    """One run of a tool."""

    def __init__(self, tools: SimulatedTools, item: Run, context: RunContext, call: PortCall) -> None:
        self.tools = tools
        self.world = tools.world
        self.item = item
        self.context = context
        self.call = call

    async def done(self) -> ToolOutput:
        behaviour, oddity, odd = self.item.behaviour, self.item.oddity, self.tools.odd
        if behaviour.takes_ms >= 60_000:
            odd("tool: slow")
        now_ms = 0
        if behaviour.background:
            odd("tool: background")
            await self.patiently(self.context.go_on_in_background("started"))
            if oddity == "background twice":
                odd("tool: background twice")
                await self.context.go_on_in_background("again")
        for progress in sorted(behaviour.progress, key=lambda one: one.at_ms):
            await self.until(progress.at_ms - now_ms)
            now_ms = progress.at_ms
            await self.patiently(self.context.report_progress(progress.text))
        if behaviour.asks is not None:
            odd("tool: asks")
            await self.ask(behaviour.asks.question, oddity)
        await self.until(behaviour.takes_ms - now_ms)
        return await self.outcome()

    async def ask(self, question: str, oddity: str) -> None:
        if oddity == "asks and goes":
            self.tools.odd("tool: asks and goes")
            try:
                await asyncio.wait_for(self.context.ask(question), 0.01)
            except TimeoutError:
                return
        await self.patiently(self.context.ask(question))

    async def until(self, milliseconds: int) -> None:
        if milliseconds > 0:
            await self.patiently(self.world.lasts(milliseconds))

    async def patiently(self, waiting: Any) -> None:  # Any: whatever can be awaited
        """Wait for it. What a tool does that is cancelled meanwhile is its own affair."""
        begun = self.world.loop.time()
        try:
            await waiting
        except asyncio.CancelledError:
            self.call.cancelled = True
            life, oddity = self.tools.life, self.item.oddity
            if life.over or life.closed:
                raise
            if oddity == "raises after cancel":
                self.tools.odd("tool: raises after cancel")
                raise Foreign("how dare you") from None
            if oddity == "finishes while cancelled":
                self.tools.odd("tool: finishes while cancelled")
                return
            if not self.item.behaviour.ignores_abort:
                raise
            self.tools.odd("tool: ignores its abort")
            left = self.item.behaviour.takes_ms / 1000 - (self.world.loop.time() - begun)
            await self.patiently(self.world.lasts(max(left, 0) * 1000))

    async def outcome(self) -> ToolOutput:
        behaviour, oddity = self.item.behaviour, self.item.oddity
        garbage: Any = "ok"  # Any: what a broken tool returns is no output
        text = "found it"
        if oddity in ("garbage", "huge", "odd text", "foreign", "exit", "cancels itself", "claims background"):
            self.tools.odd(f"tool: {oddity}")
        match oddity:
            case "garbage":
                return garbage  # type: ignore[no-any-return]
            case "foreign":
                raise Foreign("segmentation fault")
            case "exit":
                raise SystemExit(1)
            case "cancels itself":
                raise asyncio.CancelledError
            case "claims background":
                return ToolOutput(background=True)
            case "huge":
                text = "x" * HUGE
            case "odd text":
                text = ODD_TEXT
            case _:
                pass
        match behaviour.outcome:
            case world.ToolFails(why):
                self.tools.odd("tool: fails")
                raise ToolError(why)
            case world.ToolHangs():
                self.tools.odd("tool: hangs")
                await self.patiently(self.world.hangs())
            case _:
                pass
        return ToolOutput(content=(TextBlock(text),), final=behaviour.final, stops_loop=behaviour.stops_loop)

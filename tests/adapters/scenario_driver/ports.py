"""The ports of a scripted session: each says to the driver what the scenario has it say, when it is due.

An operation speaks through a `Mouth`: the player opens it for one report at a time, and the port passes that on as its
kind of adapter does (a stream yields, a tool returns or raises). Nothing is due while the loop is still busy with what
came before.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence

from attrs import Factory, define
from loopkernel.data.blocks import text_of
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import CallModel, CheckCall, CheckCorrection, HandOff, Request, StartTool, Summarise
from loopkernel.data.hook_calls import HookContext
from loopkernel.data.ids import ModelOperation, OperationKind, TimerOperation
from loopkernel.data.model_deltas import FromModel, ModelDelta, ModelFailed
from loopkernel.data.outside_deltas import (
    ChildAsks,
    ChildProgress,
    CorrectionAnswered,
    HandoffDone,
    HandoffFailed,
    HookAnswer,
    HookAnswered,
    SummaryFailed,
    SummaryReady,
    TimerFired,
)
from loopkernel.data.tool_deltas import (
    ToolAsked,
    ToolChecked,
    ToolFailed,
    ToolProgress,
    ToolStopped,
    ToolSucceeded,
)
from loopkernel.data.tools import Tool, ToolOutput, Verdict
from loopkernel.data.usage import NO_USAGE, Usage
from loopkernel.data.words import ErrorClass
from loopkernel.later_typing import override
from loopkernel.replaying import LogRecord
from loopkernel.testing.scenarios.player.agenda import Operation
from loopkernel.testing.scenarios.player.reply_script import DelayedDelta
from loopkernel.testing.scenarios.player.stage import ScenarioStage
from loopkernel.testing.scenarios.player.verdicts import adapter_verdict
from loopkernel_adapters.optional_ports import ChildReport, Corrector, Handoffs, Hooks, Summariser, SummaryError
from loopkernel_adapters.ports import Clock, Provider, RunContext, ToolError, Tools
from loopkernel_adapters.stores.memory import MemoryStore

from tests.adapters.scenario_driver.session import FollowedSession


@define(eq=False)
class Mouth:
    """What an operation says, report by report."""

    _said: deque[Delta] = Factory(deque)
    _listener: asyncio.Future[None] | None = None

    def say(self, delta: Delta) -> None:
        """The next report."""
        self._said.append(delta)
        if self._listener is not None and not self._listener.done():
            self._listener.set_result(None)

    async def heard(self) -> Delta:
        """The next report, as soon as it is said."""
        while not self._said:
            self._listener = asyncio.get_running_loop().create_future()
            await self._listener
        return self._said.popleft()


@define(eq=False)
class Life:
    """One process: when it is over, nothing of it writes, speaks or waits any more."""

    stage: ScenarioStage[FollowedSession]
    post: Callable[[Delta], None]  # at the driver's door: what no honest port can send
    over: bool = False
    closing: bool = False  # what is aborted now stops at once
    mouths: dict[Operation, Mouth] = Factory(dict)
    timers: dict[Operation, Callable[[], None]] = Factory(dict)
    passing: dict[Operation, Callable[[ChildReport], None]] = Factory(dict)  # of sub-agents, to their parents
    timers_made: int = 0

    @property
    def ends(self) -> bool:
        """Whether the process ends, one way or the other."""
        return self.over or self.closing

    def mouth_of(self, operation: Operation) -> Mouth:
        """Where what the operation reports is passed on."""
        return self.mouths.setdefault(operation, Mouth())

    def silence(self) -> None:
        """Nothing that is under way has anything more to say."""
        begun = (operation for session in self.stage.sessions for operation in session.begun)
        for operation in (*self.mouths, *self.passing, *begun):
            self.stage.agenda.drop(operation)

    async def turn(self, operation: Operation, delta: Delta) -> None:
        """Wait until it is the operation's turn among all that is due at this instant, to say `delta`."""
        mouth = self.mouths[operation] = Mouth()
        self.stage.agenda.start(operation, self.stage.now_ms, (DelayedDelta(0, delta),))
        await mouth.heard()

    def utter(self, operation: Operation, delta: Delta) -> None:
        """What is due is said."""
        if isinstance(delta, ToolChecked):
            if self.stage.sessions[operation.kernel].awaits(delta.operation):
                self.post(delta)
        elif isinstance(delta, TimerFired):
            fire = self.timers.pop(operation, None)
            if fire is not None:
                fire()
        elif isinstance(delta, ChildProgress | ChildAsks):
            self.passing[operation](delta)
        else:
            self.mouth_of(operation).say(delta)


class FollowedStore(MemoryStore):
    """The log of a session, whose every record is followed. What dies with the process is not written.

    `before` are the records of the lives before this one.
    """

    def __init__(
        self, session: FollowedSession, life: Life, before: Sequence[LogRecord] = (), *, doubt: str | None = None
    ) -> None:
        super().__init__(before, doubt=doubt)
        self._session = session
        self._life = life

    @override
    def append(self, records: Sequence[LogRecord], durable: bool) -> None:
        for record in records:
            if self._life.over:
                return
            super().append((record,), durable)
            self._session.see(record)


class ScriptedClock(Clock):
    """The time of the stage. Its timers are on the agenda, like all else."""

    def __init__(self, session: FollowedSession, life: Life) -> None:
        self._session = session
        self._life = life

    @override
    def now_ms(self) -> int:
        return self._life.stage.now_ms

    @override
    def call_at(self, deadline_ms: int, callback: Callable[[], None]) -> Callable[[], None]:
        life, stage = self._life, self._life.stage
        life.timers_made += 1
        operation = self._session.named(OperationKind.TIMER, -life.timers_made)  # its order, not the kernel's number
        if life.over:
            return lambda: None
        stage.agenda.set_timer(operation, deadline_ms, TimerFired(TimerOperation(operation.number)))
        life.timers[operation] = callback

        def forget() -> None:
            if life.timers.pop(operation, None) is not None and not life.over:
                stage.agenda.drop(operation)

        return forget


class Scripted:
    """What all scripted ports of a session know."""

    def __init__(self, session: FollowedSession, life: Life) -> None:
        self.session = session
        self.life = life

    async def heard(self, operation: Operation) -> Delta:
        """The operation's next report. An abort that it ignores does not end the waiting."""
        while True:
            try:
                return await self.life.mouth_of(operation).heard()
            except asyncio.CancelledError:
                if self.life.ends or operation not in self.session.stubborn:
                    raise


class ScriptedModel(Scripted, Provider):
    """The model of the scenario."""

    @override
    async def stream(self, request: Request, operation: ModelOperation) -> AsyncIterator[ModelDelta]:
        named, command = self.session.claim(OperationKind.MODEL, operation)
        assert isinstance(command, CallModel)
        assert command.request == request, "the provider was asked something else than the log says"
        while True:
            delta = await self.heard(named)
            assert isinstance(delta, FromModel)
            if is_cut_stream(delta):
                return
            yield delta


def is_cut_stream(delta: Delta) -> bool:
    """Whether the stream just ends, so that the driver has to say so."""
    return (
        isinstance(delta, ModelFailed)
        and delta.error is ErrorClass.NETWORK
        and delta.message == "the stream ended without a completion"
        and delta.usage == NO_USAGE
    )


class ScriptedTools(Scripted, Tools):
    """The tools of the scenario."""

    @override
    def offered(self) -> tuple[Tool, ...]:
        return self.session.world.offered_tools()

    @override
    def check(self, command: CheckCall) -> Verdict:
        return adapter_verdict(self.session.world.tools, command.tool, command.input)

    @override
    async def run(self, command: StartTool, context: RunContext) -> ToolOutput:
        operation, due = self.session.claim(OperationKind.RUN, command.operation)
        assert command == due, "the tool was started otherwise than the log says"
        try:
            return await self._lasting(operation, context)
        except asyncio.CancelledError:
            if not self.life.ends:  # it takes its turn to stop
                await self.life.turn(operation, ToolStopped(command.operation))
            raise

    async def _lasting(self, operation: Operation, context: RunContext) -> ToolOutput:
        """The run, until it returns or raises."""
        while True:
            delta = await self.heard(operation)
            match delta:
                case ToolProgress():
                    await context.report_progress(delta.text)
                case ToolAsked() if operation in self.session.aborted:
                    self.life.post(delta)  # the driver does not pass on what an aborted run asks
                case ToolAsked():
                    await self._ask(operation, context, delta.question)
                case ToolSucceeded() if delta.output.background:
                    await context.go_on_in_background("")
                case ToolSucceeded():
                    return delta.output
                case ToolFailed():
                    output = delta.output
                    raise ToolError(text_of(output.content), final=output.final, stops_loop=output.stops_loop)
                case _:
                    raise AssertionError(f"no run of a tool says a {type(delta).__name__}")

    async def _ask(self, operation: Operation, context: RunContext, question: str) -> None:
        try:
            await context.ask(question)
        except asyncio.CancelledError:
            if self.life.ends or operation not in self.session.stubborn:
                raise


class ScriptedHooks(Scripted, Hooks):
    """The gated hooks of the scenario; whoever only observes says nothing."""

    @override
    async def ask(self, context: HookContext) -> HookAnswer:
        delta = await self.heard(self.session.claim_hook(context))
        assert isinstance(delta, HookAnswered)
        return delta.answer

    @override
    def tell(self, context: HookContext) -> None:
        pass


class ScriptedSummariser(Scripted, Summariser):
    """The summaries of the scenario."""

    @override
    async def summarise(self, command: Summarise) -> tuple[str, Usage]:
        delta = await self.heard(self.session.claim(OperationKind.SUMMARY, command.operation)[0])
        if isinstance(delta, SummaryFailed):
            raise SummaryError(delta.why, delta.usage)
        assert isinstance(delta, SummaryReady)
        return delta.text, delta.usage


class ScriptedCorrector(Scripted, Corrector):
    """The corrections of the scenario."""

    @override
    async def correct(self, command: CheckCorrection) -> tuple[str | None, Usage]:
        delta = await self.heard(self.session.claim(OperationKind.CORRECTION, command.operation)[0])
        assert isinstance(delta, CorrectionAnswered)
        return delta.text, delta.usage


class HandoffTrouble(Exception):
    """A handoff that fails."""


class ScriptedHandoffs(Scripted, Handoffs):
    """The handoffs of the scenario."""

    @override
    async def hand_off(self, command: HandOff) -> str:
        delta = await self.heard(self.session.claim(OperationKind.HANDOFF, command.operation)[0])
        if isinstance(delta, HandoffFailed):
            raise HandoffTrouble(delta.why)
        assert isinstance(delta, HandoffDone)
        return delta.thread

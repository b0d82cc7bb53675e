"""What the driver does for a command: read the reply of a model, judge a call, ask a hook and the like.

Sub-agents are in `children.py`.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from functools import cached_property
from types import AsyncGeneratorType
from typing import Protocol, assert_never, get_args, runtime_checkable

from attrs import evolve
from loopkernel.data.blocks import TextBlock
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import (
    AskHook,
    CallModel,
    CheckCall,
    CheckCorrection,
    HandOff,
    StartChild,
    StartTool,
    Summarise,
)
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import ModelCompleted, ModelDelta, ModelFailed
from loopkernel.data.outside_deltas import (
    ChildEnded,
    CorrectionAnswered,
    HandoffDone,
    HandoffFailed,
    HookAnswer,
    HookAnswered,
    HookFault,
    OutsideDelta,
    SummaryReady,
)
from loopkernel.data.policy import ResultLimit
from loopkernel.data.tool_deltas import ToolAsked, ToolChecked, ToolProgress, ToolSucceeded
from loopkernel.data.tools import InvalidCall, ToolOutput, UnknownTool, ValidCall
from loopkernel.data.words import ErrorClass, TurnEndReason
from loopkernel.later_typing import override

from loopkernel_adapters.driver.failures import check_failure, complain
from loopkernel_adapters.driver.pacing import Accept, PacedStream
from loopkernel_adapters.driver.supervision import Job
from loopkernel_adapters.optional_ports import Corrector, Handoffs, Hooks, Summariser, SummaryError
from loopkernel_adapters.ports import Provider, RunContext, Tools
from loopkernel_adapters.secrets import Secrets

# --- a tool run under way --------------------------------------------------------------------------------
# Here, and only here, the handles of secrets are resolved: in the input of the run, and in the answers to its
# questions.

CaughtUp = Callable[[], Awaitable[None]]  # returns when all is applied that was accepted before


class ToolRun(RunContext):
    """One run of a tool, and all that its tool can reach of the driver."""

    def __init__(self, command: StartTool, accept: Accept, caught_up: CaughtUp, job: Job, secrets: Secrets) -> None:
        self._command = command
        self._accept = accept
        self._caught_up = caught_up
        self._job = job
        self._secrets = secrets
        self._answer: asyncio.Future[Json | None] | None = None  # of the question that is open
        self._in_background = False
        self._ended = False

    async def serve(self, tools: Tools) -> Delta:
        """Run the tool and return its success; what it raises is left to the caller."""
        try:
            command, revealed = self._command, self._secrets.reveal(self._command.input)
            if revealed is not command.input:
                command = evolve(command, input=revealed)
            output = await tools.run(command, self)
        finally:
            self._ended = True
            if self._answer is not None:
                self.answer(None)  # for a task that the tool has left behind
        if not isinstance(output, ToolOutput):
            raise TypeError(f"it returned a {type(output).__name__}, not a ToolOutput")
        if output.background:
            raise TypeError("it returned that it goes on in the background; a run says so with go_on_in_background")
        return ToolSucceeded(self._command.operation, output)

    def answer(self, value: Json | None) -> None:
        """Give the answer to the question that is open; without one nothing happens."""
        waiting, self._answer = self._answer, None
        if waiting is not None and not waiting.done():
            waiting.set_result(None if value is None else self._secrets.reveal(value))

    @cached_property
    def _asking(self) -> asyncio.Lock:
        """Held from a question to its answer: one at a time."""
        return asyncio.Lock()

    @property
    def _is_over(self) -> bool:
        """Whether the call has been answered, or soon will be: then nobody can be asked any more."""
        return self._job.aborted or self._ended or self._in_background

    @property
    @override
    def key(self) -> str:
        return self._command.key

    @property
    @override
    def spill(self) -> ResultLimit | None:
        return self._command.spill

    @override
    async def report_progress(self, text: str) -> None:
        self._accept(ToolProgress(self._command.operation, text))
        await self._caught_up()
        await asyncio.sleep(0)

    @override
    async def ask(self, question: str) -> Json | None:
        if self._is_over:
            return None
        async with self._asking:
            if self._answer is not None:  # the tool gave up waiting for it, but the user still sees that question
                await asyncio.shield(self._answer)
            if self._is_over:
                return None
            self._answer = answer = asyncio.get_running_loop().create_future()
            self._accept(ToolAsked(self._command.operation, question))
            return await asyncio.shield(answer)

    @override
    async def go_on_in_background(self, handle: str) -> None:
        if self._in_background:
            raise RuntimeError("this run goes on in the background already")
        if self._is_over:
            return
        self._in_background = self._job.detached = True
        content = (TextBlock(handle),) if handle.strip() else ()
        self._accept(ToolSucceeded(self._command.operation, ToolOutput(content=content, background=True)))
        self.answer(None)
        await self._caught_up()
        await asyncio.sleep(0)


# --- what is done for the other commands -----------------------------------------------------------------

MODEL_DELTAS = frozenset(get_args(ModelDelta))
LAST_DELTAS = frozenset({ModelCompleted, ModelFailed})
HOOK_ANSWERS = frozenset(get_args(HookAnswer))
DELTAS_PER_SLICE = 64  # after so many deltas of a stream that never waits, others get their turn
CUT_STREAM = "the reply ended without saying that it is complete; ask again"


async def read_reply(
    provider: Provider, command: CallModel, accept: Accept, caught_up: CaughtUp, secrets: Secrets, job: Job
) -> Delta | None:
    """Apply the deltas of a reply as they come, and return the last; None when the job was aborted meanwhile.

    The next one is read when the last is applied, or a few later: so a stream cannot run ahead of a slow log.
    """
    operation = command.operation
    stream = provider.stream(command.request, operation)
    paced = PacedStream(accept)
    read = 0
    try:
        async for delta in stream:
            if type(delta) not in MODEL_DELTAS:
                raise TypeError(f"the provider gave a {type(delta).__name__}, which is not a delta of a model")
            if type(delta) in LAST_DELTAS and delta.operation == operation:
                paced.flush()
                return delta
            if not paced.passes(delta):
                await paced.take(delta)
            if paced.passed:
                paced.passed = False
                await caught_up()
                if job.aborted:
                    return None
            read += 1
            if read % DELTAS_PER_SLICE == 0:
                await asyncio.sleep(0)
        paced.flush()
    except Exception:
        paced.flush()  # what came before the failure
        raise
    finally:
        paced.forget()  # it was aborted
        await _close(stream, secrets)
    return ModelFailed(operation=operation, error=ErrorClass.NETWORK, message=CUT_STREAM)


@runtime_checkable
class _Closable(Protocol):
    async def aclose(self) -> None: ...


async def _close(stream: AsyncIterator[ModelDelta], secrets: Secrets) -> None:
    """Let an abandoned stream clean up now, if it can. Its troubles come too late to matter to the reply."""
    if type(stream) is not AsyncGeneratorType and not isinstance(stream, AsyncGenerator | _Closable):
        return
    try:
        await stream.aclose()
    except Exception as error:
        complain("the provider could not close the stream of a reply", error, secrets)


def check_call(tools: Tools, command: CheckCall) -> ToolChecked:
    """The verdict of the tools on a call."""
    try:
        verdict = tools.check(command)
        if not isinstance(verdict, ValidCall | UnknownTool | InvalidCall):
            raise TypeError(f"the check gave a {type(verdict).__name__}, not a verdict")
    except Exception as error:
        return check_failure(command, error)
    return ToolChecked(command.operation, verdict)


async def ask_hook(hooks: Hooks, command: AskHook, job: Job) -> HookAnswered:
    """The answer of a gated hook."""
    answer = await hooks.ask(command.context)
    if type(answer) not in HOOK_ANSWERS:
        raise TypeError(f"it answered with a {type(answer).__name__}, which is not an answer of a hook")
    return HookAnswered(command.operation, answer)


async def correct(corrector: Corrector, command: CheckCorrection, job: Job) -> CorrectionAnswered:
    """What the course correction says; blank words are nothing."""
    text, usage = await corrector.correct(command)
    return CorrectionAnswered(command.operation, text if text is not None and text.strip() else None, usage)


async def summarise(summariser: Summariser, command: Summarise, job: Job) -> SummaryReady:
    """The summary of what a compaction leaves out."""
    text, usage = await summariser.summarise(command)
    if not text.strip():  # it would take the place of what was said
        raise SummaryError("the summary is empty", usage)
    return SummaryReady(command.operation, text, usage)


async def hand_off(handoffs: Handoffs, command: HandOff, job: Job) -> HandoffDone:
    """The session that the work goes on in."""
    return HandoffDone(command.operation, await handoffs.hand_off(command))


# --- commands that there is no port for ------------------------------------------------------------------
# Each operation gets a report that says so, so that nothing waits for ever.

PortlessCommand = AskHook | CheckCorrection | StartChild | HandOff


def answer_without_port(command: PortlessCommand) -> OutsideDelta:
    """The report of an operation that cannot be carried out."""
    match command:
        case AskHook():
            return HookAnswered(command.operation, HookFault(f"this driver has no hook {command.context.name}"))
        case CheckCorrection():
            return CorrectionAnswered(command.operation, None)
        case StartChild():
            return ChildEnded(
                operation=command.operation, reason=TurnEndReason.ERROR, text="this driver starts no sub-agents"
            )
        case HandOff():
            return HandoffFailed(command.operation, "this driver hands nothing over")
        case _:
            assert_never(command)

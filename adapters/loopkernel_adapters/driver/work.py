"""What the driver does for a command: read the reply of a model, judge a call, ask a hook and the like.

A run of a tool is in `runs.py`, a sub-agent in `children.py`.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Protocol, get_args, runtime_checkable

from loopkernel.data.deltas import Delta
from loopkernel.data.effects import AskHook, CallModel, CheckCall, CheckCorrection, HandOff, Summarise
from loopkernel.data.model_deltas import ModelCompleted, ModelDelta, ModelFailed
from loopkernel.data.outside_deltas import CorrectionAnswered, HandoffDone, HookAnswer, HookAnswered, SummaryReady
from loopkernel.data.tool_deltas import ToolChecked
from loopkernel.data.tools import InvalidCall, UnknownTool, ValidCall
from loopkernel.data.words import ErrorClass

from loopkernel_adapters.driver.failures import check_failure, complain
from loopkernel_adapters.driver.pacing import PacedStream
from loopkernel_adapters.driver.runs import Accept
from loopkernel_adapters.driver.supervision import Job
from loopkernel_adapters.optional_ports import Corrector, Handoffs, Hooks, Summariser, SummaryError
from loopkernel_adapters.ports import Provider, Tools
from loopkernel_adapters.secrets import Secrets

MODEL_DELTAS = frozenset(get_args(ModelDelta))
LAST_DELTAS = frozenset({ModelCompleted, ModelFailed})
HOOK_ANSWERS = frozenset(get_args(HookAnswer))
DELTAS_PER_SLICE = 64  # after so many deltas of a stream that never waits, others get their turn
CUT_STREAM = "the reply ended without saying that it is complete; ask again"


async def read_reply(
    provider: Provider, command: CallModel, accept: Accept, secrets: Secrets, job: Job
) -> Delta | None:
    """Apply the deltas of a reply as they come, and return the last; None when the job was aborted meanwhile."""
    operation = command.operation
    stream = provider.stream(command.request, operation)
    paced = PacedStream(accept)
    read = 0
    try:
        async for delta in stream:
            if type(delta) not in MODEL_DELTAS:
                raise TypeError(f"the provider gave a {type(delta).__name__}, which is no delta of a model")
            if type(delta) in LAST_DELTAS and delta.operation == operation:
                paced.flush()
                return delta
            await paced.take(delta)
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
    if not isinstance(stream, AsyncGenerator | _Closable):
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
        raise TypeError(f"it answered with a {type(answer).__name__}, which is no answer of a hook")
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

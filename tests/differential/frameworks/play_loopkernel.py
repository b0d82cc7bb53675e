"""Our own `Agent` behind the port, as any other: what judges others is tried on it, also with a bug in its kernel.

python -m tests.differential.frameworks.play_loopkernel [PRESET]
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial

from loopkernel.data.blocks import RawInput, TextBlock, ToolCall, ToolResult, text_of
from loopkernel.data.effects import Request
from loopkernel.data.ids import CallId, ModelOperation
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import ModelCall, ModelCompleted, ModelDelta, ModelFailed, ModelText
from loopkernel.data.states import Done
from loopkernel.data.tools import Decision, EffectClass
from loopkernel.data.words import CallStatus, ErrorClass, StopReason
from loopkernel.later_typing import override
from loopkernel.loop.algorithms.projection import project
from loopkernel_adapters import Agent, Clock, Provider, Session, ToolError, tool
from loopkernel_adapters.providers.answered_turns import CallIds
from loopkernel_adapters.testing.virtual_loop import VirtualLoop

from tests.differential.frameworks.stage import CommandFailed, Item, Script, ScriptedCall, Seen, Stage, print_each

STOPS = {"natural": StopReason.END_TURN, "calls": StopReason.TOOL_USE, "output limit": StopReason.MAX_TOKENS}
PROBLEMS = {
    400: ErrorClass.PROMPT_TOO_LONG,
    401: ErrorClass.AUTH,
    429: ErrorClass.RATE_LIMITED,
    529: ErrorClass.OVERLOADED,
}
LONGEST_ID = 64
PATIENCE_S = 3_600  # of virtual time


class LoopClock(Clock):
    """The time of the event loop, which is virtual."""

    @override
    def now_ms(self) -> int:
        return round(asyncio.get_running_loop().time() * 1000)

    @override
    def call_at(self, deadline_ms: int, callback: Callable[[], None]) -> Callable[[], None]:
        loop = asyncio.get_running_loop()
        return loop.call_at(max(deadline_ms / 1000, loop.time()), callback).cancel


class StagedModel(Provider):
    """Answers as the stage says, delta by delta."""

    def __init__(self, stage: Stage, clock: Clock) -> None:
        self._stage = stage
        self._clock = clock

    @override
    async def stream(self, request: Request, operation: ModelOperation) -> AsyncIterator[ModelDelta]:
        self._stage.now_s = self._clock.now_ms() / 1000
        answer = self._stage.asked(list(items_of(request)))
        if "problem" in answer:
            wait_s = answer.get("retry_after_s")
            yield ModelFailed(
                operation,
                error=PROBLEMS[answer["problem"]],
                message=answer.get("message", ""),
                retry_after_ms=None if wait_s is None else wait_s * 1000,
            )
            return
        if answer.get("text"):
            yield ModelText(operation, answer["text"])
        calls = answer.get("calls", [])
        for call in calls:
            if not (call["half"] and "cut" in answer):  # whose end never came is not given (provider 11)
                yield ModelCall(operation, provider_id=call["id"], tool=call["tool"], input=input_of(call))
        if answer.get("cut") == "reset":
            raise ConnectionResetError("the connection was reset")
        if "cut" not in answer:
            half = any(call["half"] for call in calls)
            yield ModelCompleted(operation, STOPS[answer.get("stop", "natural")], cut_call=half)


def input_of(call: ScriptedCall) -> Json | RawInput:
    """The arguments, which may not parse."""
    try:
        return Json.parse(call["arguments"])
    except ValueError:
        return RawInput(call["arguments"])


def items_of(request: Request) -> Iterator[Item]:
    """The messages, as all frameworks show theirs, with the ids that an adapter gives to the calls."""
    ids, named = CallIds(LONGEST_ID), dict[CallId, str]()
    for message in project(request.thread, request.model):
        for block in message.content:
            match block:
                case TextBlock(text):
                    yield ["text", message.role.value, text]
                case ToolCall():
                    named[block.id] = ids.of(block)
                    yield ["call", named[block.id], block.tool, block.input.text]
                case ToolResult():
                    failed = "" if block.status is CallStatus.DONE else "failed"
                    yield ["given", named[block.call], text_of(block.content), failed]
                case _:
                    yield ["text", "system", type(block).__name__]


class Player:
    """One agent, with one tool, and the run that it goes on with."""

    def __init__(self, stage: Stage, preset: str = "default") -> None:
        @tool(effect=EffectClass.DANGEROUS, approval=Decision.ALLOW)
        async def shell(command: str) -> str:
            """Run a command."""
            try:
                return await stage.run(command)
            except CommandFailed as failed:
                raise ToolError(str(failed)) from failed

        clock = LoopClock()
        self._agent = Agent(StagedModel(stage, clock), [shell], policy=preset, clock=clock)
        self._session: Session | None = None
        self._run = "judged"
        self._before: str | None = None
        self.cancel = self._cancel

    def _cancel(self) -> None:
        assert self._session is not None
        self._cancelling = asyncio.ensure_future(self._session.cancel())

    async def prompt(self, text: str) -> None:
        """One turn; the run has what came before."""
        async with self._agent.session(self._run, after=self._before) as self._session:
            await self._session.say(text)
            if isinstance(self._session.state, Done):  # under some policies a turn is a run
                self._before, self._run = self._run, f"{self._run}-on"


def play(script: Script, preset: str = "default") -> Seen:
    """What our agent makes of the script, in virtual time."""
    stage = Stage(script, PATIENCE_S)

    async def played() -> Seen:
        return await stage.play(Player(stage, preset))

    return VirtualLoop().play(played())


if __name__ == "__main__":
    print_each(partial(play, preset=(*sys.argv[1:], "default")[0]))

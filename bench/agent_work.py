"""The work that drivers are measured by, for the real one and for the naive loop: rounds, fan-out, a stream.

The model answers at once, and the tool does nothing. Each run asserts that it has done all of it.
"""

from collections.abc import AsyncIterator
from typing import Any

from loopkernel.data.blocks import TextBlock
from loopkernel.data.effects import CheckCall, Request, StartTool
from loopkernel.data.events import Event, ReplyGrew
from loopkernel.data.ids import ModelOperation
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import ModelCall, ModelCompleted, ModelDelta, ModelText
from loopkernel.data.policy import Policy
from loopkernel.data.states import Idle
from loopkernel.data.thread_deltas import Created
from loopkernel.data.tools import EffectClass, Tool, ToolOutput, ToolProfile, ValidCall, Verdict
from loopkernel.data.user_deltas import Say
from loopkernel.data.words import StopReason
from loopkernel_adapters.blocking_ports import BlockingStore
from loopkernel_adapters.driver.asyncio_driver import Driver
from loopkernel_adapters.driver.clocks import WallClock
from loopkernel_adapters.ports import Provider, RunContext, Tools
from loopkernel_adapters.stores.memory import MemoryStore
from typing_extensions import override

from bench import naive

READ = Tool(name="read", profile=ToolProfile(effect=EffectClass.READ_ONLY))
# Nothing of it ends a long run or looks at its past, as nothing in the naive loop does.
POLICY = Policy(max_turns=None, max_parallel=None, loop=None, compaction=None, clear_results=None)
OUTPUT = ToolOutput(content=(TextBlock("ok"),))
WORD = "word "


class Work(Provider, Tools):
    """A model that makes `rounds` rounds of `calls` calls, then says `pieces` pieces of text; and its tool."""

    def __init__(self, rounds: int, calls: int, pieces: int) -> None:
        self._rounds = rounds
        self._calls = calls
        self._pieces = pieces
        self._asked = 0
        self.ran = 0

    @override
    async def stream(self, request: Request, operation: ModelOperation) -> AsyncIterator[ModelDelta]:
        self._asked += 1
        if self._asked > self._rounds:
            for _ in range(self._pieces):
                yield ModelText(operation, WORD)
            yield ModelCompleted(operation, StopReason.END_TURN)
            return
        for number in range(self._calls):
            given = Json(f'{{"path":"{self._asked}-{number}"}}')
            yield ModelCall(operation=operation, provider_id=f"call_{self._asked}_{number}", tool="read", input=given)
        yield ModelCompleted(operation, StopReason.TOOL_USE)

    @override
    def offered(self) -> tuple[Tool, ...]:
        return (READ,)

    @override
    def check(self, command: CheckCall) -> Verdict:
        return ValidCall()

    @override
    async def run(self, command: StartTool, context: RunContext) -> ToolOutput:
        self.ran += 1
        return OUTPUT


async def driven(rounds: int, calls: int = 1, pieces: int = 1, store: BlockingStore | None = None) -> None:
    """The work through the real driver, on the machine's own clock, with somebody who counts the characters.

    Of a stream that brings its pieces all at once, those behind the first 1,000 are merged (see `driver/pacing.py`).
    """
    work, seen = Work(rounds, calls, pieces), 0

    def see(event: Event) -> None:
        nonlocal seen
        if type(event) is ReplyGrew:
            seen += len(event.text)

    driver = await Driver.open(
        store=store or MemoryStore(),
        created=Created(session_id="bench", policy=POLICY, tools=(READ,)),
        provider=work,
        tools=work,
        clock=WallClock(),
        observers=(see,),
    )
    async with driver:
        await driver.send(Say(content=(TextBlock("go"),)))
        await driver.rest()
        assert isinstance(driver.state, Idle)
        assert len(driver.state.session.thread) == 2 + 2 * rounds
    assert (work.ran, seen) == (rounds * calls, pieces * len(WORD))


def conversation(rounds: int) -> list[naive.Message]:
    """What the naive loop holds after so many rounds."""
    messages: list[naive.Message] = [{"role": "user", "content": "go"}]
    for asked in range(1, rounds + 1):
        messages.append({"role": "assistant", "content": None, "tool_calls": [naive_call(asked, 0)]})
        messages.append({"role": "tool", "tool_call_id": f"call_{asked}_0", "content": "ok"})
    return messages


def naive_call(asked: int, number: int) -> dict[str, Any]:  # Any: JSON
    """A call as the naive loop knows it."""
    function = {"name": "read", "arguments": f'{{"path":"{asked}-{number}"}}'}
    return {"id": f"call_{asked}_{number}", "type": "function", "function": function}


async def by_hand(rounds: int, calls: int = 1) -> None:
    """The same rounds through the naive loop."""
    asked = ran = 0

    async def model(messages: list[naive.Message]) -> naive.Message:
        nonlocal asked
        asked += 1
        if asked > rounds:
            return {"role": "assistant", "content": WORD}
        return {
            "role": "assistant",
            "content": None,
            "tool_calls": [naive_call(asked, number) for number in range(calls)],
        }

    async def read(path: str) -> str:
        nonlocal ran
        ran += 1
        return "ok"

    messages = await naive.agent(model, {"read": read}, "go")
    assert (len(messages), ran) == (2 + rounds + rounds * calls, rounds * calls)


async def streamed_by_hand(pieces: int) -> None:
    """The same stream through the naive loop."""

    async def model(messages: list[naive.Message]) -> AsyncIterator[naive.Message]:
        for _ in range(pieces):
            yield {"type": "text", "text": WORD}
        yield {"type": "stop", "reason": "end_turn"}

    seen = 0
    messages: list[naive.Message] = []
    async for _ in naive.streamed(model, messages):
        seen += 1
    assert seen == pieces
    assert len(messages[0]["content"]) == len(WORD) * pieces

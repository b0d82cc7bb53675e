"""An agent for the tests of homes: what its model says follows from the conversation alone, so any worker can go on.

It does what it is told: "wait" for a reply that lasts, "look" and "wire" for tools that last, "pay" for one that a
person has to approve, "ask" for one that asks a person while it runs, "hurry" for one that does so and does not wait
for the answer, "fail" for a request that fails once. "delegate" has a sub-agent do what follows that word, and " and "
joins two of these. To all else it answers at once. Whatever lasts does so until there is a file `go`, and each tool
writes a line into `journal` when it starts.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

from loopkernel import EffectClass, Json
from loopkernel.data.blocks import text_of
from loopkernel.data.effects import Request
from loopkernel.data.ids import ModelOperation
from loopkernel.data.messages import ResultMessage, UserMessage
from loopkernel.data.model_deltas import ModelCall, ModelCompleted, ModelDelta, ModelFailed, ModelText
from loopkernel.data.policy import Policy, Retry
from loopkernel.data.tools import Decision
from loopkernel.data.words import ErrorClass, StopReason
from loopkernel.later_typing import override
from loopkernel_adapters import Agent, tool
from loopkernel_adapters.ports import Provider, RunContext
from loopkernel_adapters.secrets import Secrets
from loopkernel_adapters.tools.delegation import delegate_tool
from loopkernel_adapters.tools.registry import FunctionTool

SECRET = "hunter-and-gatherer-7"
LOOK_S = 0.05
TOOLS = ("look", "wire", "pay", "tell", "ask", "hurry", "delegate")
POLICY = Policy(retry=Retry(base_ms=3_000, retries=3))


class Clerk(Provider):
    """The model."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @override
    async def stream(self, request: Request, operation: ModelOperation) -> AsyncIterator[ModelDelta]:
        last = request.thread.messages[len(request.thread.messages) - 1]
        asked = text_of(last.content) if isinstance(last, UserMessage) else ""
        calls = [part for part in asked.split(" and ") if part.split(" ")[0] in TOOLS]
        if isinstance(last, ResultMessage):
            said = (f"{result.tool}: {text_of(result.content)}" for result in last.results)
            yield ModelText(operation, "; ".join(said))
        elif calls:
            for number, part in enumerate(calls):
                name, _, task = part.partition(" ")
                given = Json.of({"prompt": task} if name == "delegate" else {})
                yield ModelCall(operation=operation, provider_id=f"call_{operation}_{number}", tool=name, input=given)
            yield ModelCompleted(operation, StopReason.TOOL_USE)
            return
        elif asked == "fail" and operation == 1:
            yield ModelFailed(operation=operation, error=ErrorClass.OVERLOADED, message="busy")
            return
        else:
            yield ModelText(operation, "I ")
            if asked == "wait":
                note(self._folder, "wait")
                await gone(self._folder)
            yield ModelText(operation, f"heard: {asked}")
        yield ModelCompleted(operation, StopReason.END_TURN)


def note(folder: Path, what: str) -> None:
    """Write down that something starts."""
    with (folder / "journal").open("a") as journal:
        journal.write(f"{what} {os.getpid()}\n")


async def gone(folder: Path) -> None:
    """Wait for the file `go`."""
    while not (folder / "go").exists():
        await asyncio.sleep(LOOK_S)


def clerk(folder: Path, policy: Policy | None = None) -> Agent:
    """The agent, whose files lie in the folder."""

    @tool(effect=EffectClass.READ_ONLY)
    async def look() -> str:
        """Look something up."""
        note(folder, "look")
        await gone(folder)
        return "seen"

    @tool(effect=EffectClass.DANGEROUS, approval=Decision.ALLOW)
    async def wire() -> str:
        """Wire money, unasked."""
        note(folder, "wire")
        await gone(folder)
        return "wired"

    @tool(effect=EffectClass.DANGEROUS)
    async def pay() -> str:
        """Pay, when a person agrees."""
        note(folder, "pay")
        return "paid"

    @tool(effect=EffectClass.READ_ONLY)
    async def tell() -> str:
        """Tell a secret."""
        return f"the word is {SECRET}"

    @tool(effect=EffectClass.READ_ONLY)
    async def ask(context: RunContext) -> str:
        """Ask a person for a word, and then for another one."""
        note(folder, "ask")
        words = [await context.ask(question) for question in ("Which word?", "And which other?")]
        return " ".join("nothing" if word is None else str(word.value()) for word in words)

    @tool(effect=EffectClass.READ_ONLY)
    async def hurry(context: RunContext) -> str:
        """Ask a person, and do not wait for the answer."""
        question = asyncio.ensure_future(context.ask("Are you there?"))
        await gone(folder)
        question.cancel()
        return "nobody was there"

    tools: list[FunctionTool] = [look, wire, pay, tell, ask, hurry, delegate_tool()]
    return Agent(Clerk(folder), tools, policy=policy or POLICY, secrets=Secrets({"WORD": SECRET}))

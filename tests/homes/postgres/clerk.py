"""An agent that pays what it is told to, for many workers; each payment is a line of a file, with its key.

As a program, it is one worker: `python -m tests.homes.postgres.clerk DSN SCHEMA FOLDER`, until it is told to end.
"""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from loopkernel.data.blocks import text_of
from loopkernel.data.effects import Request
from loopkernel.data.ids import ModelOperation
from loopkernel.data.json_text import Json
from loopkernel.data.messages import ResultMessage, UserMessage
from loopkernel.data.model_deltas import ModelDelta
from loopkernel.data.tools import Decision, EffectClass
from loopkernel.data.words import CallStatus
from loopkernel_adapters.agent import Agent
from loopkernel_adapters.fleet.worker import Worker
from loopkernel_adapters.ports import Provider
from loopkernel_adapters.providers.scripted import Reply, ScriptedProvider, call_reply, text_reply
from loopkernel_adapters.stores.postgres import PostgresRuns
from loopkernel_adapters.stores.seals import Seals
from loopkernel_adapters.tools.functions import tool
from loopkernel_adapters.tools.registry import FunctionTool
from typing_extensions import override

SECRET = bytes(range(32))
READY = "ready"  # what the program says when it has begun to serve
MOMENT_SECONDS = 0.02
PAID, LOST, SAID = "It is paid.", "I do not know whether it was paid.", "I have noted it."


class Clerk(Provider):
    """Pays, wires, or delegates what it is told, where the last message begins with that word.

    " and " joins two of these. To anything else it answers in words.
    """

    @override
    async def stream(self, request: Request, operation: ModelOperation) -> AsyncIterator[ModelDelta]:
        async for delta in ScriptedProvider([reply_to(request)]).stream(request, operation):
            yield delta


def reply_to(request: Request) -> Reply:
    """What the clerk says to the last message."""
    *_, last = request.thread
    if isinstance(last, ResultMessage):
        done = all(result.status is CallStatus.DONE for result in last.results)
        return text_reply(PAID if done else LOST)
    words = text_of(last.content) if isinstance(last, UserMessage) else ""
    calls = [call_of(part) for part in words.split(" and ") if part.partition(" ")[0] in ("pay", "wire", "delegate")]
    return call_reply(*calls) if calls else text_reply(SAID)


def call_of(words: str) -> tuple[str, Json]:
    """The call that the words ask for."""
    verb, _, task = words.partition(" ")
    return verb, Json.of({"prompt": task} if verb == "delegate" else {"what": words})


def paying(file: Path) -> tuple[FunctionTool, FunctionTool]:
    """Two tools whose every start is a line of the file, in one write; a person is asked before the second."""

    @tool(effect=EffectClass.DANGEROUS, approval=Decision.ALLOW)
    async def pay(what: str) -> str:
        """Pay. It takes a moment, before and after, in which a worker may die."""
        await asyncio.sleep(MOMENT_SECONDS)
        said = noted(what)
        await asyncio.sleep(MOMENT_SECONDS)
        return said

    @tool(effect=EffectClass.DANGEROUS)
    async def wire(what: str) -> str:
        """Pay much."""
        return noted(what)

    def noted(what: str) -> str:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(descriptor, f"{what}\n".encode())
        finally:
            os.close(descriptor)
        return "paid"

    return pay, wire


def clerk(runs: PostgresRuns, file: Path) -> Agent:
    """The agent, with its payments in the file."""
    return Agent(Clerk(), paying(file), runs=runs)


def application_name(process: int) -> str:
    """What the server knows the connections of a worker by."""
    return f"clerk-{process}"


async def work(dsn: str, schema: str, folder: Path) -> None:
    """Serve until SIGTERM."""
    named = f"{dsn} application_name={application_name(os.getpid())}"
    runs = PostgresRuns(named, schema=schema, seals=Seals(folder / str(os.getpid()), SECRET), lease_seconds=600.0)
    worker = Worker(clerk(runs, folder / "payments"), look_seconds=0.5)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
    print(READY, flush=True)
    try:
        await worker.serve()
    finally:
        await runs.close()


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1], sys.argv[2], Path(sys.argv[3])))

"""A tool run under way: what its tool says and asks meanwhile, and how it is told the answer.

Here, and only here, the handles of secrets are resolved: in the input of the run, and in the answers to its questions.
"""

import asyncio
from collections.abc import Callable
from functools import cached_property

from attrs import evolve
from loopkernel.data.blocks import TextBlock
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import StartTool
from loopkernel.data.json_text import Json
from loopkernel.data.tool_deltas import ToolAsked, ToolProgress, ToolSucceeded
from loopkernel.data.tools import ToolOutput
from loopkernel.later_typing import override

from loopkernel_adapters.driver.supervision import Job
from loopkernel_adapters.ports import RunContext, Tools
from loopkernel_adapters.secrets import Secrets

Accept = Callable[[Delta], None]


class ToolRun(RunContext):
    """One run of a tool, and all that its tool can reach of the driver."""

    def __init__(self, command: StartTool, accept: Accept, job: Job, secrets: Secrets) -> None:
        self._command = command
        self._accept = accept
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

    @override
    async def report_progress(self, text: str) -> None:
        self._accept(ToolProgress(self._command.operation, text))
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
        await asyncio.sleep(0)

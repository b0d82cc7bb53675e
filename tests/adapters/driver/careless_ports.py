"""What stands between a driver and its model or its tools, with a fault of the driver in it each."""

import asyncio
from collections.abc import AsyncIterator

from attrs import evolve
from loopkernel.data.blocks import TextBlock
from loopkernel.data.effects import Request, StartTool
from loopkernel.data.ids import ModelOperation
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import ModelCompleted, ModelDelta, ModelFailed
from loopkernel.data.tools import ToolOutput
from loopkernel.data.words import ErrorClass, StopReason
from loopkernel_adapters.ports import Provider, RunContext, ToolError, Tools
from loopkernel_adapters.testing.driver_check import DriverFactory
from typing_extensions import override

from tests.adapters.driver.broken_drivers import RunningTwice, with_ports

# --- what it makes of a model that fails ---


class Around(Provider):
    """A model, with a fault of the driver around it."""

    def __init__(self, inner: Provider) -> None:
        self.inner = inner

    @override
    def stream(self, request: Request, operation: ModelOperation) -> AsyncIterator[ModelDelta]:
        return self.given(request, operation)

    async def given(self, request: Request, operation: ModelOperation) -> AsyncIterator[ModelDelta]:
        """What the driver makes of the stream."""
        async for delta in self.inner.stream(request, operation):
            yield delta


class WaitingForAnEnd(Around):
    """Waits for the end of a stream that has just stopped."""

    @override
    async def given(self, request: Request, operation: ModelOperation) -> AsyncIterator[ModelDelta]:
        async for delta in self.inner.stream(request, operation):
            yield delta
            if isinstance(delta, ModelCompleted | ModelFailed):
                return
        await asyncio.Event().wait()


class TakingAStopForAnEnd(Around):
    """Takes what has come for the whole reply."""

    @override
    async def given(self, request: Request, operation: ModelOperation) -> AsyncIterator[ModelDelta]:
        async for delta in self.inner.stream(request, operation):
            yield delta
        yield ModelCompleted(operation, StopReason.END_TURN)


class KnowingOneClass(Around):
    """Reports whatever is raised as the same failure."""

    @override
    async def given(self, request: Request, operation: ModelOperation) -> AsyncIterator[ModelDelta]:
        try:
            async for delta in self.inner.stream(request, operation):
                yield delta
        except Exception as error:
            yield ModelFailed(operation=operation, error=ErrorClass.NETWORK, message=str(error))


class TryingAgain(Around):
    """Asks once more by itself, where the connection was lost."""

    @override
    async def given(self, request: Request, operation: ModelOperation) -> AsyncIterator[ModelDelta]:
        try:
            async for delta in self.inner.stream(request, operation):
                yield delta
        except ConnectionError:
            async for delta in self.inner.stream(request, operation):
                yield delta
            raise


# --- what it makes of tools ---


class CoveringUp(RunningTwice):
    """Calls a failure a success."""

    @override
    async def run(self, command: StartTool, context: RunContext) -> ToolOutput:
        try:
            return await self._inner.run(command, context)
        except ToolError as error:
            return ToolOutput(content=(TextBlock(str(error)),))


class Vague(RunningTwice):
    """Does not say what has failed."""

    @override
    async def run(self, command: StartTool, context: RunContext) -> ToolOutput:
        try:
            return await self._inner.run(command, context)
        except ToolError:
            raise ToolError("the tool has failed") from None


class GivingOtherInput(RunningTwice):
    """Does not run what was asked for."""

    @override
    async def run(self, command: StartTool, context: RunContext) -> ToolOutput:
        return await self._inner.run(evolve(command, input=Json.of({})), context)


class Granting(RunningTwice):
    """A run has a context that does not do all that it should: a fault each."""

    def __init__(self, inner: Tools, context: type["Deafened"]) -> None:
        super().__init__(inner)
        self._context = context

    @override
    async def run(self, command: StartTool, context: RunContext) -> ToolOutput:
        return await self._inner.run(command, self._context(context))


class Deafened(RunContext):
    """Passes on what a run says and asks."""

    def __init__(self, inner: RunContext) -> None:
        self.inner = inner

    @override
    async def report_progress(self, text: str) -> None:
        await self.inner.report_progress(text)

    @override
    async def ask(self, question: str) -> Json | None:
        return await self.inner.ask(question)

    @override
    async def go_on_in_background(self, handle: str) -> None:
        await self.inner.go_on_in_background(handle)


class WithoutProgress(Deafened):
    @override
    async def report_progress(self, text: str) -> None:
        return


class WithoutQuestions(Deafened):
    @override
    async def ask(self, question: str) -> Json | None:
        return None


class WithOtherAnswers(Deafened):
    @override
    async def ask(self, question: str) -> Json | None:
        await self.inner.ask(question)
        return Json.of("another")


class WithoutBackground(Deafened):
    @override
    async def go_on_in_background(self, handle: str) -> None:
        return


def around(kind: type[Around]) -> DriverFactory:
    """This driver with that fault around its model."""
    return with_ports(lambda ports: evolve(ports, provider=kind(ports.provider)))


def with_tools(kind: type[RunningTwice]) -> DriverFactory:
    """This driver with that fault around its tools."""
    return with_ports(lambda ports: evolve(ports, tools=kind(ports.tools)))


def granting(kind: type[Deafened]) -> DriverFactory:
    """This driver, whose runs have such a context."""
    return with_ports(lambda ports: evolve(ports, tools=Granting(ports.tools, kind)))

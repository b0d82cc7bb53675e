"""A provider of your own: it streams deltas, the last of which says how it ended, and never retries by itself."""

import asyncio
from collections.abc import AsyncIterator

from loopkernel import Policy, Retry, event_to_text
from loopkernel.deltas import ErrorClass, ModelCompleted, ModelDelta, ModelFailed, ModelText, StopReason
from loopkernel.effects import ModelOperation, Request, project
from loopkernel.messages import TextBlock
from loopkernel_adapters import Agent, Provider


class Busy(Exception):
    """What the client of an imagined service raises."""


class Service:
    """The imagined service: busy the first time."""

    asked = 0

    async def words(self, prompt: str) -> list[str]:
        self.asked += 1
        if self.asked == 1:
            raise Busy
        return ["You said: ", prompt]


class ServiceProvider(Provider):
    def __init__(self, service: Service) -> None:
        self.service = service

    async def stream(self, request: Request, operation: ModelOperation) -> AsyncIterator[ModelDelta]:
        said = project(request.thread, request.model)[-1].content
        prompt = " ".join(block.text for block in said if isinstance(block, TextBlock))
        try:
            for word in await self.service.words(prompt):
                yield ModelText(operation, word)
            yield ModelCompleted(operation, StopReason.END_TURN)
        except Busy:
            yield ModelFailed(operation, error=ErrorClass.OVERLOADED, message="the service is busy")


async def main() -> None:
    agent = Agent(ServiceProvider(Service()), policy=Policy(retry=Retry(base_ms=10)))
    async for event in agent.run("Good morning"):
        print(event_to_text(event))


asyncio.run(main())

"""A model that says what it was told to say: for tests, examples and demonstrations."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence

from attrs import evolve
from loopkernel.data.effects import Request
from loopkernel.data.ids import ModelOperation
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import ModelCall, ModelCompleted, ModelDelta, ModelFailed, ModelText
from loopkernel.data.usage import NO_USAGE, Usage
from loopkernel.data.words import ErrorClass, StopReason
from loopkernel.later_typing import override

from loopkernel_adapters.ports import Provider

ANY = ModelOperation(0)  # stands in a script for the operation that is known only when the model is called

# A delta is given out, an event is waited for, an exception is raised.
ScriptItem = ModelDelta | asyncio.Event | Exception
Reply = Sequence[ScriptItem]


def text_reply(text: str, usage: Usage = NO_USAGE) -> Reply:
    """A reply of text, ended by the model."""
    return (ModelText(ANY, text), ModelCompleted(ANY, StopReason.END_TURN, usage))


def call_reply(*calls: tuple[str, Json], usage: Usage = NO_USAGE) -> Reply:
    """A reply of tool calls, each the name of a tool and its input."""
    deltas = [
        ModelCall(operation=ANY, provider_id=f"scripted_{number}", tool=tool, input=tool_input)
        for number, (tool, tool_input) in enumerate(calls, start=1)
    ]
    return (*deltas, ModelCompleted(ANY, StopReason.TOOL_USE, usage))


class ScriptedProvider(Provider):
    """Gives out its replies in order, one for each model call, whatever the operation in them.

    A reply need not end with a completion: then its stream just ends. Where no reply is left, the call fails
    as `bad_request`. `requests` holds what it was asked.
    """

    def __init__(self, replies: Iterable[Reply]) -> None:
        self._replies = list(replies)
        self.requests: list[Request] = []

    @override
    async def stream(self, request: Request, operation: ModelOperation) -> AsyncIterator[ModelDelta]:
        place = len(self.requests)
        self.requests.append(request)
        if place >= len(self._replies):
            message = f"the script ends with reply {len(self._replies)}, and this is model call {place + 1}"
            yield ModelFailed(operation=operation, error=ErrorClass.BAD_REQUEST, message=message)
            return
        for item in self._replies[place]:
            match item:
                case asyncio.Event():
                    await item.wait()
                case Exception():
                    raise item
                case _:
                    yield evolve(item, operation=operation)

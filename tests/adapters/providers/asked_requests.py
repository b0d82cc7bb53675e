"""What the tests of every provider ask, and bodies of responses that come in pieces."""

from collections.abc import AsyncIterator, Iterable

import httpx2
from loopkernel.data.blocks import MediaBlock, TextBlock
from loopkernel.data.effects import Request
from loopkernel.data.ids import MessageId, ModelOperation
from loopkernel.data.messages import Message, UserMessage
from loopkernel.data.model_deltas import ModelCompleted, ModelDelta, ModelFailed
from loopkernel.data.threads import Thread
from loopkernel.data.words import RequestReason
from loopkernel_adapters.ports import Provider
from typing_extensions import override

OPERATION = ModelOperation(7)


def request_of(*said: str | MediaBlock | Message, **fields: object) -> Request:
    """A request whose thread holds what was said: texts and media of the user, or whole messages."""
    thread = Thread()
    for number, item in enumerate(said or ("hello",), start=1):
        if isinstance(item, str | MediaBlock):
            block = TextBlock(item) if isinstance(item, str) else item
            item = UserMessage(id=MessageId(number), content=(block,))
        thread = thread.append(item)
    known: dict[str, object] = {
        "number": OPERATION,
        "reason": RequestReason.USER,
        "instructions": "",
        "thread": thread,
        "max_output_tokens": None,
    }
    return Request(**{**known, **fields})  # type: ignore[arg-type]  # the fields are those of a request


async def whole_reply(provider: Provider, request: Request) -> list[ModelDelta]:
    """The whole reply, of which the last delta, and no other, is its end."""
    deltas = [delta async for delta in provider.stream(request, OPERATION)]
    assert all(delta.operation == OPERATION for delta in deltas)
    assert [isinstance(delta, ModelCompleted | ModelFailed) for delta in deltas] == [False] * (len(deltas) - 1) + [True]
    return deltas


class Pieces(httpx2.AsyncByteStream):
    """A body that comes in these pieces; then it ends, or raises."""

    def __init__(self, pieces: Iterable[bytes], then: Exception | None = None) -> None:
        self.pieces = pieces
        self.then = then
        self.closed = False

    @override
    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            yield piece
        if self.then is not None:
            raise self.then

    @override
    async def aclose(self) -> None:
        self.closed = True

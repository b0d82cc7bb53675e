"""Answers of servers of the Model Context Protocol over HTTP, with a bound on their size.

The transport of the official client bounds the events of a stream, and reads every other answer whole. So such an
answer breaks off here where it is too large; and a compressed one is not read at all, as little of it may be much.
"""

from collections.abc import AsyncIterator, Awaitable, Callable

import httpx2
from loopkernel.later_typing import override

PLAIN = {"accept-encoding": "identity"}  # what a server is asked for
_STREAM = "text/event-stream"


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream, most_bytes: int) -> None:
        self._inner = inner
        self._most_bytes = most_bytes

    @override
    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for piece in self._inner:
            size += len(piece)
            if size > self._most_bytes:
                raise httpx2.ReadError(f"the answer is larger than {self._most_bytes} bytes")
            yield piece

    @override
    async def aclose(self) -> None:
        await self._inner.aclose()


def bounded_answers(most_bytes: int) -> Callable[[httpx2.Response], Awaitable[None]]:
    """What a client does with each response before it is read."""

    async def bound(response: httpx2.Response) -> None:
        if response.headers.get("content-encoding", "identity").strip().lower() != "identity":
            raise httpx2.DecodingError("the server compresses its answers, which it was not asked for")
        whole = not response.headers.get("content-type", "").lower().startswith(_STREAM)
        if whole and isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = _Bounded(response.stream, most_bytes)

    return bound

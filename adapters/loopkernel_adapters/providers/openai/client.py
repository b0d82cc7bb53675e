"""The vendor's client, the caller's or one of our own, and one reply over it: asked, read event by event, let go of."""

import asyncio
import contextlib
import json
from abc import abstractmethod
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from types import TracebackType
from typing import Protocol, Self

import httpx2
from loopkernel.data.effects import Request
from loopkernel.data.ids import ModelOperation
from loopkernel.data.model_deltas import ModelDelta, ModelStarted
from loopkernel.data.usage import Usage
from loopkernel.later_typing import override
from openai import AsyncOpenAI, AsyncStream, DefaultAsyncHttpx2Client

from loopkernel_adapters.ports import Provider
from loopkernel_adapters.provider_keys import real_keys, without_keys
from loopkernel_adapters.providers.event_stream import EventReader, ServerEvent, whole_text
from loopkernel_adapters.providers.json_fields import JsonObject
from loopkernel_adapters.providers.openai.errors import FAULTS, failure_of
from loopkernel_adapters.providers.wire_bounds import BoundedClient

_DONE = "[DONE]"
_LONGEST_TAIL_S = 0.1  # a server that keeps the connection open behind the end of a reply is not waited for


class Reply(Protocol):
    """Reads the events of one reply."""

    @property
    @abstractmethod
    def usage(self) -> Usage:
        """What has been used, as far as it is told."""

    @property
    @abstractmethod
    def ended(self) -> bool:
        """Whether nothing of the reply can come any more."""

    @abstractmethod
    def read(self, event: object) -> Iterator[ModelDelta]:
        """The deltas of the next event. Raises StreamFault."""

    @abstractmethod
    def survives(self, fault: Exception) -> bool:
        """Whether the reply was complete before this happened."""

    @abstractmethod
    def ending(self) -> tuple[ModelDelta, ...]:
        """The last deltas of a reply whose stream has ended. Raises StreamFault where it is not complete."""


class Events:
    """The events of one streamed answer, each as the JSON that it holds, or the one JSON of an answer that is whole.

    Leaving lets go of the connection at once.

    The client sends the request, its own retries off, whoever made it. The bytes of its response are read here: its own
    reader leaves generators to the event loop to clean up, and its models of events break on what they do not know.
    """

    def __init__(self, client: AsyncOpenAI, path: str, body: JsonObject) -> None:
        self._client = client
        self._path = path
        self._body = body
        self._response: httpx2.Response | None = None
        self._pieces: AsyncIterator[bytes] = _nothing()
        self._reader = EventReader()
        self._waiting: deque[ServerEvent] = deque()
        self._ended = False
        self._is_stream = body.get("stream") is True

    async def __aenter__(self) -> Self:
        stream = await self._client.post(
            self._path,
            cast_to=object,
            body=self._body,
            options={"max_retries": 0, "security": {"bearer_auth": True}},
            stream=True,
            stream_cls=AsyncStream[object],
        )
        self._response = stream.response
        self._pieces = stream.response.aiter_bytes()
        return self

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> object:
        if not self._is_stream and not self._ended:
            self._ended = True
            return json.loads(await whole_text(self._pieces))
        while True:
            while self._waiting:
                event = self._waiting.popleft()
                if event.data.startswith(_DONE):
                    self._waiting.clear()
                    self._ended = True
                    await self.read_tail()
                    raise StopAsyncIteration
                return json.loads(event.data)
            if self._ended:
                raise StopAsyncIteration
            piece = await anext(self._pieces, None)
            self._ended = piece is None
            self._waiting.extend(self._reader.end() if piece is None else self._reader.feed(piece))

    async def read_tail(self) -> None:
        """Read what stands behind the end of the reply, a few bytes, so that the connection can be used again."""
        with contextlib.suppress(*FAULTS):
            async with asyncio.timeout(_LONGEST_TAIL_S):
                async for _ in self._pieces:
                    pass

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        if self._response is None:
            return
        # The client reads in generators within generators. Dropped half-way, each would be closed by a task of its own
        # later on; read on behind the closing, all of them end here.
        with contextlib.suppress(*FAULTS):
            await self._response.aclose()
        with contextlib.suppress(*FAULTS):
            async for _ in self._pieces:
                pass


async def _nothing() -> AsyncIterator[bytes]:
    return
    yield


async def stream_reply(
    client: AsyncOpenAI, path: str, body: JsonObject, reply: Reply, operation: ModelOperation, model: str
) -> AsyncGenerator[ModelDelta, None]:
    """The deltas of one reply, the last of which is its completion or its failure."""
    try:
        async with Events(client, path, body) as events:
            yield ModelStarted(operation, model)
            async for event in events:
                for delta in reply.read(event):
                    yield delta
                if reply.ended:
                    await events.read_tail()
                    break
        last = reply.ending()
    except FAULTS as fault:
        last = _last_after(reply, fault, operation, (client.api_key, *real_keys({}, client.default_headers).values()))
    for delta in last:
        yield delta


def _last_after(
    reply: Reply, fault: Exception, operation: ModelOperation, keys: tuple[str, ...]
) -> tuple[ModelDelta, ...]:
    if reply.survives(fault):
        try:
            return reply.ending()
        except FAULTS as told:
            fault = told
    return (failure_of(operation, fault, reply.usage, keys),)


class OpenAIProvider(Provider):
    """A provider with a client that was given, and is left as it is; or with one that it makes, and closes.

    One that it makes keeps no connection between two requests: so nothing is open while no reply is read, and it works
    in one event loop after another. Give a client of your own to keep connections.
    """

    def __init__(self, client: AsyncOpenAI | None, api_key: str | None, base_url: str | None) -> None:
        self._owns_client = client is None
        self.client = client if client is not None else _made(api_key, base_url)

    @property
    def secret_keys(self) -> Mapping[str, str]:
        """The keys that it uses, by the names of their variables; see `provider_keys.py`."""
        named = {"OPENAI_API_KEY": self.client.api_key, "OPENAI_ADMIN_KEY": self.client.admin_api_key}
        return real_keys(named, self.client.default_headers)

    def bounded(self) -> AsyncOpenAI:
        """The client, with bounds on what is answered."""
        return self.client.with_options(http_client=BoundedClient(self.client._client))

    @abstractmethod
    def asked(self, request: Request, operation: ModelOperation) -> tuple[str, JsonObject, Reply]:
        """Where a request goes, its body, and what reads the reply."""

    @override
    def stream(self, request: Request, operation: ModelOperation) -> AsyncIterator[ModelDelta]:
        return without_keys(self._reply(request, operation), self.secret_keys)

    async def _reply(self, request: Request, operation: ModelOperation) -> AsyncGenerator[ModelDelta, None]:
        path, body, reply = self.asked(request, operation)
        asked = stream_reply(self.bounded(), path, body, reply, operation, request.model)
        async with contextlib.aclosing(asked) as deltas:
            async for delta in deltas:
                yield delta

    async def close(self) -> None:
        """Let go of the client that the provider has made. Closing twice is harmless."""
        if self._owns_client:
            await self.client.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()


def _made(api_key: str | None, base_url: str | None) -> AsyncOpenAI:
    # Each of the connections is its own: as many as there are replies at once.
    connections = DefaultAsyncHttpx2Client(limits=httpx2.Limits(max_connections=None, max_keepalive_connections=0))
    return AsyncOpenAI(api_key=api_key, base_url=base_url, max_retries=0, http_client=connections)

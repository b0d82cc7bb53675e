"""Models of the Messages API behind the provider port, through Anthropic's own client.

The client sends the request, and gives errors and the bytes of the stream; its retries are off for each request, and
its helpers that add a reply up are not used. What the bytes say is read in `reply`, what is asked is made in
`request`. Every failure is classified here, in `_failure_of`.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from types import TracebackType
from typing import Literal, Self

import anthropic
import httpx2
from anthropic.types import Message, RawMessageStreamEvent
from attrs import evolve
from loopkernel.data.effects import Request
from loopkernel.data.ids import ModelOperation
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import ModelDelta, ModelFailed
from loopkernel.data.usage import Usage
from loopkernel.later_typing import override

from loopkernel_adapters.ports import Provider, ProviderUnavailable
from loopkernel_adapters.provider_keys import real_keys, without_keys
from loopkernel_adapters.providers.anthropic.reply import SERVICE, ReplyReader
from loopkernel_adapters.providers.anthropic.request import RequestOptions, request_body
from loopkernel_adapters.providers.event_stream import DamagedStream, EventReader, whole_text
from loopkernel_adapters.providers.json_fields import JsonObject
from loopkernel_adapters.providers.wire_bounds import BoundedClient, RefusedAnswer
from loopkernel_adapters.providers.wire_errors import (
    CONNECTION_LOST,
    TIMED_OUT,
    UNREADABLE,
    failure,
    retry_after_ms,
)
from loopkernel_adapters.providers.wire_names import ToolNames

_PATH = "/v1/messages"
_KEY, _TOKEN = "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"  # where the vendor's client looks for them
_REST_S = 0.25  # how long the end of a response is waited for, once the reply is complete, to keep the connection
_HTTP_ERRORS = (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL)  # some of them escape the client
_KNOWN_ERRORS = (anthropic.AnthropicError, *_HTTP_ERRORS, OSError)

Stream = anthropic.AsyncStream[RawMessageStreamEvent]


class AnthropicProvider(Provider):
    """Claude behind the provider port. One object serves any number of replies at a time, and many event loops in turn.

    A client that is given stays the giver's, and keeps connections as it is told to. One that the provider makes, from
    `api_key` and `base_url` or from the environment as the vendor's client does, keeps none between two replies, and is
    closed by `close`. `thinking` is a budget of tokens (at least 1,024) or
    `adaptive`; `max_output_tokens` counts where a request names none; `caching` marks instructions, tools and the last
    messages for the provider's cache; `server_tools` are definitions of tools that the provider runs itself. Raises
    ProviderUnavailable where nothing is given and the environment has no key.
    """

    def __init__(
        self,
        client: anthropic.AsyncAnthropic | None = None,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        max_output_tokens: int = 32_000,
        thinking: int | Literal["adaptive"] | None = None,
        caching: bool = True,
        server_tools: tuple[Json, ...] = (),
    ) -> None:
        if client is None and api_key is None and base_url is None:
            _demand_credentials()
        self._given = client
        self._api_key = api_key
        self._base_url = base_url
        self._own: anthropic.AsyncAnthropic | None = None
        self._options = RequestOptions(
            max_output_tokens=max_output_tokens, thinking=thinking, caching=caching, server_tools=server_tools
        )

    async def close(self) -> None:
        """Close the client that the provider has made. Closing twice is harmless; another reply makes another one."""
        own, self._own = self._own, None
        if own is not None:
            await own.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @override
    def stream(self, request: Request, operation: ModelOperation) -> AsyncIterator[ModelDelta]:
        return without_keys(self._reply(request, operation), self.secret_keys)

    @property
    def secret_keys(self) -> Mapping[str, str]:
        """The keys that it uses, by the names of their variables; see `provider_keys.py`."""
        client = self._given or self._own
        if client is not None:
            named = {_KEY: client.api_key, _TOKEN: client.auth_token}
            return real_keys(named, client.default_headers)
        if self._api_key is not None:
            return real_keys({_KEY: self._api_key})
        return real_keys({_KEY: os.environ.get(_KEY), _TOKEN: os.environ.get(_TOKEN)})

    async def _reply(self, request: Request, operation: ModelOperation) -> AsyncGenerator[ModelDelta, None]:
        names = ToolNames(request.tools)
        reply = ReplyReader(operation, names, self._keys())
        events = EventReader()
        stream: Stream | None = None
        pieces: AsyncGenerator[bytes, None] | None = None
        try:
            stream = await self._opened(request_body(request, self._options, names))
            pieces = stream.response.aiter_bytes()
            if not request.stream:
                for delta in reply.read_whole(await whole_text(pieces)):
                    yield delta
            while reply.last is None:
                piece = await anext(pieces, None)
                for delta in reply.read_all(events.end() if piece is None else events.feed(piece)):
                    yield delta
                if piece is None:
                    reply.end()
            if self._given is not None:
                await _read_to_its_end(pieces)  # so that its connection can serve again
        except (*_KNOWN_ERRORS, DamagedStream) as error:
            reply.last = _failure_of(operation, error, reply.usage, self._keys())
        finally:
            if stream is not None and pieces is not None:
                await _let_go(stream, pieces)
        if isinstance(reply.last, ModelFailed):
            reply.last = evolve(reply.last, unfinished=reply.unfinished)
        yield reply.last

    async def _opened(self, body: JsonObject) -> Stream:
        """Send the request; the response, once its head is there."""
        client = self._client()
        return await client.with_options(http_client=BoundedClient(client._client)).post(
            _PATH,
            body=body,
            options={"max_retries": 0},  # also of a client that was given and has its own
            cast_to=Message,
            stream=True,
            stream_cls=Stream,
        )

    def _keys(self) -> tuple[str | None, ...]:
        client = self._given or self._own
        own = (self._api_key,) if client is None else (client.api_key, client.auth_token)
        return (*own, *self.secret_keys.values())

    def _client(self) -> anthropic.AsyncAnthropic:
        """The client that was given, or the one that is made when it is first needed."""
        if self._given is not None:
            return self._given
        if self._own is None:
            # Without connections between two replies there is nothing that belongs to one event loop.
            limits = httpx2.Limits(max_connections=None, max_keepalive_connections=0)
            self._own = anthropic.AsyncAnthropic(
                api_key=self._api_key,
                base_url=self._base_url,
                max_retries=0,
                http_client=anthropic.DefaultAsyncHttpxClient(limits=limits),
            )
        return self._own


def _demand_credentials() -> None:
    """Raises ProviderUnavailable now where the vendor's client would find no key at the first request."""
    found = anthropic.AsyncAnthropic(max_retries=0)
    if found.api_key is None and found.auth_token is None and found.credentials is None:
        raise ProviderUnavailable(
            f"there is no key: put it into the environment as {_KEY}, or give AnthropicProvider(api_key=...)"
        )


async def _read_to_its_end(pieces: AsyncGenerator[bytes, None]) -> None:
    """Read what is left of a response, if it comes at once; of one whose reply is complete it is a few bytes."""
    try:
        async with asyncio.timeout(_REST_S):
            while await anext(pieces, None) is not None:
                pass
    except (TimeoutError, *_KNOWN_ERRORS):
        pass  # the reply is what it is all the same, and the connection is closed


async def _let_go(stream: Stream, pieces: AsyncGenerator[bytes, None]) -> None:
    """Close the response, and its connection if it was not read to its end."""
    with contextlib.suppress(*_KNOWN_ERRORS):
        await stream.close()
    # What reads on from a closed connection fails from within, and so ends each of the client's generators in turn.
    # Closing the outermost would leave the others to the event loop, which closes them one by one, in tasks.
    await _read_to_its_end(pieces)
    await pieces.aclose()


def _failure_of(
    operation: ModelOperation, error: Exception, usage: Usage, keys: tuple[str | None, ...] = ()
) -> ModelFailed:
    """What the client raised, classified: the one place where that is done."""
    status: int | None = None
    wait_ms: int | None = None
    kind: str | None = None
    if isinstance(error, anthropic.APIConnectionError) and isinstance(error.__cause__, _HTTP_ERRORS):
        error = error.__cause__  # says what it was
    message = str(error) or type(error).__name__
    match error:
        case anthropic.APIStatusError():
            status = error.status_code
            kind = error.type if isinstance(error.type, str) else None  # of a body that may be anything
            message = error.api_message if isinstance(error.api_message, str) else error.message
            wait_ms = retry_after_ms(error.response.headers)
        case anthropic.APITimeoutError() | httpx2.TimeoutException() | TimeoutError():
            kind, message = TIMED_OUT, "the server did not answer in time"
        case RefusedAnswer():
            kind = "invalid_request_error"
        case httpx2.ConnectError() | anthropic.APIConnectionError():
            kind, message = CONNECTION_LOST, f"no connection: {message}"
        case anthropic.CredentialsError():
            kind = "authentication_error"
        case httpx2.UnsupportedProtocol() | httpx2.InvalidURL():
            kind, message = "invalid_request_error", f"the address cannot be used: {message}"
        case httpx2.LocalProtocolError():
            kind, message = "invalid_request_error", f"the request cannot be sent: {message}"
        case httpx2.TransportError() | OSError():
            kind, message = CONNECTION_LOST, f"the connection was lost: {message}"
        case DamagedStream() | httpx2.HTTPError() | httpx2.StreamError():
            kind, message = UNREADABLE, f"what came cannot be read: {message}"
        case _:
            pass  # of the client's own kinds one that is not known here: unknown
    return failure(
        operation,
        status=status,
        kind=kind,
        message=message,
        retry_after_ms=wait_ms,
        service=SERVICE,
        usage=usage,
        keys=keys,
    )

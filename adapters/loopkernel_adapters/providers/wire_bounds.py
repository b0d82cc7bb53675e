"""Bounds on what a server may do to an adapter: how much it answers, and how much of a reply is kept to be given on."""

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, Final

import httpx2
from loopkernel.later_typing import override

from loopkernel_adapters.bounded_text import HiddenBytes

# --- a vendor's client, whoever has made it --------------------------------------------------------------
# - A redirect is not followed: the conversation, and with some servers the key, would go where nobody has sent them.
# - The body of an error is read up to a bound, and no further.
# - An answer that is compressed is not read, since little of it may be much; none is asked for.
#
# What streams is bounded where it is read (`event_stream.py`, `KeptText`), the head of an answer by the library that
# reads it (100 KB).

MOST_ERROR_BYTES = 65_536  # of the body of an error; of its words far fewer are told

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_PLAIN = "identity"


class RefusedAnswer(httpx2.RequestError):
    """An answer that is not read. The message says why, and what to do; to ask again helps nobody."""


class BoundedClient(httpx2.AsyncClient):
    """Sends through another client, with its settings and its connections, and bounds what is answered.

    It holds nothing of its own: closing it closes nothing.
    """

    def __init__(self, through: httpx2.AsyncClient) -> None:
        super().__init__(transport=httpx2.AsyncBaseTransport(), timeout=through.timeout)
        self._through = through

    @override
    def build_request(self, *arguments: Any, **named: Any) -> httpx2.Request:  # Any: whatever the other one takes
        return self._through.build_request(*arguments, **named)

    @override
    async def send(self, request: httpx2.Request, *, stream: bool = False, **named: Any) -> httpx2.Response:
        request.headers["accept-encoding"] = _PLAIN
        response = await self._through.send(request, **{**named, "stream": True, "follow_redirects": False})
        try:
            _bound(response)
            if not stream:
                await response.aread()
        except BaseException:
            await response.aclose()
            raise
        return response


def _bound(response: httpx2.Response) -> None:
    """Raises RefusedAnswer, and DecodingError."""
    if response.status_code in _REDIRECTS and "location" in response.headers:
        raise RefusedAnswer(_redirected(response), request=response.request)
    compressed = response.headers.get("content-encoding", _PLAIN).strip().lower() not in ("", _PLAIN)
    if response.is_error:
        if compressed:  # then its status has to be enough
            del response.headers["content-encoding"]
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _Beginning(response.stream, 0 if compressed else MOST_ERROR_BYTES)
    elif compressed:
        raise httpx2.DecodingError(
            "the server compresses its answer, which it was not asked for; have it, or the proxy before it, answer "
            "without (content-encoding: identity)",
            request=response.request,
        )


def _redirected(response: httpx2.Response) -> str:
    asked, wanted = response.request.url, _location(response)
    where = _shown(asked), _shown(wanted) if wanted is not None else "an address that is none"
    if wanted is not None and _origin(asked) == _origin(wanted):
        where = where[0] + asked.path, where[1] + wanted.path
    return (
        f"{where[0]} sends the request on to {where[1]} (status {response.status_code}), which is not followed: the "
        "conversation and the key would go there. If they shall, give that server's address as the base URL "
        "(--base-url)"
    )


def _location(response: httpx2.Response) -> httpx2.URL | None:
    try:
        return response.request.url.join(response.headers["location"])
    except (httpx2.InvalidURL, ValueError):
        return None


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    port = url.port if url.port is not None else {"http": 80, "https": 443}.get(url.scheme)
    return url.scheme, url.host, port


def _shown(url: httpx2.URL) -> str:
    """The origin of an address: the rest of it may hold a key."""
    return f"{url.scheme}://{url.netloc.decode('ascii', 'replace')}"


class _Beginning(httpx2.AsyncByteStream):
    """So much of a body, without secrets; what is left of it is never read, and its connection closed."""

    def __init__(self, body: httpx2.AsyncByteStream, most_bytes: int) -> None:
        self._body = body
        self._hiding = HiddenBytes()
        self._most_bytes = most_bytes

    @override
    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = self._most_bytes
        pieces = aiter(self._body)
        while left > 0:
            piece = await anext(pieces, None)
            if piece is None:
                yield self._hiding.end()
                return
            yield self._hiding.feed(piece[:left])
            left -= len(piece)
        yield self._hiding.end(cut=True)
        await self.aclose()
        # Each generator within the other ends as it reads on from a closed connection; dropped, the event loop would
        # have to close them.
        with contextlib.suppress(httpx2.HTTPError, httpx2.StreamError, OSError, RuntimeError):
            while await anext(pieces, None) is not None:
                pass
        if isinstance(pieces, AsyncGenerator):
            await pieces.aclose()

    @override
    async def aclose(self) -> None:
        await self._body.aclose()


# --- what an adapter keeps of a reply until it can give it on --------------------------------------------
# Arguments of calls, signatures, whole blocks.

MOST_KEPT: Final = 32_000_000  # characters, of one reply


class TooMuchKept(ValueError):
    """A reply says more than can be kept. The message says so in words."""


class KeptText:
    """Counts what is kept of one reply."""

    def __init__(self, most: int = MOST_KEPT) -> None:
        self._most = most
        self._kept = 0

    def add(self, characters: int) -> None:
        """So much more is kept. Raises TooMuchKept."""
        self._kept += characters
        if self._kept > self._most:
            raise TooMuchKept(
                f"the arguments and blocks of the reply have more than {self._most} characters, and are not kept"
            )

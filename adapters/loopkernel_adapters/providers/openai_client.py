"""What both of OpenAI's APIs have in common as providers: the vendor's client, the caller's or one of their own."""

from collections.abc import Mapping
from types import TracebackType
from typing import Self

import httpx2
from openai import AsyncOpenAI, DefaultAsyncHttpx2Client

from loopkernel_adapters.ports import Provider
from loopkernel_adapters.provider_keys import real_keys
from loopkernel_adapters.providers.bounded_client import BoundedClient


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

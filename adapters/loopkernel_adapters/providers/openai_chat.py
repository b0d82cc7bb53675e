"""Models behind the chat completions API: OpenAI's, and any server that speaks as it does. Needs the extra `openai`."""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing

from loopkernel.data.effects import Request
from loopkernel.data.ids import ModelOperation
from loopkernel.data.json_text import JsonValue
from loopkernel.data.model_deltas import ModelDelta
from loopkernel.later_typing import override

try:
    from openai import AsyncOpenAI
except ModuleNotFoundError as error:
    raise ImportError("OpenAI's client is an extra: pip install 'loopkernel[openai]'") from error

from loopkernel_adapters.provider_keys import without_keys
from loopkernel_adapters.providers.openai_chat_reply import ChatReply
from loopkernel_adapters.providers.openai_chat_request import COMPATIBLE, OPENAI, ChatDialect, chat_body
from loopkernel_adapters.providers.openai_client import OpenAIProvider
from loopkernel_adapters.providers.openai_names import ToolNames
from loopkernel_adapters.providers.openai_stream import stream_reply

_HOSTS = ("api.openai.com", ".api.openai.com", ".openai.azure.com")


class OpenAIChatProvider(OpenAIProvider):
    """Asks the model that a request names, over chat completions.

    A `client` that is given stays the caller's; without one the provider makes its own, of `api_key` and `base_url`
    (else of the environment: OPENAI_API_KEY, OPENAI_BASE_URL). `dialect` says how the server differs from OpenAI's: by
    default not at all where its address is OpenAI's or Azure's, and else as most other servers do. `more` are further
    fields of each request, such as `{"reasoning_effort": "low"}`. Raises openai.OpenAIError where there is no key.
    """

    def __init__(
        self,
        client: AsyncOpenAI | None = None,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        dialect: ChatDialect | None = None,
        more: Mapping[str, JsonValue] | None = None,
    ) -> None:
        super().__init__(client, api_key, base_url)
        self._dialect = dialect or (OPENAI if self.client.base_url.host.endswith(_HOSTS) else COMPATIBLE)
        self._more = dict(more or {})

    @override
    def stream(self, request: Request, operation: ModelOperation) -> AsyncIterator[ModelDelta]:
        return without_keys(self._reply(request, operation), self.secret_keys)

    async def _reply(self, request: Request, operation: ModelOperation) -> AsyncGenerator[ModelDelta, None]:
        names = ToolNames(request.tools)
        body = chat_body(request, names, self._dialect, self._more)
        reply = ChatReply(operation, names)
        asked = stream_reply(self.bounded(), "/chat/completions", body, reply, operation, request.model)
        async with aclosing(asked) as deltas:
            async for delta in deltas:
                yield delta

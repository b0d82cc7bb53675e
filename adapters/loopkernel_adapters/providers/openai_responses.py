"""Models behind OpenAI's Responses API, and servers that speak as it does. Needs the extra `openai`."""

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
from loopkernel_adapters.providers.openai_client import OpenAIProvider
from loopkernel_adapters.providers.openai_names import ToolNames
from loopkernel_adapters.providers.openai_responses_reply import ResponsesReply
from loopkernel_adapters.providers.openai_responses_request import reasons, responses_body
from loopkernel_adapters.providers.openai_stream import stream_reply


class OpenAIResponsesProvider(OpenAIProvider):
    """Asks the model that a request names, over the Responses API, storing nothing at the server.

    A `client` that is given stays the caller's; without one the provider makes its own, of `api_key` and `base_url`
    (else of the environment: OPENAI_API_KEY, OPENAI_BASE_URL). `encrypted_reasoning`: whether the model is asked for
    its reasoning, to be given back to it; None asks those that are known to reason. `more` are further fields of each
    request, such as `{"reasoning": {"effort": "low", "summary": "auto"}}`. Raises openai.OpenAIError where there is no
    key.
    """

    def __init__(
        self,
        client: AsyncOpenAI | None = None,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        encrypted_reasoning: bool | None = None,
        more: Mapping[str, JsonValue] | None = None,
    ) -> None:
        super().__init__(client, api_key, base_url)
        self._encrypted_reasoning = encrypted_reasoning
        self._more = dict(more or {})

    @override
    def stream(self, request: Request, operation: ModelOperation) -> AsyncIterator[ModelDelta]:
        return without_keys(self._reply(request, operation), self.secret_keys)

    async def _reply(self, request: Request, operation: ModelOperation) -> AsyncGenerator[ModelDelta, None]:
        names = ToolNames(request.tools)
        wanted = self._encrypted_reasoning
        encrypted = reasons(request.model) if wanted is None else wanted
        body = responses_body(request, names, encrypted, self._more)
        reply = ResponsesReply(operation, names)
        asked = stream_reply(self.bounded(), "/responses", body, reply, operation, request.model)
        async with aclosing(asked) as deltas:
            async for delta in deltas:
                yield delta

"""Providers by the names that people type: `local`, `scripted:FILE`, `recorded:LOG`, `anthropic:MODEL`, and so on.

A vendor's client is imported only when its name is asked for. Keys come from the environment alone.
"""

import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from loopkernel.data.effects import Request
from loopkernel.data.ids import ModelOperation
from loopkernel.data.model_deltas import ModelDelta, ModelFailed
from loopkernel.data.words import ErrorClass
from loopkernel.later_typing import override

from loopkernel_adapters.ports import Provider, ProviderUnavailable, StoreError
from loopkernel_adapters.provider_keys import keys_of_all
from loopkernel_adapters.providers.local.provider import MODEL_NAME, LocalProvider, ModelMissing, find_model
from loopkernel_adapters.providers.recorded import RecordedProvider
from loopkernel_adapters.providers.scripted import NotAScript, read_script

LOCAL = "local"
SCRIPTED_MODEL = "scripted"
RECORDED_MODEL = "recorded"
FORMS = (
    "local",
    "scripted:FILE",
    "recorded:LOG",
    "anthropic:MODEL",
    "openai:MODEL, or openai-responses:MODEL (the Responses API)",
    "openai-chat:MODEL (chat completions, also of other servers, with a base URL)",
    "pydantic-ai:VENDOR:MODEL (all that pydantic-ai speaks to, as pydantic-ai:groq:NAME)",
)
_NO_KEY = "no-key"  # a server of one's own may want none, and the client wants one

Opening = AbstractContextManager[tuple[Provider, str]]


def opened(name: str, *, base_url: str | None = None) -> Opening:
    """The provider of that name, and the name of its model: sought now, loaded when the context is entered.

    `base_url` is the address of a server that speaks the API (for `openai` and `openai-chat` with its `/v1`, if it has
    one). Both steps raise ProviderUnavailable. Leave the context when no reply is read any more.
    """
    if name == LOCAL:
        return _local()
    kind, colon, rest = name.partition(":")
    opening = _OPENINGS.get(kind)
    if opening is None or not colon:
        raise ProviderUnavailable(f"there is no provider {name!r}; choose one of: {', '.join(FORMS)}")
    if not rest.strip():
        raise ProviderUnavailable(f"{name!r} names nothing behind the colon; choose one of: {', '.join(FORMS)}")
    return opening(rest, base_url)


def _local() -> Opening:
    try:
        find_model()
    except ModelMissing as error:
        raise ProviderUnavailable(f"there is no model: {error}") from error
    return _loaded_model()


@contextmanager
def _loaded_model() -> Iterator[tuple[Provider, str]]:
    try:
        provider = LocalProvider.load()
    except ModelMissing as error:
        raise ProviderUnavailable(f"there is no model: {error}") from error
    try:
        yield provider, MODEL_NAME
    finally:
        provider.close()


def _scripted(file: str, _: str | None) -> Opening:
    try:
        return nullcontext((read_script(Path(file)), SCRIPTED_MODEL))
    except NotAScript as error:
        raise ProviderUnavailable(str(error)) from error


def _recorded(log: str, _: str | None) -> Opening:
    """A JSONL log; or an SQLite file, with `#RUN` behind it where it holds several runs."""
    path, _mark, run = log.rpartition("#") if "#" in log and not Path(log).exists() else (log, "", "")
    try:
        provider = RecordedProvider.from_log(Path(path), run or None)
    except StoreError as error:
        raise ProviderUnavailable(f"the log {log} cannot be replayed: {error}") from error
    except OSError as error:
        raise ProviderUnavailable(
            f"the log {path} cannot be read: {error.strerror}; name a JSONL log, or a run in a database as FILE#RUN"
        ) from error
    return nullcontext((provider, provider.models[0] if provider.models else RECORDED_MODEL))


def _anthropic(model: str, base_url: str | None) -> Opening:
    key = _key("ANTHROPIC_API_KEY", base_url or os.environ.get("ANTHROPIC_BASE_URL"))
    try:
        from loopkernel_adapters.providers.anthropic.provider import AnthropicProvider
    except ImportError as error:
        raise ProviderUnavailable(str(error)) from error
    return nullcontext((AnthropicProvider(api_key=key, base_url=base_url), model))


def _openai(model: str, base_url: str | None) -> Opening:
    url = base_url or os.environ.get("OPENAI_BASE_URL")
    key = _key("OPENAI_API_KEY", url)
    try:
        from loopkernel_adapters.providers.openai.responses import OpenAIResponsesProvider
    except ImportError as error:
        raise ProviderUnavailable(str(error)) from error
    return nullcontext((OpenAIResponsesProvider(api_key=key, base_url=url), model))


def _openai_chat(model: str, base_url: str | None) -> Opening:
    url = base_url or os.environ.get("OPENAI_BASE_URL")
    key = _key("OPENAI_API_KEY", url)
    try:
        from loopkernel_adapters.providers.openai.chat import OpenAIChatProvider
    except ImportError as error:
        raise ProviderUnavailable(str(error)) from error
    return nullcontext((OpenAIChatProvider(api_key=key, base_url=url), model))


def _pydantic_ai(model: str, base_url: str | None) -> Opening:
    if base_url is not None:
        raise ProviderUnavailable("a model of pydantic-ai takes its address from the environment, not from a base URL")
    try:
        from pydantic_ai.exceptions import UserError

        from loopkernel_adapters.providers.pydantic_ai import PydanticAIProvider
    except ImportError as error:
        raise ProviderUnavailable("pydantic-ai is an extra: pip install 'loopkernel[pydantic-ai]'") from error
    try:
        return nullcontext((PydanticAIProvider(model), model))
    except (UserError, ValueError, ImportError) as error:  # no key, no such vendor, no client of that vendor
        raise ProviderUnavailable(f"pydantic-ai has no model {model!r}: {error}") from error


_OPENINGS: dict[str, Callable[[str, str | None], Opening]] = {
    "scripted": _scripted,
    "recorded": _recorded,
    "anthropic": _anthropic,
    "openai": _openai,
    "openai-responses": _openai,
    "openai-chat": _openai_chat,
    "pydantic-ai": _pydantic_ai,
}


def _key(variable: str, base_url: str | None) -> str:
    key = os.environ.get(variable, "").strip()
    if key:
        return key
    if base_url is None:
        raise ProviderUnavailable(
            f"there is no key: put it into the environment as {variable}, or name a server of your own that needs none"
        )
    return _NO_KEY


# --- several models behind one port ----------------------------------------------------------------------


class ProviderByModel(Provider):
    """Asks the provider that is listed under the model's name. A model that nobody offers fails as `bad_request`."""

    def __init__(self, providers: Mapping[str, Provider]) -> None:
        self._providers = dict(providers)

    @property
    def secret_keys(self) -> Mapping[str, str]:
        """The keys of all of them."""
        return keys_of_all(self._providers.values())

    @override
    def stream(self, request: Request, operation: ModelOperation) -> AsyncIterator[ModelDelta]:
        provider = self._providers.get(request.model)
        return _unknown(request.model, operation) if provider is None else provider.stream(request, operation)


async def _unknown(model: str, operation: ModelOperation) -> AsyncIterator[ModelDelta]:
    message = f"no provider offers the model {model}"
    yield ModelFailed(operation=operation, error=ErrorClass.BAD_REQUEST, message=message)

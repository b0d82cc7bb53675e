"""Each provider against a real server of a real model: llama.cpp on loopback speaks all three APIs.

Slow: the embedded model is loaded, and writes some tokens for each provider. Without it (`make model` installs it)
nothing here is run.
"""

import threading
from collections.abc import Callable, Iterator

import pytest
from loopkernel_adapters.agent import Agent
from loopkernel_adapters.ports import Provider
from loopkernel_adapters.providers.anthropic.provider import AnthropicProvider
from loopkernel_adapters.providers.local.provider import find_model
from loopkernel_adapters.providers.openai.chat import OpenAIChatProvider
from loopkernel_adapters.providers.openai.responses import OpenAIResponsesProvider
from loopkernel_adapters.providers.pydantic_ai import PydanticAIProvider
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

pytestmark = pytest.mark.slow
xllamacpp = pytest.importorskip("xllamacpp", reason="make model installs it")

KEY = "for-this-test-alone-1"
INSTRUCTIONS = "You answer in one short sentence."


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of the server. It is made and freed in a thread of its own, as the engine demands."""
    address: list[str] = []
    begun, over = threading.Event(), threading.Event()

    def serve() -> None:
        try:
            serve_until_over()
        finally:
            begun.set()

    def serve_until_over() -> None:
        parameters = xllamacpp.CommonParams()
        parameters.model.path = str(find_model())
        parameters.n_ctx = 2_048
        parameters.n_parallel = 1
        parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
        parameters.warmup = False
        parameters.verbosity = -1
        parameters.api_keys = [KEY]
        engine = xllamacpp.Server(parameters)
        body = {"messages": [{"role": "user", "content": "."}], "max_tokens": 1}
        engine.handle_chat_completions(body, lambda _: False)  # so that its loop has begun before it is freed
        address.append(engine.listening_address)
        begun.set()
        over.wait()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        begun.wait()
        assert address, "the server has not begun"
        yield address[0]
    finally:
        over.set()
        thread.join()


def through_pydantic_ai(url: str) -> Provider:
    return PydanticAIProvider(OpenAIChatModel("m", provider=OpenAIProvider(base_url=f"{url}/v1", api_key=KEY)))


PROVIDERS: dict[str, Callable[[str], Provider]] = {
    "anthropic": lambda url: AnthropicProvider(api_key=KEY, base_url=url),
    "openai": lambda url: OpenAIResponsesProvider(api_key=KEY, base_url=f"{url}/v1"),
    "openai-chat": lambda url: OpenAIChatProvider(api_key=KEY, base_url=f"{url}/v1"),
    "pydantic-ai": through_pydantic_ai,
}


@pytest.mark.parametrize("name", PROVIDERS)
def test_a_real_model_answers_two_turns_and_tells_what_it_used(server: str, name: str) -> None:
    agent = Agent(PROVIDERS[name](server), model="m", instructions=INSTRUCTIONS)
    first = agent.run_sync("Say hello.", "r")
    assert first.text_or_raise()
    assert first.usage.input > 0
    assert first.usage.output > 0
    second = agent.run_sync("And now say goodbye.", "r")
    assert second.text_or_raise()
    assert second.usage.output > first.usage.output


@pytest.mark.parametrize("name", PROVIDERS)
def test_a_wrong_key_is_told_as_one(server: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "KEY", "another-key-123456")
    result = Agent(PROVIDERS[name](server), model="m").run_sync("Say hello.")
    assert (result.problem or "").startswith("the model failed (auth)")

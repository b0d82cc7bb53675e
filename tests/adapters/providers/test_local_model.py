"""The real embedded model, if it is installed: its replies are legal, repeatable, and can be stopped."""

import asyncio
import importlib.util
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from loopkernel.data.blocks import TextBlock, text_of
from loopkernel.data.choices import Lifetime
from loopkernel.data.events import Event, ToolEnded, TurnEnded
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import ModelCall, ModelCompleted, ModelFailed, ModelText
from loopkernel.data.policy import Policy
from loopkernel.data.thread_deltas import Created
from loopkernel.data.tools import Tool
from loopkernel.data.user_deltas import Say
from loopkernel.data.words import CallStatus, ErrorClass, StopReason, TurnEndReason
from loopkernel_adapters.driver.asyncio_driver import Driver
from loopkernel_adapters.driver.clocks import WallClock
from loopkernel_adapters.providers.local import provider as local
from loopkernel_adapters.providers.local.provider import (
    Engine,
    EngineSettings,
    LocalProvider,
    Receive,
    load_engine,
)
from loopkernel_adapters.providers.local.request import JsonObject, reply_schema
from loopkernel_adapters.stores.memory import MemoryStore
from loopkernel_adapters.tools.files import FileTools, Workspace
from loopkernel_adapters.tools.registry import Registry

from tests.adapters.providers.local_world import (
    LIST,
    OPERATION,
    READ,
    call,
    fits,
    reply,
    request,
    results,
    streamed_from,
    threads_of_the_model,
    user,
)

INSTALLED = all(importlib.util.find_spec(name) is not None for name in ("xllamacpp", local.MODEL_PACKAGE))
needs_the_model = pytest.mark.skipif(
    not INSTALLED,
    reason="the embedded model is NOT installed, so nothing here was tried with a real model: `make model` installs "
    "it, and `make slow` then tries it",
)


@pytest.fixture(scope="module")
def real() -> Iterator[LocalProvider]:
    provider = LocalProvider.load()
    yield provider
    provider.close()
    assert threads_of_the_model() == []


@needs_the_model
def test_a_real_reply_is_a_legal_call_and_then_an_answer(real: LocalProvider) -> None:
    task = user("Read notes.txt and say what it says.")
    *_, called, completed = streamed_from(real, task, tools=(READ, LIST))
    assert isinstance(called, ModelCall)
    assert isinstance(called.input, Json)
    legal = reply_schema(request(task))
    assert fits(legal, {"tool": called.tool, "input": called.input.value()})
    assert isinstance(completed, ModelCompleted)
    assert completed.stop is StopReason.TOOL_USE
    assert min(completed.usage.input, completed.usage.output) > 0
    result = results("The meeting is on Tuesday.")
    *pieces, answered = streamed_from(real, task, reply(call()), result, tools=(READ, LIST))
    assert len([piece for piece in pieces if isinstance(piece, ModelText)]) > 1
    assert isinstance(answered, ModelCompleted)
    assert answered.stop is StopReason.END_TURN


@needs_the_model
def test_the_same_request_gets_the_same_real_reply(real: LocalProvider) -> None:
    one = streamed_from(real, user("Read door.txt."), tools=(READ,))
    streamed_from(real, user("What is the capital of France?"))  # what was asked in between leaves no trace
    assert streamed_from(real, user("Read door.txt."), tools=(READ,)) == one


@needs_the_model
def test_a_prompt_that_is_too_long_for_the_real_model_is_classified(real: LocalProvider) -> None:
    failed = streamed_from(real, user("word " * 5_000))[-1]
    assert isinstance(failed, ModelFailed)
    assert failed.error is ErrorClass.PROMPT_TOO_LONG


@needs_the_model
def test_a_schema_that_the_real_engine_cannot_follow_is_a_bad_request(real: LocalProvider) -> None:
    failed = streamed_from(real, user("hi"), tools=(Tool(name="odd", input_schema=Json.of({"type": "odd"})),))[-1]
    assert isinstance(failed, ModelFailed)
    assert failed.error is ErrorClass.BAD_REQUEST


class WatchedEngine:
    """Notes the last chunk that an engine says."""

    def __init__(self, inner: Engine) -> None:
        self.inner = inner
        self.begun = threading.Event()
        self.last: JsonObject = {}

    def handle_chat_completions(self, body: JsonObject, receive: Receive) -> None:
        def watch(chunk: JsonObject) -> bool:
            self.last = chunk
            self.begun.set()
            return receive(chunk)

        self.inner.handle_chat_completions(body, watch)


@needs_the_model
def test_a_real_reply_is_stopped_while_its_prompt_is_read() -> None:
    engine = WatchedEngine(load_engine(EngineSettings()))
    provider = LocalProvider(engine)

    async def abort() -> None:
        async def read() -> None:
            async for _ in provider.stream(request(user("word " * 2_000), tools=()), OPERATION):
                continue

        reading = asyncio.create_task(read())
        assert await asyncio.to_thread(engine.begun.wait, 60)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading

    asyncio.run(abort())
    progress = engine.last["prompt_progress"]
    assert isinstance(progress, dict)
    assert int(str(progress["processed"])) < int(str(progress["total"]))
    assert isinstance(streamed_from(provider, user("Read door.txt."), tools=(READ,))[-1], ModelCompleted)
    provider.close()


@needs_the_model
def test_the_whole_loop_runs_with_the_real_model_on_real_files(real: LocalProvider, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("The meeting with Anna is on Tuesday at ten.\n")
    (tmp_path / "door.txt").write_text("The key is under the blue flower pot.\n")
    seen: list[Event] = []

    async def run(workspace: Workspace) -> None:
        tools = Registry(FileTools(workspace).all())
        created = Created(session_id="s", policy=Policy(lifetime=Lifetime.TASK), tools=tools.offered())
        async with await Driver.open(
            store=MemoryStore(),
            created=created,
            provider=real,
            tools=tools,
            clock=WallClock(),
            observers=(seen.append,),
        ) as driver:
            await driver.send(Say(content=(TextBlock("Read notes.txt and say what it says."),)))
            await driver.rest()

    with Workspace(tmp_path) as workspace:
        asyncio.run(run(workspace))
    (result,) = [event.result for event in seen if isinstance(event, ToolEnded)]
    assert result.status is CallStatus.DONE
    assert text_of(result.content) == "The meeting with Anna is on Tuesday at ten.\n"
    (ended,) = [event for event in seen if isinstance(event, TurnEnded)]
    assert ended.reason is TurnEndReason.MODEL_STOP
    assert ended.usage.output > 0

"""The embedded model behind the port: how it streams, fails and stops. The engine is a fake."""

import asyncio
import sys
import threading
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path

import pytest
from loopkernel.data.effects import Request
from loopkernel.data.json_text import JsonValue
from loopkernel.data.model_deltas import ModelCompleted, ModelDelta, ModelFailed, ModelStarted, ModelText, ModelUsage
from loopkernel.data.usage import Usage
from loopkernel.data.words import ErrorClass, StopReason
from loopkernel_adapters.providers.local import provider as local
from loopkernel_adapters.providers.local.provider import (
    MODEL_NAME,
    EngineSettings,
    LocalProvider,
    ModelMissing,
    Receive,
    find_model,
)
from loopkernel_adapters.providers.local.request import JsonObject, chat_messages, reply_schema

from tests.adapters.providers.local_world import (
    A_CALL,
    OPERATION,
    READ_CALL,
    USAGE,
    request,
    streamed_from,
    threads_of_the_model,
    user,
)


class FakeEngine:
    """Says its chunks, then does what `then` does."""

    def __init__(self, *chunks: JsonObject, then: Callable[[Receive], None] = lambda receive: None) -> None:
        self.chunks = chunks
        self.then = then
        self.bodies: list[JsonObject] = []
        self.at_work = 0
        self.stopped = threading.Event()

    def handle_chat_completions(self, body: JsonObject, receive: Receive) -> None:
        self.at_work += 1
        assert self.at_work == 1, "the engine serves one request at a time"
        self.bodies.append(body)
        try:
            if not any(receive(chunk) for chunk in self.chunks):
                self.then(receive)
        finally:
            self.at_work -= 1
            self.stopped.set()


def said(text: str | None, finish_reason: str | None = None) -> JsonObject:
    delta: JsonObject = {} if text is None else {"content": text}
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]}


def used(prompt: int, completion: int) -> JsonObject:
    return {"choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": completion}}


PROGRESS: JsonObject = {
    "choices": [{"index": 0, "delta": {"role": "assistant", "content": None}, "finish_reason": None}],
    "prompt_progress": {"total": 40, "processed": 40},
}


def endless(receive: Receive) -> None:
    """A reply that ends only when it is stopped."""
    while not receive(said("a")):
        continue


def streamed(engine: FakeEngine, asked: Request | None = None) -> list[ModelDelta]:
    provider = LocalProvider(engine)

    async def collect() -> list[ModelDelta]:
        stream = provider.stream(request(user("read it")) if asked is None else asked, OPERATION)
        return [delta async for delta in stream]

    try:
        return asyncio.run(collect())
    finally:
        provider.close()


@pytest.mark.rule("INFER-3")
def test_an_answer_streams_as_text_and_ends_with_its_usage() -> None:
    engine = FakeEngine(PROGRESS, said('{"answer": "B'), said("uy"), said(' milk."}'), said(None, "stop"), used(40, 9))
    assert streamed(engine) == [
        ModelStarted(OPERATION, MODEL_NAME),
        ModelUsage(OPERATION, Usage(input=40)),
        ModelText(OPERATION, "B"),
        ModelText(OPERATION, "uy"),
        ModelText(OPERATION, " milk."),
        ModelCompleted(OPERATION, StopReason.END_TURN, Usage(input=40, output=9)),
    ]


def test_a_call_comes_whole() -> None:
    engine = FakeEngine(*map(said, READ_CALL), said("", "stop"), used(3, 4))
    assert streamed(engine)[1:] == [A_CALL, ModelCompleted(OPERATION, StopReason.TOOL_USE, USAGE)]


@pytest.mark.parametrize(("asked", "settings", "limit"), [(None, 256, 256), (20, 256, 20), (32_000, 256, 256)])
def test_the_engine_is_asked_for_the_legal_reply_and_no_more_tokens_than_allowed(
    asked: int | None, settings: int, limit: int
) -> None:
    engine = FakeEngine(said('{"answer": "A."}', "stop"))
    wanted = request(user("read it"), limit=asked)
    streamed(engine, wanted)
    (body,) = engine.bodies
    assert body["messages"] == chat_messages(wanted)
    assert body["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "reply", "schema": reply_schema(wanted)},
    }
    assert body["max_tokens"] == limit
    assert EngineSettings().reply_tokens == settings


@pytest.mark.parametrize(
    ("problem", "error"),
    [
        ({"code": 400, "type": "exceed_context_size_error", "message": "too long"}, ErrorClass.PROMPT_TOO_LONG),
        ({"code": 400, "type": "invalid_request_error", "message": "no"}, ErrorClass.BAD_REQUEST),
        ({"code": 500, "message": "broken"}, ErrorClass.SERVER),
        ("broken", ErrorClass.SERVER),
    ],
)
def test_an_error_of_the_engine_is_classified(problem: JsonValue, error: ErrorClass) -> None:
    failed = streamed(FakeEngine({"error": problem}))[-1]
    assert isinstance(failed, ModelFailed)
    assert failed.error is error
    assert ("shorten the task" in failed.message) is (error is ErrorClass.PROMPT_TOO_LONG)
    words = problem["message"] if isinstance(problem, dict) else problem
    assert str(words) in failed.message


def test_a_schema_that_the_engine_refuses_is_a_bad_request() -> None:
    def refuse(receive: Receive) -> None:
        raise ValueError("unrecognized type")

    failed = streamed(FakeEngine(then=refuse))[-1]
    assert isinstance(failed, ModelFailed)
    assert failed.error is ErrorClass.BAD_REQUEST
    assert "unrecognized type" in failed.message


def test_an_engine_that_breaks_may_be_asked_again() -> None:
    def breaks(receive: Receive) -> None:
        raise RuntimeError("out of memory")

    failed = streamed(FakeEngine(PROGRESS, then=breaks))[-1]
    assert isinstance(failed, ModelFailed)
    assert failed.error is ErrorClass.SERVER
    assert "out of memory" in failed.message
    assert failed.retry_after_ms is None


@pytest.mark.rule("INFER-11")
def test_a_prompt_that_is_read_in_pieces_is_no_silence() -> None:
    pieces: list[JsonObject] = [
        {**PROGRESS, "prompt_progress": {"total": 128, "processed": read}} for read in (64, 128)
    ]
    engine = FakeEngine(*pieces, said('{"answer": "B."}', "stop"))
    shown = [delta.usage.input for delta in streamed(engine) if isinstance(delta, ModelUsage)]
    assert shown == [64, 128]


def test_an_engine_that_just_stops_has_failed() -> None:
    failed = streamed(FakeEngine(said('{"answer": "B')))[-1]
    assert isinstance(failed, ModelFailed)
    assert failed.error is ErrorClass.SERVER


def test_leaving_the_stream_stops_the_engine() -> None:
    engine = FakeEngine(said('{"answer": "B'), then=endless)
    provider = LocalProvider(engine)

    async def leave() -> None:
        async with aclosing(provider.stream(request(user("hi")), OPERATION)) as stream:  # type: ignore[type-var]  # it is a generator
            async for delta in stream:
                if isinstance(delta, ModelText):
                    break
        assert engine.stopped.is_set()

    asyncio.run(leave())
    provider.close()


def test_an_abort_stops_the_engine_and_the_next_reply_comes() -> None:
    engine = FakeEngine(said('{"answer": "B'), then=endless)
    provider = LocalProvider(engine)

    async def abort() -> list[ModelDelta]:
        begun = asyncio.Event()

        async def read() -> None:
            async for delta in provider.stream(request(user("hi")), OPERATION):
                if isinstance(delta, ModelText):
                    begun.set()

        reading = asyncio.create_task(read())
        await begun.wait()
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        assert engine.stopped.is_set()
        engine.chunks = (said('{"answer": "B."}', "stop"),)
        engine.then = lambda receive: None
        return [delta async for delta in provider.stream(request(user("hi")), OPERATION)]

    assert isinstance(asyncio.run(abort())[-1], ModelCompleted)
    provider.close()


def test_two_replies_at_once_are_given_one_after_the_other() -> None:
    engine = FakeEngine(said('{"answer": "A."}', "stop"))
    provider = LocalProvider(engine)

    async def both() -> None:
        async def read() -> ModelDelta:
            return [delta async for delta in provider.stream(request(user("hi")), OPERATION)][-1]

        ended = await asyncio.gather(read(), read(), read())
        assert all(isinstance(delta, ModelCompleted) for delta in ended)

    asyncio.run(both())
    provider.close()


def test_closing_ends_the_thread_and_what_it_does() -> None:
    engine = FakeEngine(said('{"answer": "B'), then=endless)
    provider = LocalProvider(engine)

    async def close_in_between() -> ModelDelta:
        last: ModelDelta | None = None
        async for delta in provider.stream(request(user("hi")), OPERATION):
            if isinstance(delta, ModelText):
                provider.close()
            last = delta
        assert last is not None
        return last

    assert isinstance(asyncio.run(close_in_between()), ModelFailed)
    assert threads_of_the_model() == []
    provider.close()
    (closed,) = streamed_from(provider)
    assert isinstance(closed, ModelFailed)
    assert "closed" in closed.message


def test_missing_weights_say_what_to_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "MODEL_PACKAGE", "a_package_that_nobody_has")
    with pytest.raises(ModelMissing, match="make run"):
        LocalProvider.load()


def test_a_missing_file_or_a_broken_engine_says_what_to_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    package = tmp_path / "some_weights"
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError('importing this package is not needed')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(local, "MODEL_PACKAGE", "some_weights")
    with pytest.raises(ModelMissing, match="make run"):
        find_model()
    (package / local.MODEL_FILE).write_bytes(b"no model")
    assert find_model() == package / local.MODEL_FILE
    (tmp_path / "xllamacpp.py").write_text("raise ImportError('built for another machine')")
    monkeypatch.delitem(sys.modules, "xllamacpp", raising=False)
    with pytest.raises(ModelMissing, match=r"built for another machine.*make run"):
        LocalProvider.load()

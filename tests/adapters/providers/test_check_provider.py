"""The check of providers: every one of ours keeps its duties, and one that breaks a duty is caught by its number."""

import asyncio
import importlib.util
import os
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import assert_never

import pytest
from attrs import evolve
from loopkernel.data.blocks import RawInput
from loopkernel.data.effects import Request
from loopkernel.data.ids import ModelOperation
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import ModelCall, ModelCompleted, ModelDelta, ModelFailed, ModelInput, ModelText
from loopkernel.data.words import ErrorClass, StopReason
from loopkernel_adapters.ports import Provider
from loopkernel_adapters.providers import local
from loopkernel_adapters.providers.anthropic import AnthropicProvider
from loopkernel_adapters.providers.local import LocalProvider, Receive
from loopkernel_adapters.providers.local_request import JsonObject
from loopkernel_adapters.providers.scripted import ANY, ScriptedProvider, call_reply, text_reply
from loopkernel_adapters.testing.check_provider import Situation, Staged, check_provider, request_for_check
from typing_extensions import override

from tests.adapters.providers.anthropic_world import ending, start, text, tool_use, wire
from tests.adapters.providers.wire_server import Answer, WireServer, problem, stream_of

PATH = Json.of({"path": "a.txt"})


# --- our own ------------------------------------------------------------------------------------------

ANSWERS: dict[Situation, Answer] = {
    Situation.TEXT: stream_of(wire([start()]), wire(text(0, "It says ", "hello.")), wire(ending("end_turn"))),
    Situation.CALLS: stream_of(wire([start(), *tool_use(0, '{"path": ', '"a.txt"}'), *ending("tool_use")])),
    Situation.FAILING: problem(529, {"error": {"type": "overloaded_error", "message": "Overloaded"}}),
    Situation.CUT: stream_of(wire([start(), *tool_use(0, '{"path": ', ends=False)]), ends="cut"),
    Situation.SILENT: stream_of(wire([start(), *text(0, "It")]), ends="silent"),
}


@asynccontextmanager
async def anthropic_staged(situation: Situation) -> AsyncIterator[Staged | None]:
    with WireServer([ANSWERS[situation]]) as server:
        async with AnthropicProvider(api_key="k", base_url=server.url) as provider:
            yield Staged(
                provider=provider,
                asked=lambda: len(server.requests),
                told=lambda: asyncio.to_thread(server.wait_until_told),
                text={Situation.TEXT: "It says hello."}.get(situation),
                calls={Situation.CALLS: (("read_file", PATH),)}.get(situation),
                error=ErrorClass.OVERLOADED if situation is Situation.FAILING else None,
            )


@asynccontextmanager
async def scripted_staged(situation: Situation) -> AsyncIterator[Staged | None]:
    failed = ModelFailed(operation=ANY, error=ErrorClass.NETWORK, message="the connection was lost")
    scripts = {
        Situation.TEXT: text_reply("It says hello."),
        Situation.CALLS: call_reply(("read_file", PATH)),
        Situation.FAILING: (failed,),
        Situation.CUT: (ModelText(ANY, "I read"), ModelInput(ANY, '{"pa'), failed),
        Situation.SILENT: (ModelText(ANY, "I"), asyncio.Event()),
    }
    provider = ScriptedProvider([scripts[situation]])
    yield Staged(
        provider=provider,
        asked=lambda: len(provider.requests),
        text={Situation.TEXT: "It says hello."}.get(situation),
        calls={Situation.CALLS: (("read_file", PATH),)}.get(situation),
    )


def test_the_anthropic_provider_keeps_its_duties() -> None:
    assert check_provider(anthropic_staged) == ()


def test_the_scripted_provider_keeps_its_duties() -> None:
    assert check_provider(scripted_staged) == ()


class FakeEngine:
    """Says its pieces; then stops, raises, or says nothing until it is stopped."""

    def __init__(self, situation: Situation) -> None:
        self.situation = situation
        self.asked = 0
        self.told = threading.Event()

    def handle_chat_completions(self, body: JsonObject, receive: Receive) -> None:
        self.asked += 1
        call = '{"tool": "read_file", "input": {"path": "a.txt"}}'
        match self.situation:
            case Situation.TEXT:
                any(receive(said(piece)) for piece in ('{"answer": "It ', "works", '."}'))
                receive(said("", "stop"))
            case Situation.CALLS:
                receive(said(call, "stop"))
            case Situation.FAILING:
                receive({"error": {"type": "exceed_context_size_error", "message": "too long"}})
            case Situation.CUT:
                receive(said(call[:30]))
                raise RuntimeError("the engine has died")
            case Situation.SILENT:
                receive(said('{"answer": "It'))
                self.told.set()
                while not receive({}):  # as the engine does while it works: so it learns that it is to stop
                    self.told.wait(0.001)
            case _:
                assert_never(self.situation)


def said(text: str, finish_reason: str | None = None) -> JsonObject:
    return {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": finish_reason}]}


def test_the_local_provider_keeps_its_duties() -> None:
    @asynccontextmanager
    async def staged(situation: Situation) -> AsyncIterator[Staged | None]:
        engine = FakeEngine(situation)
        provider = LocalProvider(engine)
        try:
            yield Staged(
                provider=provider,
                asked=lambda: engine.asked,
                told=lambda: asyncio.to_thread(engine.told.wait),
                text="It works." if situation is Situation.TEXT else None,
                calls=(("read_file", PATH),) if situation is Situation.CALLS else None,
                error=ErrorClass.PROMPT_TOO_LONG if situation is Situation.FAILING else None,
            )
        finally:
            provider.close()

    assert check_provider(staged) == ()


@pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("xllamacpp", local.MODEL_PACKAGE)),
    reason="the embedded model is NOT installed, so its provider is checked with a fake engine only: `make model`",
)
def test_the_local_provider_with_its_model_keeps_its_duties() -> None:
    real = LocalProvider.load()

    @asynccontextmanager
    async def staged(situation: Situation) -> AsyncIterator[Staged | None]:
        request = request_for_check()
        if situation is Situation.TEXT:
            yield Staged(provider=real, request=evolve(request, tools=()))
        else:
            yield Staged(provider=real, request=request) if situation is Situation.CALLS else None

    try:
        assert len(check_provider(staged)) == 3
    finally:
        real.close()


# --- broken ones --------------------------------------------------------------------------------------

Stream = Callable[["Broken", Request, ModelOperation, Situation], AsyncIterator[ModelDelta]]


class Broken(Provider):
    """A provider that is sound but for what `stream` does."""

    def __init__(self, stream: Stream, situation: Situation) -> None:
        self._stream = stream
        self._situation = situation
        self.asked = 0

    @override
    def stream(self, request: Request, operation: ModelOperation) -> AsyncIterator[ModelDelta]:
        return self._stream(self, request, operation, self._situation)


async def sound(
    broken: Broken, request: Request, operation: ModelOperation, situation: Situation
) -> AsyncIterator[ModelDelta]:
    """What a provider without a fault does in each situation."""
    broken.asked += 1
    lost = ModelFailed(operation=operation, error=ErrorClass.NETWORK, message="lost")
    match situation:
        case Situation.TEXT:
            yield ModelText(operation, "It ")
            yield ModelText(operation, "works.")
            yield ModelCompleted(operation, StopReason.END_TURN)
        case Situation.CALLS:
            yield ModelInput(operation, '{"path": "a.txt"}')
            yield ModelCall(operation=operation, provider_id="c", tool="read_file", input=PATH)
            yield ModelCompleted(operation, StopReason.TOOL_USE)
        case Situation.FAILING:
            yield lost
        case Situation.CUT:
            yield ModelInput(operation, '{"path"')
            yield lost
        case Situation.SILENT:
            yield ModelText(operation, "It")
            await asyncio.Event().wait()


def changing(change: Callable[[ModelDelta], list[ModelDelta]]) -> Stream:
    """A fault that shows in what is given: each delta becomes the ones that `change` makes of it."""

    async def stream(
        broken: Broken, request: Request, operation: ModelOperation, situation: Situation
    ) -> AsyncIterator[ModelDelta]:
        async for delta in sound(broken, request, operation, situation):
            for changed in change(delta):
                yield changed

    return stream


def not_at_once(
    broken: Broken, request: Request, operation: ModelOperation, situation: Situation
) -> AsyncIterator[ModelDelta]:
    async def later() -> AsyncIterator[ModelDelta]:
        return sound(broken, request, operation, situation)

    return later()  # type: ignore[return-value]  # the fault: it has to be awaited first


class Unclosable:
    """The fault: it cannot be told to let go."""

    def __init__(self, stream: AsyncIterator[ModelDelta]) -> None:
        self._stream = stream

    def __aiter__(self) -> "Unclosable":
        return self

    async def __anext__(self) -> ModelDelta:
        return await anext(self._stream)


async def retries(
    broken: Broken, request: Request, operation: ModelOperation, situation: Situation
) -> AsyncIterator[ModelDelta]:
    async for _ in sound(broken, request, operation, situation) if situation is Situation.FAILING else nothing():
        pass
    async for delta in sound(broken, request, operation, situation):
        yield delta


async def nothing() -> AsyncIterator[ModelDelta]:
    return
    yield


async def raises(
    broken: Broken, request: Request, operation: ModelOperation, situation: Situation
) -> AsyncIterator[ModelDelta]:
    async for delta in sound(broken, request, operation, situation):
        if isinstance(delta, ModelFailed):
            raise ConnectionError(delta.message)
        yield delta


async def swallows_its_cancellation(
    broken: Broken, request: Request, operation: ModelOperation, situation: Situation
) -> AsyncIterator[ModelDelta]:
    try:
        async for delta in sound(broken, request, operation, situation):
            yield delta
    except asyncio.CancelledError:
        yield ModelFailed(operation=operation, error=ErrorClass.NETWORK, message="cancelled")


LEFT: list[object] = []
TRACE = "Traceback (most recent call last):\n  File..."


async def leaves_a_task(
    broken: Broken, request: Request, operation: ModelOperation, situation: Situation
) -> AsyncIterator[ModelDelta]:
    LEFT.append(asyncio.create_task(asyncio.Event().wait()))
    async for delta in sound(broken, request, operation, situation):
        yield delta


async def leaves_a_descriptor(
    broken: Broken, request: Request, operation: ModelOperation, situation: Situation
) -> AsyncIterator[ModelDelta]:
    LEFT.append(os.dup(0))
    async for delta in sound(broken, request, operation, situation):
        yield delta


def staging(stream: Stream) -> Callable[[Situation], AbstractAsyncContextManager[Staged | None]]:
    @asynccontextmanager
    async def staged(situation: Situation) -> AsyncIterator[Staged | None]:
        broken = Broken(stream, situation)
        yield Staged(
            provider=broken,
            asked=lambda: broken.asked,
            text="It works." if situation is Situation.TEXT else None,
            calls=(("read_file", PATH),) if situation is Situation.CALLS else None,
            error=ErrorClass.NETWORK if situation is Situation.FAILING else None,
        )

    return staged


def test_a_sound_one_passes_and_what_cannot_be_staged_is_told() -> None:
    assert check_provider(staging(sound)) == ()

    @asynccontextmanager
    async def only_text(situation: Situation) -> AsyncIterator[Staged | None]:
        async with staging(sound)(situation) as staged:
            yield staged if situation is Situation.TEXT else None

    unchecked = check_provider(only_text)
    assert len(unchecked) == 4
    assert all(words.startswith("not staged: ") for words in unchecked)


def calls_early(delta: ModelDelta) -> list[ModelDelta]:
    if not isinstance(delta, ModelInput):
        return [delta]
    written = RawInput(delta.text)
    return [delta, ModelCall(operation=delta.operation, provider_id="c", tool="read_file", input=written)]


@pytest.mark.parametrize(
    ("stream", "duty"),
    [
        (not_at_once, "provider 1: stream\\(\\) gives a coroutine"),
        (changing(lambda delta: [evolve(delta, operation=ModelOperation(1))]), "provider 1: a delta names operation 1"),
        (changing(lambda delta: [] if isinstance(delta, ModelCompleted) else [delta]), "provider 2: .* without"),
        (changing(lambda delta: [delta, delta]), "provider 2: something comes after"),
        (
            changing(lambda d: [ModelCompleted(d.operation, StopReason.END_TURN) if isinstance(d, ModelFailed) else d]),
            "provider 4: the service has failed",
        ),
        (raises, "provider 4: a failure is raised"),
        (
            changing(lambda d: [evolve(d, message=" ") if isinstance(d, ModelFailed) else d]),
            "provider 4: .* nothing in words",
        ),
        (
            changing(lambda d: [evolve(d, retry_after_ms=-1) if isinstance(d, ModelFailed) else d]),
            "provider 4: it asks to wait -1",
        ),
        (
            changing(lambda d: [evolve(d, error=ErrorClass.AUTH) if isinstance(d, ModelFailed) else d]),
            "provider 4: .* classified as",
        ),
        (retries, "provider 5: the service was asked 2 times"),
        (lambda *asked: Unclosable(sound(*asked)), "provider 7: a Unclosable cannot be closed"),
        (swallows_its_cancellation, "provider 7: the stream has swallowed"),
        (leaves_a_task, "provider 7: .* leaves"),
        (leaves_a_descriptor, "provider 7: .* descriptors open"),
        (
            changing(lambda d: [evolve(d, message=TRACE) if isinstance(d, ModelFailed) else d]),
            "provider 4: .* told to programmers",
        ),
        (
            changing(lambda d: [evolve(d, text=d.text.strip()) if isinstance(d, ModelText) else d]),
            "provider 9: the pieces of the text",
        ),
        (changing(lambda d: [d, d] if isinstance(d, ModelInput) else [d]), "provider 9: the pieces of a call's input"),
        (changing(lambda d: [evolve(d, tool="other") if isinstance(d, ModelCall) else d]), "provider 9: the calls are"),
        (changing(calls_early), "provider 9: the (pieces of a call's input|calls)"),
    ],
)
def test_a_broken_provider_is_caught_by_the_duty_that_it_breaks(
    stream: Stream, duty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("loopkernel_adapters.testing.check_provider._PATIENCE_S", 0.05)
    try:
        with pytest.raises(AssertionError, match=duty):
            check_provider(staging(stream))
    finally:
        for item in LEFT:
            if isinstance(item, int):
                os.close(item)
        LEFT.clear()


def test_a_call_out_of_a_cut_stream_is_caught() -> None:
    @asynccontextmanager
    async def staged(situation: Situation) -> AsyncIterator[Staged | None]:
        async with staging(changing(calls_early))(situation) as broken:
            yield broken if situation is Situation.CUT else None

    with pytest.raises(AssertionError, match="provider 11: a call came out of a stream that was cut"):
        check_provider(staged)

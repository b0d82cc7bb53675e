"""What goes wrong between the provider and the service, over real sockets: told once, and nothing is left."""

import asyncio
import gc
import os
from collections.abc import Awaitable, Callable

import anthropic
import httpx2
import pytest
from loopkernel.data.model_deltas import ModelDelta, ModelFailed, ModelStarted
from loopkernel.data.usage import Usage
from loopkernel.data.words import ErrorClass
from loopkernel_adapters.providers.anthropic import provider as adapter
from loopkernel_adapters.providers.anthropic.provider import AnthropicProvider

from tests.adapters.providers.anthropic_world import (
    InMemory,
    asking,
    calls_in,
    completed,
    ending,
    failed,
    read,
    start,
    text,
    text_in,
    tool_use,
    wire,
)
from tests.adapters.providers.asked_requests import OPERATION
from tests.adapters.providers.wire_server import EVENT_STREAM, Answer, WireServer, problem, stream_of

GOOD = (wire([start(), *text(0, "Hi")]), wire(ending("end_turn")))


def against(
    server: WireServer, use: Callable[[AnthropicProvider], Awaitable[list[ModelDelta]]] = read
) -> list[ModelDelta]:
    """What `use` reads from a provider that asks the server; afterwards no task and no descriptor is left."""

    async def run() -> list[ModelDelta]:
        tasks = asyncio.all_tasks()
        async with AnthropicProvider(api_key="k", base_url=server.url) as provider:
            deltas = await use(provider)
            for _ in range(10):  # where the decompression fails, the client leaves its generators to the loop
                await asyncio.sleep(0)
            assert asyncio.all_tasks() == tasks
        return deltas

    return asyncio.run(run())


def error_body(kind: str, message: str) -> dict[str, object]:
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}


@pytest.mark.rule("RETRY-3")
@pytest.mark.parametrize(
    ("status", "kind", "message", "error"),
    [
        (400, "invalid_request_error", "messages: at least one is needed", ErrorClass.BAD_REQUEST),
        (
            400,
            "invalid_request_error",
            "prompt is too long: 210000 tokens > 200000 maximum",
            ErrorClass.PROMPT_TOO_LONG,
        ),
        (
            400,
            "invalid_request_error",
            "input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000",
            ErrorClass.PROMPT_TOO_LONG,
        ),
        (401, "authentication_error", "invalid x-api-key", ErrorClass.AUTH),
        (402, "billing_error", "your credit balance is too low", ErrorClass.AUTH),
        (403, "permission_error", "not for this key", ErrorClass.AUTH),
        (404, "not_found_error", "model: claude-none", ErrorClass.BAD_REQUEST),
        (408, "timeout_error", "too slow", ErrorClass.SERVER),
        (413, "request_too_large", "Request exceeds the maximum size", ErrorClass.PROMPT_TOO_LONG),
        (429, "rate_limit_error", "slow down", ErrorClass.RATE_LIMITED),
        (500, "api_error", "Internal server error", ErrorClass.SERVER),
        (504, "timeout_error", "took too long", ErrorClass.SERVER),
        (529, "overloaded_error", "Overloaded", ErrorClass.OVERLOADED),
    ],
)
def test_each_error_of_the_service_has_its_class_and_its_words(
    status: int, kind: str, message: str, error: ErrorClass
) -> None:
    with WireServer([problem(status, error_body(kind, message))]) as server:
        (last,) = against(server)
    assert isinstance(last, ModelFailed)
    assert (last.error, last.retry_after_ms) == (error, None)
    assert message in last.message
    assert str(status) in last.message
    assert len(server.requests) == 1  # the client's own retries are off


@pytest.mark.rule("RETRY-3")
@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Answer(status=502, pieces=(b"<html>Bad gateway</html>" * 500,)), ErrorClass.SERVER),
        (Answer(status=503), ErrorClass.OVERLOADED),
        (Answer(status=418, pieces=(b"[]",)), ErrorClass.BAD_REQUEST),
        (Answer(status=500, pieces=(b'{"error": {"type": 7}}',)), ErrorClass.SERVER),
        (Answer(status=500, pieces=(b"half of",), ends="cut"), ErrorClass.NETWORK),
        (Answer(status=204), ErrorClass.NETWORK),
        (Answer(pieces=(b"<html>Log in first</html>",)), ErrorClass.NETWORK),
        (Answer(headers=(("content-encoding", "gzip"),), pieces=(b"no gzip",)), ErrorClass.NETWORK),
    ],
)
def test_answers_that_are_not_of_this_api_are_classified_as_well(answer: Answer, error: ErrorClass) -> None:
    with WireServer([answer]) as server:
        last = failed(against(server))
    assert last.error is error
    assert 0 < len(last.message) < 1_000
    assert len(server.requests) == 1


@pytest.mark.parametrize("key", ["sk-canary-0123456789", "sk-canary\r\n0123456789"])
def test_a_key_that_is_repeated_or_cannot_be_sent_is_not_told(key: str) -> None:
    async def run(url: str) -> ModelFailed:
        async with AnthropicProvider(api_key=key, base_url=url) as provider:
            return failed(await read(provider))

    # The words are cut in the midst of the key.
    with WireServer([problem(401, error_body("authentication_error", f"{'x' * 590} {key}"))]) as server:
        last = asyncio.run(run(server.url))
    assert last.error is (ErrorClass.AUTH if server.requests else ErrorClass.BAD_REQUEST)
    assert "sk-c" not in last.message


@pytest.mark.rule("RETRY-2")
@pytest.mark.parametrize(
    ("headers", "wait_ms"),
    [
        ({"retry-after": "7"}, 7_000),
        ({"retry-after-ms": "1250", "retry-after": "7"}, 1_250),
        ({"retry-after": "Sun, 22 Nov 2026 12:00:09 GMT", "date": "Sun, 22 Nov 2026 12:00:00 GMT"}, 9_000),
        ({"retry-after": "NaN"}, None),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "1000000000"}, 31_622_400_000),
    ],
)
def test_what_the_service_asks_to_wait_is_passed_on(headers: dict[str, str], wait_ms: int | None) -> None:
    with WireServer([problem(429, error_body("rate_limit_error", "slow down"), *headers.items())]) as server:
        assert failed(against(server)).retry_after_ms == wait_ms


@pytest.mark.rule("INFER-11")
@pytest.mark.parametrize("ends", ["cut", "reset"])
def test_a_lost_connection_is_a_failure_of_the_network(ends: str) -> None:
    begun = wire([start(), *text(0, "Hi"), *tool_use(1, '{"path"', ends=False)])
    with WireServer(
        [Answer(headers=EVENT_STREAM, pieces=(begun,), ends="cut" if ends == "cut" else "reset")]
    ) as server:
        deltas = against(server)
    assert failed(deltas).error is ErrorClass.NETWORK
    assert calls_in(deltas) == []


def test_a_refused_connection_says_what_to_check() -> None:
    with WireServer([Answer(ends="refused")]) as server:
        (last,) = against(server)
    assert isinstance(last, ModelFailed)
    assert last.error is ErrorClass.NETWORK
    assert "Check the address" in last.message


@pytest.mark.parametrize("address", ["ftp://127.0.0.1:1", "http://127.0.0.1:port", "nowhere"])
def test_an_address_that_cannot_be_used_is_told(address: str) -> None:
    async def run() -> list[ModelDelta]:
        async with AnthropicProvider(api_key="k", base_url=address) as provider:
            return await read(provider)

    last = failed(asyncio.run(run()))
    assert last.error is ErrorClass.BAD_REQUEST
    assert "the address cannot be used" in last.message


def test_without_a_key_it_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    for name in [name for name in os.environ if name.startswith("ANTHROPIC_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("ANTHROPIC_CONFIG_DIR", str(tmp_path))
    with WireServer([]) as server:

        async def run() -> list[ModelDelta]:
            async with AnthropicProvider(base_url=server.url) as provider:
                return await read(provider)

        last = failed(asyncio.run(run()))
    assert last.error is ErrorClass.AUTH
    assert server.requests == []


def test_a_timeout_of_the_client_is_a_stall() -> None:
    async def run(url: str) -> list[ModelDelta]:
        client = anthropic.AsyncAnthropic(api_key="k", base_url=url, timeout=httpx2.Timeout(5, read=0.02))
        deltas = await read(AnthropicProvider(client))
        await client.close()
        return deltas

    with WireServer([stream_of(wire([start()]), ends="silent")]) as server:
        last = failed(asyncio.run(run(server.url)))
    assert last.error is ErrorClass.STALLED


@pytest.mark.rule("INFER-11")
@pytest.mark.parametrize("status", [200, 500])
@pytest.mark.parametrize("pieces", [(), (wire([start()]),)], ids=["before anything", "within the reply"])
def test_silence_ends_when_the_reader_is_cancelled(pieces: tuple[bytes, ...], status: int) -> None:
    with WireServer([Answer(status=status, headers=EVENT_STREAM, pieces=pieces, ends="silent")]) as server:
        received: list[ModelDelta] = []

        async def use(provider: AnthropicProvider) -> list[ModelDelta]:
            async def reading() -> None:
                async for delta in provider.stream(asking(), OPERATION):
                    received.append(delta)

            task = asyncio.create_task(reading())
            await asyncio.to_thread(server.wait_until_told)
            task.cancel()
            await asyncio.wait({task})
            assert task.cancelled()
            assert await asyncio.to_thread(server.wait_until_left)  # its connection is closed at once
            return received

        against(server, use)
    assert not any(isinstance(delta, ModelFailed) for delta in received)


def test_a_reply_that_is_closed_early_closes_its_connection_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter, "_REST_S", 3_600.0)  # what is closed is not waited for
    with WireServer([stream_of(wire([start(), *text(0, "Hi", "you")]), ends="silent")]) as server:

        async def use(provider: AnthropicProvider) -> list[ModelDelta]:
            tasks = asyncio.all_tasks()
            stream = provider.stream(asking(), OPERATION)
            first = await anext(stream)
            async with asyncio.timeout(10):
                await stream.aclose()  # type: ignore[attr-defined]  # it is an async generator
            for _ in range(10):  # nothing is left to the loop either
                assert asyncio.all_tasks() == tasks
                await asyncio.sleep(0)
            assert await asyncio.to_thread(server.wait_until_left)
            return [first]

        assert isinstance(against(server, use)[0], ModelStarted)


def test_a_connection_of_a_client_that_is_given_serves_again_unless_the_response_goes_on_for_ever() -> None:
    good = stream_of(*GOOD)
    endless = stream_of(*GOOD, ends="silent")
    with WireServer([good, good, endless, good]) as server:

        async def run() -> None:
            async with anthropic.AsyncAnthropic(api_key="k", base_url=server.url) as client:
                replies = [await read(AnthropicProvider(client)) for _ in range(4)]
            assert replies[0] == replies[1] == replies[2] == replies[3]
            assert text_in(replies[0]) == "Hi"
            completed(replies[0])

        asyncio.run(run())
        assert server.wait_until_left()  # by the third, as soon as its reply was whole
        assert server.accepted == 2


def test_nothing_is_open_between_two_replies_of_a_provider_of_its_own() -> None:
    with WireServer([stream_of(*GOOD)] * 2) as server:

        async def use(provider: AnthropicProvider) -> list[ModelDelta]:
            await read(provider)
            return await read(provider)

        completed(against(server, use))
        assert server.accepted == 2


def test_what_comes_behind_the_end_does_not_matter() -> None:
    async def run() -> None:
        world = InMemory()
        whole = await world.reply(GOOD)
        completed(whole)
        assert await world.reply((*GOOD, b"garbage \xff", wire(text(1, "more")))) == whole
        assert await world.reply(GOOD, httpx2.ReadError("lost")) == whole

    asyncio.run(run())


def test_a_client_that_is_given_stays_open_and_does_not_retry() -> None:
    answers = [problem(529, error_body("overloaded_error", "Overloaded")), stream_of(*GOOD)]
    with WireServer(answers) as server:

        async def run() -> None:
            client = anthropic.AsyncAnthropic(api_key="k", base_url=server.url)  # with retries of its own
            provider = AnthropicProvider(client)
            assert failed(await read(provider)).error is ErrorClass.OVERLOADED
            assert len(server.requests) == 1
            await provider.close()
            assert not client.is_closed()
            completed(await read(provider))
            await client.close()

        asyncio.run(run())


def test_one_provider_serves_one_event_loop_after_the_other_and_keeps_nothing_open_in_between() -> None:
    busy = problem(529, error_body("overloaded_error", "Overloaded"))
    with WireServer([busy, stream_of(*GOOD)] * 2) as server:
        provider = AnthropicProvider(api_key="k", base_url=server.url)
        for _ in range(2):
            failed(asyncio.run(read(provider)))
            completed(asyncio.run(read(provider)))
        assert server.accepted == 4
        asyncio.run(provider.close())
        asyncio.run(provider.close())


def test_many_replies_leave_no_descriptor() -> None:
    """Whole, failed, cut and closed ones, at the same time."""
    kinds = [stream_of(*GOOD), stream_of(GOOD[0], ends="cut"), problem(500, {}), stream_of(GOOD[0], ends="reset")]
    before = len(os.listdir("/proc/self/fd"))
    with WireServer(kinds * 10) as server:

        async def use(provider: AnthropicProvider) -> list[ModelDelta]:
            replies = await asyncio.gather(*(read(provider) for _ in range(40)))
            return replies[0]

        against(server, use)
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= before


def test_the_classes_are_decided_in_one_place() -> None:
    """An error that the client may raise and that is of no known kind is unknown, in words."""
    last = adapter._failure_of(OPERATION, anthropic.AnthropicError("odd"), Usage(output=3))
    assert (last.error, last.message) == (ErrorClass.UNKNOWN, "Anthropic reported an error: odd")
    assert last.usage == Usage(output=3)

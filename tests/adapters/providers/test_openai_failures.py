"""OpenAI's client against a server on a socket: statuses, lost connections, silence, and what is left afterwards."""

import asyncio
import gc
import json
from contextlib import aclosing

import httpx2
import pytest
from loopkernel.data.model_deltas import ModelFailed, ModelStarted, ModelText
from loopkernel.data.words import ErrorClass
from loopkernel_adapters.ports import Provider
from loopkernel_adapters.providers.openai.chat import OpenAIChatProvider
from loopkernel_adapters.providers.openai.responses import OpenAIResponsesProvider
from openai import AsyncOpenAI

from tests.adapters.providers.asked_requests import OPERATION
from tests.adapters.providers.openai_world import (
    Api,
    Recording,
    asking,
    completed,
    failed,
    own_recordings,
    read,
    text_in,
)
from tests.adapters.providers.wire_server import EVENT_STREAM, Answer, Ends, WireServer, problem

APIS: tuple[Api, ...] = ("chat", "responses")
both_apis = pytest.mark.parametrize("api", APIS)
RECORDINGS: dict[Api, Recording] = {
    "chat": next(found for found in own_recordings() if found.name == "openai_chat_text"),
    "responses": next(found for found in own_recordings() if found.name == "openai_responses_search"),
}


def own(api: Api, url: str, key: str = "k") -> OpenAIChatProvider | OpenAIResponsesProvider:
    made = OpenAIChatProvider if api == "chat" else OpenAIResponsesProvider
    return made(api_key=key, base_url=f"{url}/v1")


def error(message: str = "so it is", **fields: object) -> dict[str, object]:
    return {"error": {"message": message, "param": None, **fields}}


def failure_told(api: Api, *answers: Answer) -> tuple[ModelFailed, int]:
    """How a request fails that is answered so, and how many requests the server has seen."""

    async def run(url: str) -> ModelFailed:
        async with own(api, url) as provider:
            return failed(await read(provider))

    with WireServer(answers) as server:
        found = asyncio.run(run(server.url))
    return found, len(server.requests)


@pytest.mark.rule("RETRY-3")
@both_apis
@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (400, error(type="invalid_request_error"), ErrorClass.BAD_REQUEST),
        (400, error(code="context_length_exceeded", type="invalid_request_error"), ErrorClass.PROMPT_TOO_LONG),
        (400, error("This model's maximum context length is 8192 tokens."), ErrorClass.PROMPT_TOO_LONG),
        (400, error(code="content_policy_violation"), ErrorClass.REFUSED),
        (401, error(code="invalid_api_key"), ErrorClass.AUTH),
        (403, error(), ErrorClass.AUTH),
        (404, error(code="model_not_found"), ErrorClass.BAD_REQUEST),
        (404, {"detail": "Not Found"}, ErrorClass.BAD_REQUEST),
        (413, "too large", ErrorClass.PROMPT_TOO_LONG),
        (429, error(type="requests", code="rate_limit_exceeded"), ErrorClass.RATE_LIMITED),
        (429, error(type="insufficient_quota", code="insufficient_quota"), ErrorClass.AUTH),
        (500, error(type="server_error"), ErrorClass.SERVER),
        (503, error(), ErrorClass.OVERLOADED),
        (503, "<html>busy</html>", ErrorClass.OVERLOADED),
        (502, [], ErrorClass.SERVER),
        (529, {"object": "error", "message": "so it is"}, ErrorClass.OVERLOADED),
    ],
)
def test_a_status_is_classified_and_asked_once(api: Api, status: int, body: object, expected: ErrorClass) -> None:
    found, requests = failure_told(api, problem(status, body))
    assert found.error is expected
    assert str(status) in found.message
    assert "Traceback" not in found.message
    assert requests == 1, "the client has tried again by itself"


@both_apis
@pytest.mark.parametrize("odd", ["\r\n", "\N{ZERO WIDTH SPACE}"])
def test_a_key_that_cannot_be_sent_is_not_told(api: Api, odd: str) -> None:
    async def run(url: str) -> ModelFailed:
        async with own(api, url, key=f"sk-canary{odd}0123456789") as provider:
            return failed(await read(provider))

    with WireServer([]) as server:
        found = asyncio.run(run(server.url))
    assert found.error is ErrorClass.BAD_REQUEST  # to ask again helps nobody
    assert "the request cannot be sent" in found.message
    assert "canary" not in found.message


@both_apis
def test_a_key_that_the_server_repeats_is_not_told(api: Api) -> None:
    async def run(url: str) -> ModelFailed:
        async with own(api, url, key="sk-canary-0123456789") as provider:
            return failed(await read(provider))

    with WireServer([problem(401, error("Incorrect API key: sk-canary-0123456789."))]) as server:
        found = asyncio.run(run(server.url))
    assert found.error is ErrorClass.AUTH
    assert "canary" not in found.message
    assert "Incorrect API key: (the key)" in found.message


@pytest.mark.rule("RETRY-2")
@pytest.mark.parametrize(
    ("headers", "wait_ms"),
    [
        ([("retry-after", "7")], 7_000),
        ([("retry-after-ms", "250"), ("retry-after", "7")], 250),
        (
            [("retry-after", "Sun, 22 Nov 2026 12:00:05 GMT"), ("date", "Sun, 22 Nov 2026 12:00:00 GMT")],
            5_000,
        ),
        ([("retry-after", "soon")], None),
        ([("retry-after", "-3")], None),
        ([("retry-after", "NaN")], None),
        ([], None),
    ],
)
def test_what_the_server_asks_to_wait_is_passed_on(headers: list[tuple[str, str]], wait_ms: int | None) -> None:
    found, requests = failure_told("chat", problem(429, error(), *headers))
    assert found.retry_after_ms == wait_ms
    assert requests == 1


@pytest.mark.rule("RETRY-2")
def test_no_server_asks_to_wait_for_ever() -> None:
    found, _ = failure_told("chat", problem(503, error(), ("retry-after", "1000000000")))
    assert found.retry_after_ms is not None
    assert found.retry_after_ms < 10**11


@pytest.mark.rule("INFER-11")
@both_apis
@pytest.mark.parametrize("ends", ["cut", "reset", "refused"])
def test_a_lost_connection_is_a_failure_of_the_network(api: Api, ends: Ends) -> None:
    found, _ = failure_told(api, Answer(headers=EVENT_STREAM, ends=ends))
    assert found.error is ErrorClass.NETWORK
    assert "connection" in found.message


@pytest.mark.rule("INFER-11")
@both_apis
def test_an_answer_that_is_no_stream_is_no_reply(api: Api) -> None:
    assert failure_told(api, problem(200, {"choices": []}))[0].error is ErrorClass.NETWORK
    assert failure_told(api, Answer(pieces=(b"\xff\xfe\n\n",)))[0].error is ErrorClass.NETWORK
    page = Answer(headers=(("content-type", "text/html"),), pieces=(b"<html>data: hm\n\n</html>",))
    assert failure_told(api, page)[0].error is ErrorClass.NETWORK


@pytest.mark.rule("INFER-11")
def test_an_address_that_is_none_is_told_in_words() -> None:
    async def run() -> ModelFailed:
        async with OpenAIChatProvider(api_key="k", base_url="http://no such host/v1") as provider:
            return failed(await read(provider))

    assert asyncio.run(run()).error in (ErrorClass.BAD_REQUEST, ErrorClass.NETWORK)


def test_a_client_that_times_out_is_a_stalled_one() -> None:
    async def run(url: str) -> ModelFailed:
        async with AsyncOpenAI(base_url=f"{url}/v1", api_key="k", timeout=0.05) as client:
            return failed(await read(OpenAIChatProvider(client)))

    with WireServer([Answer(headers=EVENT_STREAM, ends="silent")]) as server:
        assert asyncio.run(run(server.url)).error is ErrorClass.STALLED


# --- letting go ---------------------------------------------------------------------------------------


async def only_this_task() -> None:
    """Nothing goes on, neither now nor once the loop has looked at what was dropped."""
    for _ in range(3):
        gc.collect()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        await asyncio.sleep(0)


def half(api: Api) -> Answer:
    """The first half of a recording, and then nothing."""
    events = RECORDINGS[api].events()
    return Answer(headers=EVENT_STREAM, pieces=(b"".join(events[: 1 + 2 * len(events) // 3]),), ends="silent")


@pytest.mark.rule("CANCEL-2")
@both_apis
@pytest.mark.parametrize("how", ["cancel", "close"])
def test_letting_go_closes_the_connection_at_once(api: Api, how: str) -> None:
    async def run(provider: Provider) -> None:
        seen = asyncio.Event()

        async def reading() -> None:
            async with aclosing(provider.stream(asking(), OPERATION)) as deltas:  # type: ignore[type-var]  # a generator
                async for delta in deltas:
                    if isinstance(delta, ModelText):
                        seen.set()
                        if how == "close":
                            return

        task = asyncio.create_task(reading())
        await seen.wait()
        if how == "cancel":
            task.cancel()
        await asyncio.wait([task], timeout=5)
        assert task.cancelled() is (how == "cancel")
        await only_this_task()
        assert server.wait_until_left()

    with WireServer([half(api)]) as server:
        asyncio.run(run(own(api, server.url)))


@pytest.mark.rule("CANCEL-2")
@both_apis
def test_letting_go_before_the_server_has_answered_closes_the_connection(api: Api) -> None:
    async def run(provider: Provider) -> None:
        task = asyncio.create_task(read(provider))
        while not server.requests:
            await asyncio.sleep(0.001)
        task.cancel()
        await asyncio.wait([task], timeout=5)
        assert task.cancelled()
        await only_this_task()
        assert server.wait_until_left()

    with WireServer([Answer(status=100, ends="silent")]) as server:  # no answer yet, only that one may go on
        asyncio.run(run(own(api, server.url)))


@both_apis
def test_nothing_is_left_open_when_a_reply_has_ended(api: Api) -> None:
    async def run(provider: Provider) -> None:
        assert completed(await read(provider)).operation == OPERATION
        await only_this_task()

    answer = Answer(headers=EVENT_STREAM, pieces=(RECORDINGS[api].data,), ends="silent")
    with WireServer([answer]) as server:
        asyncio.run(run(own(api, server.url)))
        assert server.wait_until_left(), "the connection is still open"


@both_apis
def test_one_provider_serves_one_event_loop_after_another(api: Api) -> None:
    answer = Answer(headers=EVENT_STREAM, pieces=(RECORDINGS[api].data,))
    with WireServer([answer, answer]) as server:
        provider = own(api, server.url)
        texts = [text_in(asyncio.run(read(provider))) for _ in range(2)]
    assert texts[0] == texts[1] != ""


def test_a_client_that_was_given_stays_open_and_one_that_was_made_does_not() -> None:
    async def run() -> None:
        async with AsyncOpenAI(api_key="k") as client:
            async with OpenAIChatProvider(client):
                pass
            assert not client.is_closed()
        provider = OpenAIResponsesProvider(api_key="k")
        await provider.close()
        await provider.close()
        assert provider.client.is_closed()

    asyncio.run(run())


@both_apis
def test_a_client_that_was_given_is_not_left_to_try_again(api: Api) -> None:
    async def run(url: str) -> ModelFailed:
        async with AsyncOpenAI(base_url=f"{url}/v1", api_key="k", max_retries=5) as client:
            made = OpenAIChatProvider if api == "chat" else OpenAIResponsesProvider
            return failed(await read(made(client)))

    with WireServer([problem(503, error()), problem(500, error())]) as server:
        assert asyncio.run(run(server.url)).error is ErrorClass.OVERLOADED
        assert len(server.requests) == 1


def test_the_server_sees_the_key_and_the_address_of_the_api() -> None:
    async def run(api: Api, url: str) -> None:
        async with own(api, url, key="secret-key") as provider:
            deltas = await read(provider)
            assert deltas[0] == ModelStarted(OPERATION, "o-test")

    for api, path in (("chat", "/v1/chat/completions"), ("responses", "/v1/responses")):
        recording = RECORDINGS[api]  # type: ignore[index]  # one of the two
        with WireServer([Answer(headers=EVENT_STREAM, pieces=(recording.data,))]) as server:
            asyncio.run(run(api, server.url))  # type: ignore[arg-type]  # one of the two
        (request,) = server.requests
        assert (request.method, request.path) == ("POST", path)
        assert request.headers["authorization"] == "Bearer secret-key"


@pytest.mark.parametrize(
    ("address", "field"),
    [
        (None, "max_completion_tokens"),
        ("https://api.openai.com/v1", "max_completion_tokens"),
        ("https://eu.api.openai.com/v1", "max_completion_tokens"),
        ("http://127.0.0.1:8000/v1", "max_tokens"),
        ("https://api.openai.com.example.org/v1", "max_tokens"),
    ],
)
def test_the_dialect_is_that_of_the_address(address: str | None, field: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    seen: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append(request)
        return httpx2.Response(200, headers=dict(EVENT_STREAM), content=RECORDINGS["chat"].data)

    async def run() -> None:
        connections = httpx2.AsyncClient(transport=httpx2.MockTransport(answer))
        async with AsyncOpenAI(api_key="k", base_url=address, http_client=connections) as client:
            completed(await read(OpenAIChatProvider(client), asking(max_output_tokens=9)))

    asyncio.run(run())
    assert json.loads(seen[0].content)[field] == 9

"""What a hostile server may do to a provider: nothing without end, nowhere else, and its key is told to nobody."""

import asyncio
import base64
import gzip
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import anthropic
import openai
import pytest
from loopkernel.codec import record_to_text
from loopkernel.data.effects import Request
from loopkernel.data.ids import ModelOperation
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import ModelCompleted, ModelDelta, ModelFailed, ModelText
from loopkernel.data.policy import Policy
from loopkernel.data.tools import Decision
from loopkernel.data.words import ErrorClass
from loopkernel_adapters.agent import Agent
from loopkernel_adapters.bounded_text import in_force
from loopkernel_adapters.ports import Provider
from loopkernel_adapters.provider_keys import is_key, keys_of
from loopkernel_adapters.providers.anthropic.provider import AnthropicProvider
from loopkernel_adapters.providers.anthropic.reply import ReplyReader
from loopkernel_adapters.providers.event_stream import LARGEST_EVENT, ServerEvent
from loopkernel_adapters.providers.named import ProviderByModel
from loopkernel_adapters.providers.openai.chat import ChatReply, OpenAIChatProvider
from loopkernel_adapters.providers.openai.client import Reply
from loopkernel_adapters.providers.openai.responses import OpenAIResponsesProvider, ResponsesReply
from loopkernel_adapters.providers.wire_bounds import MOST_ERROR_BYTES, MOST_KEPT, KeptText, TooMuchKept
from loopkernel_adapters.providers.wire_names import ToolNames
from loopkernel_adapters.secrets import Secrets
from loopkernel_adapters.tools.coding import coding_tools
from loopkernel_adapters.tools.files import Workspace

from tests.adapters.providers.anthropic_world import asking, delta, ending, start, text, tool_use, wire
from tests.adapters.providers.flooding_server import MOST_SENT, FloodingServer, head
from tests.adapters.providers.wire_server import Answer, WireServer, problem, sse, stream_of

Api = Literal["anthropic", "chat", "responses"]
APIS: tuple[Api, ...] = ("anthropic", "chat", "responses")
each_api = pytest.mark.parametrize("api", APIS)
KEY = "sk-Qx7Zz9Kw3Vv5Jj1Yy8Hh2"
OPERATION = ModelOperation(7)
IN_SOCKETS = 16_000_000  # bytes that two sockets may hold before anybody reads them


def provider_for(
    api: Api, url: str, key: str = KEY
) -> AnthropicProvider | OpenAIChatProvider | OpenAIResponsesProvider:
    match api:
        case "anthropic":
            return AnthropicProvider(api_key=key, base_url=url)
        case "chat":
            return OpenAIChatProvider(api_key=key, base_url=f"{url}/v1")
        case "responses":
            return OpenAIResponsesProvider(api_key=key, base_url=f"{url}/v1")


async def read(provider: Provider, request: Request | None = None) -> list[ModelDelta]:
    return [found async for found in provider.stream(request or asking(), OPERATION)]


def reply_of(api: Api, url: str) -> list[ModelDelta]:
    async def run() -> list[ModelDelta]:
        async with provider_for(api, url) as provider:
            return await read(provider)

    return asyncio.run(run())


def failure_of(api: Api, url: str) -> ModelFailed:
    last = reply_of(api, url)[-1]
    assert isinstance(last, ModelFailed), last
    return last


def text_reply(api: Api, *pieces: str) -> Answer:
    """A good reply of that text."""
    match api:
        case "anthropic":
            return stream_of(wire([start()]), wire(text(0, *pieces)), wire(ending("end_turn")))
        case "chat":
            chunks = [{"choices": [{"index": 0, "delta": {"content": piece}}]} for piece in pieces]
            last = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
            return stream_of(*(sse(None, chunk) for chunk in (*chunks, last)), sse(None, "[DONE]"))
        case "responses":
            deltas = [{"type": "response.output_text.delta", "delta": piece} for piece in pieces]
            return stream_of(*(sse(None, event) for event in (*deltas, {"type": "response.completed", "response": {}})))


def call_reply(api: Api, tool: str, *pieces: str) -> Answer:
    """A good reply that calls a tool, its arguments in these pieces."""
    match api:
        case "anthropic":
            return stream_of(wire([start(), *tool_use(0, *pieces, name=tool), *ending("tool_use")]))
        case "chat":
            fragments: list[dict[str, object]] = [{"index": 0, "id": "c", "function": {"name": tool, "arguments": ""}}]
            fragments += [{"index": 0, "function": {"arguments": piece}} for piece in pieces]
            chunks = [{"choices": [{"index": 0, "delta": {"tool_calls": [fragment]}}]} for fragment in fragments]
            last = {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}
            return stream_of(*(sse(None, chunk) for chunk in (*chunks, last)), sse(None, "[DONE]"))
        case "responses":
            item = {"type": "function_call", "call_id": "c", "name": tool}
            events: list[dict[str, object]] = [{"type": "response.output_item.added", "output_index": 0, "item": item}]
            events += [
                {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": piece}
                for piece in pieces
            ]
            events.append({"type": "response.completed", "response": {}})
            return stream_of(*(sse(None, event) for event in events))


# --- nothing without end --------------------------------------------------------------------------------


@each_api
@pytest.mark.parametrize("status", [400, 500])
def test_the_body_of_an_error_is_read_up_to_a_bound(api: Api, status: int) -> None:
    with FloodingServer(head(status, "content-type: application/json"), b'{"error": ' * 10_000) as server:
        found = failure_of(api, server.url)
    assert server.sent < IN_SOCKETS + MOST_ERROR_BYTES
    assert str(status) in found.message
    assert len(found.message) < 1_000


@each_api
def test_a_head_without_end_is_given_up(api: Api) -> None:
    with FloodingServer(b"HTTP/1.1 200 Said\r\n", b"x-more: and more\r\n" * 1_000) as server:
        found = failure_of(api, server.url)
    assert server.sent < IN_SOCKETS
    assert found.error is ErrorClass.NETWORK


@each_api
@pytest.mark.parametrize(
    ("content_type", "piece"),
    [("application/json", b"x" * 1_000_000), ("text/event-stream", b": " + b"y" * 1_000_000 + b"\n")],
)
def test_an_answer_that_is_no_stream_or_a_line_without_end_is_given_up(
    api: Api, content_type: str, piece: bytes
) -> None:
    with FloodingServer(head(200, f"content-type: {content_type}"), piece) as server:
        found = failure_of(api, server.url)
    assert server.sent < IN_SOCKETS + LARGEST_EVENT + 2_000_000 < MOST_SENT
    assert found.error is ErrorClass.NETWORK
    assert "larger than" in found.message


@each_api
@pytest.mark.parametrize("status", [200, 429])
def test_a_compressed_answer_is_not_read(api: Api, status: int) -> None:
    bomb = gzip.compress(b'{"error": {"message": "' + b"boom " * 4_000_000 + b'"}}')
    answer = Answer(status=status, headers=(("content-encoding", "gzip"),), pieces=(bomb,))
    with WireServer([answer]) as server:
        found = failure_of(api, server.url)
        assert server.requests[0].headers["accept-encoding"] == "identity"
    assert "boom" not in found.message
    assert found.error is (ErrorClass.RATE_LIMITED if status == 429 else ErrorClass.NETWORK)
    assert ("compresses" in found.message) is (status == 200)


def anthropic_arguments(piece: str) -> Iterator[dict[str, object]]:
    yield from (start(), tool_use(0, ends=False)[0])
    while True:
        yield delta(0, type="input_json_delta", partial_json=piece)


def anthropic_signature(piece: str) -> Iterator[dict[str, object]]:
    yield from (start(), {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking"}})
    while True:
        yield delta(0, type="signature_delta", signature=piece)


def anthropic_blocks(piece: str) -> Iterator[dict[str, object]]:
    yield start()
    number = 0
    while number := number + 1:
        yield {"type": "content_block_start", "index": number, "content_block": {"type": "novel", "held": piece}}


@pytest.mark.parametrize("events", [anthropic_arguments, anthropic_signature, anthropic_blocks])
def test_what_the_anthropic_adapter_keeps_of_a_reply_is_bounded(
    events: Callable[[str], Iterator[dict[str, object]]],
) -> None:
    reply = ReplyReader(OPERATION, ToolNames(()))
    fed = 0
    for event in events("x" * 1_000_000):
        fed += 1_000_000
        list(reply.read(ServerEvent("", json.dumps(event))))
        if reply.last is not None:
            break
        assert fed < MOST_KEPT + 2_000_000
    assert isinstance(reply.last, ModelFailed)
    assert "are not kept" in reply.last.message


def chat_arguments(piece: str) -> Iterator[object]:
    while True:
        call = {"index": 0, "id": "c", "function": {"name": "t", "arguments": piece}}
        yield {"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}


def responses_arguments(piece: str) -> Iterator[object]:
    yield {"type": "response.output_item.added", "output_index": 0, "item": {"type": "function_call", "name": "t"}}
    while True:
        yield {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": piece}


def responses_items(piece: str) -> Iterator[object]:
    number = 0
    while number := number + 1:
        item = {"type": "function_call", "name": piece, "more": [piece]}
        yield {"type": "response.output_item.added", "output_index": number, "item": item}


@pytest.mark.parametrize(
    ("reply", "events"),
    [
        (ChatReply(OPERATION, ToolNames(())), chat_arguments),
        (ResponsesReply(OPERATION, ToolNames(())), responses_arguments),
        (ResponsesReply(OPERATION, ToolNames(())), responses_items),
    ],
)
def test_what_the_openai_adapters_keep_of_a_reply_is_bounded(
    reply: Reply, events: Callable[[str], Iterator[object]]
) -> None:
    fed = 0
    with pytest.raises(TooMuchKept):
        for event in events("x" * 1_000_000):
            fed += 1_000_000
            list(reply.read(event))
            assert fed < MOST_KEPT + 2_000_000


def test_what_is_kept_is_counted_together() -> None:
    kept = KeptText(10)
    kept.add(4)
    kept.add(6)
    with pytest.raises(TooMuchKept, match="more than 10 characters"):
        kept.add(1)


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_a_call_without_end_fails_the_reply_in_words(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KeptText.__init__, "__defaults__", (1_000,))
    with WireServer([call_reply(api, "read_file", '{"path": "', *["x" * 300] * 5, '"}')]) as server:
        found = failure_of(api, server.url)
    assert found.error is ErrorClass.NETWORK
    assert "more than 1000 characters, and are not kept" in found.message


# --- nowhere else ---------------------------------------------------------------------------------------


@each_api
@pytest.mark.parametrize("status", [302, 307])
def test_no_redirect_is_followed(api: Api, status: int) -> None:
    with WireServer([text_reply(api, "caught")]) as other:
        away = Answer(status=status, headers=(("location", f"http://me:pw@{other.url[7:]}/v1/x?key=hush"),))
        with WireServer([away]) as server:
            found = failure_of(api, server.url)
        assert len(server.requests) == 1
        assert other.accepted == 0
    assert found.error is ErrorClass.BAD_REQUEST
    assert f"{server.url} sends the request on to {other.url} (status {status})" in found.message
    assert "--base-url" in found.message
    assert "hush" not in found.message
    assert "pw" not in found.message


@each_api
@pytest.mark.parametrize("location", ["/elsewhere", "http://[::bad"])
def test_a_redirect_to_anywhere_is_told_in_words(api: Api, location: str) -> None:
    with WireServer([Answer(status=307, headers=(("location", location),)), text_reply(api, "caught")]) as server:
        found = failure_of(api, server.url)
        assert len(server.requests) == 1
    assert "Traceback" not in found.message


@each_api
def test_a_client_that_was_given_and_follows_redirects_is_not_let_to(api: Api) -> None:
    async def run(url: str) -> ModelDelta:
        if api == "anthropic":
            async with anthropic.AsyncAnthropic(api_key=KEY, base_url=url) as client:
                return (await read(AnthropicProvider(client)))[-1]
        async with openai.AsyncOpenAI(api_key=KEY, base_url=f"{url}/v1") as given:
            return (await read(OpenAIChatProvider(given) if api == "chat" else OpenAIResponsesProvider(given)))[-1]

    with WireServer([text_reply(api, "caught")]) as other:
        with WireServer([Answer(status=307, headers=(("location", f"{other.url}/v1/messages"),))]) as server:
            assert isinstance(asyncio.run(run(server.url)), ModelFailed)
        assert other.accepted == 0


# --- the key --------------------------------------------------------------------------------------------


def shown(deltas: Sequence[ModelDelta]) -> str:
    return "".join(found.text for found in deltas if isinstance(found, ModelText))


@each_api
@pytest.mark.parametrize("size", [1, 7])
def test_a_key_that_a_reply_says_again_is_not_told(api: Api, size: int) -> None:
    said = f"Your key is {KEY}, in base64 {base64.b64encode(KEY.encode()).decode()}. Well?"
    pieces = [said[place : place + size] for place in range(0, len(said), size)]
    with WireServer([text_reply(api, *pieces)]) as server:
        deltas = reply_of(api, server.url)
    assert isinstance(deltas[-1], ModelCompleted)
    name = "ANTHROPIC_API_KEY" if api == "anthropic" else "OPENAI_API_KEY"
    assert shown(deltas).startswith(f"Your key is {{{{key:{name}}}}}, in base64 {{{{key:{name} as base64}}}}")
    assert shown(deltas).endswith(". Well?")


@each_api
def test_a_key_in_the_arguments_of_a_call_is_not_told(api: Api) -> None:
    pieces = ('{"path": "', KEY[:9], KEY[9:], '"}')
    with WireServer([call_reply(api, "read_file", *pieces)]) as server:
        deltas = reply_of(api, server.url)
    assert isinstance(deltas[-1], ModelCompleted)
    assert KEY[:9] not in repr(deltas)
    assert KEY[9:] not in repr(deltas)


@each_api
@pytest.mark.parametrize("encoded", [KEY, base64.b64encode(KEY.encode()).decode()])
@pytest.mark.parametrize("before", [585, 1_190, MOST_ERROR_BYTES - 40])
def test_no_error_tells_a_part_of_the_key_or_of_a_secret(api: Api, encoded: str, before: int) -> None:
    secret = "Gg4Rr6Tt2Bb8Nn0Mm5Ss"
    said = "a " * (before // 2) + f"{encoded}{secret}" * 3
    error = {"type": "error", "error": {"message": said, "type": said, "code": said}}
    with WireServer([problem(401, error), stream_of(sse("error", error))]) as server, in_force(Secrets({"S": secret})):
        for _ in range(2):
            found = failure_of(api, server.url)
            for value in (encoded, secret):
                parts = [value[place : place + 8] for place in range(len(value) - 7)]
                assert not [part for part in parts if part in found.message]


@each_api
def test_no_log_holds_the_key_of_its_provider_and_no_tool_is_given_it(api: Api, tmp_path: Path) -> None:
    (tmp_path / "keys").write_text(f"{'x' * 40}{KEY}\n" * 2_000)
    mark = "{{key:ANTHROPIC_API_KEY}}" if api == "anthropic" else "{{key:OPENAI_API_KEY}}"
    answers = [
        call_reply(api, "read_file", '{"path": "keys"}'),
        call_reply(api, "shell", json.dumps({"command": f"echo '{mark}' {KEY[:3]}x; cat keys"})),
        text_reply(api, "I have seen ", KEY[:10], KEY[10:]),
    ]

    async def run(url: str) -> tuple[str, ...]:
        with Workspace(tmp_path) as workspace:
            async with provider_for(api, url) as provider:
                tools = coding_tools(workspace, approval=Decision.ALLOW)
                agent = Agent(ProviderByModel({"m": provider}), tools, policy=Policy(model="m"))
                result = await agent.run("Where are my keys?")
                return tuple(map(record_to_text, await agent.runs.read(result.run)))

    with WireServer(answers) as server:
        log = "\n".join(asyncio.run(run(server.url)))
        asked = b"\n".join(request.body for request in server.requests).decode()
    for told in (log, asked):
        assert KEY not in told
        assert not [place for place in range(len(KEY) - 7) if KEY[place : place + 8] in told]
    assert f"{mark} sk-x\\n" in log  # the shell was given the mark itself
    assert len(server.requests) == 3


def test_placeholders_are_no_keys() -> None:
    for word in ("no-key", "EMPTY", "ollama", "lm-studio", "not-needed", "sk-no-key-required", "k", "secret-key"):
        assert not is_key(word)
    for key in (KEY, "sk-canary-0123456789", "correct-horse-battery-staple"):
        assert is_key(key)


def test_the_keys_of_several_providers_are_known_together() -> None:
    one, other = AnthropicProvider(api_key=KEY), AnthropicProvider(api_key=f"{KEY}-2")
    third = OpenAIChatProvider(api_key="no-key", base_url="http://localhost/v1")
    keys = keys_of(ProviderByModel({"a": one, "b": other, "c": third}))
    assert sorted(keys.values()) == [KEY, f"{KEY}-2"]
    assert keys["ANTHROPIC_API_KEY"] == KEY


def test_keys_in_the_headers_and_in_the_environment_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    assert keys_of(AnthropicProvider()) == {"ANTHROPIC_API_KEY": KEY}
    client = openai.AsyncOpenAI(api_key="no-key", default_headers={"Authorization": f"Bearer {KEY}", "x-other": "1"})
    assert list(keys_of(OpenAIResponsesProvider(client)).values()) == [KEY]


def test_a_key_that_is_a_secret_of_the_session_keeps_the_name_that_it_was_given() -> None:
    secrets = Secrets({"MINE": KEY}).with_keys({"OPENAI_API_KEY": KEY, "OTHER": "sk-other-0123456789"})
    assert secrets.hide(f"{KEY} sk-other-0123456789") == "{{secret:MINE}} {{key:OTHER}}"
    assert secrets.reveal(Json.of("{{secret:MINE}} {{key:OTHER}}")).value() == f"{KEY} {{{{key:OTHER}}}}"
    assert secrets.names == ("MINE",)

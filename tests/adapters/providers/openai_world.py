"""A world around the OpenAI providers: the real client over a transport in memory, and recordings read plainly."""

import asyncio
import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import Any, Literal

import httpx2
import pytest
import yaml
from attrs import field, frozen
from loopkernel.data.blocks import RawInput
from loopkernel.data.effects import Request
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import (
    ModelCall,
    ModelCompleted,
    ModelDelta,
    ModelFailed,
    ModelReasoning,
    ModelStarted,
    ModelText,
)
from loopkernel.data.tools import Tool
from loopkernel.data.usage import NO_USAGE, Usage
from loopkernel.data.words import StopReason
from loopkernel_adapters.ports import Provider
from loopkernel_adapters.providers.openai.chat import OpenAIChatProvider
from loopkernel_adapters.providers.openai.responses import OpenAIResponsesProvider
from openai import AsyncOpenAI

from tests.adapters.providers.asked_requests import OPERATION, Pieces, request_of, whole_reply
from tests.adapters.providers.wire_server import sse

Api = Literal["chat", "responses"]

HERE = Path(__file__).parent
OWN_FOLDER = HERE / "streams"
SHARED = HERE.parents[2].parent / "shared" / "transcripts" / "streams"  # beside the repository, where it is given
EVENT_STREAM = {"content-type": "text/event-stream"}
MODEL = "o-test"
PATH_SCHEMA = Json.of({"type": "object", "properties": {"path": {"type": "string"}}})
READ = Tool(name="read_file", description="Read a file.", input_schema=PATH_SCHEMA)
LOST = httpx2.RemoteProtocolError("peer closed connection without sending complete message body")


asking = partial(request_of, model=MODEL, tools=(READ,))


class InMemory:
    """A provider with the real client over a transport without sockets. `body` is what the next response holds."""

    def __init__(self, api: Api) -> None:
        self.body = Pieces(())
        self.asked: list[httpx2.Request] = []
        transport = httpx2.MockTransport(self._answer)
        self.client = AsyncOpenAI(api_key="k", http_client=httpx2.AsyncClient(transport=transport))
        self.provider = provider_of(api, self.client)

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(request)
        return httpx2.Response(200, headers=EVENT_STREAM, stream=self.body)

    async def reply(
        self, pieces: Iterable[bytes], then: Exception | None = None, request: Request | None = None
    ) -> list[ModelDelta]:
        self.body = Pieces(pieces, then)
        deltas = await read(self.provider, request)
        assert self.body.closed
        return deltas


def provider_of(api: Api, client: AsyncOpenAI) -> Provider:
    return OpenAIChatProvider(client) if api == "chat" else OpenAIResponsesProvider(client)


async def read(provider: Provider, request: Request | None = None) -> list[ModelDelta]:
    """The whole reply to the request, or to one that says hello."""
    return await whole_reply(provider, asking() if request is None else request)


def replies(api: Api, *bodies: bytes, request: Request | None = None) -> list[list[ModelDelta]]:
    """The reply to each of the bodies, without the announcement that it begins."""

    async def run() -> list[list[ModelDelta]]:
        world = InMemory(api)
        found = [await world.reply([body], request=request) for body in bodies]
        assert all(deltas[0] == ModelStarted(OPERATION, MODEL) for deltas in found)
        return [deltas[1:] for deltas in found]

    return asyncio.run(run())


def reply_to(api: Api, *events: object, request: Request | None = None) -> list[ModelDelta]:
    """The reply that is made of the events; a text is sent as it is."""
    (reply,) = replies(api, wire(*events), request=request)
    return reply


def wire(*events: object) -> bytes:
    """Events as the APIs send them."""
    return b"".join(sse(None, event) for event in events)


def failed(deltas: Sequence[ModelDelta]) -> ModelFailed:
    assert isinstance(deltas[-1], ModelFailed), deltas
    return deltas[-1]


def completed(deltas: Sequence[ModelDelta]) -> ModelCompleted:
    assert isinstance(deltas[-1], ModelCompleted), deltas
    return deltas[-1]


def calls_in(deltas: Iterable[ModelDelta]) -> list[ModelCall]:
    return [delta for delta in deltas if isinstance(delta, ModelCall)]


def text_in(deltas: Iterable[ModelDelta]) -> str:
    return "".join(delta.text for delta in deltas if isinstance(delta, ModelText))


def reasoning_in(deltas: Iterable[ModelDelta]) -> str:
    return "".join(delta.text for delta in deltas if isinstance(delta, ModelReasoning))


async def first_of(provider: Provider, wanted: type[ModelDelta], then: Callable[[], None] = lambda: None) -> None:
    """Read up to the first delta of that kind, do something, and let go."""
    stream = provider.stream(asking(), OPERATION)
    async with aclosing(stream) as deltas:  # type: ignore[type-var]  # both are generators
        async for delta in deltas:
            if isinstance(delta, wanted):
                then()
                return


# --- events of chat completions, written by hand ------------------------------------------------------


def chunk(finish: str | None = None, usage: object = None, **delta: object) -> dict[str, object]:
    said: dict[str, object] = {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
    return said if usage is None else {**said, "usage": usage}


def fragment(arguments: object = "", index: int | None = 0, id: str = "", name: str = "") -> dict[str, object]:
    """A fragment of a call, with no more than is given."""
    function: dict[str, object] = {"arguments": arguments, **({"name": name} if name else {})}
    place: dict[str, object] = {} if index is None else {"index": index}
    return {**place, **({"id": id, "type": "function"} if id else {}), "function": function}


def calling(*fragments: dict[str, object]) -> dict[str, object]:
    return chunk(tool_calls=list(fragments))


def called(deltas: Iterable[ModelDelta]) -> list[tuple[str, str, object]]:
    """The calls: tool, id, input; arguments that do not parse as the text that they are."""
    return [
        (call.tool, call.provider_id, call.input.text if isinstance(call.input, RawInput) else call.input.value())
        for call in calls_in(deltas)
    ]


# --- recordings ---------------------------------------------------------------------------------------


@frozen
class Recording:
    """The bytes of one recorded reply, and of which API it is."""

    name: str
    api: Api
    data: bytes = field(repr=False)

    def events(self) -> list[bytes]:
        """Its events, as bytes."""
        separator = b"\r\n\r\n" if b"\r\n\r\n" in self.data else b"\n\n"
        return [event + separator for event in self.data.split(separator) if event.strip()]


@frozen(kw_only=True)
class PlainReading:
    """What a recording says, read in the plainest way. `error`: it tells one, and that ends it."""

    text: str = ""
    reasoning: str = ""
    calls: list[tuple[str, str, object]] = field(factory=list)
    stop: StopReason | None = None
    usage: Usage = NO_USAGE
    error: str = ""


def plainly(recording: Recording) -> PlainReading:
    """Read a recording without anything of the project's providers: data lines as JSON, summed up at the end."""
    lines = recording.data.decode().replace("\r\n", "\n").split("\n")
    data = [line.removeprefix("data:").strip() for line in lines if line.startswith("data:")]
    events = [json.loads(line) for line in data if line != "[DONE]"]
    return _plain_chat(events) if recording.api == "chat" else _plain_response(events)


def _plain_chat(events: list[dict[str, object]]) -> PlainReading:
    said = thought = error = ""
    finish: str | None = None
    counts: dict[str, Any] = {}  # Any: recorded JSON, read as it stands
    calls: dict[int, list[str]] = {}
    for event in events:
        told: dict[str, Any] = event  # Any: recorded JSON, read as it stands
        error = str(told.get("error", "")) or error
        counts = told.get("usage") or counts
        for choice in told.get("choices", ()):
            finish = choice.get("finish_reason") or finish
            delta = choice.get("delta", {})
            said += delta.get("content") or delta.get("refusal") or ""
            thought += delta.get("reasoning_content") or delta.get("reasoning") or ""
            for piece in delta.get("tool_calls") or ():
                call = calls.setdefault(piece["index"], ["", "", ""])
                call[0] += piece["function"].get("name") or ""
                call[1] += piece.get("id") or ""
                call[2] += piece["function"].get("arguments") or ""
    stops = {
        "stop": StopReason.END_TURN,
        "length": StopReason.MAX_TOKENS,
        "tool_calls": StopReason.TOOL_USE,
    }
    cached = ((counts.get("prompt_tokens_details") or {}).get("cached_tokens") or 0) if counts else 0
    usage = Usage(counts["prompt_tokens"] - cached, counts["completion_tokens"], cached) if counts else NO_USAGE
    return PlainReading(
        text=said,
        reasoning=thought,
        calls=[(name, call_id, json.loads(arguments)) for name, call_id, arguments in calls.values()],
        stop=stops[finish] if finish else None,
        usage=usage,
        error="" if finish == "length" else error,
    )


def _plain_response(events: list[dict[str, object]]) -> PlainReading:
    said = thought = error = ""
    calls: list[tuple[str, str, object]] = []
    status: str | None = None
    counts: dict[str, Any] = {}
    for event in events:
        told: dict[str, Any] = event  # Any: recorded JSON, read as it stands
        kind = told["type"]
        if kind == "response.output_text.delta":
            said += told["delta"]
        elif kind == "response.reasoning_summary_text.delta":
            thought += told["delta"]
        elif kind == "response.output_item.done" and told["item"]["type"] == "function_call":
            item = told["item"]
            calls.append((item["name"], item["call_id"], json.loads(item["arguments"])))
        elif kind == "response.completed":
            status, counts = told["response"]["status"], told["response"]["usage"]
        elif kind == "error":
            error = told["error"]["message"]
            break
    details = counts["input_tokens_details"] if counts else {}
    cached, written = details.get("cached_tokens", 0), details.get("cache_write_tokens", 0)
    usage = NO_USAGE
    if counts:
        usage = Usage(counts["input_tokens"] - cached - written, counts["output_tokens"], cached, written)
    return PlainReading(
        text=said,
        reasoning=thought,
        calls=calls,
        stop=None if status is None else StopReason.TOOL_USE if calls else StopReason.END_TURN,
        usage=usage,
        error=error,
    )


def own_recordings() -> list[Recording]:
    return [
        Recording(path.stem, "chat" if path.name.startswith("openai_chat") else "responses", path.read_bytes())
        for path in sorted(OWN_FOLDER.glob("openai_*.events"))
    ]


_CHUNKS: dict[str, Api] = {
    "openai-error.1": "responses",
    "openai-mcp-tool-approval.1": "responses",
    "parallel-tool-call-wrapper.1": "responses",
    "github-copilot-id-rotation.1": "responses",
    "deepseek-tool-call": "chat",
    "mistral-incremental-tool-call": "chat",
    "groq-tool-call": "chat",
}
_CASSETTES: dict[str, Api] = {
    "cassettes-fantasy/openai-chat-gpt5-multi-tool": "chat",
    "cassettes-fantasy/compat-glm-multi-tool": "chat",
    "cassettes-fantasy/openai-responses-gpt5-multi-tool": "responses",
    "cassettes-pydantic-ai/openrouter-stream-error": "chat",
    "cassettes-pydantic-ai/groq-tool-use-failed": "chat",
    "cassettes-pydantic-ai/cancel-huggingface": "chat",
    "cassettes-pydantic-ai/reused-tool-call-ids": "responses",
    "cassettes-pydantic-ai/openai-background-stream": "responses",
}


def shared_recordings() -> list[Recording]:
    """Every reply of these APIs in the shared folder; none where there is no such folder."""
    if not SHARED.is_dir():
        return []
    found = [
        Recording(name, api, b"".join(sse(None, line) for line in _lines(SHARED / f"vercel-chunks/{name}.chunks.txt")))
        for name, api in _CHUNKS.items()
    ]
    for name, api in _CASSETTES.items():
        recorded = yaml.safe_load((SHARED / f"{name}.yaml").read_text(encoding="utf-8"))
        bodies = [body for made in recorded["interactions"] if (body := _body(made["response"]))]
        found += [Recording(f"{Path(name).name}#{n}", api, body.encode()) for n, body in enumerate(bodies, 1)]
    return found


def _lines(path: Path) -> list[str]:
    return [line for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]


def _body(response: dict[str, object]) -> str:
    body = response.get("body")
    text = body.get("string") if isinstance(body, dict) else body
    return text if isinstance(text, str) and "data:" in text else ""


SHARED_RECORDINGS = shared_recordings()
with_shared = pytest.mark.skipif(
    not SHARED_RECORDINGS,
    reason=f"THE RECORDED STREAMS ARE NOT CHECKED: {'/'.join(SHARED.parts[-3:])} is not beside the repository",
)

"""A world around the Anthropic provider: the real client over a transport in memory, and recordings read plainly."""

import asyncio
import json
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

import anthropic
import httpx2
import pytest
import yaml
from attrs import frozen
from loopkernel.data.effects import Request
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import ModelCall, ModelCompleted, ModelDelta, ModelFailed, ModelReasoning, ModelText
from loopkernel.data.tools import Tool
from loopkernel_adapters.providers.anthropic.provider import AnthropicProvider

from tests.adapters.providers.asked_requests import Pieces, request_of, whole_reply

HERE = Path(__file__).parent
OWN = HERE / "streams" / "anthropic"
SHARED = HERE.parents[2].parent / "shared" / "transcripts" / "streams"  # beside the repository, where it is given
EVENT_STREAM = {"content-type": "text/event-stream"}
TOOL = Tool(name="read_file", description="Read.", input_schema=Json.of({"properties": {"path": {"type": "string"}}}))


asking = partial(request_of, model="claude-test", tools=(TOOL,))


class InMemory:
    """The provider with the real client over a transport without sockets. `body` is what the next response holds."""

    def __init__(self) -> None:
        self.body: httpx2.AsyncByteStream = Pieces(())
        self.asked: list[httpx2.Request] = []
        transport = httpx2.MockTransport(self._answer)
        self.client = anthropic.AsyncAnthropic(api_key="k", http_client=httpx2.AsyncClient(transport=transport))
        self.provider = AnthropicProvider(self.client)

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(request)
        return httpx2.Response(200, headers=EVENT_STREAM, stream=self.body)

    async def reply(
        self, pieces: Iterable[bytes], then: Exception | None = None, request: Request | None = None
    ) -> list[ModelDelta]:
        self.body = Pieces(pieces, then)
        return await read(self.provider, request)


async def read(provider: AnthropicProvider, request: Request | None = None) -> list[ModelDelta]:
    """The whole reply to the request, or to one that says hello."""
    return await whole_reply(provider, asking() if request is None else request)


def replies(*bodies: bytes) -> list[list[ModelDelta]]:
    """The reply to each of the bodies."""

    async def run() -> list[list[ModelDelta]]:
        world = InMemory()
        return [await world.reply([body]) for body in bodies]

    return asyncio.run(run())


def reply_to(events: Iterable[dict[str, object]]) -> list[ModelDelta]:
    """The reply that is made of the events."""
    (reply,) = replies(wire(events))
    return reply


def wire(events: Iterable[dict[str, object]]) -> bytes:
    """Events as the API sends them."""
    return b"".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events)


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


# --- events, written by hand --------------------------------------------------------------------------


def start(**message: object) -> dict[str, object]:
    usage = {"input_tokens": 12, "output_tokens": 1}
    return {"type": "message_start", "message": {"id": "m", "model": "claude-test", "usage": usage, **message}}


def block(index: int, **content: object) -> dict[str, object]:
    return {"type": "content_block_start", "index": index, "content_block": content}


def delta(index: int, **change: object) -> dict[str, object]:
    return {"type": "content_block_delta", "index": index, "delta": change}


def stop(index: int) -> dict[str, object]:
    return {"type": "content_block_stop", "index": index}


def ending(reason: object, **usage: object) -> list[dict[str, object]]:
    return [
        {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 5, **usage}},
        {"type": "message_stop"},
    ]


def text(index: int, *parts: str) -> list[dict[str, object]]:
    deltas = [delta(index, type="text_delta", text=part) for part in parts]
    return [block(index, type="text", text=""), *deltas, stop(index)]


def tool_use(index: int, *parts: str, name: str = "read_file", ends: bool = True) -> list[dict[str, object]]:
    deltas = [delta(index, type="input_json_delta", partial_json=part) for part in parts]
    begun = block(index, type="tool_use", id=f"toolu_{index}", name=name, input={})
    return [begun, *deltas, *([stop(index)] if ends else [])]


# --- recordings ---------------------------------------------------------------------------------------


@frozen
class Recording:
    """The bytes of one recorded reply."""

    name: str
    data: bytes

    def events(self) -> list[bytes]:
        """Its events, as bytes."""
        separator = b"\r\n\r\n" if b"\r\n\r\n" in self.data else b"\n\n"
        return [event + separator for event in self.data.split(separator) if event.strip()]


@frozen
class PlainReading:
    """What a recording says, read in the plainest way."""

    text: str
    reasoning: str
    calls: list[tuple[str, str, object]]  # tool, id, arguments
    stop: str | None
    usage: dict[str, int]


def plainly(data: bytes) -> PlainReading:
    """Read a recording without anything of the project: data lines as JSON, summed up at the end."""
    events = [json.loads(line.removeprefix("data:")) for line in _lines(data) if line.startswith("data:")]
    blocks: dict[int, dict[str, object]] = {}
    arguments: dict[int, str] = {}
    said = thought = ""
    stop_reason = None
    usage: dict[str, int] = {}
    for event in events:
        kind, change = event["type"], event.get("delta", {})
        for reported in (event.get("message", {}).get("usage", {}), event.get("usage", {})):
            for name, count in reported.items():
                if isinstance(count, int):
                    usage[name] = max(usage.get(name, 0), count)
        if kind == "message_start":
            blocks.update(enumerate(event["message"].get("content", [])))
            stop_reason = event["message"].get("stop_reason") or stop_reason
        elif kind == "content_block_start":
            blocks[event["index"]] = event["content_block"]
            said += event["content_block"].get("text", "")
        elif kind == "content_block_delta":
            said += change.get("text", "")
            thought += change.get("thinking", "")
            arguments[event["index"]] = arguments.get(event["index"], "") + change.get("partial_json", "")
        elif kind == "message_delta":
            stop_reason = change["stop_reason"] or stop_reason
    calls = [
        (str(begun["name"]), str(begun["id"]), json.loads(arguments.get(index) or json.dumps(begun["input"])))
        for index, begun in blocks.items()
        if begun["type"] == "tool_use" and _is_json(arguments.get(index) or "{}")
    ]
    return PlainReading(said, thought, calls, stop_reason, usage)


def _lines(data: bytes) -> list[str]:
    return data.decode().replace("\r\n", "\n").split("\n")


def _is_json(written: str) -> bool:
    try:
        json.loads(written)
    except ValueError:
        return False
    return True


def own_recordings() -> list[Recording]:
    return [Recording(path.name, path.read_bytes()) for path in sorted(OWN.glob("*.sse"))]


def shared_recordings() -> list[Recording]:
    """Every reply of this API in the shared folder; none where there is no such folder."""
    if not SHARED.is_dir():
        return []
    found = [Recording(path.name, path.read_bytes()) for path in sorted((SHARED / "anthropic-sse").glob("*.sse"))]
    for path in sorted((SHARED / "vercel-chunks").glob("*.chunks.txt")):
        if path.name.startswith("anthropic-") or "message-start" in path.name:
            lines = [line for line in path.read_text().splitlines() if line.strip()]
            found += _named(path, _split(lines, path.name))
    for path in sorted((SHARED / "cassettes-fantasy").glob("anthropic-*.yaml")):
        recorded = yaml.safe_load(path.read_text())
        found += _named(path, [made["response"]["body"].encode() for made in recorded["interactions"]])
    return found


def _split(lines: list[str], name: str) -> list[bytes]:
    """The replies in a file of events: a new one begins where one has ended, and at no other message_start."""
    bodies: list[list[dict[str, object]]] = [[]]
    for line in lines:
        event = json.loads(line)
        if bodies[-1] and bodies[-1][-1]["type"] == "message_stop":
            bodies.append([])
        bodies[-1].append(event)
    return [wire(body) for body in bodies]


def _named(path: Path, bodies: list[bytes]) -> list[Recording]:
    return [Recording(f"{path.name}#{number}", body) for number, body in enumerate(bodies, 1)]


SHARED_RECORDINGS = shared_recordings()
with_shared = pytest.mark.skipif(
    not SHARED_RECORDINGS,
    reason="THE RECORDED STREAMS ARE NOT CHECKED: beside the repository there is no folder shared/transcripts/streams",
)

Check = Callable[[InMemory], object]

"""Anthropic's Messages on the wire."""

from collections.abc import Iterator
from typing import final

from loopkernel.data.json_text import JsonValue

from loopkernel_adapters.conform.asked import Asked, Call, Given, Item, Text, Tool, listed, mapping, text_in, word
from loopkernel_adapters.conform.script import Problem, Stop, as_json
from loopkernel_adapters.conform.wires.wire import WireCall, WireReply, sent

_STOPS = {Stop.NATURAL: "end_turn", Stop.CALLS: "tool_use", Stop.OUTPUT_LIMIT: "max_tokens"}


@final
class Messages:
    """The interface at `/v1/messages`."""

    name = "messages"
    path = "/messages"

    def read(self, body: dict[str, JsonValue]) -> Asked:
        """The request in the common form."""
        items: list[Item] = [Text("system", text_in(body.get("system")))]
        for each in listed(body.get("messages")):
            message = mapping(each)
            items += _items(word(message.get("role")), message.get("content"))
        return Asked(
            items=tuple(items),
            tools=tuple(
                Tool(name=word(mapping(tool).get("name")), schema=mapping(mapping(tool).get("input_schema")))
                for tool in listed(body.get("tools"))
            ),
            streams=body.get("stream") is True,
            model=word(body.get("model")),
        )

    def stream(self, reply: WireReply) -> Iterator[str]:
        """The reply as server-sent events."""
        yield _event({"type": "message_start", "message": _message(reply, [], None)})
        for index, part in enumerate(reply.parts):
            begun, grown = _block_events(part)
            yield _event({"type": "content_block_start", "index": index, "content_block": begun})
            yield _event({"type": "content_block_delta", "index": index, "delta": grown})
            if isinstance(part, str) or part.whole or reply.ended:
                yield _event({"type": "content_block_stop", "index": index})
        if reply.ended:
            stopped: JsonValue = {"stop_reason": _STOPS[reply.stop], "stop_sequence": None}
            yield _event({"type": "message_delta", "delta": stopped, "usage": {"output_tokens": 5}})
            yield _event({"type": "message_stop"})

    def whole(self, reply: WireReply) -> JsonValue:
        """The reply as one document; a call that breaks off has no form there, and is left out."""
        content: list[JsonValue] = []
        for part in reply.parts:
            if isinstance(part, str):
                content.append({"type": "text", "text": part})
            elif part.whole:
                content.append({"type": "tool_use", "id": part.id, "name": part.name, "input": _parsed(part)})
        return _message(reply, content, _STOPS[reply.stop])

    def problem(self, problem: Problem) -> JsonValue:
        """The body of an error."""
        return {"type": "error", "error": {"type": problem.kind, "message": problem.message}}

    def status(self, problem: Problem) -> int:
        """The status of an error."""
        return problem.status


def _items(role: str, content: JsonValue) -> Iterator[Item]:
    if isinstance(content, str):
        yield Text(role, content)
        return
    for each in listed(content):
        block = mapping(each)
        match block.get("type"):
            case "text":
                yield Text(role, word(block.get("text")))
            case "tool_use":
                yield Call(word(block.get("id")), word(block.get("name")), as_json(block.get("input")))
            case "tool_result":
                failed = block.get("is_error") is True
                yield Given(word(block.get("tool_use_id")), text_in(block.get("content")), failed)
            case _:
                pass  # thinking, images: nothing of a script


def _event(event: dict[str, JsonValue]) -> str:
    return sent(event, word(event["type"]))


def _block_events(part: str | WireCall) -> tuple[JsonValue, JsonValue]:
    if isinstance(part, str):
        return {"type": "text", "text": ""}, {"type": "text_delta", "text": part}
    return (
        {"type": "tool_use", "id": part.id, "name": part.name, "input": {}},
        {"type": "input_json_delta", "partial_json": part.arguments},
    )


def _message(reply: WireReply, content: list[JsonValue], stop: str | None) -> JsonValue:
    return {
        "id": f"msg_{reply.number:06}",  # one that two replies share is taken for one reply
        "type": "message",
        "role": "assistant",
        "model": reply.model,
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 1},
    }


def _parsed(call: WireCall) -> JsonValue:
    import json

    try:
        parsed: JsonValue = json.loads(call.arguments)
    except ValueError:
        return {}
    return parsed

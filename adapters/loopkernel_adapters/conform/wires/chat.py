"""OpenAI's chat completions on the wire."""

from collections.abc import Iterator
from typing import final

from loopkernel.data.json_text import JsonValue

from loopkernel_adapters.conform.asked import Asked, Call, Given, Item, Text, Tool, listed, mapping, text_in, word
from loopkernel_adapters.conform.script import Problem, Stop
from loopkernel_adapters.conform.wires.wire import WireCall, WireReply, sent

_STOPS = {Stop.NATURAL: "stop", Stop.CALLS: "tool_calls", Stop.OUTPUT_LIMIT: "length"}
_USAGE: JsonValue = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}


@final
class Chat:
    """The interface at `/v1/chat/completions`."""

    name = "chat"
    path = "/chat/completions"

    def read(self, body: dict[str, JsonValue]) -> Asked:
        """The request in the common form."""
        items: list[Item] = []
        for each in listed(body.get("messages")):
            items += _items(mapping(each))
        functions = (mapping(mapping(tool).get("function")) for tool in listed(body.get("tools")))
        return Asked(
            items=tuple(items),
            tools=tuple(
                Tool(name=word(each.get("name")), schema=mapping(each.get("parameters"))) for each in functions
            ),
            streams=body.get("stream") is True,
            model=word(body.get("model")),
        )

    def stream(self, reply: WireReply) -> Iterator[str]:
        """The reply as server-sent events."""
        yield _chunk(reply, {"role": "assistant", "content": ""})
        index = 0
        for part in reply.parts:
            if isinstance(part, str):
                yield _chunk(reply, {"content": part})
                continue
            begun: JsonValue = {"index": index, "id": part.id, "type": "function", "function": _function(part, "")}
            yield _chunk(reply, {"tool_calls": [begun]})
            yield _chunk(reply, {"tool_calls": [{"index": index, "function": {"arguments": part.arguments}}]})
            index += 1
        if reply.ended:
            yield _chunk(reply, {}, _STOPS[reply.stop])
            yield sent({**_head(reply, "chat.completion.chunk"), "choices": [], "usage": _USAGE})
            yield "data: [DONE]\n\n"

    def whole(self, reply: WireReply) -> JsonValue:
        """The reply as one document."""
        calls: list[JsonValue] = [
            {"id": part.id, "type": "function", "function": _function(part, part.arguments)}
            for part in reply.parts
            if isinstance(part, WireCall)
        ]
        text = "".join(part for part in reply.parts if isinstance(part, str))
        message: dict[str, JsonValue] = {"role": "assistant", "content": text or None}
        if calls:
            message["tool_calls"] = calls
        choice: JsonValue = {"index": 0, "message": message, "finish_reason": _STOPS[reply.stop]}
        return {**_head(reply, "chat.completion"), "choices": [choice], "usage": _USAGE}

    def problem(self, problem: Problem) -> JsonValue:
        """The body of an error."""
        return {"error": {"message": problem.message, "type": problem.kind, "param": None, "code": code_of(problem)}}

    def status(self, problem: Problem) -> int:
        """The status of an error: what Messages calls 529 is 503 here."""
        return 503 if problem.status == 529 else problem.status


def code_of(problem: Problem) -> str | None:
    """The code that OpenAI has for the error."""
    if "too long" in problem.message:
        return "context_length_exceeded"
    return {429: "rate_limit_exceeded", 529: "server_is_overloaded"}.get(problem.status)


def _items(message: dict[str, JsonValue]) -> Iterator[Item]:
    role, text = word(message.get("role")), text_in(message.get("content"))
    if role == "tool":
        yield Given(word(message.get("tool_call_id")), text)
        return
    if text:
        yield Text("system" if role == "developer" else role, text)
    for each in listed(message.get("tool_calls")):
        function = mapping(mapping(each).get("function"))
        yield Call(word(mapping(each).get("id")), word(function.get("name")), word(function.get("arguments")))


def _function(call: WireCall, arguments: str) -> JsonValue:
    return {"name": call.name, "arguments": arguments}


def _head(reply: WireReply, kind: str) -> dict[str, JsonValue]:
    return {"id": f"chatcmpl-{reply.number:06}", "object": kind, "created": 1_700_000_000, "model": reply.model}


def _chunk(reply: WireReply, delta: JsonValue, stop: str | None = None) -> str:
    choice: JsonValue = {"index": 0, "delta": delta, "finish_reason": stop}
    return sent({**_head(reply, "chat.completion.chunk"), "choices": [choice]})

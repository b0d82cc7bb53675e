"""OpenAI's responses on the wire."""

from collections.abc import Iterator
from typing import final

from loopkernel.data.json_text import JsonValue

from loopkernel_adapters.conform.asked import Asked, Call, Given, Item, Text, Tool, listed, mapping, text_in, word
from loopkernel_adapters.conform.script import Problem, Stop, as_json
from loopkernel_adapters.conform.wires.chat import code_of
from loopkernel_adapters.conform.wires.wire import WireCall, WireReply, sent

_USAGE: JsonValue = {
    "input_tokens": 10,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": 5,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 15,
}


@final
class Responses:
    """The interface at `/v1/responses`."""

    name = "responses"
    path = "/responses"

    def read(self, body: dict[str, JsonValue]) -> Asked:
        """The request in the common form."""
        items: list[Item] = [Text("system", word(body.get("instructions")))]
        given = body.get("input")
        if isinstance(given, str):
            items.append(Text("user", given))
        for each in listed(given):
            items += _items(mapping(each))
        return Asked(
            items=tuple(items),
            tools=tuple(
                Tool(name=word(mapping(tool).get("name")), schema=mapping(mapping(tool).get("parameters")))
                for tool in listed(body.get("tools"))
            ),
            streams=body.get("stream") is True,
            model=word(body.get("model")),
        )

    def stream(self, reply: WireReply) -> Iterator[str]:
        """The reply as server-sent events."""
        events = list(_events(reply))
        for number, event in enumerate(events):
            yield sent({**event, "sequence_number": number}, word(event["type"]))

    def whole(self, reply: WireReply) -> JsonValue:
        """The reply as one document."""
        return _response(reply, [_item(reply, index, part) for index, part in enumerate(reply.parts)], ended=True)

    def problem(self, problem: Problem) -> JsonValue:
        """The body of an error."""
        return {"error": {"message": problem.message, "type": problem.kind, "param": None, "code": code_of(problem)}}

    def status(self, problem: Problem) -> int:
        """The status of an error: what Messages calls 529 is 503 here."""
        return 503 if problem.status == 529 else problem.status


def _items(item: dict[str, JsonValue]) -> Iterator[Item]:
    match item.get("type", "message"):
        case "message":
            role = word(item.get("role"))
            yield Text("system" if role == "developer" else role, text_in(item.get("content")))
        case "function_call":
            yield Call(word(item.get("call_id")), word(item.get("name")), word(item.get("arguments")))
        case "custom_tool_call":
            yield Call(word(item.get("call_id")), word(item.get("name")), word(item.get("input")))
        case "local_shell_call":
            yield Call(word(item.get("call_id")), "local_shell", as_json(item.get("action")))
        case "function_call_output" | "custom_tool_call_output" | "local_shell_call_output":
            yield Given(word(item.get("call_id")), _output(item.get("output")))
        case _:
            pass  # reasoning, searches: nothing of a script


def _output(value: JsonValue) -> str:
    return as_json(value) if isinstance(value, dict) else text_in(value)


def _events(reply: WireReply) -> Iterator[dict[str, JsonValue]]:
    empty = _response(reply, [], ended=False)
    yield {"type": "response.created", "response": empty}
    yield {"type": "response.in_progress", "response": empty}
    for index, part in enumerate(reply.parts):
        yield from _part_events(reply, index, part)
    if reply.ended:
        items = [_item(reply, index, part) for index, part in enumerate(reply.parts)]
        kind = "response.incomplete" if reply.stop is Stop.OUTPUT_LIMIT else "response.completed"
        yield {"type": kind, "response": _response(reply, items, ended=True)}


def _part_events(reply: WireReply, index: int, part: str | WireCall) -> Iterator[dict[str, JsonValue]]:
    item = _item(reply, index, part)
    at: dict[str, JsonValue] = {"output_index": index, "item_id": item["id"]}
    if isinstance(part, WireCall):
        begun = {**item, "arguments": "", "status": "in_progress"}
        yield {"type": "response.output_item.added", "output_index": index, "item": begun}
        yield {"type": "response.function_call_arguments.delta", **at, "delta": part.arguments}
        if part.whole:
            yield {"type": "response.function_call_arguments.done", **at, "arguments": part.arguments}
    else:
        here: dict[str, JsonValue] = {**at, "content_index": 0}
        begun = {**item, "content": [], "status": "in_progress"}
        yield {"type": "response.output_item.added", "output_index": index, "item": begun}
        yield {"type": "response.content_part.added", **here, "part": _text("")}
        yield {"type": "response.output_text.delta", **here, "delta": part, "logprobs": []}
        yield {"type": "response.output_text.done", **here, "text": part, "logprobs": []}
        yield {"type": "response.content_part.done", **here, "part": _text(part)}
    if isinstance(part, str) or part.whole or reply.ended:
        yield {"type": "response.output_item.done", "output_index": index, "item": item}


def _item(reply: WireReply, index: int, part: str | WireCall) -> dict[str, JsonValue]:
    """An item of the output."""
    name = f"{reply.number:06}_{index}"
    if isinstance(part, str):
        return {
            "type": "message",
            "id": f"msg_{name}",
            "role": "assistant",
            "status": "completed",
            "content": [_text(part)],
        }
    return {
        "type": "function_call",
        "id": f"fc_{name}",
        "call_id": part.id,
        "name": part.name,
        "arguments": part.arguments,
        "status": "completed" if part.whole else "incomplete",
    }


def _text(text: str) -> JsonValue:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _response(reply: WireReply, items: list[dict[str, JsonValue]], *, ended: bool) -> dict[str, JsonValue]:
    limited = ended and reply.stop is Stop.OUTPUT_LIMIT
    return {
        "id": f"resp_{reply.number:06}",
        "object": "response",
        "created_at": 1_700_000_000,
        "status": "in_progress" if not ended else "incomplete" if limited else "completed",
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if limited else None,
        "instructions": None,
        "model": reply.model,
        "output": [*items],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": _USAGE if ended else None,
    }

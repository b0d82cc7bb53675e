"""A request as the chat completions API takes it: a pure function of the request and of how the server speaks.

A result holds text alone there, so the media of the results of a reply follow in a user message behind them all. What
the provider ran itself, and what only its own model can read, has no place in this API and is left out.
"""

from collections.abc import Iterator
from typing import Literal, assert_never

from attrs import frozen
from loopkernel.data.blocks import (
    MediaBlock,
    OpaqueBlock,
    RawInput,
    ReasoningBlock,
    ServerCall,
    TextBlock,
    ToolCall,
    ToolResult,
)
from loopkernel.data.effects import Request
from loopkernel.data.json_text import Json, JsonValue, canonical_text, safe_text

from loopkernel_adapters.providers.openai_fields import JsonObject, items
from loopkernel_adapters.providers.openai_media import ShownFile, ShownImage, ShownText, shown
from loopkernel_adapters.providers.openai_names import ToolNames
from loopkernel_adapters.providers.openai_thread import (
    NOTHING_SAID,
    ModelTurn,
    UserTurn,
    result_media,
    result_text,
    turns,
)

# Of a schema, says the API; the tool itself still judges by the whole one.
_NOT_ALLOWED_ON_TOP = ("anyOf", "oneOf", "allOf", "enum", "not")

LONGEST_CALL_ID = 40  # the API refuses longer ones


@frozen(kw_only=True)
class ChatDialect:
    """What chat completions servers differ in.

    `limit_field`: the field for the limit of the output. `instructions_role`: who gives the instructions.
    `asks_for_usage`: send `stream_options`, which a few servers refuse; they then tell no usage, or tell it unasked.
    `reasoning_field`: the field by which the model's reasoning is given back, for those that want it (DeepSeek, in a
    loop of tools: `reasoning_content`); None gives none back.
    """

    limit_field: Literal["max_completion_tokens", "max_tokens"] = "max_completion_tokens"
    instructions_role: Literal["system", "developer"] = "system"
    asks_for_usage: bool = True
    reasoning_field: str | None = None


OPENAI = ChatDialect()
COMPATIBLE = ChatDialect(limit_field="max_tokens")  # what most other servers understand


def chat_body(request: Request, names: ToolNames, dialect: ChatDialect, more: JsonObject) -> JsonObject:
    """The body of the request. `more` holds further fields; its tools are offered beside those of the request."""
    body: JsonObject = {
        **more,
        "model": safe_text(request.model),
        "messages": chat_messages(request, dialect),
        "stream": True,
    }
    if dialect.asks_for_usage:
        body["stream_options"] = {"include_usage": True}
    tools: list[JsonValue] = [
        {
            "type": "function",
            "function": {
                "name": name,
                "description": tool.description,
                "parameters": parameters(tool.input_schema),
            },
        }
        for name, tool in names.offered
    ]
    if tools:
        body["tools"] = [*items(more.get("tools")), *tools]
    forced = names.on_the_wire(request.forced_tool)
    if forced is not None:
        body["tool_choice"] = {"type": "function", "function": {"name": forced}}
    if request.max_output_tokens is not None:
        body[dialect.limit_field] = max(1, request.max_output_tokens)
    return body


def parameters(schema: Json) -> JsonObject:
    """The schema of an input as the APIs take it: that of an object, its properties named, and no choices on top."""
    value = schema.value()
    if not isinstance(value, dict) or value.get("type", "object") != "object":
        return {"type": "object", "properties": {}}
    shown = {keyword: part for keyword, part in value.items() if keyword not in _NOT_ALLOWED_ON_TOP}
    named = shown if isinstance(shown.get("properties"), dict) else {**shown, "properties": {}}
    return {**named, "type": "object"}


def arguments_text(call: ToolCall) -> str:
    """The arguments of a call that is given back: the JSON text of an object, whatever they were."""
    if isinstance(call.input, RawInput):
        return canonical_text({"unparsed_arguments": call.input.text})
    if call.input.text.startswith("{"):
        return call.input.text
    return canonical_text({"unparsed_arguments": call.input.value()})


def chat_messages(request: Request, dialect: ChatDialect) -> list[JsonValue]:
    """The messages of the request, instructions first; never none."""
    messages: list[JsonValue] = []
    instructions = safe_text(request.instructions)
    if instructions.strip():
        messages.append({"role": dialect.instructions_role, "content": instructions})
    spoken = len(messages)
    for turn in turns(request, LONGEST_CALL_ID):
        match turn:
            case UserTurn():
                messages.append({"role": "user", "content": _user_content(turn.content)})
            case ModelTurn():
                messages.extend(_model_messages(turn, dialect))
            case _:
                assert_never(turn)
    if len(messages) == spoken:
        messages.append({"role": "user", "content": NOTHING_SAID})
    return messages


def _model_messages(turn: ModelTurn, dialect: ChatDialect) -> Iterator[JsonObject]:
    """The reply, if this API can say anything of it, then the answer to each of its calls, then their media."""
    texts: list[str] = []
    reasoning: list[str] = []
    for block in turn.content:
        match block:
            case TextBlock():
                texts.append(block.text)
            case ReasoningBlock():
                reasoning.append(block.text)
            case ToolCall() | OpaqueBlock() | ServerCall() | MediaBlock() | ToolResult():
                pass  # calls: below; a reply has no media and no results, and the rest is not this API's
            case _:
                assert_never(block)
    if not texts and not turn.calls:
        return
    message: JsonObject = {"role": "assistant", "content": "\n\n".join(texts) or None}
    if reasoning and dialect.reasoning_field is not None:
        message[dialect.reasoning_field] = "\n\n".join(reasoning)
    if turn.calls:
        message["tool_calls"] = [
            {
                "id": answered.id,
                "type": "function",
                "function": {"name": answered.call.tool, "arguments": arguments_text(answered.call)},
            }
            for answered in turn.calls
        ]
    yield message
    media: list[JsonValue] = []
    for answered in turn.calls:
        text = result_text(answered.result)
        parts = [_part(block) for block in result_media(answered.result)]
        if parts:
            text = f"{text}\n({len(parts)} attached below, in the message after the results)"
            media += [{"type": "text", "text": f"Attached to the result of call {answered.id}:"}, *parts]
        yield {"role": "tool", "tool_call_id": answered.id, "content": text}
    if media:
        yield {"role": "user", "content": media}


def _user_content(content: tuple[TextBlock | MediaBlock, ...]) -> JsonValue:
    """One text where there is nothing else, since not every server knows parts."""
    if all(isinstance(block, TextBlock) for block in content):
        return "\n\n".join(block.text for block in content if isinstance(block, TextBlock))
    return [_part(block) for block in content]


def _part(block: TextBlock | MediaBlock) -> JsonObject:
    view = ShownText(block.text) if isinstance(block, TextBlock) else shown(block)
    match view:
        case ShownText():
            return {"type": "text", "text": view.text}
        case ShownImage():
            return {"type": "image_url", "image_url": {"url": view.url}}
        case ShownFile() if view.is_data:
            return {"type": "file", "file": {"filename": "document.pdf", "file_data": view.url}}
        case ShownFile():
            return {"type": "text", "text": f"(a PDF file at {view.url})"}
        case _:
            assert_never(view)

"""A request as the Responses API takes it: a pure function of the request.

Nothing is stored at the server: the whole thread goes along, with the provider's own items (encrypted reasoning, its
own searches) verbatim where they stood in their replies (rule INFER-15).
"""

import re
from collections.abc import Iterator
from typing import assert_never

from loopkernel.data.blocks import (
    MediaBlock,
    OpaqueBlock,
    ReasoningBlock,
    ServerCall,
    TextBlock,
    ToolCall,
    ToolResult,
)
from loopkernel.data.effects import Request
from loopkernel.data.json_text import JsonValue, safe_text

from loopkernel_adapters.providers.openai_chat_request import arguments_text, parameters
from loopkernel_adapters.providers.openai_fields import JsonObject, items, members, text
from loopkernel_adapters.providers.openai_items import REASONING, is_kept
from loopkernel_adapters.providers.openai_media import ShownFile, ShownImage, ShownText, shown
from loopkernel_adapters.providers.openai_names import ToolNames
from loopkernel_adapters.providers.openai_thread import (
    NOTHING_SAID,
    AnsweredCall,
    ModelTurn,
    UserTurn,
    result_media,
    result_text,
    turns,
)

LONGEST_CALL_ID = 64  # the API refuses longer ones
LEAST_OUTPUT_TOKENS = 16  # and lower limits
ENCRYPTED_REASONING = "reasoning.encrypted_content"
_WITHOUT_REASONING = re.compile(r"(?:chatgpt-|gpt-3|gpt-4)")  # asked for reasoning, these refuse the request


def reasons(model: str) -> bool:
    """Whether a model of this name may be asked for its encrypted reasoning."""
    return _WITHOUT_REASONING.match(model) is None


def responses_body(request: Request, names: ToolNames, encrypted_reasoning: bool, more: JsonObject) -> JsonObject:
    """The body of the request. `more` holds further fields; its tools and its `include` are added to those here."""
    body: JsonObject = {
        **more,
        "model": safe_text(request.model),
        "input": input_items(request),
        "store": False,
        "stream": True,
    }
    instructions = safe_text(request.instructions)
    if instructions.strip():
        body["instructions"] = instructions
    included = items(more.get("include"))
    if encrypted_reasoning and ENCRYPTED_REASONING not in included:
        body["include"] = [*included, ENCRYPTED_REASONING]
    tools: list[JsonValue] = [
        {
            "type": "function",
            "name": name,
            "description": tool.description,
            "parameters": parameters(tool.input_schema),
            "strict": False,
        }
        for name, tool in names.offered
    ]
    if tools:
        body["tools"] = [*items(more.get("tools")), *tools]
    forced = names.on_the_wire(request.forced_tool)
    if forced is not None:
        body["tool_choice"] = {"type": "function", "name": forced}
    if request.max_output_tokens is not None:
        body["max_output_tokens"] = max(LEAST_OUTPUT_TOKENS, request.max_output_tokens)
    return body


def input_items(request: Request) -> list[JsonValue]:
    """The thread as items; never none."""
    told: list[JsonValue] = []
    kept_ids: set[str] = set()
    for turn in turns(request, LONGEST_CALL_ID):
        match turn:
            case UserTurn():
                told.append({"type": "message", "role": "user", "content": [_part(block) for block in turn.content]})
            case ModelTurn():
                told += _whole_reasoning(list(_reply_items(turn, kept_ids)))
                told += [_output(answered) for answered in turn.calls]
            case _:
                assert_never(turn)
    return told or [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": NOTHING_SAID}]}]


def _reply_items(turn: ModelTurn, kept_ids: set[str]) -> Iterator[JsonObject]:
    calls = iter(turn.calls)
    for block in turn.content:
        match block:
            case TextBlock():
                yield {"type": "message", "role": "assistant", "content": block.text}
            case ToolCall():
                answered = next(calls)
                yield {
                    "type": "function_call",
                    "call_id": answered.id,
                    "name": block.tool,
                    "arguments": arguments_text(block),
                }
            case OpaqueBlock():
                item = members(block.payload.value())
                item_id = text(item.get("id"))
                if is_kept(item) and item_id not in kept_ids:
                    kept_ids |= {item_id} - {""}
                    yield item
            case ReasoningBlock() | ServerCall() | MediaBlock() | ToolResult():
                pass  # the first two are shown to people, and stand in the items; a reply has none of the others
            case _:
                assert_never(block)


def _whole_reasoning(reply: list[JsonObject]) -> list[JsonObject]:
    """The items without reasoning that leads to none: a reply that was stopped there. The API refuses it."""
    while reply and reply[-1].get("type") == REASONING:
        reply.pop()
    return reply


def _output(answered: AnsweredCall) -> JsonObject:
    media = result_media(answered.result)
    said = result_text(answered.result)
    parts: list[JsonValue] = [{"type": "input_text", "text": said}, *(_part(block) for block in media)]
    return {"type": "function_call_output", "call_id": answered.id, "output": parts if media else said}


def _part(block: TextBlock | MediaBlock) -> JsonObject:
    view = ShownText(block.text) if isinstance(block, TextBlock) else shown(block)
    match view:
        case ShownText():
            return {"type": "input_text", "text": view.text}
        case ShownImage():
            return {"type": "input_image", "image_url": view.url, "detail": "auto"}
        case ShownFile() if view.is_data:
            return {"type": "input_file", "filename": "document.pdf", "file_data": view.url}
        case ShownFile():
            return {"type": "input_file", "file_url": view.url}
        case _:
            assert_never(view)

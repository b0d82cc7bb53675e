"""What a model of the Messages API is asked: a request of the kernel as the body of an HTTP request.

A pure function of the request and of the options. A thread that has grown gives messages that begin with those of the
shorter one (but for the marks of the cache), so that the provider's cache is met.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Literal, assert_never

from attrs import define, field, frozen
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
from loopkernel.data.ids import CallId
from loopkernel.data.json_text import Json, JsonValue, safe_text
from loopkernel.data.projected import ProjectedBlock, ProjectedMessage, Role
from loopkernel.data.tools import Tool
from loopkernel.data.words import CallStatus
from loopkernel.loop.algorithms.projection import project, safe_tool_name

from loopkernel_adapters.providers.json_fields import JsonObject, members
from loopkernel_adapters.providers.shown_media import ShownFile, ShownImage, ShownText, shown
from loopkernel_adapters.providers.wire_names import ToolNames

LEAST_THINKING = 1_024  # tokens; the API takes no smaller budget
_SAFE_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_UNSAFE = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST_ID = 64
SERVER_CALLS = ("server_tool_use", "mcp_tool_use")  # calls that the provider runs itself
_CACHE_MARK: JsonObject = {"type": "ephemeral"}
_MARKED_MESSAGES = 2  # the API takes four marks: the others are for tools and instructions
_NOT_ALLOWED_ON_TOP = ("anyOf", "oneOf", "allOf")  # of a schema; the tool itself still judges by the whole one
_BEGINNING = "(The conversation begins with the reply below.)"
_NOTHING = "(empty message)"
_THINKING = ("thinking", "redacted_thinking")


@frozen(kw_only=True)
class RequestOptions:
    """How requests are made. `thinking` is a budget in tokens, of at least 1,024; or `adaptive`; None: no thinking.

    `max_output_tokens` counts where a request names no limit. `server_tools` are definitions of tools that the
    provider runs itself, as its API has them.
    """

    max_output_tokens: int = 32_000
    thinking: int | Literal["adaptive"] | None = None
    caching: bool = True
    server_tools: tuple[Json, ...] = ()


def request_body(request: Request, options: RequestOptions, names: ToolNames) -> JsonObject:
    """The body of the HTTP request, valid Unicode throughout."""
    messages = _messages(project(request.thread, request.model))
    limit = options.max_output_tokens if request.max_output_tokens is None else request.max_output_tokens
    body: JsonObject = {
        "model": safe_text(request.model),
        "max_tokens": max(limit, 1),
        "messages": [*messages],
        "stream": request.stream,
    }
    if request.instructions.strip():
        body["system"] = [{"type": "text", "text": safe_text(request.instructions)}]
    tools = [_tool(name, tool) for name, tool in names.offered]
    tools += [dict(members(definition.value())) for definition in options.server_tools]
    if tools:
        body["tools"] = [*tools]
    if request.forced_tool is not None:
        forced = names.on_the_wire(request.forced_tool) or safe_tool_name(request.forced_tool)
        body["tool_choice"] = {"type": "tool", "name": forced}
    else:
        thinking = _thinking(options.thinking, max(limit, 1), messages)
        if thinking is not None:  # the API takes no thinking beside a forced tool
            body["thinking"] = thinking
    if options.caching:
        _mark_for_cache(body, tools, messages)
    return body


def _tool(name: str, tool: Tool) -> JsonObject:
    schema = {
        keyword: part
        for keyword, part in members(tool.input_schema.value()).items()
        if keyword not in _NOT_ALLOWED_ON_TOP
    }
    shown: JsonObject = {"name": name, "input_schema": {**schema, "type": "object"}}
    if tool.description.strip():
        shown["description"] = tool.description
    return shown


def _thinking(asked: int | str | None, limit: int, messages: list[JsonObject]) -> JsonObject | None:
    """The setting for thinking, as far as the API allows it for these messages and this output limit."""
    if asked is None:
        return None
    if isinstance(asked, str):
        return {"type": "adaptive"}
    budget = min(max(asked, LEAST_THINKING), limit - 1)
    if budget < LEAST_THINKING or _goes_on_unthought(messages):
        return None
    return {"type": "enabled", "budget_tokens": budget}


def _goes_on_unthought(messages: list[JsonObject]) -> bool:
    """Whether the model's last turn, all its rounds of calls included, began without thinking: so it must go on."""
    first: JsonObject | None = None
    for message in reversed(messages):
        if message["role"] == Role.ASSISTANT.value:
            first = message
        elif not any(block["type"] == "tool_result" for block in _content(message)):
            break
    return first is not None and _content(first)[0]["type"] not in _THINKING


def _mark_for_cache(body: JsonObject, tools: list[JsonObject], messages: list[JsonObject]) -> None:
    """Mark what later requests begin with: tools, instructions, and the last two messages of the user."""
    if tools:
        tools[-1]["cache_control"] = _CACHE_MARK
    if "system" in body:
        _content({"content": body["system"]})[-1]["cache_control"] = _CACHE_MARK
    said = [message for message in messages if message["role"] == "user"]
    for message in said[-_MARKED_MESSAGES:]:
        _content(message)[-1]["cache_control"] = _CACHE_MARK


# --- messages -----------------------------------------------------------------------------------------


def _free_id(wanted: str, taken: set[str]) -> str:
    """The id, or the id with a number behind it where it is taken. Takes it."""
    free, number = wanted, 1
    while free in taken:
        number += 1
        free = f"{wanted[: _LONGEST_ID - 1 - len(str(number))]}_{number}"
    taken.add(free)
    return free


@define
class _CallIds:
    """The ids of the calls within one request: the provider's own, unless they are not safe, or are used twice."""

    given: dict[CallId, str] = field(factory=dict)
    taken: set[str] = field(factory=set)

    def of_call(self, call: CallId, provider_id: str) -> str:
        """The id of a call; the same for its result."""
        if call not in self.given:
            plain = f"call_{call.reply}_{call.position}"
            wanted = provider_id if _SAFE_ID.fullmatch(provider_id) else _UNSAFE.sub("_", plain)
            if wanted in self.taken:
                wanted = _UNSAFE.sub("_", plain)
            self.given[call] = _free_id(wanted, self.taken)
        return self.given[call]


def _messages(projected: Iterable[ProjectedMessage]) -> list[JsonObject]:
    """The messages: the user first, roles in turn, nothing empty. Results follow their calls in every thread."""
    ids = _CallIds()
    said = [
        (message.role, [shown for block in message.content for shown in _shown(block, ids)]) for message in projected
    ]
    lost = _lost_server_items([content for _, content in said])
    messages: list[JsonObject] = []
    for role, content in said:
        content = [block for block in content if id(block) not in lost]
        while content and content[-1]["type"] in _THINKING:
            content.pop()  # a reply that was cut while the model thought; the API takes none that ends so
        _add(messages, role.value, content)
    if not messages:
        return [_said(_NOTHING)]
    if messages[0]["role"] != Role.USER.value:
        messages.insert(0, _said(_BEGINNING))
    if messages[-1]["role"] == Role.ASSISTANT.value:
        _trim_end(messages[-1])
    return messages


def _add(messages: list[JsonObject], role: str, content: list[JsonObject]) -> None:
    """Add the content as a message, or to the last one if that is of the same role."""
    if not content:
        return
    if messages and messages[-1]["role"] == role:
        content = _content(messages.pop()) + content
    messages.append({"role": role, "content": [*content]})


def _lost_server_items(contents: list[list[JsonObject]]) -> set[int]:
    """The calls of the server's own that will have no result, since their reply was cut, and results without a call.

    Those of the last reply may still get one, unless the user has spoken since. Each by its identity.
    """
    blocks = [block for content in contents for block in content]
    called = {str(block.get("id")) for block in blocks if block["type"] in SERVER_CALLS}
    answered = {str(block.get("tool_use_id")) for block in blocks if _is_server_result(block)}
    open_from = len(contents)
    while open_from > 0 and all(block["type"] == "tool_result" for block in contents[open_from - 1]):
        open_from -= 1
    lost = {id(block) for block in blocks if _is_server_result(block) and block["tool_use_id"] not in called}
    for content in contents[: max(open_from - 1, 0)]:
        lost |= {id(block) for block in content if block["type"] in SERVER_CALLS and block.get("id") not in answered}
    return lost


def _is_server_result(block: JsonObject) -> bool:
    return str(block["type"]).endswith("_tool_result") and "tool_use_id" in block


def _said(text: str) -> JsonObject:
    return {"role": Role.USER.value, "content": [{"type": "text", "text": text}]}


def _trim_end(message: JsonObject) -> None:
    """A reply that is to be continued may not end in white space, says the API."""
    last = _content(message)[-1]
    if isinstance(text := last.get("text"), str):
        last["text"] = text.rstrip()


def _content(message: JsonObject) -> list[JsonObject]:
    content = message["content"]
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _shown(block: ProjectedBlock, ids: _CallIds) -> Iterator[JsonObject]:
    match block:
        case TextBlock():
            yield {"type": "text", "text": block.text}
        case MediaBlock():
            yield media(block)
        case ToolCall():
            call_id = ids.of_call(block.id, block.provider_id)
            yield {"type": "tool_use", "id": call_id, "name": block.tool, "input": _call_input(block)}
        case ToolResult():
            yield _result(block, ids.of_call(block.call, block.provider_id))
        case OpaqueBlock():
            payload = block.payload.value()
            if isinstance(payload, dict) and isinstance(payload.get("type"), str):
                yield payload
        case ReasoningBlock() | ServerCall():
            pass  # what of these a model may see again stands in its opaque items, signed
        case _:
            assert_never(block)


def _call_input(call: ToolCall) -> JsonObject:
    """The arguments; the API takes objects only, and what is none goes as the text that the model wrote."""
    if isinstance(call.input, RawInput):
        return {"unparsed_arguments": call.input.text}
    value = call.input.value()
    return value if isinstance(value, dict) else {"unparsed_arguments": call.input.text}


def _result(result: ToolResult, call_id: str) -> JsonObject:
    content: list[JsonValue] = []
    for block in result.content:
        content.append({"type": "text", "text": block.text} if isinstance(block, TextBlock) else media(block))
    failed = result.status is not CallStatus.DONE
    if failed and not content:
        content.append({"type": "text", "text": f"({result.status.value})"})  # an error must say something
    shown: JsonObject = {"type": "tool_result", "tool_use_id": call_id}
    if content:
        shown["content"] = content
    if failed:
        shown["is_error"] = True
    return shown


def media(block: MediaBlock) -> JsonObject:
    """The block: an image or a document by its data or its address; words for what the API cannot take."""
    view = shown(block)
    match view:
        case ShownText():
            return {"type": "text", "text": view.text}
        case ShownImage() | ShownFile():
            kind = "image" if isinstance(view, ShownImage) else "document"
            return {"type": kind, "source": _source(view.url)}
        case _:
            assert_never(view)


def _source(url: str) -> JsonObject:
    if not url.startswith("data:"):
        return {"type": "url", "url": url}
    media_type, _, data = url.removeprefix("data:").partition(";base64,")
    return {"type": "base64", "media_type": media_type, "data": data}

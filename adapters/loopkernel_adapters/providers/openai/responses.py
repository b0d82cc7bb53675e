"""Models behind OpenAI's Responses API, and servers that speak as it does. Needs the extra `openai`."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import assert_never

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
from loopkernel.data.ids import ModelOperation
from loopkernel.data.json_text import Json, JsonValue, safe_text
from loopkernel.data.model_deltas import (
    ModelCall,
    ModelCompleted,
    ModelDelta,
    ModelInput,
    ModelOpaque,
    ModelReasoning,
    ModelServerCall,
    ModelText,
    ModelUsage,
)
from loopkernel.data.usage import NO_USAGE, Usage
from loopkernel.data.words import StopReason
from loopkernel.later_typing import override
from openai import AsyncOpenAI

from loopkernel_adapters.providers.answered_turns import (
    NOTHING_SAID,
    AnsweredCall,
    ModelTurn,
    UserTurn,
    result_media,
    result_text,
    turns,
)
from loopkernel_adapters.providers.call_inputs import EMPTY_OBJECT, arguments_text, call_input
from loopkernel_adapters.providers.json_fields import JsonObject, items, members, number, text
from loopkernel_adapters.providers.openai.chat import parameters
from loopkernel_adapters.providers.openai.client import OpenAIProvider, Reply
from loopkernel_adapters.providers.openai.errors import CutStream, ToldError
from loopkernel_adapters.providers.openai.reply_parts import (
    NO_TOKENS,
    json_or_none,
    responses_tokens,
)
from loopkernel_adapters.providers.shown_media import ShownFile, ShownImage, ShownText, shown
from loopkernel_adapters.providers.wire_bounds import KeptText
from loopkernel_adapters.providers.wire_names import ToolNames

# --- items that are neither messages nor calls of ours ---------------------------------------------------
# An item that is kept stands in the thread verbatim and goes back to its model. One that waits for an answer of the
# client is not kept: nobody here answers it, and given back without an answer it would spoil the request.

REASONING = "reasoning"
_SPOKEN = frozenset({"message", "function_call", "function_call_output", "custom_tool_call"})
_OWED = frozenset({"computer_call", "local_shell_call", "shell_call", "apply_patch_call", "mcp_approval_request"})
_SHOWN_INPUT = ("server_label", "name", "action", "queries", "arguments", "code", "input", "status")
_SHOWN_RESULT = ("output", "outputs", "results", "error")


def is_kept(item: JsonObject) -> bool:
    """Whether the item goes back to its model. Reasoning does only when it is encrypted: the server stores none."""
    kind = text(item.get("type"))
    if kind == REASONING:
        return bool(text(item.get("encrypted_content")))
    return bool(kind) and kind not in _SPOKEN and kind not in _OWED


def is_server_call(item: JsonObject) -> bool:
    """Whether the item is a call that the provider runs itself, to be shown as one."""
    kind = text(item.get("type"))
    return kind == "mcp_approval_request" or (kind.endswith("_call") and kind not in _SPOKEN)


def shown_input(item: JsonObject) -> JsonValue:
    """What is shown as the input of such a call."""
    return {field: item[field] for field in _SHOWN_INPUT if item.get(field) is not None}


def shown_result(item: JsonObject) -> JsonValue:
    """What is shown as its result; None where it has none. A generated image is left to the item itself."""
    result: JsonObject = {field: item[field] for field in _SHOWN_RESULT if item.get(field) is not None}
    return result or None


# --- the request: a pure function ------------------------------------------------------------------------
# Nothing is stored at the server: the whole thread goes along, with the provider's own items (encrypted reasoning, its
# own searches) verbatim where they stood in their replies (rule INFER-15).

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
        "stream": request.stream,
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


# --- the streamed response, event by event ---------------------------------------------------------------

_CALLS = ("function_call", "custom_tool_call")
_OF_A_CALL = ("type", "name", "call_id", "id")
_COST_OF_PART = 500  # characters, as which an item, or a part of one, counts beside its own
_INCOMPLETE: Mapping[str, StopReason] = {
    "max_output_tokens": StopReason.MAX_TOKENS,
    "content_filter": StopReason.CONTENT_FILTERED,
}


class _OpenCall:
    """A call that has been announced and is not whole yet."""

    def __init__(self) -> None:
        self.item: dict[str, str] = {}
        self.pieces: list[str] = []
        self.arguments: str | None = None  # all of them, once the server has said so

    def take(self, item: JsonObject) -> int:
        """Take what is known of it now; how many characters of it are kept."""
        known = {name: text(item.get(name)) for name in _OF_A_CALL if text(item.get(name))}
        self.item |= known
        return sum(map(len, known.values()))


class ResponsesReply(Reply):
    """Reads the events of one response, whose end is `response.completed`, `.incomplete` or `.failed`.

    Items are told apart by their place in the output: some gateways give an item another id with each event.
    """

    def __init__(self, operation: ModelOperation, names: ToolNames) -> None:
        self._operation = operation
        self._names = names
        self._open: dict[int, _OpenCall] = {}
        self._done: set[int] = set()  # the places of the items that were whole
        self._said: set[tuple[int, int]] = set()  # the parts of messages whose text has come
        self._kept = KeptText()
        self._calls = 0
        self._summaries = 0
        self._refused = False
        self._end: StopReason | None = None
        self._cut_call = False
        self._tokens = NO_TOKENS
        self._readers: Mapping[str, Callable[[JsonObject], Iterator[ModelDelta]]] = {
            "response.output_text.delta": self._text,
            "response.output_text.done": self._text_done,
            "response.refusal.delta": self._refusal,
            "response.refusal.done": self._refusal_done,
            "response.reasoning_text.delta": self._reasoning,
            "response.reasoning_summary_text.delta": self._reasoning,
            "response.reasoning_summary_part.added": self._summary_part,
            "response.output_item.added": self._item_added,
            "response.function_call_arguments.delta": self._arguments,
            "response.function_call_arguments.done": self._arguments_done,
            "response.custom_tool_call_input.delta": self._arguments,
            "response.output_item.done": self._item_done,
            "response.completed": self._completed,
            "response.incomplete": self._incomplete,
            "response.failed": self._failed,
            "response.cancelled": self._failed,
            "error": self._error,
        }

    @property
    @override
    def usage(self) -> Usage:
        return self._tokens.usage

    @property
    @override
    def ended(self) -> bool:
        return self._end is not None

    @override
    def survives(self, fault: Exception) -> bool:
        return self._end is not None

    @override
    def ending(self) -> tuple[ModelDelta, ...]:
        if self._end is None:
            raise CutStream
        return (ModelCompleted(self._operation, self._end, self.usage, cut_call=self._cut_call),)

    @override
    def read(self, event: object) -> Iterator[ModelDelta]:
        fields = members(event)
        if fields.get("object") == "response":  # it did not come as a stream
            fields = {"type": f"response.{text(fields.get('status'))}", "response": fields}
        kind = text(fields.get("type"))
        self._tokens = self._tokens.most(responses_tokens(members(fields.get("response"))))
        if kind != "error" and fields.get("error"):
            raise ToldError(fields["error"])
        reader = self._readers.get(kind)
        if reader is not None:
            yield from reader(fields)
        elif "_call" in kind:
            yield ModelUsage(self._operation, NO_USAGE)  # what the provider runs itself goes on: a sign of life

    def _text(self, event: JsonObject) -> Iterator[ModelDelta]:
        if _part_place(event) not in self._said:
            self._kept.add(_COST_OF_PART)
            self._said.add(_part_place(event))
        if piece := text(event.get("delta")):
            yield ModelText(self._operation, piece)

    def _text_done(self, event: JsonObject) -> Iterator[ModelDelta]:
        """The whole of a text, which has come in pieces before; with some servers it has not."""
        if _part_place(event) not in self._said:
            yield from self._text({**event, "delta": event.get("text")})

    def _refusal(self, event: JsonObject) -> Iterator[ModelDelta]:
        self._refused = True
        yield from self._text(event)

    def _refusal_done(self, event: JsonObject) -> Iterator[ModelDelta]:
        self._refused = True
        yield from self._text_done({**event, "text": event.get("refusal")})

    def _reasoning(self, event: JsonObject) -> Iterator[ModelDelta]:
        if piece := text(event.get("delta")):
            yield ModelReasoning(self._operation, piece)

    def _summary_part(self, event: JsonObject) -> Iterator[ModelDelta]:
        """The parts of a summary are paragraphs, and those of the next reasoning item as well."""
        self._summaries += 1
        if self._summaries > 1:
            yield ModelReasoning(self._operation, "\n\n")

    def _item_added(self, event: JsonObject) -> Iterator[ModelDelta]:
        item = members(event.get("item"))
        if item.get("type") in _CALLS:
            call = self._open[_place(event)] = _OpenCall()
            self._kept.add(call.take(item) + _COST_OF_PART)
        yield from ()

    def _arguments(self, event: JsonObject) -> Iterator[ModelDelta]:
        piece = text(event.get("delta"))
        call = self._open.get(_place(event))
        if call is not None and piece:
            self._kept.add(len(piece))
            call.pieces.append(piece)
            yield ModelInput(self._operation, piece)

    def _arguments_done(self, event: JsonObject) -> Iterator[ModelDelta]:
        call = self._open.get(_place(event))
        if call is not None and isinstance(event.get("arguments"), str):
            call.arguments = text(event.get("arguments"))
            self._kept.add(len(call.arguments))
        yield from ()

    def _item_done(self, event: JsonObject) -> Iterator[ModelDelta]:
        place, item = _place(event), members(event.get("item"))
        if place in self._done:
            return
        self._kept.add(_COST_OF_PART)
        if item.get("type") not in _CALLS:
            self._done.add(place)
            yield from self._other_item(item)
            return
        call = self._open.setdefault(place, _OpenCall())
        call.take(item)
        if text(item.get("arguments")) or text(item.get("input")):
            call.arguments = text(item.get("arguments")) or text(item.get("input"))
            self._kept.add(len(call.arguments))
        if item.get("status") != "incomplete":  # else it is for the end to say what becomes of it
            yield self._give(place)

    def _other_item(self, item: JsonObject) -> Iterator[ModelDelta]:
        if is_server_call(item):
            yield ModelServerCall(
                self._operation,
                provider_id=text(item.get("id")),
                tool=text(item.get("type")).removesuffix("_call"),
                input=json_or_none(shown_input(item)) or EMPTY_OBJECT,
                result=None if shown_result(item) is None else json_or_none(shown_result(item)),
            )
        payload = json_or_none(item)
        if is_kept(item) and payload is not None:
            yield ModelOpaque(self._operation, payload)

    def _give(self, place: int, cut: bool = False) -> ModelCall:
        call = self._open.pop(place)
        self._done.add(place)
        self._calls += 1
        arguments = "".join(call.pieces) if call.arguments is None else call.arguments
        if call.item.get("type") == "custom_tool_call":
            given: Json | RawInput = Json.of({"input": arguments})
        else:
            given = call_input(arguments, cut)
        return ModelCall(
            operation=self._operation,
            provider_id=text(call.item.get("call_id")) or text(call.item.get("id")) or f"call_{place + 1}",
            tool=self._names.own(text(call.item.get("name"))),
            input=given,
        )

    def _completed(self, event: JsonObject) -> Iterator[ModelDelta]:
        yield from self._untold_output(event)
        for place in sorted(self._open):  # announced, and never told to be done, in a response that is
            yield self._give(place)
        self._end = StopReason.TOOL_USE if self._calls else StopReason.END_TURN
        if self._refused:
            self._end = StopReason.REFUSAL

    def _untold_output(self, event: JsonObject) -> Iterator[ModelDelta]:
        """What a server that tells the whole at the end has not told before."""
        if not self._done and not self._open and not self._said:
            yield from self._whole_output(members(event.get("response")))

    def _whole_output(self, response: JsonObject) -> Iterator[ModelDelta]:
        for place, item in enumerate(map(members, items(response.get("output")))):
            for part_place, part in enumerate(map(members, items(item.get("content")))):
                done = {"output_index": place, "content_index": part_place, **part}
                if part.get("type") == "output_text":
                    yield from self._text_done(done)
                elif part.get("type") == "refusal":
                    yield from self._refusal_done(done)
            yield from self._item_done({"output_index": place, "item": item})

    def _incomplete(self, event: JsonObject) -> Iterator[ModelDelta]:
        details = members(members(event.get("response")).get("incomplete_details"))
        yield from self._untold_output(event)
        stop = _INCOMPLETE.get(text(details.get("reason")), StopReason.MAX_TOKENS)
        if stop is StopReason.MAX_TOKENS:
            for place in sorted(self._open):
                call = self._give(place, cut=True)
                self._cut_call = isinstance(call.input, RawInput)
                yield call
        self._end = stop

    def _failed(self, event: JsonObject) -> Iterator[ModelDelta]:
        response = members(event.get("response"))
        told: JsonValue = response.get("error") or f"the response has ended as {text(response.get('status'))}"
        yield from ()
        raise ToldError(told)

    def _error(self, event: JsonObject) -> Iterator[ModelDelta]:
        """An error is told in the event itself, or in a member of it. The event's own type says nothing then."""
        yield from ()
        raise ToldError(event.get("error") or {field: value for field, value in event.items() if field != "type"})


def _place(event: JsonObject) -> int:
    return number(event.get("output_index")) or 0


def _part_place(event: JsonObject) -> tuple[int, int]:
    return _place(event), number(event.get("content_index")) or 0


# --- the provider ----------------------------------------------------------------------------------------


class OpenAIResponsesProvider(OpenAIProvider):
    """Asks the model that a request names, over the Responses API, storing nothing at the server.

    A `client` that is given stays the caller's; without one the provider makes its own, of `api_key` and `base_url`
    (else of the environment: OPENAI_API_KEY, OPENAI_BASE_URL). `encrypted_reasoning`: whether the model is asked for
    its reasoning, to be given back to it; None asks those that are known to reason. `more` are further fields of each
    request, such as `{"reasoning": {"effort": "low", "summary": "auto"}}`. Raises openai.OpenAIError where there is no
    key.
    """

    def __init__(
        self,
        client: AsyncOpenAI | None = None,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        encrypted_reasoning: bool | None = None,
        more: Mapping[str, JsonValue] | None = None,
    ) -> None:
        super().__init__(client, api_key, base_url)
        self._encrypted_reasoning = encrypted_reasoning
        self._more = dict(more or {})

    @override
    def asked(self, request: Request, operation: ModelOperation) -> tuple[str, JsonObject, Reply]:
        names = ToolNames(request.tools)
        wanted = self._encrypted_reasoning
        encrypted = reasons(request.model) if wanted is None else wanted
        body = responses_body(request, names, encrypted, self._more)
        return "/responses", body, ResponsesReply(operation, names)

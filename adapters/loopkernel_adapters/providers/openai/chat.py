"""Models behind the chat completions API: OpenAI's, and any server that speaks as it does. Needs the extra `openai`."""

import json
from collections.abc import Iterator, Mapping
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
from loopkernel.data.ids import ModelOperation
from loopkernel.data.json_text import Json, JsonValue, safe_text
from loopkernel.data.model_deltas import (
    ModelCall,
    ModelCompleted,
    ModelDelta,
    ModelInput,
    ModelReasoning,
    ModelText,
)
from loopkernel.data.usage import Usage
from loopkernel.data.words import StopReason
from loopkernel.later_typing import override
from openai import AsyncOpenAI

from loopkernel_adapters.providers.answered_turns import (
    NOTHING_SAID,
    ModelTurn,
    UserTurn,
    result_media,
    result_text,
    turns,
)
from loopkernel_adapters.providers.call_inputs import arguments_text, call_input
from loopkernel_adapters.providers.json_fields import JsonObject, items, members, number, text
from loopkernel_adapters.providers.openai.client import OpenAIProvider, Reply
from loopkernel_adapters.providers.openai.errors import CutStream, ToldError, UnreadableStream
from loopkernel_adapters.providers.openai.reply_parts import NO_TOKENS, chat_tokens
from loopkernel_adapters.providers.shown_media import ShownFile, ShownImage, ShownText, shown
from loopkernel_adapters.providers.wire_bounds import KeptText
from loopkernel_adapters.providers.wire_names import ToolNames

# --- the request: a pure function of it and of how the server speaks -------------------------------------
# A result holds text alone there, so the media of the results of a reply follow in a user message behind them all. What
# the provider ran itself, and what only its own model can read, has no place in this API and is left out.

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
        "stream": request.stream,
    }
    if dialect.asks_for_usage and request.stream:
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


# --- calls in fragments, several at once -----------------------------------------------------------------
# The API gives each fragment an index, and the id and the name in the first fragment of a call. Servers leave the index
# out, give every call the index 0, repeat or change the id with each fragment, or send a whole call at once.

_COST_OF_CALL = 500  # characters, as which a call counts beside its own


class _OpenCall:
    """A call as far as it has come."""

    def __init__(self, index: int | None) -> None:
        self.index = index
        self.id = ""
        self.name = ""
        self.pieces: list[str] = []
        self.given = False

    @property
    def arguments(self) -> str:
        return "".join(self.pieces)

    def is_whole(self) -> bool:
        """Whether the arguments are an object to which nothing can be added."""
        arguments = self.arguments
        return arguments.rstrip().endswith("}") and isinstance(call_input(arguments, cut=True), Json)

    def goes_on(self, call_id: str, name: str, piece: str) -> bool:
        """Whether a fragment with this id and name belongs to this call, at whose place it stands."""
        if not name or not self.name:
            return True
        if name != self.name:
            return False
        # The name once more: repeated, or that of another call of the same tool.
        same_id = not call_id or not self.id or call_id == self.id
        if self.is_whole():
            return same_id and not piece.strip()
        return same_id or bool(self.arguments.strip())


class CallFragments:
    """The calls of one reply, in the order in which they began."""

    def __init__(self, operation: ModelOperation, names: ToolNames) -> None:
        self._operation = operation
        self._names = names
        self._calls: list[_OpenCall] = []
        self._kept = KeptText()

    def add(self, fragment: JsonObject) -> tuple[str, bool]:
        """Take the next fragment; the text that it adds to the arguments of its call, and whether it begins the call.

        Raises UnreadableStream where it adds to a call that was whole and has been given, and TooMuchKept.
        """
        function = members(fragment.get("function"))
        index, call_id, name = number(fragment.get("index")), text(fragment.get("id")), text(function.get("name"))
        arguments = function.get("arguments")
        piece = json.dumps(arguments) if isinstance(arguments, dict) else text(arguments)
        self._kept.add(len(piece) + len(call_id) + len(name))
        call = self._call_of(index, call_id, name, piece)
        begins = call is None
        if call is None:
            call = _OpenCall(index)
            self._calls.append(call)
            self._kept.add(_COST_OF_CALL)
        call.id = call.id or call_id
        call.name = call.name or name
        if call.given and piece.strip():
            raise UnreadableStream(f"the arguments of call {call.id or call.name} go on behind their end")
        call.pieces.append(piece)
        return piece, begins

    def _call_of(self, index: int | None, call_id: str, name: str, piece: str) -> _OpenCall | None:
        """The call that a fragment goes on with; None where it begins one."""
        if index is None:
            named = [call for call in self._calls if call_id and call.id == call_id]
            found = named[-1] if named else self._calls[-1] if self._calls else None
        else:
            found = next((call for call in reversed(self._calls) if call.index == index), None)
        return found if found is not None and found.goes_on(call_id, name, piece) else None

    def whole(self) -> list[ModelCall]:
        """The calls that are certain to be complete and were not given yet: those before the last, in order."""
        given: list[ModelCall] = []
        for call in self._calls[:-1]:
            if not call.given:
                if not call.is_whole():
                    break  # in the order of the model: none goes before another
                given.append(self._give(call, cut=False))
        return given

    def rest(self, cut: bool) -> tuple[list[ModelCall], bool]:
        """The calls that are left, now that the reply has ended; and whether the last call of all is a cut one.

        In a reply that was `cut` at its limit, arguments that are not a whole object are cut ones.
        """
        open_calls = [call for call in self._calls if not call.given and (call.name or call.arguments.strip())]
        rest = [self._give(call, cut) for call in open_calls]
        return rest, cut and bool(rest) and isinstance(rest[-1].input, RawInput)

    def _give(self, call: _OpenCall, cut: bool) -> ModelCall:
        call.given = True
        return ModelCall(
            operation=self._operation,
            provider_id=call.id or f"call_{self._calls.index(call) + 1}",
            tool=self._names.own(call.name),
            input=call_input(call.arguments, cut),
        )

    def __bool__(self) -> bool:
        return bool(self._calls)


# --- the streamed completion, chunk by chunk -------------------------------------------------------------

_STOPS: Mapping[str, StopReason] = {
    "stop": StopReason.END_TURN,
    "length": StopReason.MAX_TOKENS,
    "model_length": StopReason.MAX_TOKENS,  # Mistral: the context is full
    "tool_calls": StopReason.TOOL_USE,
    "function_call": StopReason.TOOL_USE,
    "content_filter": StopReason.CONTENT_FILTERED,
    "sensitive": StopReason.CONTENT_FILTERED,  # GLM
}
# Ends that are none of the model's.
_FAILED: Mapping[str, str] = {
    "error": "server_error",
    "network_error": "server_error",
    "abort": "server_error",
    "insufficient_system_resource": "overloaded",
}
_REASONING_FIELDS = ("reasoning_content", "reasoning")  # where a server fills both, they say the same


class ChatReply(Reply):
    """Reads the chunks of one reply. Complete when a choice has given its finish reason; usage may come after it."""

    def __init__(self, operation: ModelOperation, names: ToolNames) -> None:
        self._operation = operation
        self._calls = CallFragments(operation, names)
        self._tokens = NO_TOKENS
        self._finish: str | None = None
        self._refused = False
        self._used_is_told = False

    @property
    @override
    def usage(self) -> Usage:
        return self._tokens.usage

    @property
    @override
    def ended(self) -> bool:
        return self._finish is not None and self._used_is_told  # most servers tell the usage behind the end

    @override
    def read(self, event: object) -> Iterator[ModelDelta]:
        chunk = members(event)
        told = members(chunk.get("x_groq")).get("usage")
        self._tokens = self._tokens.most(chat_tokens(chunk.get("usage"))).most(chat_tokens(told))
        if chunk.get("error"):
            raise ToldError(chunk["error"])
        if chunk.get("object") == "error":
            raise ToldError(chunk)
        for choice in map(members, items(chunk.get("choices"))):
            if choice.get("index") in (0, None):
                self._tokens = self._tokens.most(chat_tokens(choice.get("usage")))
                yield from self._delta(members(choice.get("delta")) or members(choice.get("message")))
                self._finish = text(choice.get("finish_reason")) or self._finish
        self._used_is_told = bool(members(chunk.get("usage")))

    def _delta(self, delta: JsonObject) -> Iterator[ModelDelta]:
        reasoning = next((said for field in _REASONING_FIELDS if (said := text(delta.get(field)))), "")
        if reasoning:
            yield ModelReasoning(self._operation, reasoning)
        yield from self._content(delta.get("content"))
        refusal = text(delta.get("refusal"))
        if refusal:
            self._refused = True
            yield ModelText(self._operation, refusal)
        fragments = [members(fragment) for fragment in items(delta.get("tool_calls"))]
        if members(delta.get("function_call")):
            fragments.append({"index": 0, "function": delta["function_call"]})  # before there were several
        for fragment in fragments:
            piece, begins = self._calls.add(fragment)
            if begins:
                yield from self._calls.whole()  # before anything of the next call is shown
            if piece:
                yield ModelInput(self._operation, piece)
            if not begins:
                yield from self._calls.whole()

    def _content(self, content: JsonValue) -> Iterator[ModelDelta]:
        """The text, or Mistral's parts of text and of thinking."""
        if isinstance(content, str) and content:
            yield ModelText(self._operation, content)
        for part in map(members, items(content)):
            if said := text(part.get("text")):
                yield ModelText(self._operation, said)
            for thought in map(members, items(part.get("thinking"))):
                if said := text(thought.get("text")):
                    yield ModelReasoning(self._operation, said)

    @override
    def survives(self, fault: Exception) -> bool:
        """A reply with its finish reason is complete, wherever the connection goes then. What the server tells counts,
        but for a reply at its limit: some servers tell that as an error as well."""
        if self._finish is None:
            return False
        return not isinstance(fault, ToldError) or _STOPS.get(self._finish) is StopReason.MAX_TOKENS

    @override
    def ending(self) -> tuple[ModelDelta, ...]:
        if self._finish is None:
            raise CutStream
        if self._finish in _FAILED:
            message = f"the reply was given up with the finish reason {self._finish}"
            raise ToldError({"type": _FAILED[self._finish], "message": message})
        stop = _STOPS.get(self._finish, StopReason.END_TURN)
        calls, cut_call = self._calls.rest(cut=stop in (StopReason.MAX_TOKENS, StopReason.CONTENT_FILTERED))
        return (*calls, self._completed(stop, calls, cut_call))

    def _completed(self, stop: StopReason, calls: list[ModelCall], cut_call: bool) -> ModelCompleted:
        if self._refused and stop is StopReason.END_TURN:
            stop = StopReason.REFUSAL
        elif self._finish not in _STOPS and self._calls:
            stop = StopReason.TOOL_USE  # a word of the server's own
        return ModelCompleted(self._operation, stop, self.usage, cut_call=cut_call and stop is StopReason.MAX_TOKENS)


# --- the provider ----------------------------------------------------------------------------------------

_HOSTS = ("api.openai.com", ".api.openai.com", ".openai.azure.com")


class OpenAIChatProvider(OpenAIProvider):
    """Asks the model that a request names, over chat completions.

    A `client` that is given stays the caller's; without one the provider makes its own, of `api_key` and `base_url`
    (else of the environment: OPENAI_API_KEY, OPENAI_BASE_URL). `dialect` says how the server differs from OpenAI's: by
    default not at all where its address is OpenAI's or Azure's, and else as most other servers do. `more` are further
    fields of each request, such as `{"reasoning_effort": "low"}`. Raises openai.OpenAIError where there is no key.
    """

    def __init__(
        self,
        client: AsyncOpenAI | None = None,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        dialect: ChatDialect | None = None,
        more: Mapping[str, JsonValue] | None = None,
    ) -> None:
        super().__init__(client, api_key, base_url)
        self._dialect = dialect or (OPENAI if self.client.base_url.host.endswith(_HOSTS) else COMPATIBLE)
        self._more = dict(more or {})

    @override
    def asked(self, request: Request, operation: ModelOperation) -> tuple[str, JsonObject, Reply]:
        names = ToolNames(request.tools)
        body = chat_body(request, names, self._dialect, self._more)
        return "/chat/completions", body, ChatReply(operation, names)

"""What the events of each provider's stream say, as parts of one reply: text, calls, the stop and the usage."""

from abc import ABC, abstractmethod
from collections.abc import Iterator

from attrs import Factory, define
from loopkernel.data.blocks import OpaqueBlock, ReasoningBlock, ServerCall, TextBlock
from loopkernel.data.foreign import ForeignBlock, ForeignCall
from loopkernel.data.json_text import Json, JsonValue
from loopkernel.data.usage import Usage
from loopkernel.data.words import ErrorClass, StopReason
from loopkernel.later_typing import override

from loopkernel_adapters.transcripts.entries import Bookkeeping, Entry, Finding, FindingKind, Place, ReplyEnd, ReplyPart
from loopkernel_adapters.transcripts.fields import (
    at,
    call_of,
    count_at,
    flag_at,
    given_input,
    items_at,
    kept,
    record_at,
    records_in,
    text_at,
)

# --- what the dialects share -----------------------------------------------------------------------------


STOPS = {
    **{reason.value: reason for reason in StopReason},
    "stop": StopReason.END_TURN,
    "STOP": StopReason.END_TURN,
    "COMPLETE": StopReason.END_TURN,
    "completed": StopReason.END_TURN,
    "tool_calls": StopReason.TOOL_USE,
    "TOOL_CALL": StopReason.TOOL_USE,
    "length": StopReason.MAX_TOKENS,
    "MAX_TOKENS": StopReason.MAX_TOKENS,
    "max_output_tokens": StopReason.MAX_TOKENS,
    "content_filter": StopReason.CONTENT_FILTERED,
    "SAFETY": StopReason.CONTENT_FILTERED,
    "pause_turn": StopReason.PAUSE,
}


@define
class Writing:
    """A call that is being written."""

    name: str
    tool: str
    arguments: str = ""
    of_server: bool = False  # the provider runs it itself


@define
class Dialect(ABC):
    """One exchange in one provider's words."""

    exchange: int
    reply: str
    writing: dict[JsonValue, Writing] = Factory(dict)  # by what the provider tells its calls apart with
    model: str = ""

    @abstractmethod
    def take(self, place: Place, event: JsonValue) -> Iterator[Entry]:
        """What an event says."""

    def end(self, place: Place) -> Iterator[Entry]:
        """The stream, or the reply, has ended: a call that was never said to be complete is not one."""
        for left in self.writing.values():
            text = f"the call {left.name} of {left.tool} was never finished"
            yield Finding(place=place, kind=FindingKind.UNANSWERED, text=text)
        self.writing.clear()

    def ended(
        self, place: Place, why: str, *content: ForeignBlock, usage: Usage | None = None, model: str | None = None
    ) -> Iterator[Entry]:
        """The reply has ended, for the reason that the provider gives."""
        stop = STOPS.get(why)
        if stop is None:
            text = f"the reply ended for a reason that is not known: {why!r}"
            yield Finding(place=place, kind=FindingKind.ODD_FIELD, text=text)
        yield self.part(place, *content, stop=stop, usage=usage, model=model)

    def part(
        self,
        place: Place,
        *content: ForeignBlock,
        usage: Usage | None = None,
        model: str | None = None,
        stop: StopReason | None = None,
    ) -> ReplyPart:
        """A part of the reply."""
        return ReplyPart(
            place=place,
            at_ms=None,
            conversation=f"exchange {self.exchange}",
            reply=self.reply,
            content=content,
            usage=usage,
            model=model,
            stop=stop,
        )

    def failed(self, place: Place, words: str) -> ReplyPart:
        """The reply failed."""
        return ReplyPart(
            place=place,
            at_ms=None,
            conversation=f"exchange {self.exchange}",
            reply=self.reply,
            content=(),
            end=ReplyEnd.FAILED,
            error=ErrorClass.UNKNOWN,
            message=words,
        )

    def finished(self, key: JsonValue) -> tuple[ForeignCall | ServerCall, ...]:
        """The call that was written, now that it is complete."""
        written = self.writing.pop(key, None)
        if written is None:
            return ()
        found = given_input(written.arguments)
        if written.of_server:
            whole = found if isinstance(found, Json) else kept(found.text)
            return (ServerCall(provider_id=written.name, tool=written.tool, input=whole),)
        return (ForeignCall(provider_id=written.name, tool=written.tool, input=found),)

    def quiet(self, place: Place, event: JsonValue) -> Entry:
        """An event that says nothing about the conversation, or one that is not known in this dialect."""
        kind = text_at(event, "type") or text_at(event, "object")
        if kind is None:
            return Finding(place=place, kind=FindingKind.UNKNOWN_RECORD, text=unknown(event))
        return Bookkeeping(place=place, kind=f"event {kind}")


def unknown(event: JsonValue) -> str:
    """An event that is in no dialect, shown."""
    return f"an event in no dialect that is known: {kept(event).text[:80]}"


# --- the dialects ----------------------------------------------------------------------------------------


@define
class AnthropicDialect(Dialect):
    """Messages of Anthropic. A file may hold several replies: each begins with `message_start`."""

    @override
    def take(self, place: Place, event: JsonValue) -> Iterator[Entry]:
        index: JsonValue = at(event, "index")
        key = index if isinstance(index, int) else None
        match text_at(event, "type"):
            case "message_start":
                self.reply = text_at(event, "message", "id") or self.reply
                self.model = text_at(event, "message", "model") or self.model
                yield from self.end(place)
                blocks = [self._whole(block) for block in records_in(items_at(event, "message", "content"))]
                yield self.part(place, *blocks, model=text_at(event, "message", "model"))
            case "content_block_start":
                yield self._begun(place, key, record_at(event, "content_block"))
            case "content_block_delta":
                yield from self._delta(place, key, record_at(event, "delta"))
            case "content_block_stop":
                yield self.part(place, *self.finished(key))
            case "message_delta":
                usage = record_at(event, "usage")
                why = text_at(event, "delta", "stop_reason")
                counted = Usage(input=count_at(usage, "input_tokens"), output=count_at(usage, "output_tokens"))
                if why is None:
                    yield self.part(place, usage=counted if usage else None)
                else:
                    yield from self.ended(place, why, usage=counted if usage else None)
            case "error":
                yield self.failed(place, text_at(event, "error", "message") or "")
            case _:
                yield self.quiet(place, event)

    def _begun(self, place: Place, key: JsonValue, block: dict[str, JsonValue]) -> Entry:
        kind = text_at(block, "type")
        if kind in ("tool_use", "server_tool_use"):
            name, tool = text_at(block, "id") or "", text_at(block, "name") or ""
            replaced = self.writing.get(key)
            self.writing[key] = Writing(name, tool, of_server=kind == "server_tool_use")
            if replaced is not None:
                text = f"the call {replaced.name} of {replaced.tool} was never finished: another took its place"
                return Finding(place=place, kind=FindingKind.UNANSWERED, text=text)
            return self.part(place)
        if kind in ("text", "thinking"):
            begun = text_at(block, "text")
            return self.part(place, *((TextBlock(begun),) if begun else ()))
        return self.part(place, OpaqueBlock(self.model, kept(block)))

    def _whole(self, block: dict[str, JsonValue]) -> ForeignBlock:
        """A block that came with the beginning of the message, as those do that code of the provider's has made."""
        match text_at(block, "type"):
            case "tool_use":
                name, tool = text_at(block, "id") or "", text_at(block, "name") or ""
                return ForeignCall(provider_id=name, tool=tool, input=kept(at(block, "input")))
            case "text":
                return TextBlock(text_at(block, "text") or "")
            case _:
                return OpaqueBlock(self.model, kept(block))

    def _delta(self, place: Place, key: JsonValue, delta: dict[str, JsonValue]) -> Iterator[Entry]:
        if (text := text_at(delta, "text")) is not None:
            yield self.part(place, TextBlock(text))
        elif (text := text_at(delta, "thinking")) is not None:
            yield self.part(place, ReasoningBlock(text))
        elif (text := text_at(delta, "partial_json")) is not None and key in self.writing:
            self.writing[key].arguments += text
        else:
            yield self.quiet(place, delta)


@define
class ResponsesDialect(Dialect):
    """Responses of OpenAI."""

    @override
    def take(self, place: Place, event: JsonValue) -> Iterator[Entry]:
        match text_at(event, "type"):
            case "response.output_text.delta":
                yield self.part(place, TextBlock(text_at(event, "delta") or ""))
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                yield self.part(place, ReasoningBlock(text_at(event, "delta") or ""))
            case "response.output_item.done" if text_at(event, "item", "type") == "function_call":
                item = record_at(event, "item")
                yield self.part(
                    place,
                    call_of(at(item, "call_id"), at(item, "name"), at(item, "arguments")),
                )
            case "response.output_item.done" if text_at(event, "item", "type") not in ("message", "reasoning"):
                yield self.part(place, OpaqueBlock(self.model, kept(at(event, "item"))))
            case "response.created":
                self.model = text_at(event, "response", "model") or self.model
                yield self.part(place, model=self.model or None)
            case "response.completed" | "response.incomplete":
                usage = record_at(event, "response", "usage")
                why = text_at(event, "response", "incomplete_details", "reason") or "completed"
                counted = Usage(input=count_at(usage, "input_tokens"), output=count_at(usage, "output_tokens"))
                model = text_at(event, "response", "model")
                yield from self.ended(place, why, usage=counted if usage else None, model=model)
            case "response.failed":
                yield self.failed(place, text_at(event, "response", "error", "message") or "")
            case "error":
                yield self.failed(place, text_at(event, "message") or text_at(event, "error", "message") or "")
            case _:
                yield self.quiet(place, event)


@define
class ChatDialect(Dialect):
    """Chunks of a chat completion; of the calls, each is complete when the choice has finished."""

    @override
    def take(self, place: Place, event: JsonValue) -> Iterator[Entry]:
        if isinstance(at(event, "error"), dict):
            yield self.failed(place, text_at(event, "error", "message") or "")
            return
        if len(items_at(event, "choices")) > 1:
            yield Bookkeeping(place=place, kind="further choices")
        for choice in records_in(items_at(event, "choices")[:1]):
            delta = record_at(choice, "delta") or record_at(choice, "message")
            yield from self._delta(place, delta)
            if finish := text_at(choice, "finish_reason"):
                calls = [call for key in tuple(self.writing) for call in self.finished(key)]
                yield from self.ended(place, finish, *calls, model=text_at(event, "model"))
        if usage := record_at(event, "usage"):
            counted = Usage(input=count_at(usage, "prompt_tokens"), output=count_at(usage, "completion_tokens"))
            yield self.part(place, usage=counted)

    def _delta(self, place: Place, delta: dict[str, JsonValue]) -> Iterator[Entry]:
        reasoning = text_at(delta, "reasoning_content") or text_at(delta, "reasoning")
        if reasoning:
            yield self.part(place, ReasoningBlock(reasoning))
        if text := text_at(delta, "content"):
            yield self.part(place, TextBlock(text))
        for number, call in enumerate(records_in(items_at(delta, "tool_calls"))):
            index: JsonValue = at(call, "index")
            key = index if isinstance(index, int) else number
            written = self.writing.setdefault(key, Writing("", ""))
            written.name = text_at(call, "id") or written.name
            written.tool = written.tool or text_at(call, "function", "name") or ""
            arguments: JsonValue = at(call, "function", "arguments")
            written.arguments += arguments if isinstance(arguments, str) else ""


@define
class GeminiDialect(Dialect):
    """Content of Gemini; calls come whole, and may have no ids."""

    calls: int = 0

    @override
    def take(self, place: Place, event: JsonValue) -> Iterator[Entry]:
        if len(items_at(event, "candidates")) > 1:
            yield Bookkeeping(place=place, kind="further candidates")
        for candidate in records_in(items_at(event, "candidates")[:1]):
            for part in records_in(items_at(candidate, "content", "parts")):
                yield from self._part(place, part)
            if finish := text_at(candidate, "finishReason"):
                yield from self.ended(place, "tool_use" if self.calls and finish == "STOP" else finish)
        if usage := record_at(event, "usageMetadata"):
            output = count_at(usage, "candidatesTokenCount") + count_at(usage, "thoughtsTokenCount")
            yield self.part(place, usage=Usage(input=count_at(usage, "promptTokenCount"), output=output))

    def _part(self, place: Place, part: dict[str, JsonValue]) -> Iterator[Entry]:
        if call := record_at(part, "functionCall"):
            self.calls += 1
            name = text_at(call, "id") or f"call {self.calls}"
            yield self.part(
                place,
                ForeignCall(provider_id=name, tool=text_at(call, "name") or "", input=given_input(at(call, "args"))),
            )
        elif (text := text_at(part, "text")) is not None:
            yield self.part(place, ReasoningBlock(text) if flag_at(part, "thought") else TextBlock(text))
        else:
            yield self.part(place, OpaqueBlock(self.model, kept(part)))


@define
class CohereDialect(Dialect):
    """Chat of Cohere."""

    @override
    def take(self, place: Place, event: JsonValue) -> Iterator[Entry]:
        delta = record_at(event, "delta")
        index: JsonValue = at(event, "index")
        key = index if isinstance(index, int) else None
        match text_at(event, "type"):
            case "tool-plan-delta":
                yield self.part(place, ReasoningBlock(text_at(delta, "message", "tool_plan") or ""))
            case "content-delta":
                yield self.part(place, TextBlock(text_at(delta, "message", "content", "text") or ""))
            case "tool-call-start":
                call = record_at(delta, "message", "tool_calls")
                self.writing[key] = Writing(
                    text_at(call, "id") or "",
                    text_at(call, "function", "name") or "",
                    text_at(call, "function", "arguments") or "",
                )
            case "tool-call-delta" if key in self.writing:
                self.writing[key].arguments += text_at(delta, "message", "tool_calls", "function", "arguments") or ""
            case "tool-call-end":
                yield self.part(place, *self.finished(key))
            case "message-end":
                tokens = record_at(delta, "usage", "tokens")
                usage = Usage(input=count_at(tokens, "input_tokens"), output=count_at(tokens, "output_tokens"))
                yield from self.ended(place, text_at(delta, "finish_reason") or "", usage=usage)
            case _:
                yield self.quiet(place, event)


@define
class BedrockDialect(Dialect):
    """The converse stream of Bedrock: each event is an object with one key."""

    @override
    def take(self, place: Place, event: JsonValue) -> Iterator[Entry]:
        for kind, value in record_at(event).items():
            index: JsonValue = at(value, "contentBlockIndex")
            key = index if isinstance(index, int) else None
            tool = record_at(value, "start", "toolUse")
            if kind == "contentBlockStart" and tool:
                self.writing[key] = Writing(text_at(tool, "toolUseId") or "", text_at(tool, "name") or "")
            elif kind == "contentBlockDelta" and (text := text_at(value, "delta", "text")) is not None:
                yield self.part(place, TextBlock(text))
            elif kind == "contentBlockDelta" and key in self.writing:
                self.writing[key].arguments += text_at(value, "delta", "toolUse", "input") or ""
            elif kind == "contentBlockStop":
                yield self.part(place, *self.finished(key))
            elif kind == "messageStop":
                yield from self.ended(place, text_at(value, "stopReason") or "")
            elif kind == "metadata":
                usage = record_at(value, "usage")
                counted = Usage(input=count_at(usage, "inputTokens"), output=count_at(usage, "outputTokens"))
                yield self.part(place, usage=counted)
            else:
                yield Bookkeeping(place=place, kind=f"event {kind}")


ANTHROPIC = frozenset(
    [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
        "ping",
    ]
)
COHERE = frozenset(
    ["message-start", "tool-plan-delta", "content-start", "content-delta", "tool-call-start", "message-end"]
)
BEDROCK = frozenset(["messageStart", "contentBlockStart", "contentBlockDelta", "contentBlockStop", "messageStop"])


def dialect_of(event: JsonValue) -> type[Dialect] | None:
    """The dialect that an event is in; None where it is in none, or could be in several."""
    kind = text_at(event, "type") or ""
    if kind in ANTHROPIC:
        return AnthropicDialect
    if kind.startswith("response."):
        return ResponsesDialect
    if kind in COHERE:
        return CohereDialect
    if isinstance(at(event, "choices"), list):
        return ChatDialect
    if isinstance(at(event, "candidates"), list):
        return GeminiDialect
    if BEDROCK & record_at(event).keys():
        return BedrockDialect
    return None

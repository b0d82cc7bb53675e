"""What the events of each provider's stream say, as parts of replies: text, calls, the stop and the usage."""

from collections.abc import Iterator

from attrs import define
from loopkernel.data.blocks import OpaqueBlock, ReasoningBlock, TextBlock
from loopkernel.data.foreign import ForeignBlock, ForeignCall
from loopkernel.data.json_text import JsonValue
from loopkernel.data.usage import Usage
from loopkernel.later_typing import override

from loopkernel_adapters.transcripts.entries import Bookkeeping, Entry, Finding, FindingKind, Place
from loopkernel_adapters.transcripts.fields import (
    Record,
    at,
    call_of,
    count_at,
    items_at,
    kept,
    record_at,
    records_in,
    text_at,
)
from loopkernel_adapters.transcripts.readers.gemini_stream import GeminiDialect
from loopkernel_adapters.transcripts.readers.stream_dialect import Dialect, Writing


@define
class AnthropicDialect(Dialect):
    """Messages of Anthropic. A file may hold several replies: each begins with `message_start`."""

    @override
    def take(self, place: Place, event: JsonValue) -> Iterator[Entry]:
        index: JsonValue = at(event, "index")
        key = index if isinstance(index, int) else None
        match text_at(event, "type"):
            case "message_start":
                name = text_at(event, "message", "id") or self.reply
                self.model = text_at(event, "message", "model") or self.model
                if name == self.reply:
                    yield from self.end(place)
                else:
                    yield from self.begin(place, name)
                blocks = [self._whole(block) for block in records_in(items_at(event, "message", "content"))]
                begun = record_at(event, "message", "usage")
                counted = self.count(_anthropic_usage(begun)) if begun else None
                yield self.part(place, *blocks, model=text_at(event, "message", "model"), usage=counted)
            case "content_block_start":
                yield self._begun(place, key, record_at(event, "content_block"))
            case "content_block_delta":
                yield from self._delta(place, key, record_at(event, "delta"))
            case "content_block_stop":
                yield self.part(place, *self.finished(key))
            case "message_delta":
                usage = record_at(event, "usage")
                why = text_at(event, "delta", "stop_reason")
                counted = self.count(_anthropic_usage(usage)) if usage else None
                if why is None:
                    yield self.part(place, usage=counted)
                else:
                    yield from self.ended(place, why, usage=counted)
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


def _anthropic_usage(usage: Record) -> Usage:
    return Usage(
        input=count_at(usage, "input_tokens"),
        output=count_at(usage, "output_tokens"),
        cache_read=count_at(usage, "cache_read_input_tokens"),
        cache_write=count_at(usage, "cache_creation_input_tokens"),
    )


ITEMS_OF_CLIENT = frozenset(["function_call", "custom_tool_call", "local_shell_call"])  # which the client has to run


@define
class ResponsesDialect(Dialect):
    """Responses of OpenAI. A file may hold several: each begins with `response.created`."""

    @override
    def take(self, place: Place, event: JsonValue) -> Iterator[Entry]:
        match text_at(event, "type"):
            case "response.output_text.delta":
                yield self.part(place, TextBlock(text_at(event, "delta") or ""))
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                yield self.part(place, ReasoningBlock(text_at(event, "delta") or ""))
            case "response.output_item.done":
                yield from self._item(place, record_at(event, "item"))
            case "response.created":
                self.model = text_at(event, "response", "model") or self.model
                name = text_at(event, "response", "id") or ""
                if name and name != self.reply:
                    yield from self.begin(place, name)
                yield self.part(place, model=self.model or None)
            case "response.completed" | "response.incomplete":
                told = record_at(event, "response", "usage")
                ended = "tool_use" if self.calls else "completed"
                why = text_at(event, "response", "incomplete_details", "reason") or ended
                usage = self.count(_responses_usage(told)) if told else None
                yield from self.ended(place, why, usage=usage, model=text_at(event, "response", "model"))
            case "response.failed":
                yield self.failed(place, text_at(event, "response", "error", "message") or "")
            case "error":
                yield self.failed(place, text_at(event, "message") or text_at(event, "error", "message") or "")
            case _:
                yield self.quiet(place, event)

    def _item(self, place: Place, item: Record) -> Iterator[Entry]:
        kind = text_at(item, "type") or ""
        if kind in ITEMS_OF_CLIENT:
            self.calls += 1
            free = kind == "custom_tool_call"  # whose input is a text of any kind
            given: JsonValue = {"input": at(item, "input")} if free else at(item, "arguments") or at(item, "action")
            yield self.part(place, call_of(at(item, "call_id"), text_at(item, "name") or kind, given))
        elif kind not in ("message", "reasoning"):
            yield self.part(place, OpaqueBlock(self.model, kept(item)))
        else:
            yield Bookkeeping(place=place, kind="event response.output_item.done")


def _responses_usage(usage: Record) -> Usage:
    cached = count_at(usage, "input_tokens_details", "cached_tokens")
    return Usage(
        input=max(0, count_at(usage, "input_tokens") - cached),
        output=count_at(usage, "output_tokens"),
        cache_read=cached,
    )


@define
class ChatDialect(Dialect):
    """Chunks of a chat completion; of the calls, each is complete when the choice has finished.

    A file may hold several: behind one that has finished, another begins with another id.
    """

    chunk: str = ""  # the id of its chunks
    finished_reply: bool = False

    @override
    def take(self, place: Place, event: JsonValue) -> Iterator[Entry]:
        if isinstance(at(event, "error"), dict):
            yield self.failed(place, text_at(event, "error", "message") or "")
            return
        if len(items_at(event, "choices")) > 1:
            yield Bookkeeping(place=place, kind="further choices")
        for choice in records_in(items_at(event, "choices")[:1]):
            delta = record_at(choice, "delta") or record_at(choice, "message")
            name = text_at(event, "id") or ""
            if self.finished_reply and name != self.chunk and (delta or text_at(choice, "finish_reason")):
                self.finished_reply = False
                yield from self.begin(place)
            self.chunk = name
            yield from self._delta(place, delta)
            if finish := text_at(choice, "finish_reason"):
                self.finished_reply = True
                calls = [call for key in tuple(self.writing) for call in self.finished(key)]
                yield from self.ended(place, finish, *calls, model=text_at(event, "model"))
        if usage := record_at(event, "usage"):
            yield self.part(place, usage=self.count(_chat_usage(usage)))

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


def _chat_usage(usage: Record) -> Usage:
    """The prompt holds what came from a cache; DeepSeek tells of that beside the details."""
    cached = count_at(usage, "prompt_tokens_details", "cached_tokens") or count_at(usage, "prompt_cache_hit_tokens")
    return Usage(
        input=max(0, count_at(usage, "prompt_tokens") - cached),
        output=count_at(usage, "completion_tokens"),
        cache_read=cached,
    )


@define
class CohereDialect(Dialect):
    """Chat of Cohere."""

    @override
    def take(self, place: Place, event: JsonValue) -> Iterator[Entry]:
        delta = record_at(event, "delta")
        index: JsonValue = at(event, "index")
        key = index if isinstance(index, int) else None
        match text_at(event, "type"):
            case "message-start":
                name = text_at(event, "id") or ""
                if name and name != self.reply:
                    yield from self.begin(place, name)
                yield self.quiet(place, event)
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
                cached = count_at(delta, "usage", "cached_tokens")
                usage = Usage(
                    input=max(0, count_at(tokens, "input_tokens") - cached),
                    output=count_at(tokens, "output_tokens"),
                    cache_read=cached,
                )
                yield from self.ended(place, text_at(delta, "finish_reason") or "", usage=usage)
            case _:
                yield self.quiet(place, event)


@define
class BedrockDialect(Dialect):
    """The converse stream of Bedrock: each event is an object with one key."""

    stopped: bool = False  # the reply has ended; its usage may follow

    @override
    def take(self, place: Place, event: JsonValue) -> Iterator[Entry]:
        for kind, value in record_at(event).items():
            index: JsonValue = at(value, "contentBlockIndex")
            key = index if isinstance(index, int) else None
            tool = record_at(value, "start", "toolUse")
            if kind == "messageStart":
                if self.stopped:
                    self.stopped = False
                    yield from self.begin(place)
                yield Bookkeeping(place=place, kind=f"event {kind}")
            elif kind == "contentBlockStart" and tool:
                self.writing[key] = Writing(text_at(tool, "toolUseId") or "", text_at(tool, "name") or "")
            elif kind == "contentBlockDelta" and (text := text_at(value, "delta", "text")) is not None:
                yield self.part(place, TextBlock(text))
            elif kind == "contentBlockDelta" and key in self.writing:
                self.writing[key].arguments += text_at(value, "delta", "toolUse", "input") or ""
            elif kind == "contentBlockStop":
                if key in self.writing and isinstance(given := at(value, "input"), dict):  # of a reply that came whole
                    self.writing[key].arguments = kept(given).text
                yield self.part(place, *self.finished(key))
            elif kind == "messageStop":
                self.stopped = True
                yield from self.ended(place, text_at(value, "stopReason") or "")
            elif kind == "metadata":
                usage = record_at(value, "usage")
                counted = Usage(
                    input=count_at(usage, "inputTokens"),
                    output=count_at(usage, "outputTokens"),
                    cache_read=count_at(usage, "cacheReadInputTokens"),
                    cache_write=count_at(usage, "cacheWriteInputTokens"),
                )
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
    if isinstance(at(event, "candidates"), list) and "contents" not in record_at(
        event
    ):  # else its request stands there
        return GeminiDialect
    if BEDROCK & record_at(event).keys():
        return BedrockDialect
    return None

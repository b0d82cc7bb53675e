"""What a model of the Messages API answers: its events, read as they come, as deltas of the model family.

Pure, and constant work for each event: what has come is joined once, when its block ends. A call is given when its
block has ended, and no other way. Unknown events are passed over, unknown blocks are kept as opaque items. What breaks
the order that the API promises ends the reply as damaged, since nobody knows what else is missing.
"""

from collections.abc import Iterable, Iterator, Mapping

from attrs import define, field
from loopkernel.data.blocks import RawInput
from loopkernel.data.errors import CodecError
from loopkernel.data.ids import ModelOperation
from loopkernel.data.json_text import MAX_DOCUMENT_DEPTH, Json, JsonValue, parse_json
from loopkernel.data.model_deltas import (
    ModelCall,
    ModelCompleted,
    ModelDelta,
    ModelFailed,
    ModelInput,
    ModelOpaque,
    ModelReasoning,
    ModelServerCall,
    ModelStarted,
    ModelText,
    ModelUsage,
)
from loopkernel.data.usage import NO_USAGE, Usage
from loopkernel.data.words import StopReason

from loopkernel_adapters.providers.anthropic.request import SERVER_CALLS
from loopkernel_adapters.providers.event_stream import ServerEvent
from loopkernel_adapters.providers.json_fields import JsonObject, members, text, tokens
from loopkernel_adapters.providers.wire_bounds import KeptText, TooMuchKept
from loopkernel_adapters.providers.wire_errors import STREAM_CUT, UNREADABLE, failure
from loopkernel_adapters.providers.wire_names import ToolNames

SERVICE = "Anthropic"
STOP_REASONS: Mapping[str, StopReason] = {
    "end_turn": StopReason.END_TURN,
    "tool_use": StopReason.TOOL_USE,
    "max_tokens": StopReason.MAX_TOKENS,
    "stop_sequence": StopReason.STOP_SEQUENCE,
    "refusal": StopReason.REFUSAL,
    "pause_turn": StopReason.PAUSE,
}
# No higher limit helps a reply that has filled the context window: only a smaller prompt does.
WINDOW_EXCEEDED = "model_context_window_exceeded"
_KEPT_WHOLE = frozenset({"message_start", "content_block_start"})  # events whose content is kept as it came
_SERVER_RESULT = "_tool_result"  # how the type of the result of a server's own call ends
# Stops after which a half-written call is not damage: it is given up, as the rest of the reply is.
_GIVING_UP = frozenset({StopReason.REFUSAL, StopReason.PAUSE})


class _Damaged(Exception):
    """The events do not follow the API."""


@define
class _Block:
    """A block that has begun: as it began, and what came since."""

    start: JsonObject
    parts: list[str] = field(factory=list)  # of its text, reasoning or input
    said: int = 0  # characters of text and reasoning that were told
    signature: list[str] = field(factory=list)

    @property
    def type(self) -> str:
        """What it is."""
        return text(self.start.get("type"))


class ReplyReader:
    """Reads one reply. `last` is its end, once that has come: nothing more is read then.

    `names` are those under which the tools were offered. No failure tells one of `keys`.
    """

    def __init__(self, operation: ModelOperation, names: ToolNames, keys: tuple[str | None, ...] = ()) -> None:
        self.last: ModelCompleted | ModelFailed | None = None
        self.usage = NO_USAGE
        self._operation = operation
        self._names = names
        self._keys = keys
        self._kept = KeptText()
        self._begun = False  # a block has
        self._open: dict[int, _Block] = {}
        self._cut_call = False  # the block that ended last is a call that the output limit may have cut
        self._server_calls: dict[str, ModelServerCall] = {}  # those without their result
        self._stop: str | None = None

    def read_all(self, events: Iterable[ServerEvent]) -> Iterator[ModelDelta]:
        """The deltas of the next events, as far as the reply goes, but for the last one, which is put into `last`."""
        for event in events:
            if self.last is not None:
                return
            yield from self.read(event)

    def read(self, event: ServerEvent) -> Iterator[ModelDelta]:
        """The deltas of the next event but for the last one, which is put into `last`."""
        try:
            fields = parse_json(event.data, MAX_DOCUMENT_DEPTH)
            if not isinstance(fields, dict):
                raise _Damaged("an event is not JSON object")
            kind = text(fields.get("type")) or event.name
            if kind in _KEPT_WHOLE:
                self._kept.add(len(event.data))
            yield from self._read(kind, fields)
        except TooMuchKept as error:
            self._fail(UNREADABLE, str(error))
        except CodecError as error:
            self._fail(UNREADABLE, f"an event of the reply cannot be read: {error}")
        except _Damaged as error:
            self._fail(UNREADABLE, f"the reply is damaged: {error}")

    def read_whole(self, body: str) -> Iterator[ModelDelta]:
        """The deltas of a reply that did not come as a stream."""
        yield from self.read(ServerEvent("", f'{{"type": "message_start", "message": {body}}}'))
        if self.last is None:
            yield from self.read(ServerEvent("", '{"type": "message_stop"}'))

    @property
    def unfinished(self) -> int:
        """How many characters of text and reasoning were told of blocks that have not ended."""
        return sum(block.said for block in self._open.values())

    def end(self) -> None:
        """The stream has ended; a reply that has not is cut."""
        if self.last is None:
            self._fail(STREAM_CUT, "the reply ended before it was complete")

    def _read(self, kind: str, fields: JsonObject) -> Iterator[ModelDelta]:
        match kind:
            case "content_block_delta":
                yield from self._continue(_index(fields), members(fields.get("delta")))
            case "content_block_start":
                yield from self._first_text(self._begin(_index(fields), members(fields.get("content_block"))))
            case "content_block_stop":
                yield from self._end(_index(fields))
            case "message_start":
                yield from self._start(members(fields.get("message")))
            case "message_delta":
                self._stop = text(members(fields.get("delta")).get("stop_reason")) or self._stop
                self.usage = self.usage.most(usage_of(fields.get("usage")))
            case "message_stop":
                yield from self._finish()
            case "ping":
                yield ModelUsage(self._operation, self.usage)  # shows that a reply that takes long still lives
            case "error":
                error = members(fields.get("error"))
                self._fail(text(error.get("type")) or "error", text(error.get("message")))
            case str():
                pass  # what a later version of the API adds

    def _start(self, message: JsonObject) -> Iterator[ModelDelta]:
        """The message begins; said twice before anything else, it counts once. Some begin with whole blocks."""
        if self._begun:
            # A proxy that has asked anew spliced it in. What was said before cannot be taken back but by a failure,
            # and a call of either half might be the same call.
            raise _Damaged("another reply begins in the middle of it")
        self.usage = self.usage.most(usage_of(message.get("usage")))
        self._stop = text(message.get("stop_reason")) or self._stop
        yield ModelStarted(self._operation, text(message.get("model")))
        if self.usage != NO_USAGE:
            yield ModelUsage(self._operation, self.usage)
        content = message.get("content")
        for index, block in enumerate(content if isinstance(content, list) else []):
            yield from self._first_text(self._begin(index, members(block)))
            yield from self._end(index)

    def _begin(self, index: int, start: JsonObject) -> _Block:
        if index in self._open:
            raise _Damaged(f"block {index} begins again before it has ended")
        self._begun = True
        self._cut_call = False
        block = self._open[index] = _Block(start)
        return block

    def _first_text(self, block: _Block) -> Iterator[ModelDelta]:
        """What a block brings with it as it begins, mostly nothing."""
        start = block.start
        if start.get("type") == "text" and (said := text(start.get("text"))):
            block.said += len(said)
            yield ModelText(self._operation, said)
        if start.get("type") == "thinking" and (said := text(start.get("thinking"))):
            block.said += len(said)
            yield ModelReasoning(self._operation, said)

    def _continue(self, index: int, delta: JsonObject) -> Iterator[ModelDelta]:
        block = self._open.get(index)
        if block is not None and delta.get("type") != "text_delta":
            self._kept.add(sum(len(value) for value in delta.values() if isinstance(value, str)))
        match delta:
            case {"type": "text_delta", "text": str(said)}:
                if block is not None:
                    block.said += len(said)
                if said:
                    yield ModelText(self._operation, said)
            case {"type": "thinking_delta", "thinking": str(said)}:
                if block is not None:
                    block.said += len(said)
                    block.parts.append(said)
                if said:
                    yield ModelReasoning(self._operation, said)
            case {"type": "signature_delta", "signature": str(said)}:
                if block is not None:
                    block.signature.append(said)
            case {"type": "input_json_delta", "partial_json": str(said)}:
                if block is None:
                    raise _Damaged(f"arguments come for block {index}, which is not open")
                block.parts.append(said)
                if said and block.type == "tool_use":
                    yield ModelInput(self._operation, said)
            case _:  # JSON from outside: what a later version adds to a block that is kept whole
                if block is not None and block.type not in ("text", "thinking", "tool_use"):
                    _merge(block.start, delta)

    def _end(self, index: int) -> Iterator[ModelDelta]:
        block = self._open.pop(index, None)
        if block is None or block.type == "text":
            return
        if block.type == "tool_use":
            yield self._call(block)
        elif block.type == "thinking":
            block.start["thinking"] = text(block.start.get("thinking")) + "".join(block.parts)
            block.start["signature"] = text(block.start.get("signature")) + "".join(block.signature)
            if block.start["signature"]:  # without one no model takes it back
                yield ModelOpaque(self._operation, Json.of_parsed(block.start))
        else:
            yield from self._opaque(block)

    def _call(self, block: _Block) -> ModelCall:
        """The call of a block that has ended, its arguments as they came where they are not JSON."""
        name, arguments = block.start.get("name"), "".join(block.parts)
        if not isinstance(name, str):
            raise _Damaged("a call names no tool")
        self._cut_call = not arguments.strip()  # no arguments, or cut before the first
        call_input: Json | RawInput
        try:
            call_input = (
                Json.parse(arguments) if arguments.strip() else Json.of_parsed(members(block.start.get("input")))
            )
        except CodecError:
            call_input = RawInput(arguments)
            self._cut_call = True
        provider_id = text(block.start.get("id"))
        tool = self._names.own(name)
        return ModelCall(operation=self._operation, provider_id=provider_id, tool=tool, input=call_input)

    def _opaque(self, block: _Block) -> Iterator[ModelDelta]:
        """A block that is kept whole; a call of the server's own is shown as well, once its result is there."""
        if block.type in SERVER_CALLS:
            if arguments := "".join(block.parts).strip():
                block.start["input"] = parse_json(arguments)
            self._note_server_call(block.start)
        yield ModelOpaque(self._operation, Json.of_parsed(block.start))
        if block.type.endswith(_SERVER_RESULT):
            call = self._server_calls.pop(text(block.start.get("tool_use_id")), None)
            if call is not None:
                yield self._server_call(call.provider_id, call.tool, call.input, Json.of_parsed(block.start))

    def _note_server_call(self, start: JsonObject) -> None:
        provider_id = text(start.get("id"))
        call_input = Json.of_parsed(start.get("input"))
        self._server_calls[provider_id] = self._server_call(provider_id, text(start.get("name")), call_input, None)

    def _server_call(self, provider_id: str, tool: str, call_input: Json, result: Json | None) -> ModelServerCall:
        return ModelServerCall(
            operation=self._operation, provider_id=provider_id, tool=tool, input=call_input, result=result
        )

    def _finish(self) -> Iterator[ModelDelta]:
        """The message ends: what is still open is judged, and the reply is complete, or has failed."""
        if self._stop is None:
            raise _Damaged("it ended without saying why")
        if self._stop == WINDOW_EXCEEDED:
            self._fail(WINDOW_EXCEEDED, "the reply was cut, since it has filled the context window of the model")
            return
        stop = STOP_REASONS.get(self._stop)
        if stop is None:
            self._fail(None, f"the model stopped for a reason that is not known here: {self._stop}")
            return
        half_written = [block for block in self._open.values() if block.type == "tool_use"]
        cut_call = stop is StopReason.MAX_TOKENS and (bool(half_written) or self._cut_call)
        if half_written and stop is StopReason.MAX_TOKENS:
            yield self._half_written(half_written[-1])
        elif half_written and stop not in _GIVING_UP:
            raise _Damaged("a call has not ended")
        yield from self._server_calls.values()
        self.last = ModelCompleted(self._operation, stop, self.usage, cut_call=cut_call)

    def _half_written(self, block: _Block) -> ModelCall:
        """A call that the output limit has cut, as it came. The completion says that it was cut, so it never runs."""
        raw = RawInput("".join(block.parts))
        name = text(block.start.get("name"))
        tool = self._names.own(name)
        return ModelCall(operation=self._operation, provider_id=text(block.start.get("id")), tool=tool, input=raw)

    def _fail(self, kind: str | None, message: str) -> None:
        self.last = failure(
            self._operation,
            status=None,
            kind=kind,
            message=message,
            service=SERVICE,
            usage=self.usage,
            keys=self._keys,
        )


def usage_of(reported: JsonValue) -> Usage:
    """Token counts as the API reports them; what is not a count is 0."""
    fields = members(reported)
    return Usage(
        input=tokens(fields.get("input_tokens")),
        output=tokens(fields.get("output_tokens")),
        cache_read=tokens(fields.get("cache_read_input_tokens")),
        cache_write=tokens(fields.get("cache_creation_input_tokens")),
    )


def _merge(start: JsonObject, delta: JsonObject) -> None:
    """Add a delta of an unknown kind to its block: texts are continued, all else is put in place."""
    for name, value in delta.items():
        known = start.get(name)
        if name == "type":
            continue
        start[name] = known + value if isinstance(known, str) and isinstance(value, str) else value


def _index(fields: JsonObject) -> int:
    index = fields.get("index")
    if not isinstance(index, int):
        raise _Damaged("an event names no block")
    return index

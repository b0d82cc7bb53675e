"""A streamed response, event by event, as deltas of the model family."""

from collections.abc import Callable, Iterator, Mapping

from loopkernel.data.blocks import RawInput
from loopkernel.data.ids import ModelOperation
from loopkernel.data.json_text import Json, JsonValue
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

from loopkernel_adapters.providers.kept_text import KeptText
from loopkernel_adapters.providers.openai_errors import CutStream, ToldError
from loopkernel_adapters.providers.openai_fields import (
    EMPTY_OBJECT,
    JsonObject,
    call_input,
    items,
    json_or_none,
    members,
    number,
    text,
)
from loopkernel_adapters.providers.openai_items import is_kept, is_server_call, shown_input, shown_result
from loopkernel_adapters.providers.openai_names import ToolNames
from loopkernel_adapters.providers.openai_stream import Reply
from loopkernel_adapters.providers.openai_usage import NO_TOKENS, responses_tokens

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
        if not self._done and not self._open and not self._said:  # a server that tells the whole at the end
            yield from self._whole_output(members(event.get("response")))
        for place in sorted(self._open):  # announced, and never told to be done, in a response that is
            yield self._give(place)
        self._end = StopReason.TOOL_USE if self._calls else StopReason.END_TURN
        if self._refused:
            self._end = StopReason.REFUSAL

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

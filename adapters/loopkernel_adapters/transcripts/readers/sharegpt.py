"""Conversations as ShareGPT has them, and the data for training that is written so: `from` and `value` of each message.

A list of conversations, one a line, or one alone. Calls stand in the text: as the JSON of a message from
`function_call`, or between tags within what the model said. There are no ids: results answer calls in their order.
"""

import ast
import re
from collections.abc import Iterator

from attrs import Factory, define
from loopkernel.data.blocks import MediaBlock, ReasoningBlock, TextBlock, UserBlock
from loopkernel.data.errors import CodecError
from loopkernel.data.foreign import ForeignBlock, ForeignCall
from loopkernel.data.json_text import Json, JsonValue
from loopkernel.later_typing import override

from loopkernel_adapters.transcripts.entries import (
    Bookkeeping,
    Entry,
    Finding,
    FindingKind,
    Inferred,
    Outcome,
    Place,
    ReplyPart,
    ResultSeen,
    UserSaid,
)
from loopkernel_adapters.transcripts.fields import at, call_of, flag_at, items_at, kept, record_at, text_at, time_at
from loopkernel_adapters.transcripts.readers.chat_messages import decoded
from loopkernel_adapters.transcripts.source import Head, Reader, Source, Unreadable

KEY = "conversations"
USER = frozenset(["human", "user"])
MODEL = frozenset(["gpt", "assistant", "chatgpt", "model", "bing", "bard", "claude"])
CALLS = frozenset(["function_call"])
RESULTS = frozenset(["observation", "tool", "function_response"])
INSTRUCTIONS = frozenset(["system"])
SPEAKERS = USER | MODEL | CALLS | RESULTS | INSTRUCTIONS
PARTS = re.compile(r"(?s)<(think|tool_call)>\s*(.*?)\s*</\1>")
RESPONSE = re.compile(r"(?s)<tool_response>\s*(.*?)\s*</tool_response>")
IMAGE = "<image>"
FAILURES = ("Error", "error:", "Traceback")
STATUS = frozenset({Inferred.STATUS})
CALL = frozenset({Inferred.CALL})


class ShareGPT(Reader):
    """The reader."""

    name = "sharegpt"

    @override
    def fits(self, head: Head) -> bool:
        document = head.document
        if _are_messages(document):
            return True
        found = head.lines if document is None else document if isinstance(document, list) else (document,)
        return any(_are_messages(at(value, KEY)) for value in found)

    @override
    def entries(self, source: Source) -> Iterator[Entry]:
        document = source.head().document
        if document is None:
            for line in source.lines():
                if isinstance(line, Finding):
                    yield line
                else:
                    yield from _conversation(source, line.number, f"conversation {line.number}", line.value)
        elif _are_messages(document):
            yield from _conversation(source, 1, "", {KEY: document})
        else:
            for number, value in enumerate(document if isinstance(document, list) else [document], start=1):
                yield from _conversation(source, number, f"conversation {number}", value)


def _are_messages(value: JsonValue) -> bool:
    """Whether it is a list of messages, as far as its beginning tells."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(text_at(message, "from") in SPEAKERS and "value" in record_at(message) for message in value[:3])
    )


def _read(text: str) -> JsonValue:
    """What the text of a call holds: JSON, or a mapping in the quotes of Python, which some data has in its place."""
    found = decoded(text)
    if found is not text:
        return found
    try:
        written = Json.of(ast.literal_eval(text)) if text.lstrip().startswith("{") else None
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError, CodecError):
        return text
    return text if written is None else written.value()


def _conversation(source: Source, number: int, name: str, value: JsonValue) -> Iterator[Entry]:
    if not _are_messages(at(value, KEY)):
        yield Finding(place=Place(number), kind=FindingKind.UNKNOWN_RECORD, text="a record without a conversation")
        return
    images = [image for image in items_at(value, "images") if isinstance(image, str)]
    reading = _Reading(source, number, name, time_at(value, "timestamp"), text_at(value, "model"), images)
    if text_at(value, "system"):
        yield Bookkeeping(place=Place(number), kind="instructions", conversation=name)
    for index, message in enumerate(items_at(value, KEY), start=1):
        yield from reading.entries_of(Place(number, f"message {index}"), message)


@define
class _Reading:
    """What is known of a conversation so far."""

    source: Source
    number: int
    name: str
    time: int | None
    model: str | None
    images: list[str]
    group: int = 0  # the number of the reply, which several messages of the model in a row are
    closed: bool = True
    calls: int = 0
    open: list[str] = Factory(list)  # the calls without a result

    def entries_of(self, place: Place, message: JsonValue) -> Iterator[Entry]:
        """What a message says."""
        speaker, value = text_at(message, "from"), text_at(message, "value") or ""
        if speaker in USER:
            self.closed = True
            content = self._shown(value)
            yield UserSaid(place=place, at_ms=self.time, conversation=self.name, content=content)
        elif speaker in MODEL:
            yield self._reply(place, self._blocks(place, value))
        elif speaker in CALLS:
            given = _read(value)
            calls = given if isinstance(given, list) and given else [given]
            yield self._reply(place, [self._call(place, call) for call in calls])
        elif speaker in RESULTS:
            self.closed = True
            yield from self._results(place, value)
        elif speaker in INSTRUCTIONS:
            yield Bookkeeping(place=place, kind="instructions", conversation=self.name, parts=True)
        else:
            text = f"a message from {speaker!r}, of whom it is not known who that is"
            yield Finding(place=place, kind=FindingKind.UNKNOWN_RECORD, text=text)

    def _shown(self, value: str) -> tuple[UserBlock, ...]:
        """The text, with each image where its mark stands."""
        first, *rest = value.split(IMAGE)
        content: list[UserBlock] = [TextBlock(first)] if first or not rest else []
        for text in rest:
            content.append(MediaBlock("image/*", self.images.pop(0)) if self.images else TextBlock(IMAGE))
            content += [TextBlock(text)] if text.strip() else []
        return tuple(content)

    def _blocks(self, place: Place, value: str) -> list[ForeignBlock]:
        """The text, with reasoning and calls out of their tags."""
        blocks: list[ForeignBlock] = []
        ends = 0
        for found in PARTS.finditer(value):
            blocks += [TextBlock(value[ends : found.start()].strip())]
            inner = found[2]
            blocks.append(ReasoningBlock(inner) if found[1] == "think" else self._call(place, _read(inner)))
            ends = found.end()
        blocks.append(TextBlock(value[ends:].strip() if blocks else value))
        return [block for block in blocks if not isinstance(block, TextBlock | ReasoningBlock) or block.text]

    def _call(self, place: Place, value: JsonValue) -> ForeignCall:
        call = record_at(value, "function") or record_at(value)
        if not text_at(call, "name"):
            raise Unreadable(
                f"{self.source.path} holds a call that names no tool (record {place.record}, {place.part}): calls are "
                "JSON with a name and arguments here, and this one is in another format. Nothing was made of it"
            )
        self.calls += 1
        name = f"call {self.calls}"
        self.open.append(name)
        return call_of(name, call["name"], call.get("arguments", call.get("parameters")))

    def _reply(self, place: Place, content: list[ForeignBlock]) -> ReplyPart:
        if self.closed:
            self.closed = False
            self.group += 1
        return ReplyPart(
            place=place,
            at_ms=self.time,
            conversation=self.name,
            reply=f"reply {self.group}",
            content=tuple(content),
            model=self.model,
            inferred=CALL if any(isinstance(block, ForeignCall) for block in content) else frozenset(),
        )

    def _results(self, place: Place, value: str) -> Iterator[ResultSeen]:
        """The results that the message holds: between tags, or as many in a list as calls are open."""
        texts = RESPONSE.findall(value) or [value]
        listed = decoded(value)
        if isinstance(listed, list) and len(listed) == len(self.open) > 1:
            texts = [each if isinstance(each, str) else kept(each).text for each in listed]
        for text in texts:
            told = decoded(text)
            failed = text.startswith(FAILURES) or bool(at(told, "error")) or flag_at(told, "is_error")
            yield ResultSeen(
                place=place,
                at_ms=self.time,
                conversation=self.name,
                call=self.open.pop(0) if self.open else "",
                outcome=Outcome.ERROR if failed else Outcome.DONE,
                content=(TextBlock(text),),
                tool=text_at(told, "name") or "",
                inferred=STATUS,
            )

"""Contents of the Gemini API in a document: a list of them, a request with its response, a checkpoint of Gemini CLI.

There are no times, and often no ids of calls: then a response is that of the first call of its function that has none.
"""

from collections.abc import Iterator

from attrs import Factory, define
from loopkernel.data.foreign import ForeignCall
from loopkernel.data.json_text import JsonValue
from loopkernel.data.usage import Usage
from loopkernel.data.words import StopReason
from loopkernel.later_typing import override

from loopkernel_adapters.transcripts.entries import (
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
from loopkernel_adapters.transcripts.fields import Record, at, items_at, nearly_all, record_at, records_in, text_at
from loopkernel_adapters.transcripts.readers.gemini_parts import (
    Calls,
    is_content,
    response_blocks,
    responses,
    said,
    usage_of,
)
from loopkernel_adapters.transcripts.source import Head, Reader, Source

KEYS = ("contents", "history")
STOPS = {
    "STOP": StopReason.END_TURN,
    "MAX_TOKENS": StopReason.MAX_TOKENS,
    "SAFETY": StopReason.CONTENT_FILTERED,
    "RECITATION": StopReason.CONTENT_FILTERED,
    "PROHIBITED_CONTENT": StopReason.CONTENT_FILTERED,
}


class GeminiContents(Reader):
    """The reader."""

    name = "gemini-contents"

    @override
    def fits(self, head: Head) -> bool:
        contents = _contents(head.document)
        told = isinstance(head.document, dict) or any(text_at(content, "role") for content in contents)
        return told and nearly_all(contents, is_content)

    @override
    def entries(self, source: Source) -> Iterator[Entry]:
        document = source.document()
        contents, response = _contents(document), _response(document)
        reading = _Reading(text_at(_request(document), "model") or text_at(response, "modelVersion") or "")
        for number, content in enumerate(contents, start=1):
            yield from reading.entries_of(Place(number), record_at(content))
        for candidate in records_in(items_at(response, "candidates")[:1]):
            usage = usage_of(record_at(response, "usageMetadata"))
            stop = STOPS.get(text_at(candidate, "finishReason") or "")
            place = Place(len(contents) + 1, "response")
            yield reading.reply(place, record_at(candidate, "content"), stop=stop, usage=usage)


def _request(document: JsonValue) -> JsonValue:
    """The request of one that was logged; else the document itself."""
    return at(document, "request") if "request" in record_at(document) else document


def _response(document: JsonValue) -> Record:
    """The response beside the request, or the candidates beside its contents."""
    return record_at(document) if "candidates" in record_at(document) else record_at(document, "response")


def _contents(document: JsonValue) -> list[JsonValue]:
    if isinstance(document, list):
        return document
    request = _request(document)
    return next((found for key in KEYS if (found := items_at(request, key))), [])


@define
class _Reading:
    """What is known of the document so far."""

    model: str
    calls: Calls = Factory(Calls)

    def entries_of(self, place: Place, content: Record) -> Iterator[Entry]:
        """What a content says."""
        if not is_content(content):
            yield Finding(place=place, kind=FindingKind.UNKNOWN_RECORD, text="a content that is not one, or not wholly")
        if text_at(content, "role") == "model":
            yield self.reply(place, content)
            return
        parts = items_at(content, "parts")
        for response in responses(parts):
            failed = "error" in record_at(response, "response")
            yield ResultSeen(
                place=place,
                at_ms=None,
                conversation="",
                call=self.calls.answered(response),
                outcome=Outcome.ERROR if failed else Outcome.DONE,
                content=response_blocks(response),
                tool=text_at(response, "name") or "",
                inferred=frozenset({Inferred.STATUS}),
            )
        if words := said(parts):
            yield UserSaid(place=place, at_ms=None, conversation="", content=words)

    def reply(
        self, place: Place, content: Record, *, stop: StopReason | None = None, usage: Usage | None = None
    ) -> ReplyPart:
        """What the model said."""
        blocks = tuple(self.calls.reply_blocks(items_at(content, "parts"), self.model))
        if stop is StopReason.END_TURN and any(isinstance(block, ForeignCall) for block in blocks):
            stop = StopReason.TOOL_USE  # the API has one word for both
        return ReplyPart(
            place=place,
            at_ms=None,
            conversation="",
            reply=f"content {place.record}",
            content=blocks,
            model=self.model or None,
            stop=stop,
            usage=usage,
        )

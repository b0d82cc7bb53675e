"""Raw streams of providers: the one kind of recording that replays update by update, and holds replies alone."""

import re
from collections.abc import Iterator

from attrs import define, frozen
from loopkernel.data.json_text import JsonValue
from loopkernel.data.words import ErrorClass
from loopkernel.later_typing import override

from loopkernel_adapters.transcripts.entries import Entry, Finding, FindingKind, ModelTrouble, Place
from loopkernel_adapters.transcripts.fields import at, items_at, record_at, records_in, text_at
from loopkernel_adapters.transcripts.readers.opencode import STREAMED
from loopkernel_adapters.transcripts.readers.stream_dialect import Dialect, unknown
from loopkernel_adapters.transcripts.readers.stream_dialects import dialect_of
from loopkernel_adapters.transcripts.readers.whole_replies import events_in
from loopkernel_adapters.transcripts.source import Head, Reader, Source, Unreadable, parsed

# --- events, out of what they are kept in ----------------------------------------------------------------
# Server-sent events, an event a line, a cassette of HTTP exchanges in YAML, or the canned responses of Gemini CLI.

CASSETTE = re.compile(r"(?m)^interactions:")
SERVER_SENT = re.compile(r"(?:\s|:[^\r\n]*[\r\n])*(event|data|id|retry):")  # comments may come before
SENT = re.compile(r"(?:^|[\r\n])data:\s*(?:[{\[]|$)")
CANNED = frozenset(["generateContent", "generateContentStream", "countTokens", "embedContent"])
LARGEST_DOCUMENT = 10_000_000  # values in a cassette
DONE = "[DONE]"  # how the chat API ends a stream


@frozen
class StreamEvent:
    """An event of the exchange `exchange`, which are counted from 1."""

    exchange: int
    place: Place
    value: JsonValue


def is_cassette(text: str) -> bool:
    """Whether the text begins as a cassette does."""
    found = CASSETTE.search(text)
    return found is not None and "request:" in text[found.end() :]


def is_server_sent(text: str) -> bool:
    """Whether the text begins as server-sent events do, and those hold JSON."""
    return SERVER_SENT.match(text) is not None and SENT.search(text) is not None


def is_canned(line: JsonValue) -> bool:
    """Whether the line is a response that Gemini CLI is to be given in the place of a real one."""
    return text_at(line, "method") in CANNED and "response" in record_at(line)


def events_of(source: Source) -> Iterator[StreamEvent | Finding]:
    """Every event, in order. Raises Unreadable, OSError."""
    text = source.head().text
    if is_cassette(text):
        yield from _cassette(source)
    elif is_server_sent(text):
        yield from server_sent(1, source.text())
    else:
        exchange = 0
        for line in source.lines():
            if isinstance(line, Finding):
                yield line
            elif is_canned(line.value):
                exchange += 1
                response = at(line.value, "response")
                for event in response if isinstance(response, list) else [response]:
                    yield StreamEvent(exchange, Place(line.number), event)
            else:
                yield StreamEvent(max(exchange, 1), Place(line.number), line.value)


def server_sent(exchange: int, text: str) -> Iterator[StreamEvent | Finding]:
    """The `data` of each server-sent event in the text; its lines end as the standard says, at CR, LF or both."""
    data: list[str] = []
    number = 0
    for number, line in enumerate(re.split("\r\n|\r|\n", text), start=1):
        if line.startswith("data:"):
            data.append(line[5:].removeprefix(" "))
        elif not line:
            yield from _event(exchange, number, data)
            data = []
    yield from _event(exchange, number, data)


def _event(exchange: int, number: int, data: list[str]) -> Iterator[StreamEvent | Finding]:
    text = "\n".join(data)
    if not text or text == DONE:
        return
    value = parsed(text.encode("utf-8", "replace"))
    if value is None:
        found = f"the event that ends at line {number} is not JSON; it was passed over"
        yield Finding(place=Place(number), kind=FindingKind.BROKEN_RECORD, text=found)
    else:
        yield StreamEvent(exchange, Place(number), value)


def _cassette(source: Source) -> Iterator[StreamEvent | Finding]:
    try:
        import yaml
    except ImportError as error:
        raise Unreadable(
            f"{source.path} is YAML: install what reads it, with pip install 'loopkernel[transcripts]'"
        ) from error
    try:
        document = _Plain().of(yaml.safe_load(source.text()))
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        mark: object = getattr(getattr(error, "problem_mark", None), "line", None)  # only some of its errors have one
        where = f" (line {mark + 1})" if isinstance(mark, int) else ""
        raise Unreadable(f"{source.path} begins as a cassette, but is not a whole YAML document{where}") from error
    for number, interaction in enumerate(records_in(items_at(document, "interactions")), start=1):
        body = at(interaction, "response", "body")
        text = body if isinstance(body, str) else text_at(body, "string")
        whole = at(interaction, "response", "parsed_body")
        if text is not None and is_server_sent(text):
            yield from server_sent(number, text)
        else:
            value = parsed(text.encode("utf-8", "replace")) if text else whole
            if value is None:
                found = f"the response of exchange {number} holds no events; it was passed over"
                yield Finding(place=Place(number), kind=FindingKind.UNKNOWN_RECORD, text=found)
            for event in value if isinstance(value, list) else [value]:
                if event is not None:
                    yield from (StreamEvent(number, Place(number), told) for told in events_in(event))


@define
class _Plain:
    """YAML as JSON: it also has dates, sets and keys that are not texts; and names that stand for what came before,
    with which a small file can make a document of any size."""

    left: int = LARGEST_DOCUMENT

    def of(self, value: object) -> JsonValue:
        """The value. Raises ValueError where there is too much of it, RecursionError where it holds itself."""
        self.left -= 1
        if self.left < 0:
            raise ValueError("the document is too large")
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, dict):
            return {str(key): self.of(item) for key, item in value.items()}
        if isinstance(value, list | tuple | set):
            return [self.of(item) for item in value]
        return str(value)


# --- the reader ------------------------------------------------------------------------------------------


class ProviderStream(Reader):
    """The reader. Each exchange is a conversation of its own."""

    name = "provider-stream"
    holds_results = False

    @override
    def fits(self, head: Head) -> bool:
        if is_cassette(head.text):
            return True
        if is_server_sent(head.text):
            return STREAMED.search(head.text) is None
        first = (head.document, *head.lines[:3])
        return any(is_canned(line) or dialect_of(line) is not None for line in first)

    @override
    def entries(self, source: Source) -> Iterator[Entry]:
        dialect: Dialect | None = None
        place = Place(1)
        for event in events_of(source):
            if isinstance(event, Finding):
                yield event
                continue
            place = event.place
            if dialect is None or dialect.exchange != event.exchange:
                if dialect is not None:
                    yield from dialect.end(place)
                dialect = _dialect_for(event)
            if dialect is None and isinstance(at(event.value, "error"), dict):
                words = text_at(event.value, "error", "message") or ""
                named = f"exchange {event.exchange}"
                yield ModelTrouble(place=place, at_ms=None, conversation=named, error=ErrorClass.UNKNOWN, message=words)
            elif dialect is None:
                yield Finding(place=place, kind=FindingKind.UNKNOWN_RECORD, text=unknown(event.value))
            else:
                yield from dialect.take(place, event.value)
        if dialect is not None:
            yield from dialect.end(place)


def _dialect_for(event: StreamEvent) -> Dialect | None:
    found = dialect_of(event.value)
    return None if found is None else found(event.exchange, f"reply of exchange {event.exchange}")

"""Raw streams of providers: the one kind of recording that replays update by update, and holds replies alone."""

from collections.abc import Iterator

from loopkernel.later_typing import override

from loopkernel_adapters.transcripts.entries import Entry, Finding, FindingKind, Place
from loopkernel_adapters.transcripts.fields import record_at, text_at
from loopkernel_adapters.transcripts.readers.reader import Reader
from loopkernel_adapters.transcripts.readers.stream_dialect import Dialect, unknown
from loopkernel_adapters.transcripts.readers.stream_dialects import dialect_of
from loopkernel_adapters.transcripts.readers.stream_events import StreamEvent, events_of, is_cassette, is_server_sent
from loopkernel_adapters.transcripts.source import Head, Source


class ProviderStream(Reader):
    """The reader. Each exchange is a conversation of its own."""

    name = "provider-stream"

    @override
    def fits(self, head: Head) -> bool:
        if is_cassette(head.text) or is_server_sent(head.text):
            return True
        first = (head.document, *head.lines[:3])
        canned = any(text_at(line, "method") is not None and "response" in record_at(line) for line in first)
        return canned or any(dialect_of(line) is not None for line in first)

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
            if dialect is None:
                yield Finding(place=place, kind=FindingKind.UNKNOWN_RECORD, text=unknown(event.value))
            else:
                yield from dialect.take(place, event.value)
        if dialect is not None:
            yield from dialect.end(place)


def _dialect_for(event: StreamEvent) -> Dialect | None:
    found = dialect_of(event.value)
    return None if found is None else found(event.exchange, f"reply of exchange {event.exchange}")

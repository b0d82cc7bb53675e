"""The events of a run as server-sent events: from the beginning, or behind the one that the client names.

Each message is an event with its id, which an `EventSource` sends back by itself when it comes again. Where the named
event is not in the log any more, a message `reset` comes first, and all of them again behind it.
"""

from collections.abc import AsyncIterator

from starlette.responses import StreamingResponse

from loopkernel_adapters.server.feed import Feed

HEARTBEAT_SECONDS = 15.0  # after so long without an event, a comment shows that the connection lives
AT_ONCE = 64  # events in one piece
RESET = "id\nevent: reset\ndata: {}\n\n"
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no", "X-Content-Type-Options": "nosniff"}


def event_stream(feed: Feed, last: str | None, heartbeat_seconds: float = HEARTBEAT_SECONDS) -> StreamingResponse:
    """The events behind `last`; None or an empty one: all of them. It ends with the client, or with the server."""
    pieces = pieces_of(feed, last, heartbeat_seconds)
    return StreamingResponse(pieces, media_type="text/event-stream", headers=HEADERS)


async def pieces_of(feed: Feed, last: str | None, heartbeat_seconds: float) -> AsyncIterator[str]:
    """The same as pieces of text."""
    yield ": events of a run\n\n"  # so that the client has an answer at once
    place = feed.place_after(last) if last else 0
    if place is None:
        place = 0
        yield RESET
    while True:
        if not await feed.more_than(place, heartbeat_seconds):
            yield ": still here\n\n"
            continue
        texts = range(place, min(place + AT_ONCE, len(feed.told)))
        if not texts:
            return
        place = texts.stop
        yield "".join(f"id: {feed.told[at].id}\ndata: {feed.text_at(at)}\n\n" for at in texts)

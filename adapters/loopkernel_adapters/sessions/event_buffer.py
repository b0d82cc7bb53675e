"""The events that wait for a reader who may be slow: so many, and no more.

When there are too many, increments (pieces of text, progress) are left out first, and then what is oldest; where that
happened stands how many are missing. What came last is always there, so a reader never misses the end.
"""

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import final

from attrs import frozen
from loopkernel.data.events import Event, ReplyGrew, ToolProgressed

INCREMENTS = frozenset({ReplyGrew, ToolProgressed})
SHARE = 8  # when there are too many events, at least one part in so many makes room at once


@final
@frozen
class EventsDropped:
    """Here the reader was too slow, and so many events are missing. The state and the log lack nothing."""

    count: int


AgentEvent = Event | EventsDropped


class EventBuffer:
    """At most `most` events between a driver, which never waits, and one reader, who may."""

    def __init__(self, most: int) -> None:
        if most < SHARE:
            raise ValueError(f"a buffer of {most} events is too small; let it hold at least {SHARE}")
        self._most = most
        self._events: deque[AgentEvent] = deque()
        self._arrived: asyncio.Future[None] | None = None  # whom the reader waits for
        self._over = False

    def __len__(self) -> int:
        return len(self._events)

    def put(self, event: Event) -> None:
        """Add an event at the end; nobody waits."""
        if len(self._events) >= self._most:
            self._make_room()
        self._events.append(event)
        if self._arrived is not None:
            self._wake()

    def end(self) -> None:
        """Nothing more will come."""
        self._over = True
        self._wake()

    async def next(self) -> AgentEvent | None:
        """The oldest event, as soon as there is one; None when all is over. One reader at a time."""
        while not self._events:
            if self._over:
                return None
            self._arrived = asyncio.get_running_loop().create_future()
            try:
                await self._arrived
            finally:
                self._arrived = None
        return self._events.popleft()

    def _wake(self) -> None:
        if self._arrived is not None and not self._arrived.done():
            self._arrived.set_result(None)

    def _make_room(self) -> None:
        kept = _merged(EventsDropped(1) if type(event) in INCREMENTS else event for event in self._events)
        spare = self._most // SHARE
        if len(kept) > self._most - spare:
            oldest = [kept.popleft() for _ in range(len(kept) - self._most + spare + 1)]
            kept.appendleft(EventsDropped(sum(map(_events_in, oldest))))
        self._events = kept


def _merged(events: Iterable[AgentEvent]) -> deque[AgentEvent]:
    """The events, with gaps that touch each other as one."""
    merged: deque[AgentEvent] = deque()
    for event in events:
        last = merged[-1] if merged else None
        if isinstance(event, EventsDropped) and isinstance(last, EventsDropped):
            merged[-1] = EventsDropped(last.count + event.count)
        else:
            merged.append(event)
    return merged


def _events_in(event: AgentEvent) -> int:
    return event.count if isinstance(event, EventsDropped) else 1

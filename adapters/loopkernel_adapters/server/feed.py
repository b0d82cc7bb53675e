"""The events of one log, in order, each with an id that outlasts the process.

An id names the record that the event came of, by its place in the log, the event among those of that record, and the
time of the record. So whoever has an event can go on behind it, on whatever process serves the log by then; and where a
crash has taken the last records, and others stand in their place, the times differ, and that is noticed.

Readers are places in one list. A reader who is slow is a number that grows slowly: nothing waits for it.
"""

import asyncio
import re
from bisect import bisect_right
from collections.abc import Sequence

from attrs import frozen
from loopkernel.codec import effects_to_text
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import Effect
from loopkernel.data.events import ChildStarted, Event
from loopkernel.data.ids import CallId
from loopkernel.data.records import LogRecord
from loopkernel.data.states import State
from loopkernel.data.steps import Context
from loopkernel.loop.transition import transition
from loopkernel.replaying import START

from loopkernel_adapters.driver.asyncio_driver import is_event
from loopkernel_adapters.driver.children import WITH_CALLS

FOLDED_PER_SLICE = 64  # records: to fold so many takes some milliseconds; then others get their turn
_ID = re.compile(r"([0-9]{1,12})\.([0-9]{1,6})@([0-9]{1,16})")


@frozen
class Told:
    """An event of the log: `record` counts from 1, `number` tells the events of one record apart, from 0."""

    record: int
    number: int
    at_ms: int
    event: Event

    @property
    def id(self) -> str:
        """What a reader says to go on behind it."""
        return f"{self.record}.{self.number}@{self.at_ms}"

    def text(self) -> str:
        """As JSON: its id, its time, and the event as the codec writes it."""
        listed = effects_to_text((self.event,))  # a list of one, in one line
        return f'{{"id":"{self.id}","at":{self.at_ms},"event":{listed[1:-1]}}}'


class Feed:
    """The events of a log as far as it is known here, and a way to wait for more."""

    def __init__(self) -> None:
        self.state: State = START
        self.told: list[Told] = []
        self.agents: dict[CallId, str] = {}  # the sub-agents that have begun: of each call the session
        self._times: list[int] = []  # of the records
        self._texts: dict[int, str] = {}
        self._over = False
        self._readers: set[asyncio.Future[bool]] = set()

    @property
    def length(self) -> int:
        """How many records it knows."""
        return len(self._times)

    @property
    def over(self) -> bool:
        """Whether nothing more will be told here."""
        return self._over

    @property
    def last_id(self) -> str | None:
        """The id of the last event; None: there is none."""
        return self.told[-1].id if self.told else None

    def take(self, records: Sequence[LogRecord]) -> None:
        """The next records of the log."""
        for record in records:
            self._take(record.delta, record.now_ms)
        self._wake()

    async def catch_up(self, records: Sequence[LogRecord]) -> None:
        """As `take`, of the whole log: what is known is left out. Others get their turn meanwhile."""
        while self.length < len(records):
            self.take(records[self.length : self.length + FOLDED_PER_SLICE])
            await asyncio.sleep(0)

    def begins(self, records: Sequence[LogRecord]) -> bool:
        """Whether what is known here is the beginning of that log."""
        return self._times == [record.now_ms for record in records[: self.length]]

    def end(self) -> None:
        """Nothing more will be told here; whoever reads comes to an end."""
        self._over = True
        self._wake()

    def place_after(self, last: str) -> int | None:
        """The place behind the event of that id; None where there is no such event in this log."""
        found = _ID.fullmatch(last)
        if found is None:
            return None
        record, number, at_ms = map(int, found.groups())
        if not 1 <= record <= self.length or self._times[record - 1] != at_ms:
            return None
        place = bisect_right(self.told, (record, number), key=lambda told: (told.record, told.number))
        before = self.told[place - 1] if place else None
        return place if before is not None and (before.record, before.number) == (record, number) else None

    def text_at(self, place: int) -> str:
        """The event at that place, as text; made once for all readers."""
        if place not in self._texts:
            self._texts[place] = self.told[place].text()
        return self._texts[place]

    async def more_than(self, place: int, seconds: float) -> bool:
        """Wait until there is something at the place, or nothing more will come; False: not in so many seconds."""
        if place < len(self.told) or self._over:
            return True
        loop = asyncio.get_running_loop()
        reader: asyncio.Future[bool] = loop.create_future()
        late = loop.call_later(seconds, _tell, reader, False)
        self._readers.add(reader)
        try:
            return await reader
        finally:
            late.cancel()
            self._readers.discard(reader)

    def _take(self, delta: Delta, now_ms: int) -> None:
        effects: tuple[Effect, ...]
        self.state, effects = transition(self.state, Context(delta, now_ms))
        self._times.append(now_ms)
        events = [effect for effect in effects if is_event(effect)]
        self.told += [Told(len(self._times), number, now_ms, event) for number, event in enumerate(events)]
        if any(isinstance(event, ChildStarted) for event in events):
            self._note_agents()

    def _note_agents(self) -> None:
        entries = self.state.ledger.entries if isinstance(self.state, WITH_CALLS) else ()
        self.agents.update({each.call.id: each.child.session_id for each in entries if each.child is not None})

    def _wake(self) -> None:
        for reader in self._readers:
            _tell(reader, True)


def _tell(reader: asyncio.Future[bool], there_is_more: bool) -> None:
    if not reader.done():
        reader.set_result(there_is_more)

"""The machine of a simulated world: its processes, its time, its disk, and what is left of the plan."""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any

from attrs import Factory, define
from loopkernel.data.states import State
from loopkernel.later_typing import override
from loopkernel.replaying import LogRecord
from loopkernel_adapters.blocking_ports import BlockingStore
from loopkernel_adapters.ports import Clock, Restored, Store, StoreError
from loopkernel_adapters.stores.in_place import InPlaceStore
from loopkernel_adapters.testing.virtual_loop import VirtualLoop

from tests.adapters.simulation.evidence import Evidence
from tests.adapters.simulation.plan import Answer, Check, Plan, Reply, Run, StoreFault


class Foreign(Exception):
    """What no adapter should raise."""


@define(eq=False)
class Life:
    """One process of the simulated machine. `end` is done when it dies, or cannot go on."""

    end: "asyncio.Future[str]"
    over: bool = False
    closed: bool = False

    def finish(self, why: str) -> None:
        """It dies, or cannot go on."""
        self.over = self.over or why == "crash"
        if not self.end.done():
            self.end.set_result(why)


@define(eq=False)
class World:
    """What all ports share: the plan and what is left of it, the time, what was seen to go wrong."""

    plan: Plan
    loop: VirtualLoop
    life: Life
    seen: Counter[str] = Factory(Counter)
    faults: list[str] = Factory(list)
    replies: deque[Reply] = Factory(deque)
    runs: deque[Run] = Factory(deque)
    answers: deque[Answer] = Factory(deque)
    checks: deque[Check] = Factory(deque)
    store_faults: dict[int, StoreFault] = Factory(dict)
    appends: int = 0
    offset_ms: int = 0
    hanging: "list[asyncio.Future[None]]" = Factory(list)
    writing: int = 0  # appends that are under way
    writes: int = 0  # appends that have begun
    keeps: int = 0  # how many of the records that are not durable survive a death in the midst of an append

    @property
    def elapsed_ms(self) -> int:
        """The time since the world began, whatever the clock says."""
        return round(self.loop.time() * 1000)

    @property
    def calm(self) -> bool:
        """Whether nothing new goes wrong any more."""
        return self.plan.lively and self.elapsed_ms >= self.plan.faults_until_ms

    def accuse(self, what: str) -> None:
        """Something is wrong with the driver."""
        if what not in self.faults:
            self.faults.append(what)

    def take(self, items: "deque[Item]", plain: "Item") -> "Item":
        """The next of the plan; an honest one when there is none, or all is to be calm."""
        return items.popleft() if items and not self.calm else plain

    async def lasts(self, milliseconds: float) -> None:
        """So much time passes."""
        await asyncio.sleep(milliseconds / 1000)

    async def hangs(self) -> None:
        """Nothing happens, for ever."""
        self.seen["hangs"] += 1
        for_ever = self.loop.create_future()
        self.hanging.append(for_ever)  # or the task that waits for it would be garbage
        await for_ever


Item = Any  # a Reply, Run, Answer or Check: what goes in comes out


class SimulatedStore(BlockingStore):
    """The log of one session on the simulated disk."""

    returns_at_once = True

    def __init__(self, here: World, session: Evidence) -> None:
        self._world = here
        self._session = session
        self._life = here.life
        self._broken = False

    @override
    def append(self, records: Sequence[LogRecord], durable: bool) -> None:
        here, life = self._world, self._life
        if life.over:
            raise OSError(5, "the process is dead")
        if life.closed:
            here.accuse(f"{self._session.name}: {len(records)} records are written after close")
        if self._broken:
            raise StoreError("an append has failed before")
        here.appends += 1
        fault = None if here.calm else here.store_faults.get(here.appends)
        if fault is None:
            self._session.write(records, durable)
            return
        if fault.what == "dies within" and 0 < fault.keep < len(records):
            here.seen["store keeps a part of what it was given"] += 1
        here.seen[f"store {fault.what}"] += 1
        self._broken = True
        kept = {"dies after": len(records), "dies before": 0}.get(fault.what, fault.keep)
        self._session.write(records[:kept], durable and fault.what == "dies after")
        here.keeps = len(self._session.unsynced) if fault.what == "dies within" else fault.keep
        life.finish("failure" if fault.what == "fails" else "crash")
        raise OSError(28, "No space left on device")

    @override
    def load(self) -> tuple[LogRecord, ...]:
        return self._session.records

    @override
    def restore(self) -> Restored:
        return Restored(records=self._session.records, doubt=self._session.doubt)

    def vouch(self) -> None:
        """The driver goes by what it is given from here on."""
        self._session.doubt = None

    @override
    def save_snapshot(self, state: State) -> None:
        raise OSError(28, "No space left on device")

    @override
    def close(self) -> None:
        pass


class SlowStore(Store):
    """The same log behind a disk that takes its time: an append lands at the end of it. So does nothing of a death."""

    def __init__(self, here: World, session: Evidence) -> None:
        self._world = here
        self._inner = SimulatedStore(here, session)

    @override
    async def append(self, records: Sequence[LogRecord], durable: bool, taken: Sequence[int] = ()) -> None:
        here = self._world
        here.writes += 1
        here.writing += 1
        here.seen["slow append"] += 1
        try:
            await here.lasts(here.writes * 7 % ((here.plan.disk_ms or 0) + 1))
            self._inner.append(records, durable)
        finally:
            here.writing -= 1

    @override
    async def load(self) -> tuple[LogRecord, ...]:
        return self._inner.load()

    @override
    async def restore(self) -> Restored:
        await self._world.lasts(0)
        return self._inner.restore()

    def vouch(self) -> None:
        """As the store within."""
        self._inner.vouch()

    @override
    async def save_snapshot(self, state: State) -> None:
        self._inner.save_snapshot(state)

    @override
    async def close(self) -> None:
        self._inner.close()


def store_of(here: World, session: Evidence) -> Store:
    """The log of the session, as the plan has its disk."""
    if here.plan.disk_ms is None:
        return InPlaceStore(SimulatedStore(here, session))
    return SlowStore(here, session)


class SimulatedClock(Clock):
    """The machine's clock as a driver has it: the date when it was made, and from there on the time that passes.

    The date may be set meanwhile. Its timers can be late, and never early.
    """

    def __init__(self, here: World) -> None:
        self._world = here
        self._set_by_ms = here.offset_ms
        self._timers: dict[int, tuple[int, Callable[[], None]]] = {}
        self._handles: dict[int, asyncio.TimerHandle] = {}
        self._made = 0

    @property
    def pending(self) -> int:
        """How many timers have neither fired nor been forgotten."""
        return len(self._timers)

    @override
    def now_ms(self) -> int:
        return self._world.elapsed_ms + self._set_by_ms

    def ahead_ms(self) -> int:
        """By how much the date is ahead of this clock's time."""
        return self._world.offset_ms - self._set_by_ms

    @override
    def call_at(self, deadline_ms: int, callback: Callable[[], None]) -> Callable[[], None]:
        self._made += 1
        number = self._made
        self._timers[number] = (deadline_ms, callback)
        self._set(number)

        def forget() -> None:
            if self._timers.pop(number, None) is not None:
                self._handles.pop(number).cancel()

        return forget

    def _set(self, number: int) -> None:
        here = self._world
        wait_ms = max(self._timers[number][0] - self.now_ms(), 0)
        if wait_ms and here.plan.late_timers_ms and not here.calm:
            here.seen["late timer"] += 1
            wait_ms += here.plan.late_timers_ms
        self._handles[number] = here.loop.call_later(wait_ms / 1000, self._due, number)

    def _due(self, number: int) -> None:
        deadline_ms, callback = self._timers[number]
        if self._world.life.over:
            return
        if self.now_ms() < deadline_ms:
            self._set(number)
            return
        del self._timers[number], self._handles[number]
        callback()


class Simulated:
    """What all ports of a session know."""

    def __init__(self, here: World, session: Evidence) -> None:
        self.world = here
        self.session = session
        self.life = here.life

    def odd(self, what: str) -> None:
        """A fault happens."""
        self.world.seen[what] += 1

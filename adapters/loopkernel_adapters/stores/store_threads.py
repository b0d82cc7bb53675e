"""The threads that blocking stores run in: calls wait in lanes, and appends that wait together share one sync.

A lane is worked off in order, by one thread at a time, and all that waits in it at once. A store has a lane of its own;
the appends of stores that share their syncs (`SharesSyncs`) have one in common, so that of 200 sessions that write one
database at the same time, each has its own transaction, and all of them one sync. Each learns its own outcome.

The threads end with the last store that is in use. Whoever awaits a call may be cancelled: the call is made all the
same, in its turn.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from attrs import Factory, define, frozen
from loopkernel.replaying import LogRecord

from loopkernel_adapters.blocking_ports import BlockingStore, SharesSyncs

MOST_THREADS = 4  # more syncs at once than a disk makes faster
TOLD_PER_SLICE = 4  # so many who wait hear of the end of their call; then others get their turn

T = TypeVar("T")


@frozen
class Append:
    """An append that waits, to be made durable with others."""

    store: BlockingStore
    records: Sequence[LogRecord]
    durable: bool

    def __call__(self) -> None:
        self.store.append(self.records, self.durable)


@define(eq=False)
class Call:
    """What is to be done in a thread, and who waits for it."""

    act: Callable[[], None]
    loop: asyncio.AbstractEventLoop
    ended: "asyncio.Future[None]"
    order: "Order"
    error: BaseException | None = None

    def make(self) -> None:
        """Do it, and keep what it raises."""
        try:
            self.act()
        except BaseException as error:
            self.error = error


@define(eq=False)
class Lane:
    """Calls that are made in their order, one at a time."""

    waiting: list[Call] = Factory(list)
    busy: bool = False


@define(eq=False)
class Order:
    """The calls of one store: wherever they wait, no one overtakes another."""

    lane: Lane = Factory(Lane)  # where those are that are not finished
    unfinished: int = 0

    def enter(self, usual: Lane) -> Lane:
        """The lane for another call: the usual one, or behind those that wait elsewhere."""
        if self.unfinished == 0:
            self.lane = usual
        self.unfinished += 1
        return self.lane


class StoreThreads:
    """At most so many threads, which are there as long as somebody has said `hold` and not yet `let_go`."""

    def __init__(self, most: int = MOST_THREADS) -> None:
        self._most = most
        self._guard = threading.Lock()
        self._executor: ThreadPoolExecutor | None = None
        self._holders = 0
        self._unfinished = 0  # calls
        self._shared: dict[Hashable, Lane] = {}

    def hold(self) -> None:
        """Threads are needed from now on."""
        with self._guard:
            self._holders += 1

    def let_go(self) -> None:
        """They are not needed any more, once what waits is done; with the last one who says so, they end."""
        with self._guard:
            self._holders -= 1
            idle = self._idle_executor()
        if idle is not None:
            idle.shutdown()

    def _idle_executor(self) -> ThreadPoolExecutor | None:
        """The threads, where nobody needs them any more and nothing waits: they are to end."""
        if self._holders or self._unfinished:
            return None
        executor, self._executor = self._executor, None
        self._shared.clear()
        return executor

    def shared_lane(self, key: Hashable) -> Lane:
        """The lane for the appends of all stores with that `sync_key`."""
        with self._guard:
            return self._shared.setdefault(key, Lane())

    async def call(self, order: Order, usual: Lane, act: Callable[[], T]) -> T:
        """What `act` returns or raises, in its turn."""
        found: list[T] = []
        await self.put(order, usual, lambda: found.append(act()))
        return found[0]

    def put(self, order: Order, usual: Lane, act: Callable[[], None]) -> "asyncio.Future[None]":
        """Have `act` called in its turn; what is returned ends as it does."""
        loop = asyncio.get_running_loop()
        call = Call(act, loop, loop.create_future(), order)
        with self._guard:
            self._unfinished += 1
            lane = order.enter(usual)
            lane.waiting.append(call)
            if not lane.busy:
                lane.busy = True
                self._work_soon(lane)
        return call.ended

    def _work_soon(self, lane: Lane) -> None:
        if self._executor is None:
            self._executor = ThreadPoolExecutor(self._most, thread_name_prefix="loopkernel store")
        self._executor.submit(self._work, lane)

    def _work(self, lane: Lane) -> None:
        """Make all calls that wait in the lane, and tell who waits for them."""
        with self._guard:
            calls, lane.waiting = lane.waiting, []
        make(calls)
        with self._guard:
            self._unfinished -= len(calls)
            for call in calls:
                call.order.unfinished -= 1
            lane.busy = bool(lane.waiting)
            if lane.busy:
                self._work_soon(lane)
            idle = self._idle_executor()
        tell(calls)
        if idle is not None:
            idle.shutdown(wait=False)  # this is one of its threads


# --- calls that wait together ----------------------------------------------------------------------------


def make(calls: Sequence[Call]) -> None:
    """Make the calls in their order; appends to stores that share their syncs, one behind the other, with one sync."""
    together: list[Call] = []
    for call in calls:
        if isinstance(call.act, Append) and isinstance(call.act.store, SharesSyncs):
            together.append(call)
            continue
        make_with_one_sync(together)
        together.clear()
        call.make()
    make_with_one_sync(together)


def make_with_one_sync(calls: Sequence[Call]) -> None:
    """Make the appends. One that fails fails alone; where the sync fails, all fail that it was to cover."""
    if len(calls) < 2:
        for call in calls:
            call.make()
        return
    lasting: list[tuple[Call, SharesSyncs]] = []
    for call in calls:
        append = call.act
        assert isinstance(append, Append) and isinstance(append.store, SharesSyncs)  # by whom this is called
        call.act = Append(append.store, append.records, durable=False)
        call.make()
        if append.durable and call.error is None:
            lasting.append((call, append.store))
    if not lasting:
        return
    failure: BaseException | None = None
    try:
        lasting[-1][1].sync()
    except BaseException as error:
        failure = error
    for call, store in lasting:
        call.error = failure
        store.sync_ended(failure is None)


def tell(calls: Sequence[Call]) -> None:
    """Tell those who wait how their calls have ended, each in its own event loop. One that is closed hears nothing."""
    for loop in {call.loop for call in calls}:
        theirs = deque(call for call in calls if call.loop is loop)
        try:
            loop.call_soon_threadsafe(tell_slice, loop, theirs)
        except RuntimeError:
            if not loop.is_closed():
                raise


def tell_slice(loop: asyncio.AbstractEventLoop, calls: deque[Call]) -> None:
    """Tell the first few; each of them takes a step now, and whoever else waits for the loop comes in between."""
    for _ in range(min(TOLD_PER_SLICE, len(calls))):
        call = calls.popleft()
        if call.ended.done():  # nobody waits any more
            continue
        if call.error is None:
            call.ended.set_result(None)
        else:
            call.ended.set_exception(call.error)
    if calls:
        loop.call_soon(tell_slice, loop, calls)

"""Clocks behind the clock port: the machine's own, one that goes on from a log, and one that moves when it is told to.

A wall clock is set: by people, by time servers, by a machine that wakes up somewhere else. So the date is looked at
when a log is opened; from there on time is what passes, and a date that is set moves no delay. That it was set is told.
"""

import asyncio
import time
from collections.abc import Callable
from functools import partial
from heapq import heappop, heappush
from typing import Protocol, runtime_checkable

from loopkernel.data.events import ClockJumped
from loopkernel.data.states import State
from loopkernel.later_typing import override

from loopkernel_adapters.ports import Clock

# Of one timer of the event loop. A loop does not count the time for which the machine is suspended, and the clock does:
# so it looks again this often, and what fell due in a sleep is called soon after it.
LONGEST_WAIT_MS = 30_000
NS_PER_MS = 1_000_000
MOST_FORGOTTEN = 64  # deadlines that are kept although they were forgotten, beside as many as there are
JUMP_MS = 2_000  # a time server moves the clock by less, and nobody need hear of it


@runtime_checkable
class WatchesDate(Protocol):
    """A clock that knows the date too. A driver looks at the date once for each `now_ms` that it sees."""

    def ahead_ms(self) -> int:
        """By how much the date of the machine is ahead of this clock's time."""
        ...


# The time that has passed since some moment, also while the machine was suspended, where it can tell (on Linux). With
# `time.monotonic` a laptop that was closed for an hour would give its retries, its timeouts and its turns an hour more,
# and its date would seem to have jumped.
_BOOT_TIME: int | None = getattr(time, "CLOCK_BOOTTIME", None)
_passed_ns: Callable[[], int] = time.monotonic_ns if _BOOT_TIME is None else partial(time.clock_gettime_ns, _BOOT_TIME)


class WallClock(Clock):
    """Milliseconds since 1970 when it was made, and from there on the time that passes: it never goes back."""

    def __init__(self, date_ns: Callable[[], int] = time.time_ns, passed_ns: Callable[[], int] = _passed_ns) -> None:
        self._date_ns = date_ns
        self._passed_ns = passed_ns
        self._origin_ms = date_ns() // NS_PER_MS - passed_ns() // NS_PER_MS
        self._alarm: _Alarm | None = None

    @override
    def now_ms(self) -> int:
        return self._origin_ms + self._passed_ns() // NS_PER_MS

    def ahead_ms(self) -> int:
        """By how much the date of the machine is ahead of this clock's time: 0, unless it was set."""
        return self._date_ns() // NS_PER_MS - self._passed_ns() // NS_PER_MS - self._origin_ms

    @override
    def call_at(self, deadline_ms: int, callback: Callable[[], None]) -> Callable[[], None]:
        loop, alarm = asyncio.get_running_loop(), self._alarm
        if alarm is None or alarm.loop is not loop:
            alarm = self._alarm = _Alarm(loop, self.now_ms)
        return alarm.add(deadline_ms, callback)


class LaterClock(Clock):
    """Another clock, `by_ms` later: for a log whose last time that clock has not reached.

    The delays of such a log are counted from its own last time, so none has to wait until a date comes round again.
    """

    def __init__(self, clock: Clock, by_ms: int) -> None:
        self._clock = clock
        self._by_ms = by_ms

    @override
    def now_ms(self) -> int:
        return self._clock.now_ms() + self._by_ms

    @override
    def call_at(self, deadline_ms: int, callback: Callable[[], None]) -> Callable[[], None]:
        return self._clock.call_at(deadline_ms - self._by_ms, callback)


def opening_ms(clock: Clock) -> int:
    """The time at which a log may begin: that of the clock, or the date where that was set since the clock was made."""
    ahead_ms = clock.ahead_ms() if isinstance(clock, WatchesDate) else 0
    return clock.now_ms() + (ahead_ms if abs(ahead_ms) > JUMP_MS else 0)


def clock_behind_ms(clock: Clock, state: State) -> int:
    """How far the clock is behind the log that led to the state, if not just a little."""
    behind_ms = state.stamp.now_ms - opening_ms(clock)
    return behind_ms if behind_ms > JUMP_MS else 0


def clock_from(clock: Clock, state: State) -> Clock:
    """The clock, for a log that led to the state: it goes on from its last time, or from now where that is later."""
    by_ms = max(opening_ms(clock), state.stamp.now_ms) - clock.now_ms()
    return clock if by_ms == 0 else LaterClock(clock, by_ms)


class DateWatch:
    """Looks whether the date of the machine was set, for one driver: a clock may serve several."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock if isinstance(clock, WatchesDate) else None
        self._ahead_ms = 0 if self._clock is None else self._clock.ahead_ms()
        self.looked_ms: int | None = None  # when this was asked last: within a millisecond is soon enough

    def jumps(self, now_ms: int) -> tuple[ClockJumped, ...]:
        """The event that tells by how much the date was set since this was asked last; none where it was not."""
        self.looked_ms = now_ms
        if self._clock is None:
            return ()
        ahead_ms = self._clock.ahead_ms()
        by_ms = ahead_ms - self._ahead_ms
        if abs(by_ms) <= JUMP_MS:
            return ()
        self._ahead_ms = ahead_ms
        return (ClockJumped(by_ms),)


class _Alarm:
    """One timer of an event loop for the earliest of many deadlines, which most callers forget before it comes.

    It is not set anew when a deadline is forgotten: it rings, finds nothing due, and is set for the next. No loop keeps
    the longest waits in one, so it also rings in between.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, now_ms: Callable[[], int]) -> None:
        self.loop = loop
        self._now_ms = now_ms
        self._callbacks: dict[int, Callable[[], None]] = {}  # those that are not forgotten, by their numbers
        self._deadlines: list[tuple[int, int]] = []  # a heap: when, and the number of the callback
        self._numbers = 0
        self._rings_ms: int | None = None  # when it will ring for a deadline, or earlier
        self._handle: asyncio.TimerHandle | None = None

    def add(self, deadline_ms: int, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back at the deadline; the function that is given back forgets it."""
        if len(self._deadlines) > 2 * len(self._callbacks) + MOST_FORGOTTEN:
            self._deadlines[:] = sorted(due for due in self._deadlines if due[1] in self._callbacks)
        self._numbers = number = self._numbers + 1
        self._callbacks[number] = callback
        heappush(self._deadlines, (deadline_ms, number))
        if self._rings_ms is None or deadline_ms < self._rings_ms:
            self._set(deadline_ms)

        def forget() -> None:
            self._callbacks.pop(number, None)

        return forget

    def _set(self, deadline_ms: int) -> None:
        if self._handle is not None:
            self._handle.cancel()
        # One millisecond more: now_ms() rounds down, and must have reached the deadline when the callback looks.
        left_ms = deadline_ms - self._now_ms()
        wait_ms = min(left_ms + 1, LONGEST_WAIT_MS) if left_ms > 0 else 0
        self._rings_ms = deadline_ms
        self._handle = self.loop.call_later(wait_ms / 1000, self._ring)

    def _ring(self) -> None:
        """Call the first that is due, by deadline and then in the order of asking, and wait for the next."""
        self._handle = self._rings_ms = None
        now_ms, deadlines = self._now_ms(), self._deadlines
        callback = None
        while callback is None and deadlines and (deadlines[0][0] <= now_ms or deadlines[0][1] not in self._callbacks):
            callback = self._callbacks.pop(heappop(deadlines)[1], None)
        if deadlines:
            self._set(deadlines[0][0])
        if callback is not None:
            callback()


class ManualClock(Clock):
    """A clock for tests and simulations: time stands still until `advance` is called."""

    def __init__(self, now_ms: int = 0) -> None:
        self._now_ms = now_ms
        self._timers: dict[int, tuple[int, Callable[[], None]]] = {}
        self._timers_made = 0

    @override
    def now_ms(self) -> int:
        return self._now_ms

    @override
    def call_at(self, deadline_ms: int, callback: Callable[[], None]) -> Callable[[], None]:
        self._timers_made += 1
        number = self._timers_made
        self._timers[number] = (deadline_ms, callback)

        def forget() -> None:
            self._timers.pop(number, None)

        return forget

    @property
    def pending(self) -> int:
        """How many timers have neither fired nor been forgotten."""
        return len(self._timers)

    def advance(self, milliseconds: int) -> None:
        """Let time pass, and call what falls due, by deadline and then in the order of asking."""
        end = self._now_ms + milliseconds
        while due := [(deadline, n) for n, (deadline, _) in self._timers.items() if deadline <= end]:
            deadline, number = min(due)
            _, callback = self._timers.pop(number)
            self._now_ms = max(self._now_ms, deadline)
            callback()
        self._now_ms = max(self._now_ms, end)

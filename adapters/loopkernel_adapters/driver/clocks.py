"""Clocks behind the clock port: the machine's own, one that goes on from a log, and one that moves when it is told to.

A wall clock is set: by people, by time servers, by a machine that wakes up somewhere else. So the date is looked at
when a log is opened; from there on time is what passes, and a date that is set moves no delay. That it was set is told.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Protocol, runtime_checkable

from loopkernel.data.events import ClockJumped
from loopkernel.data.states import State
from loopkernel.later_typing import override

from loopkernel_adapters.ports import Clock

# Of one timer of the event loop. A loop does not count the time for which the machine is suspended, and the clock does:
# so it looks again this often, and what fell due in a sleep is called soon after it.
LONGEST_WAIT_MS = 30_000
JUMP_MS = 2_000  # a time server moves the clock by less, and nobody need hear of it


@runtime_checkable
class WatchesDate(Protocol):
    """A clock that knows the date too."""

    def ahead_ms(self) -> int:
        """By how much the date of the machine is ahead of this clock's time."""
        ...


def _passed_ms() -> int:
    """The time that has passed since some moment, also while the machine was suspended, where it can tell.

    With `time.monotonic` a laptop that was closed for an hour would give its retries, its timeouts and its turns an
    hour more, and its date would seem to have jumped.
    """
    boot_time = getattr(time, "CLOCK_BOOTTIME", None)  # Linux has it
    passed_ns = time.monotonic_ns() if boot_time is None else time.clock_gettime_ns(boot_time)
    return passed_ns // 1_000_000


def _date_ms() -> int:
    return time.time_ns() // 1_000_000


class WallClock(Clock):
    """Milliseconds since 1970 when it was made, and from there on the time that passes: it never goes back."""

    def __init__(self, date_ms: Callable[[], int] = _date_ms, passed_ms: Callable[[], int] = _passed_ms) -> None:
        self._date_ms = date_ms
        self._passed_ms = passed_ms
        self._origin_ms = date_ms() - passed_ms()

    @override
    def now_ms(self) -> int:
        return self._origin_ms + self._passed_ms()

    def ahead_ms(self) -> int:
        """By how much the date of the machine is ahead of this clock's time: 0, unless it was set."""
        return self._date_ms() - self.now_ms()

    @override
    def call_at(self, deadline_ms: int, callback: Callable[[], None]) -> Callable[[], None]:
        # One millisecond more: now_ms() rounds down, and must have reached the deadline when the callback looks.
        wait_ms = deadline_ms - self.now_ms() + 1
        if wait_ms > LONGEST_WAIT_MS:
            return _Alarm(self.now_ms, deadline_ms, callback).forget
        loop = asyncio.get_running_loop()
        return loop.call_at(loop.time() + max(wait_ms, 0) / 1000, callback).cancel


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

    def jumps(self) -> tuple[ClockJumped, ...]:
        """The event that tells by how much the date was set since this was asked last; none where it was not."""
        if self._clock is None:
            return ()
        ahead_ms = self._clock.ahead_ms()
        by_ms = ahead_ms - self._ahead_ms
        if abs(by_ms) <= JUMP_MS:
            return ()
        self._ahead_ms = ahead_ms
        return (ClockJumped(by_ms),)


class _Alarm:
    """A timer of the event loop, set anew until the deadline is reached: no loop keeps the longest waits in one."""

    def __init__(self, now_ms: Callable[[], int], deadline_ms: int, callback: Callable[[], None]) -> None:
        self._now_ms = now_ms
        self._deadline_ms = deadline_ms
        self._callback = callback
        self._set()

    def forget(self) -> None:
        self._handle.cancel()

    def _set(self) -> None:
        wait_ms = min(max(self._deadline_ms - self._now_ms() + 1, 0), LONGEST_WAIT_MS)
        self._handle = asyncio.get_running_loop().call_later(wait_ms / 1000, self._ring)

    def _ring(self) -> None:
        if self._now_ms() < self._deadline_ms:
            self._set()
        else:
            self._callback()


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

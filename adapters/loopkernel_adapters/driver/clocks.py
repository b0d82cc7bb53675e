"""Clocks behind the clock port: the machine's own, and one that only moves when it is told to."""

import asyncio
import time
from collections.abc import Callable

from loopkernel.later_typing import override

from loopkernel_adapters.ports import Clock

LONGEST_WAIT_MS = 24 * 3_600_000  # of one timer of the event loop


class WallClock(Clock):
    """Milliseconds since 1970. Within one process it never goes back, also when the machine's time is set."""

    def __init__(self) -> None:
        self._origin = time.time() - time.monotonic()

    @override
    def now_ms(self) -> int:
        return int((self._origin + time.monotonic()) * 1000)

    @override
    def call_at(self, deadline_ms: int, callback: Callable[[], None]) -> Callable[[], None]:
        # One millisecond more: now_ms() rounds down, and must have reached the deadline when the callback looks.
        wait_ms = deadline_ms - self.now_ms() + 1
        if wait_ms > LONGEST_WAIT_MS:
            return _Alarm(self.now_ms, deadline_ms, callback).forget
        loop = asyncio.get_running_loop()
        return loop.call_at(loop.time() + max(wait_ms, 0) / 1000, callback).cancel


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

"""Clocks behind the clock port: the machine's own, and one that only moves when it is told to."""

import asyncio
import time
from collections.abc import Callable

from typing_extensions import override

from loopkernel_adapters.ports import Clock


class WallClock(Clock):
    """Milliseconds since 1970. Within one process it never goes back, also when the machine's time is set."""

    def __init__(self) -> None:
        self._origin = time.time() - time.monotonic()

    @override
    def now_ms(self) -> int:
        return int((self._origin + time.monotonic()) * 1000)

    @override
    def call_at(self, deadline_ms: int, callback: Callable[[], None]) -> Callable[[], None]:
        loop = asyncio.get_running_loop()
        now = loop.time()

        # One millisecond more: now_ms() rounds down, and must have reached the deadline when the callback looks.
        handle = loop.call_at(now + max(deadline_ms - self.now_ms() + 1, 0) / 1000, callback)
        return handle.cancel


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

"""Turns of one run, one at a time: who comes second waits for the first, in the order in which they came."""

import asyncio
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class _TurnLock(asyncio.Lock):
    """A lock that knows who holds it."""

    holder: asyncio.Task[object] | None = None


class TurnLocks:
    """The locks of an agent's runs, which last as long as somebody holds or awaits them."""

    def __init__(self) -> None:
        # A lock belongs to one event loop; in two of them at a time, the store tells that the run is open.
        self._locks: weakref.WeakValueDictionary[tuple[int, str], _TurnLock] = weakref.WeakValueDictionary()

    @asynccontextmanager
    async def of(self, run: str) -> AsyncIterator[None]:
        """Hold the run for a turn. Raises RuntimeError where this very task holds it, and would wait for itself."""
        key, task = (id(asyncio.get_running_loop()), run), asyncio.current_task()
        lock = self._locks.setdefault(key, _TurnLock())
        if task is not None and lock.holder is task:
            raise RuntimeError(
                f"a turn of run {run!r} is under way in this very task, and a second one would wait for it; end the "
                "first, or use agent.session(run) for several"
            )
        async with lock:
            lock.holder = task
            try:
                yield
            finally:
                lock.holder = None

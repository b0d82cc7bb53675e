"""A thread that takes turns with an event loop: one of the two runs at a time, so that nothing depends on chance.

A driver without an event loop, and one of another, live in such a thread. While it runs, the loop stands still; while
the loop runs, the thread waits. So a run of both is the same each time, also in virtual time, and neither needs a lock.
"""

import queue
import threading
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from attrs import frozen

from loopkernel_adapters.testing.watched_checks import watch_too

T = TypeVar("T")


@frozen
class Outcome(Generic[T]):
    """What came of some work: what it returned, or what it raised."""

    value: T | None = None
    error: BaseException | None = None

    def result(self) -> T:
        """As the work itself. Raises what it raised."""
        if self.error is not None:
            raise self.error
        return self.value  # type: ignore[return-value]  # work without an error has returned


def outcome_of(act: Callable[[], T]) -> Outcome[T]:
    """Do it, whatever comes of it."""
    try:
        return Outcome(act())
    except BaseException as error:
        return Outcome(error=error)


async def awaited_outcome_of(act: Callable[[], Awaitable[T]]) -> Outcome[T]:
    """Await it, whatever comes of it, a cancellation included."""
    try:
        return Outcome(await act())
    except BaseException as error:
        return Outcome(error=error)


class Turns:
    """The two sides: the loop gives something and waits for what is said to it, the thread says and waits."""

    def __init__(self, run: Callable[[object], None]) -> None:
        """`run` is what the thread does, beginning with what it is given first. It ends when it has said its last."""
        self._given: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._said: queue.SimpleQueue[object] = queue.SimpleQueue()
        thread = threading.Thread(target=lambda: run(self._given.get()), name="a driver that takes turns", daemon=True)
        thread.start()
        watch_too(thread)

    def give(self, what: object) -> object:
        """From the loop: the thread has its turn. What it says at the end of it."""
        self._given.put(what)
        return self._said.get()

    def say(self, what: object) -> object:
        """From the thread: its turn is over. What it is given with the next one."""
        self._said.put(what)
        return self._given.get()

    def say_last(self, what: object) -> None:
        """From the thread, which ends."""
        self._said.put(what)

"""An event loop in virtual time: when nothing is ready, time jumps to the next timer instead of passing.

Nothing here waits, and nothing outside can wake the loop: no socket, no thread, no process belongs into it.
"""

import asyncio
import selectors
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

from loopkernel.later_typing import override

Result = TypeVar("Result")


class Deadlock(RuntimeError):
    """Nothing is ready, no timer is set, and somebody still waits."""


class _JumpingSelector(selectors.SelectSelector):
    """Selects nothing. Where it would have to wait, it tells the loop how long."""

    wait: Callable[[float | None], None]

    @override
    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout > 0:
            self.wait(timeout)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """Time begins at 0 and is in seconds, as for any loop. `jumps` counts how often it has jumped."""

    def __init__(self) -> None:
        self._virtual_time = 0.0
        self._idle: asyncio.Future[None] | None = None
        self.jumps = 0
        self.complaints: list[Mapping[str, Any]] = []  # Any: the contexts are asyncio's, whose values have any type
        selector = _JumpingSelector()
        selector.wait = self._wait
        super().__init__(selector)
        self.set_exception_handler(lambda _, context: self.complaints.append(context))

    @override
    def time(self) -> float:
        return self._virtual_time

    def play(self, whole: Coroutine[Any, Any, Result]) -> Result:
        """Run it to its end, and close the loop; what it leaves behind is cancelled. Raises what it raises.

        It is no `asyncio.Runner`, whose handler of interrupts costs more than a whole small world.
        """
        try:
            return self.run_until_complete(whole)
        finally:
            self._idle = None
            left = asyncio.all_tasks(self)
            for task in left:
                task.cancel()
            if left:
                self.run_until_complete(asyncio.wait(left, timeout=1))
            self.close()

    async def idle(self) -> None:
        """Return when nothing is ready at this instant: everything else waits for a timer, or for the caller."""
        if self._idle is not None:
            raise RuntimeError("only one can wait for the loop to be idle")
        self._idle = self.create_future()
        try:
            await self._idle
        finally:
            self._idle = None

    def _wait(self, timeout: float | None) -> None:
        if self._idle is not None and not self._idle.done():
            self._idle.set_result(None)
        elif timeout is None:
            raise Deadlock("nothing is ready and no timer is set, but something still waits")
        else:
            self.jumps += 1
            self._virtual_time += timeout

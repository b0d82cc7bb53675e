"""Those who wait for a driver to come to something, such as to rest."""

import asyncio
from collections.abc import Callable


class Waiters:
    """Each looks again when there is something to see, and is forgotten when it gives up."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []

    async def wait(self, ready: Callable[[], bool]) -> None:
        """Until `wake` finds it ready, or is to wake all."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append((ready, waiter))
        try:
            await waiter
        finally:
            self._waiting = [waits for waits in self._waiting if waits[1] is not waiter]

    def wake(self, *, everyone: bool) -> None:
        """Let those who are ready go on; where all is over, everyone."""
        for ready, waiter in self._waiting:
            if not waiter.done() and (everyone or ready()):
                waiter.set_result(None)

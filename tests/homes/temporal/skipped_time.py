"""The time of a server that skips it: it jumps when all players wait, to where the first of them waits for."""

import asyncio
from contextlib import suppress
from datetime import timedelta

from temporalio.api.testservice.v1 import LockTimeSkippingRequest, UnlockTimeSkippingRequest
from temporalio.service import RPCError
from temporalio.testing import WorkflowEnvironment

PATIENCE_S = 2.0  # of real time, for a jump


class SkippedTime:
    """Shared by the players that are `active`."""

    def __init__(self, environment: WorkflowEnvironment) -> None:
        self._environment = environment
        self._waiting: list[tuple[float, asyncio.Future[None]]] = []
        self.active = 0
        self.activities = 0  # that run, and hold the time
        self._jumping: asyncio.Task[None] | None = None

    async def now_s(self) -> float:
        """The server's time."""
        return (await self._environment.get_current_time()).timestamp()

    async def until(self, at_s: float) -> None:
        """Return when the server's time has come there."""
        reached = asyncio.get_running_loop().create_future()
        self._waiting.append((at_s, reached))
        self._look()
        await reached

    def enter(self) -> None:
        """One player more, for whom time waits."""
        self.active += 1

    def leave(self) -> None:
        """One player less."""
        self.active -= 1
        self._look()

    def _look(self) -> None:
        if self._waiting and len(self._waiting) >= self.active and self._jumping is None:
            self._jumping = asyncio.create_task(self._jump())

    async def _jump(self) -> None:
        first = min(at_s for at_s, _ in self._waiting)
        left_s = first - await self.now_s()
        if left_s > 0:
            await self._skip(left_s)
        reached = [waiter for at_s, waiter in self._waiting if at_s <= first]
        self._waiting = [waiting for waiting in self._waiting if waiting[0] > first]
        self._jumping = None
        for waiter in reached:
            if not waiter.done():  # its player may have given up
                waiter.set_result(None)
        self._look()

    async def _skip(self, left_s: float) -> None:
        """Each activity that runs holds the server's time: it is let go of, once for each, so that time jumps."""
        service, released = self._environment.client.test_service, 0
        for _ in range(self.activities):
            await service.unlock_time_skipping(UnlockTimeSkippingRequest())
            released += 1
        sleeping = asyncio.create_task(self._environment.sleep(timedelta(seconds=left_s)))
        while not (await asyncio.wait({sleeping}, timeout=PATIENCE_S))[0]:  # an end of one is still on its way
            with suppress(RPCError):  # nobody holds it any more
                await service.unlock_time_skipping(UnlockTimeSkippingRequest())
                released += 1
        await sleeping
        for _ in range(released):
            await service.lock_time_skipping(LockTimeSkippingRequest())

"""Stores that are awaited, around one that returns at once: in turns of the loop, or for as long as a test says."""

import asyncio
from collections.abc import Sequence

from loopkernel.data.states import State
from loopkernel.replaying import LogRecord
from loopkernel_adapters.blocking_ports import BlockingStore
from loopkernel_adapters.ports import Restored, Sealing, Store
from typing_extensions import override


class Awaited(Store):
    """Each append takes effect some turns of the loop after it was called, another number of them each time."""

    def __init__(self, inner: BlockingStore) -> None:
        self.inner = inner
        self.appends = 0

    @override
    async def append(self, records: Sequence[LogRecord], durable: bool, taken: Sequence[int] = ()) -> None:
        self.appends += 1
        for _ in range(self.appends * 5 % 4):
            await asyncio.sleep(0)
        self.inner.append(records, durable)
        await asyncio.sleep(0)

    @override
    async def load(self) -> tuple[LogRecord, ...]:
        await asyncio.sleep(0)
        return self.inner.load()

    @override
    async def restore(self) -> Restored:
        await asyncio.sleep(0)
        return self.inner.restore()

    def vouch(self) -> None:
        if isinstance(self.inner, Sealing):
            self.inner.vouch()

    @override
    async def save_snapshot(self, state: State) -> None:
        await asyncio.sleep(0)
        self.inner.save_snapshot(state)

    @override
    async def close(self) -> None:
        await asyncio.sleep(0)
        self.inner.close()


class Held(Awaited):
    """Nothing is written until the test lets it: each append waits for a permit. Knows what it was given."""

    def __init__(self, inner: BlockingStore) -> None:
        super().__init__(inner)
        self.permits = asyncio.Semaphore(0)
        self.asked: list[tuple[Sequence[LogRecord], bool, tuple[int, ...]]] = []

    @override
    async def append(self, records: Sequence[LogRecord], durable: bool, taken: Sequence[int] = ()) -> None:
        self.asked.append((records, durable, tuple(taken)))
        await self.permits.acquire()
        self.inner.append(records, durable)

"""Asynchronous stores, each of which breaks a duty that only such a one can break, or breaks another in its own way."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from attrs import evolve
from loopkernel.replaying import LogRecord
from loopkernel_adapters.ports import Restored
from loopkernel_adapters.stores.folders import JsonlFolder
from loopkernel_adapters.stores.in_place import InPlaceRuns, InPlaceStore
from typing_extensions import override


class HonestStore(InPlaceStore):
    """Writes one append after the other, each a turn of the loop after its call. Those below get this wrong."""

    @override
    async def append(self, records: Sequence[LogRecord], durable: bool, taken: Sequence[int] = ()) -> None:
        await super().append(records, durable)
        await asyncio.sleep(0)


class EarlyStore(InPlaceStore):
    """Returns before anything is written, and writes when it comes to it."""

    @override
    async def append(self, records: Sequence[LogRecord], durable: bool, taken: Sequence[int] = ()) -> None:
        asyncio.get_running_loop().call_soon(asyncio.ensure_future, super().append(records, durable))


class OvertakingStore(InPlaceStore):
    """An append of one record overtakes those of several."""

    @override
    async def append(self, records: Sequence[LogRecord], durable: bool, taken: Sequence[int] = ()) -> None:
        for _ in records[1:]:
            await asyncio.sleep(0)
        await super().append(records, durable)


class GivingUpStore(InPlaceStore):
    """After an append that was cancelled, it drops whatever waits behind it."""

    def __init__(self, inner: InPlaceStore) -> None:
        super().__init__(inner.blocking)
        self._turn = asyncio.Lock()
        self._dropping = 0
        self._waiting = 0

    @override
    async def append(self, records: Sequence[LogRecord], durable: bool, taken: Sequence[int] = ()) -> None:
        self._waiting += 1
        try:
            async with self._turn:
                await asyncio.sleep(0)
                if self._dropping:
                    self._dropping -= 1
                    return
                await super().append(records, durable)
        except asyncio.CancelledError:
            self._dropping = self._waiting - 1
            raise
        finally:
            self._waiting -= 1


class HalvingStore(InPlaceStore):
    """Writes record by record, so that a cancellation leaves a part of them."""

    @override
    async def append(self, records: Sequence[LogRecord], durable: bool, taken: Sequence[int] = ()) -> None:
        for record in records:
            await super().append([record], durable)
            await asyncio.sleep(0)


class TaillessStore(InPlaceStore):
    """Restores without the last records."""

    @override
    async def restore(self) -> Restored:
        restored = await super().restore()
        return evolve(restored, records=restored.records[:-1])


class ListingStore(InPlaceStore):
    """Gives a list."""

    @override
    async def load(self) -> tuple[LogRecord, ...]:
        return list(await super().load())  # type: ignore[return-value]  # that is what is broken


class HastyRuns(InPlaceRuns):
    """Runs in a folder, opened as stores of that kind."""

    def __init__(self, folder: Path, kind: type[InPlaceStore]) -> None:
        super().__init__(JsonlFolder(folder / "logs"))
        self._kind = kind

    @override
    async def open(self, run: str) -> InPlaceStore:
        opened = await super().open(run)
        return GivingUpStore(opened) if self._kind is GivingUpStore else self._kind(opened.blocking)

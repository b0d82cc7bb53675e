"""Asynchronous stores for checks that wait: each call is awaited, in an event loop that stands still in between.

What a store leaves for later is then not done when the call has returned, and a check sees it. Nothing but that is
judged here; what only an asynchronous store can do wrong is in `store_check_under_way.py`.
"""

import asyncio
import os
from collections.abc import Coroutine, Sequence
from types import TracebackType
from typing import Self, TypeVar

from loopkernel.data.states import State
from loopkernel.later_typing import override
from loopkernel.replaying import LogRecord

from loopkernel_adapters.blocking_ports import BlockingRuns, BlockingStore
from loopkernel_adapters.ports import Restored, RunEntry, RunPage, Runs, Sealing, Store
from loopkernel_adapters.testing.store_calls import demand_store

T = TypeVar("T")


class WaitingLoop:
    """An event loop that runs while somebody waits for something; in a forked process, another one each time."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._process = os.getpid()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._runner.close()

    def wait(self, work: Coroutine[object, object, T]) -> T:
        """What the work returns or raises."""
        return self._runner.run(work) if os.getpid() == self._process else asyncio.run(work)


class WaitedStore(BlockingStore):
    """An asynchronous store, each of whose calls blocks until it is done."""

    def __init__(self, awaited: Store, loop: WaitingLoop) -> None:
        self._awaited = awaited
        self._loop = loop

    @override
    def append(self, records: Sequence[LogRecord], durable: bool) -> None:
        self._loop.wait(self._awaited.append(records, durable))

    @override
    def load(self) -> tuple[LogRecord, ...]:
        return self._loop.wait(self._awaited.load())

    @override
    def restore(self) -> Restored:
        return self._loop.wait(self._awaited.restore())

    def vouch(self) -> None:
        """As the store that it stands for."""
        if isinstance(self._awaited, Sealing):
            self._awaited.vouch()

    @override
    def save_snapshot(self, state: State) -> None:
        self._loop.wait(self._awaited.save_snapshot(state))

    @override
    def close(self) -> None:
        self._loop.wait(self._awaited.close())


class WaitedRuns(BlockingRuns):
    """Asynchronous runs, each of whose calls blocks until it is done."""

    def __init__(self, awaited: Runs, loop: WaitingLoop) -> None:
        self._awaited = awaited
        self._loop = loop

    @override
    def open(self, run: str) -> WaitedStore:
        store = self._loop.wait(self._awaited.open(run))
        demand_store(store, Store)
        return WaitedStore(store, self._loop)

    @override
    def read(self, run: str) -> tuple[LogRecord, ...]:
        return self._loop.wait(self._awaited.read(run))

    @override
    def doubt(self, run: str) -> str | None:
        return self._loop.wait(self._awaited.doubt(run))

    @override
    def entries(self) -> tuple[RunEntry, ...]:
        return self._loop.wait(self._awaited.entries())

    @override
    def latest(self, most: int | None) -> RunPage:
        return self._loop.wait(self._awaited.latest(most))

    @override
    def close(self) -> None:
        self._loop.wait(self._awaited.close())

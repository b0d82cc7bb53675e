"""Runs that are awaited, for commands that read: each question opens the place and closes it again."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from loopkernel.data.records import LogRecord
from loopkernel.later_typing import override

from loopkernel_adapters.blocking_ports import BlockingRuns, BlockingStore
from loopkernel_adapters.ports import RunEntry, RunPage, Runs, StoreError

T = TypeVar("T")


class AwaitedRuns(BlockingRuns):
    """The runs that `opened` gives. They are read and not written: that is for the workers that serve them."""

    def __init__(self, opened: Callable[[], Runs]) -> None:
        self._opened = opened

    @override
    def open(self, run: str) -> BlockingStore:
        raise StoreError("a run of a database is served by its workers; `loopkernel send` says something to it")

    @override
    def read(self, run: str) -> tuple[LogRecord, ...]:
        return self._asked(lambda runs: runs.read(run))

    @override
    def doubt(self, run: str) -> str | None:
        return self._asked(lambda runs: runs.doubt(run))

    @override
    def entries(self) -> tuple[RunEntry, ...]:
        return self._asked(lambda runs: runs.entries())

    @override
    def latest(self, most: int | None) -> RunPage:
        return self._asked(lambda runs: runs.latest(most))

    @override
    def close(self) -> None:
        """There is nothing to let go of."""

    def _asked(self, question: Callable[[Runs], Awaitable[T]]) -> T:
        async def answered() -> T:
            runs = self._opened()
            try:
                return await question(runs)
            finally:
                await runs.close()

        return asyncio.run(answered())

"""Blocking stores that return at once, as asynchronous ones: called where they are, in the thread of the event loop."""

from collections.abc import Sequence

from loopkernel.data.states import State
from loopkernel.later_typing import override
from loopkernel.replaying import LogRecord

from loopkernel_adapters.blocking_ports import BlockingRuns, BlockingStore
from loopkernel_adapters.ports import Restored, RunEntry, RunPage, Runs, Sealing, Store


class InPlaceStore(Store):
    """Gives way to nothing: whoever knows `blocking` may call that instead, and need not even await."""

    def __init__(self, blocking: BlockingStore) -> None:
        self.blocking = blocking

    @override
    async def append(self, records: Sequence[LogRecord], durable: bool, taken: Sequence[int] = ()) -> None:
        self.blocking.append(records, durable)

    @override
    async def load(self) -> tuple[LogRecord, ...]:
        return self.blocking.load()

    @override
    async def restore(self) -> Restored:
        return self.blocking.restore()

    def vouch(self) -> None:
        """As the store that it stands for."""
        if isinstance(self.blocking, Sealing):
            self.blocking.vouch()

    @override
    async def save_snapshot(self, state: State) -> None:
        self.blocking.save_snapshot(state)

    @override
    async def close(self) -> None:
        self.blocking.close()


class InPlaceRuns(Runs):
    """Opens stores that are called in place."""

    def __init__(self, blocking: BlockingRuns) -> None:
        self._blocking = blocking

    @override
    async def open(self, run: str) -> InPlaceStore:
        return InPlaceStore(self._blocking.open(run))

    @override
    async def read(self, run: str) -> tuple[LogRecord, ...]:
        return self._blocking.read(run)

    @override
    async def doubt(self, run: str) -> str | None:
        return self._blocking.doubt(run)

    @override
    async def entries(self) -> tuple[RunEntry, ...]:
        return self._blocking.entries()

    @override
    async def latest(self, most: int | None) -> RunPage:
        return self._blocking.latest(most)

    @override
    async def close(self) -> None:
        self._blocking.close()

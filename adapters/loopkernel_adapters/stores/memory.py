"""A log in memory, for tests and for sessions that need not survive."""

from collections.abc import Iterable, Sequence

from loopkernel.data.states import State
from loopkernel.replay import LogRecord
from typing_extensions import override

from loopkernel_adapters.ports import Restored, Store, StoreError


class MemoryStore(Store):
    """Keeps the records in a list. Closed, it can still be read, but not written."""

    def __init__(self, records: Iterable[LogRecord] = ()) -> None:
        self._records = list(records)
        self._closed = False

    @override
    def append(self, records: Sequence[LogRecord], durable: bool) -> None:
        if self._closed:
            raise StoreError("this log is closed; nothing can be added to it")
        self._records.extend(records)

    @override
    def load(self) -> tuple[LogRecord, ...]:
        return tuple(self._records)

    @override
    def restore(self) -> Restored:
        return Restored(records=self.load())

    @override
    def save_snapshot(self, state: State) -> None:
        """Keeps none: what ends with the process need not be found again."""

    @override
    def close(self) -> None:
        self._closed = True

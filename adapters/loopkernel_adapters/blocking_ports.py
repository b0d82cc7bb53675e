"""Stores that block: the same ports as `Store` and `Runs`, for who has nothing to await. Nothing here acts.

A driver, an agent and `check_store` take either kind. A blocking store runs in a thread, so that a disk which is slow
stops nobody; one that says that it returns at once is called in place.
"""

from collections.abc import Hashable, Sequence
from typing import Protocol, runtime_checkable

from loopkernel.data.states import State
from loopkernel.replaying import LogRecord

from loopkernel_adapters.ports import Restored, RunEntry, RunPage, latest_of


class BlockingStore(Protocol):
    """A `Store` whose methods block until they are done. It is used by one thread after the other.

    `returns_at_once`: it waits for nothing (as one in memory), so a thread would cost more than the call.
    """

    returns_at_once: bool = False

    def append(self, records: Sequence[LogRecord], durable: bool) -> None:
        """Add the records at the end, in order; see `Store.append`."""
        ...

    def load(self) -> tuple[LogRecord, ...]:
        """All records, in order. Raises StoreCorrupt when one of them cannot be trusted."""
        ...

    def restore(self) -> Restored:
        """What a driver goes on from; see `Store.restore`."""
        ...

    def save_snapshot(self, state: State) -> None:
        """Keep a shorter way to the state that all records lead to; see `Store.save_snapshot`."""
        ...

    def close(self) -> None:
        """Make what was appended durable and let go of everything. Closing twice is harmless."""
        ...


@runtime_checkable
class SharesSyncs(Protocol):
    """A blocking store whose sync covers others too: then appends that wait together, each to its own log, cost one.

    Each of them is made without `durable`, and one of the stores syncs for all.
    """

    @property
    def sync_key(self) -> Hashable:
        """Equal for all stores that one sync covers."""
        ...

    def sync(self) -> None:
        """Make durable what was appended to any store of this key, also where this one may not write any more."""
        ...

    def sync_ended(self, done: bool) -> None:
        """A sync that covers this store is done; or it failed. Then this store and all others of its key refuse every
        append and every sync until all of them are closed: nobody knows what a second attempt would really write, and
        what they had written without a sync may be lost.
        """
        ...


class BlockingRuns(Protocol):
    """`Runs` whose methods block until they are done; they may be called by several threads at once.

    `returns_at_once`: they wait for nothing, nor do the stores that they open.
    """

    returns_at_once: bool = False

    def open(self, run: str) -> BlockingStore:
        """The log of that session for its one writer; see `Runs.open`."""
        ...

    def read(self, run: str) -> tuple[LogRecord, ...]:
        """All complete records, without a lock, also while they are being written. Raises NoSuchRun, else as `open`."""
        ...

    def doubt(self, run: str) -> str | None:
        """Why the place does not vouch for that log (see `Restored.doubt`), without a lock. Raises as `read` does."""
        return None

    def entries(self) -> tuple[RunEntry, ...]:
        """The runs that are there, the latest last; those that cannot be read are left to `read` to complain about."""
        ...

    def latest(self, most: int | None) -> RunPage:
        """At most so many of the runs that are nobody's sub-agents, all of them for None."""
        return latest_of(self.entries(), most)

    def close(self) -> None:
        """Let go of everything; the logs that it has opened are closed by who uses them. Closing twice is harmless."""
        ...

"""The log as a driver writes it: increments in groups, all else at once, and a snapshot now and then.

A snapshot is only a shorter way to a state that the log leads to anyway, so a failure to keep one stops nothing.
"""

import asyncio
from collections.abc import Sequence

from loopkernel.data.deltas import Delta
from loopkernel.data.effects import Effect
from loopkernel.data.model_deltas import FromModel, ModelInput, ModelReasoning, ModelText
from loopkernel.data.states import State
from loopkernel.data.thread_deltas import RULES_VERSION
from loopkernel.data.tool_deltas import FromTool, ToolProgress
from loopkernel.replaying import START, LogRecord, replay

from loopkernel_adapters.driver.failures import complain
from loopkernel_adapters.ports import Restored, Sealing, Store, StoreFailed, demand_same_rules
from loopkernel_adapters.secrets import Secrets
from loopkernel_adapters.stores.in_place import InPlaceStore
from loopkernel_adapters.stores.threaded import ThreadedStore

# --- what must be durable at once, and when a snapshot is kept -------------------------------------------


INCREMENTS = frozenset({ModelText, ModelReasoning, ModelInput, ToolProgress})
RECORDS_PER_GROUP = 64  # so many increments are handed to the store at the latest
SOONEST = 5_000  # records: to fold so many costs a quarter of a second
WORTH_CLOSING = 500  # records: to fold so many costs as much as a person notices
SHARE = 4  # a snapshot of a long thread is dear, so the log has to grow by a quarter between two of them


def must_last(delta: Delta, effects: tuple[Effect, ...], at_rest: bool) -> bool:
    """Whether the record is made durable at once, even if no command follows from it.

    Not so an increment, nor a report from which nothing follows yet: nobody has been told anything that the
    loss of it would take back. But at rest, nothing may follow for a long time.
    """
    if type(delta) in INCREMENTS:
        return False
    return at_rest or bool(effects) or not isinstance(delta, FromModel | FromTool)


def snapshot_due(records_since: int, closing: bool, records_before: int = 0) -> bool:
    """Whether to keep a snapshot now, so many records after the last one (or the beginning).

    `records_before` is how many records the last one covers. Writing a snapshot costs as much as the thread is long, so
    they become rarer as the log grows: then all of them together cost no more than a fixed part of each record.
    """
    if closing:
        return records_since > max(WORTH_CLOSING, records_before // (SHARE * 10))
    return records_since >= max(SOONEST, records_before // SHARE)


# --- the log as a driver writes it -----------------------------------------------------------------------

UNWRITABLE = (
    "the log cannot be written ({error}), so nothing more is started. What is recorded is safe: "
    "look after the disk, then open the log again"
)
UNRENEWED = (
    "the snapshot of version {version} of the rules cannot be replaced ({error}), and records under version {current} "
    "cannot follow it. Nothing was changed: look after the disk, then open the log again"
)


class LogWriter:
    """Writes the log of one driver, which leads to `state`: `folded` of its records lie behind the latest snapshot.

    A store that returns at once is written in place, any other is awaited. While it is, nothing is added.
    """

    def __init__(self, store: Store, secrets: Secrets, state: State, folded: int) -> None:
        self._store = store
        self._in_place = store.blocking if isinstance(store, InPlaceStore) else None
        self.in_place = self._in_place is not None  # whether it returns at once: `write_in_place` is for it
        self._secrets = secrets
        self._unstored: list[LogRecord] = []
        self._taken: list[int] = []  # out of the store's inbox, by the records that are not stored
        self.since_snapshot = folded  # so many records lie behind the latest one
        # The records that the latest snapshot covers, but for those that changed nothing.
        self._before_snapshot = max(state.stamp.version - folded, 0)

    @property
    def has_inbox(self) -> bool:
        """Whether the store may have one: a blocking one has none."""
        return not isinstance(self._store, InPlaceStore | ThreadedStore)

    def add(self, records: Sequence[LogRecord], durable: bool, taken: Sequence[int] = ()) -> bool:
        """Keep the records; whether they are to be written now, as they are to last, or make a group full."""
        self._unstored += records
        if taken:
            self._taken += taken
        return bool(self._unstored) and (durable or len(self._unstored) >= RECORDS_PER_GROUP)

    def write_in_place(self, durable: bool) -> None:
        """Hand over what was added. Raises StoreFailed."""
        assert self._in_place is not None
        try:
            self._in_place.append(tuple(self._unstored), durable)
        except Exception as error:
            raise unwritable(error) from error
        self.since_snapshot += len(self._unstored)
        self._unstored.clear()

    async def write(self, durable: bool) -> None:
        """Hand over what was added. Raises StoreFailed."""
        try:
            if self._taken:
                await self._store.append(tuple(self._unstored), durable, tuple(self._taken))
            else:
                await self._store.append(tuple(self._unstored), durable)
        except Exception as error:
            raise unwritable(error) from error
        self.since_snapshot += len(self._unstored)
        self._unstored.clear()
        self._taken.clear()

    def look_back_in_place(self, state: State) -> None:
        """As `look_back`, for a store that returns at once."""
        assert self._in_place is not None
        if snapshot_due(self.since_snapshot, False, self._before_snapshot):
            self._begin_snapshot(state)
            try:
                self._in_place.save_snapshot(state)
            except Exception as error:
                self._complain_of_snapshot(error)

    async def look_back(self, state: State, closing: bool = False) -> None:
        """Keep a snapshot of the state that all records lead to, which the store has, if it is time for one."""
        if snapshot_due(self.since_snapshot, closing, self._before_snapshot):
            self._begin_snapshot(state)
            try:
                await self._store.save_snapshot(state)
            except Exception as error:
                self._complain_of_snapshot(error)

    def _begin_snapshot(self, state: State) -> None:
        self.since_snapshot = 0  # also where it fails: the next attempt comes as late as if it had not
        self._before_snapshot = state.stamp.version

    def _complain_of_snapshot(self, error: Exception) -> None:
        complain("no snapshot could be kept; the log is whole, and takes longer to open", error, self._secrets)

    async def finish(self, state: State) -> None:
        """Write what is left, and the last snapshot. Raises StoreFailed."""
        if self.add((), durable=True):
            await self.write(durable=True)
        await self.look_back(state, closing=True)

    async def close(self) -> None:
        """Let go of the store."""
        await self._store.close()


def unwritable(error: Exception) -> StoreFailed:
    """What is raised where the store has raised that."""
    return StoreFailed(UNWRITABLE.format(error=_in_words(error)))


def _in_words(error: Exception) -> str:
    """Without the number that Python puts before what the system says."""
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)


# --- what a driver goes on from --------------------------------------------------------------------------

FOLDED_PER_SLICE = 64  # records: to fold so many takes some milliseconds; then others get their turn


async def taken_up_from(store: Store) -> tuple[Restored, State]:
    """What the store has, and the state that it leads to. Raises what `restore` raises, RulesDiffer and StoreFailed."""
    restored = await store.restore()
    demand_same_rules(restored)
    if isinstance(store, Sealing):
        store.vouch()  # what the log allows itself is not gone by from here on
    await renew_snapshot(store, restored)
    state: State = START if restored.state is None else restored.state
    records = restored.records
    for begin in range(0, len(records), FOLDED_PER_SLICE):
        if begin:
            await asyncio.sleep(0)
        state = replay(records[begin : begin + FOLDED_PER_SLICE], state)
    return restored, state


async def renew_snapshot(store: Store, restored: Restored) -> None:
    """Replace the snapshot of other rules that a log goes on from, before any record of these follows it.

    Such records behind such a snapshot could be folded by nobody. Raises StoreFailed.
    """
    if restored.state is None or restored.rules_version == RULES_VERSION:
        return
    try:
        await store.save_snapshot(restored.state)
    except Exception as error:
        words = UNRENEWED.format(version=restored.rules_version, error=_in_words(error), current=RULES_VERSION)
        raise StoreFailed(words) from error

"""The log as a driver writes it: increments in groups, all else at once, and a snapshot now and then.

A snapshot is only a shorter way to a state that the log leads to anyway, so a failure to keep one stops nothing.
"""

from collections.abc import Sequence

from loopkernel.data.deltas import Delta
from loopkernel.data.effects import Effect
from loopkernel.data.model_deltas import FromModel, ModelInput, ModelReasoning, ModelText
from loopkernel.data.states import State
from loopkernel.data.thread_deltas import RULES_VERSION
from loopkernel.data.tool_deltas import FromTool, ToolProgress
from loopkernel.replaying import LogRecord

from loopkernel_adapters.driver.failures import complain
from loopkernel_adapters.ports import Restored, Store, StoreFailed
from loopkernel_adapters.secrets import Secrets

# --- what must be durable at once, and when a snapshot is kept -------------------------------------------


INCREMENTS = frozenset({ModelText, ModelReasoning, ModelInput, ToolProgress})
RECORDS_PER_GROUP = 64  # so many increments are handed to the store at the latest
EVERY = 5_000  # records: to fold so many costs a quarter of a second
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
    return records_since >= max(EVERY, records_before // SHARE)


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
    """Writes the log of one driver, which leads to `state`: `folded` of its records lie behind the latest snapshot."""

    def __init__(self, store: Store, secrets: Secrets, state: State, folded: int) -> None:
        self._store = store
        self._secrets = secrets
        self._unstored: list[LogRecord] = []
        self._since_snapshot = folded
        # The records that the latest snapshot covers, but for those that changed nothing.
        self._before_snapshot = max(state.stamp.version - folded, 0)

    def add(self, records: Sequence[LogRecord], durable: bool) -> bool:
        """Hand the records to the store, at the latest when a group of them is full; whether it has them now.

        Raises StoreFailed.
        """
        unstored = self._unstored
        unstored += records
        if not unstored or not (durable or len(unstored) >= RECORDS_PER_GROUP):
            return False
        try:
            self._store.append(tuple(unstored), durable)
        except Exception as error:
            raise StoreFailed(UNWRITABLE.format(error=_in_words(error))) from error
        self._since_snapshot += len(unstored)
        unstored.clear()
        return True

    def look_back(self, state: State, closing: bool = False) -> None:
        """Keep a snapshot of the state that all records lead to, which the store has, if it is time for one."""
        if not snapshot_due(self._since_snapshot, closing, self._before_snapshot):
            return
        self._since_snapshot = 0  # also where it fails: the next attempt comes as late as if it had not
        self._before_snapshot = state.stamp.version
        try:
            self._store.save_snapshot(state)
        except Exception as error:
            what = "no snapshot could be kept; the log is whole, and takes longer to open"
            complain(what, error, self._secrets)

    def close(self) -> None:
        """Let go of the store."""
        self._store.close()


def _in_words(error: Exception) -> str:
    """Without the number that Python puts before what the system says."""
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)


def renew_snapshot(store: Store, restored: Restored) -> None:
    """Replace the snapshot of other rules that a log goes on from, before any record of these follows it.

    Such records behind such a snapshot could be folded by nobody. Raises StoreFailed.
    """
    if restored.state is None or restored.rules_version == RULES_VERSION:
        return
    try:
        store.save_snapshot(restored.state)
    except Exception as error:
        words = UNRENEWED.format(version=restored.rules_version, error=_in_words(error), current=RULES_VERSION)
        raise StoreFailed(words) from error

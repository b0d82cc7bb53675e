"""Whether a log tells the run: it is read back from the disk, folded anew, and compared with what happened."""

from collections.abc import Sequence

from attrs import frozen
from loopkernel import judging
from loopkernel.codec import effects_to_text, record_to_text, state_to_text
from loopkernel.data.effects import Effect
from loopkernel.data.events import Event
from loopkernel.data.states import State
from loopkernel.later_typing import override
from loopkernel.laws import Report
from loopkernel.replaying import LogRecord, StepRecord, fold

from loopkernel_adapters.blocking_ports import BlockingStore
from loopkernel_adapters.cli.words import counted
from loopkernel_adapters.driver.asyncio_driver import is_event
from loopkernel_adapters.ports import Restored, Sealing


class WitnessStore(BlockingStore):
    """A store that also keeps, in memory, what it is given: the deltas as they came, before any codec.

    `records` begins with what the log held `before`.
    """

    def __init__(self, inner: BlockingStore, before: Sequence[LogRecord] = ()) -> None:
        self._inner = inner
        self.returns_at_once = inner.returns_at_once
        self.before = len(before)
        self.records = list(before)

    @override
    def append(self, records: Sequence[LogRecord], durable: bool) -> None:
        self._inner.append(records, durable)
        self.records.extend(records)

    @override
    def load(self) -> tuple[LogRecord, ...]:
        return self._inner.load()

    @override
    def restore(self) -> Restored:
        return self._inner.restore()

    def vouch(self) -> None:
        """As the store that it stands for."""
        if isinstance(self._inner, Sealing):
            self._inner.vouch()

    @override
    def save_snapshot(self, state: State) -> None:
        self._inner.save_snapshot(state)

    @override
    def close(self) -> None:
        self._inner.close()


@frozen(kw_only=True)
class Witnessed:
    """What a run was, told by others than its log: the deltas as given, the events as delivered, the last state.

    The first `before` deltas are from the log: nobody here has seen their events.
    """

    before: int = 0
    records: tuple[LogRecord, ...]
    events: tuple[Event, ...]
    state: State


def first_difference(witnessed: Witnessed, replayed: Sequence[StepRecord]) -> str | None:
    """Where the replayed log and the run part, in the bytes of the codec; None: nowhere."""
    lived = fold(witnessed.records)
    for number, (one, other) in enumerate(zip(lived, replayed, strict=False), start=1):
        if _record_text(one) != _record_text(other):
            return f"delta {number} was logged as another one"
        if effects_to_text(one.effects) != effects_to_text(other.effects):
            return f"delta {number} has other effects when it is replayed"
    if len(lived) != len(replayed):
        return f"the run had {counted(len(lived), 'delta')}, the log has {len(replayed)}"
    last = replayed[-1].after if replayed else None
    if last is None or state_to_text(last) != state_to_text(witnessed.state):
        return "the log leads to another state"
    told = tuple(effect for step in replayed[witnessed.before :] for effect in step.effects if is_event(effect))
    if effects_to_text(told) != effects_to_text(witnessed.events):
        return "the events that were shown are not those of the log"
    return None


def _record_text(step: StepRecord) -> str:
    return record_to_text(LogRecord(step.context.delta, step.context.now_ms))


def effects_of(steps: Sequence[StepRecord]) -> tuple[Effect, ...]:
    """All effects of a run, in order."""
    return tuple(effect for step in steps for effect in step.effects)


def judge(steps: Sequence[StepRecord]) -> tuple[Report, Report]:
    """The reports of the laws over the run, and of those over pairs of runs."""
    return judging.check_trace(steps), judging.check_pairs(steps)

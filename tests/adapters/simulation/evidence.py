"""What is known of a session from its log alone, and what the driver did about it: the evidence against it.

Each record that the store takes is folded at once. So every command can be held against what the ports are asked for:
none before its record, none twice, none never; every abort heeded, every outcome recorded once, every timer let go of.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from attrs import Factory, define
from loopkernel.data import effects as commands
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import Command
from loopkernel.data.events import ClockJumped, Event, LineageForked, Refused, ReplyGrew, ToolProgressed
from loopkernel.data.hook_calls import HookContext
from loopkernel.data.ids import OperationKind
from loopkernel.data.model_deltas import ModelCompleted, ModelFailed
from loopkernel.data.outside_deltas import (
    ChildEnded,
    CorrectionAnswered,
    HandoffDone,
    HandoffFailed,
    HookAnswered,
    HookRetry,
    SummaryFailed,
    SummaryReady,
    TimerFired,
)
from loopkernel.data.states import Initial, State
from loopkernel.data.thread_deltas import Resumed
from loopkernel.data.tool_deltas import ToolFailed, ToolStopped, ToolSucceeded
from loopkernel.data.user_deltas import AnswerAfterCrash, CrashAnswerKind
from loopkernel.replaying import LogRecord
from loopkernel.testing.run import Run
from loopkernel_adapters.driver.asyncio_driver import is_event

Key = tuple[OperationKind, int]
BEGUN = {
    commands.CallModel: OperationKind.MODEL,
    commands.StartTool: OperationKind.RUN,
    commands.StartChild: OperationKind.RUN,
    commands.AskHook: OperationKind.HOOK,
    commands.CheckCorrection: OperationKind.CORRECTION,
    commands.Summarise: OperationKind.SUMMARY,
    commands.HandOff: OperationKind.HANDOFF,
}
ENDS: dict[type[Delta], OperationKind] = {
    ModelCompleted: OperationKind.MODEL,
    ModelFailed: OperationKind.MODEL,
    ToolSucceeded: OperationKind.RUN,
    ToolFailed: OperationKind.RUN,
    ToolStopped: OperationKind.RUN,
    ChildEnded: OperationKind.RUN,
    HookAnswered: OperationKind.HOOK,
    CorrectionAnswered: OperationKind.CORRECTION,
    SummaryReady: OperationKind.SUMMARY,
    SummaryFailed: OperationKind.SUMMARY,
    HandoffDone: OperationKind.HANDOFF,
    HandoffFailed: OperationKind.HANDOFF,
}
# Events that follow from no record, or from one that need not be durable before they are shown.
PASSING_EVENTS = (ClockJumped, ReplyGrew, ToolProgressed, Refused)
TOLERATED_MS = 2  # by rounding
FOREIGN = 1_000_000  # added to the number of an operation by a provider that gets it wrong


@define(eq=False)
class PortCall:
    """A port that was asked to carry out a command, in this life of the process."""

    command: Command
    cancelled: bool = False
    ended: bool = False
    owes: bool = False  # it has an outcome that the log must hold


@define(eq=False, repr=False, kw_only=True)
class Evidence(Run):
    """One session: its disk, its steps, and what became of the commands of this life. `accuse` takes what is wrong.

    `passed_ms` is the time that has passed, whatever any clock says; a timer fires no later than `late_ms` after its. A
    record is written at most `disk_ms` after it was begun to be, which may be behind another one.
    """

    name: str
    accuse: Callable[[str], None]
    passed_ms: Callable[[], int]
    late_ms: int
    disk_ms: int = 0
    durable: list[LogRecord] = Factory(list)
    unsynced: list[LogRecord] = Factory(list)
    tells: int = 0  # events that follow from the records of this life
    born: int = 0  # how many steps there were when this life began
    emitted: dict[Key, tuple[int, Command]] = Factory(dict)  # which no port was asked for yet
    asked: dict[Key, PortCall] = Factory(dict)
    aborted: set[Key] = Factory(set)
    left: set[Key] = Factory(set)  # with the lineage that asked for them: nobody hears of their ends
    stopped: set[Key] = Factory(set)  # aborted runs that had ended when all was looked at
    timers: set[int] = Factory(set)
    due_ms: dict[int, int] = Factory(dict)  # of the timers, by the time that passes
    settled: Counter[Key] = Factory(Counter)
    starts: Counter[str] = Factory(Counter)  # of dangerous calls, over all lives
    doubt: str | None = None  # why its store does not vouch for it
    doubted: bool = False  # when this life began

    def __attrs_pre_init__(self) -> None:
        super().__init__()

    # --- the disk -----------------------------------------------------------------------------------------

    @property
    def records(self) -> tuple[LogRecord, ...]:
        """All that the store holds."""
        return (*self.durable, *self.unsynced)

    def write(self, records: Sequence[LogRecord], durable: bool) -> None:
        """The store takes the records."""
        for record in records:
            self.unsynced.append(record)
            self._fold(record)
        if durable:
            self.durable += self.unsynced
            self.unsynced.clear()

    def lose(self, keep: int) -> int:
        """The machine dies: of what was not durable, only the first `keep` records survive. How many were lost."""
        lost = len(self.unsynced) - len(self.unsynced[:keep])
        self.durable += self.unsynced[:keep]
        self.unsynced.clear()
        del self.steps[len(self.durable) :]
        self.state = self.steps[-1].after if self.steps else Initial()
        return lost

    def begin_life(self) -> None:
        """A new process goes on from here: nothing is under way."""
        self.born = len(self.steps)
        self.tells = 0
        self.doubted = self.doubt is not None
        for kept in (
            self.emitted,
            self.asked,
            self.aborted,
            self.left,
            self.stopped,
            self.timers,
            self.due_ms,
            self.settled,
        ):
            kept.clear()

    def _fold(self, record: LogRecord) -> None:
        effects = self.take(record.delta, record.now_ms).effects
        self._settle(record.delta)
        if isinstance(record.delta, Resumed) and self.doubted and not record.delta.doubted:
            self.accuse(f"{self.name}: a log was believed that no store vouches for")
        for effect in effects:
            if isinstance(effect, LineageForked):
                self.emitted.clear()
                self.timers.clear()
                self.aborted |= self.asked.keys()
                self.left |= self.asked.keys()
            elif isinstance(effect, Command):
                self._note(effect)
            if is_event(effect) and not isinstance(effect, PASSING_EVENTS):
                self.tells += 1

    def _settle(self, delta: Delta) -> None:
        if isinstance(delta, TimerFired):
            self.timers.discard(delta.operation)
            self._look_at_time(delta.operation)
        kind = ENDS.get(type(delta))
        if kind is None or (isinstance(delta, ToolSucceeded) and delta.output.background):
            return
        key = (kind, int(delta.operation))  # type: ignore[union-attr]  # the table has none without
        self.settled[key] += 1
        if self.settled[key] > 1 and key[1] < FOREIGN:
            self.accuse(f"{self.named(key)}: its end is {self.settled[key]} times in the log")

    def _look_at_time(self, timer: int) -> None:
        """A timer fires when its delay has passed: not by a date, which may be set."""
        due_ms, now_ms = self.due_ms.pop(timer, None), self.passed_ms()
        if due_ms is not None and not (
            due_ms - 1 - self.disk_ms <= now_ms <= due_ms + self.late_ms + 3 * self.disk_ms + TOLERATED_MS
        ):
            self.accuse(f"{self.name}: timer {timer} fires after {now_ms} ms, and was due after {due_ms} ms")

    def _note(self, command: Command) -> None:
        kind = BEGUN.get(type(command))
        if kind is not None:
            self.emitted[kind, command.operation] = (len(self.steps) - 1, command)  # type: ignore[union-attr]  # as above
        elif isinstance(command, commands.StartTimer):
            self.timers.add(command.operation)
            delay_ms = max(command.deadline_ms - self.state.stamp.now_ms, 0)
            self.due_ms[command.operation] = self.passed_ms() + delay_ms
        elif isinstance(command, commands.CancelTimer):
            self.timers.discard(command.operation)
        elif isinstance(command, commands.AbortModel):
            self._abort((OperationKind.MODEL, command.operation))
        elif isinstance(command, commands.AbortTool):
            self._abort((OperationKind.RUN, command.operation))
        elif isinstance(command, commands.AbortOther):
            self._abort((command.kind, command.operation))

    def _abort(self, key: Key) -> None:
        self.aborted.add(key)
        self.emitted.pop(key, None)  # what was not begun by now never is

    # --- the ports ----------------------------------------------------------------------------------------

    def claim(self, kind: OperationKind, number: int) -> PortCall:
        """A port is asked for an operation: is that in the log, durably, and for the first time?"""
        key = (kind, number)
        step, command = self.emitted.pop(key, (None, None))
        if command is None or step is None:
            why = "a second time" if key in self.asked else "without its command in the log"
            self.accuse(f"{self.named(key)} was begun {why}")
            raise AssertionError(f"{self.named(key)} was begun {why}")
        if step >= len(self.durable):
            self.accuse(f"{self.named(key)} was begun before the record of its command was durable")
        call = self.asked[key] = PortCall(command)
        return call

    def claim_hook(self, context: HookContext) -> PortCall:
        """A hook is asked: the first command with that question that no port was asked for."""
        for key, (_, command) in self.emitted.items():
            if isinstance(command, commands.AskHook) and _same_question(command.context, context):
                return self.claim(*key)
        self.accuse(f"{self.name}: the hook {context.name} was asked without a command in the log")
        raise AssertionError("a hook was asked without a command")

    def named(self, key: Key) -> str:
        """The operation, for a sentence."""
        return f"{self.name}: {key[0].name} {key[1]}"

    # --- the verdict --------------------------------------------------------------------------------------

    def look_around(self, pending_timers: int) -> None:
        """Nothing is ready at this instant: is everything begun, every abort heeded, every timer let go of?"""
        for key in self.emitted:
            self.accuse(f"{self.named(key)} is in the log, and was never begun")
        for key, call in self.asked.items():
            if key in self.aborted and not call.cancelled and not call.ended:
                self.accuse(f"{self.named(key)} was aborted, and its port was not told")
            if key in self.aborted - self.left and key[0] is OperationKind.RUN and call.ended:
                self.stopped.add(key)
        if pending_timers != len(self.timers):
            self.accuse(f"{self.name}: {pending_timers} timers are set, and the log has {len(self.timers)}")

    def look_back(self, state: State, events: Sequence[Event] | None) -> None:
        """The driver is closed: is everything in the log, and all as the log says?"""
        for key, call in self.asked.items():
            if call.owes and key not in self.aborted and self.settled[key] == 0:
                self.accuse(f"{self.named(key)} has reported its end, and the log does not hold it")
        for key in self.stopped:
            if self.settled[key] == 0:
                self.accuse(f"{self.named(key)} has stopped, and the log does not say so")
        if state != self.state:
            self.accuse(f"{self.name}: the driver's state is not what its log leads to")
        shown = [event for event in events or () if not isinstance(event, ClockJumped)]  # some are in no log
        if events is not None and shown != [one for one in self.events() if not isinstance(one, ClockJumped)]:
            self.accuse(f"{self.name}: the events that were shown are not those that follow from the log")

    def events(self) -> Iterator[Event]:
        """What this life has to show."""
        return (effect for step in self.steps[self.born :] for effect in step.effects if is_event(effect))

    def look_at_starts(self) -> None:
        """Has a dangerous call run again without a person's word, or a hook's?"""
        again = Counter[str]()
        by_hooks = 0
        for delta in (record.delta for record in self.durable):
            if isinstance(delta, AnswerAfterCrash) and delta.kind is CrashAnswerKind.RERUN:
                again[str(delta.call)] += 1
            elif isinstance(delta, HookAnswered) and isinstance(delta.answer, HookRetry):
                by_hooks += 1
        for call, started in self.starts.items():
            if started > 1 + again[call] + by_hooks:
                self.accuse(f"{self.name}: the dangerous call {call} was started {started} times")


def _same_question(one: HookContext, other: HookContext) -> bool:
    return (one.point, one.name, one.call) == (other.point, other.name, other.call)

"""A drawn world around a driver: what its scenario still has to give, the log on its disk, what is seen of the driver.

What is wrong is told as a rule, `driver N` (a duty of `specs/ports.md`) or `law ID` (`specs/laws.md`), and in words.
"""

import heapq
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import get_args

from loopkernel.data import effects as commands
from loopkernel.data.effects import CallModel, CheckCall, Request, StartTool
from loopkernel.data.events import ApprovalAsked, ClockJumped, Event
from loopkernel.data.ids import ModelOperation
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import ModelCompleted, ModelFailed
from loopkernel.data.outside_deltas import TimerFired
from loopkernel.data.states import Cancelled, Confirming, Done, Idle, State
from loopkernel.data.thread_deltas import Acquired, Created, Resumed
from loopkernel.data.tool_deltas import ToolChecked, ToolFailed, ToolStopped, ToolSucceeded
from loopkernel.data.tools import Tool, Verdict
from loopkernel.judging import check_pairs, check_trace
from loopkernel.later_typing import override
from loopkernel.replaying import LogRecord
from loopkernel.testing.run import Run
from loopkernel.testing.scenarios.data import world
from loopkernel.testing.scenarios.data.actions import At, UserAction, When
from loopkernel.testing.scenarios.data.scenario import Scenario
from loopkernel.testing.scenarios.player.call_names import CallNames
from loopkernel.testing.scenarios.player.effective_policy import effective_policy
from loopkernel.testing.scenarios.player.reply_script import DelayedDelta, reply_of
from loopkernel.testing.scenarios.player.verdicts import adapter_verdict

from loopkernel_adapters.stores.memory import MemoryStore

AT_REST = (Idle, Cancelled, Done, Confirming)
EVENTS = get_args(Event)
PLAIN_REPLY = world.ModelEntry(text="done")

Key = tuple[str, int]  # an operation: model, check or tool, and its number


class World:
    """One scenario being played. `now_ms` is the time of the world; whoever plays it has it pass.

    `heeds_aborts`: the driver can cancel what is under way, which one without an event loop cannot.
    """

    def __init__(self, scenario: Scenario, heeds_aborts: bool = True) -> None:
        self.scenario = scenario
        self.heeds_aborts = heeds_aborts
        self.now_ms = 0
        self.faults: list[tuple[str, str]] = []  # the rule that is broken, and what was seen
        self.names = CallNames()
        self.log = DrawnStore(self)
        self.run = Run()
        self.durable = 0  # records
        self.dead = False
        self.closing = False  # the driver was told to let go of everything
        self.shown: list[Event] = []  # in this life
        self.born = 0  # records there were when this life began
        self._replies = deque(scenario.model)
        self._runs: Counter[str] = Counter()
        self._emitted: dict[Key, tuple[int, object]] = {}  # of this life: the record behind each command
        self._begun: set[Key] = set()
        self._before: set[Key] = set()  # commands of earlier lives
        self._aborted: dict[Key, int] = {}  # and when (ms)
        self._ended: dict[Key, int] = {}  # runs that the port is done with, and when (ms)
        self._reported: Counter[Key] = Counter()
        self.timers: dict[int, int] = {}  # that are set, and their deadlines
        self._happenings: list[tuple[int, int, UserAction]] = []
        self._reactions: dict[str, list[tuple[int, UserAction]]] = {}  # to what is seen, and how long after it (ms)
        self.tell: Callable[[], None] = lambda: None  # somebody has something to say
        for timed in scenario.user:
            match timed.timing:
                case At(ms):
                    self._happens(ms, timed.action)
                case When(pattern=pattern, after_ms=after_ms):
                    self._reactions.setdefault(pattern, []).append((after_ms, timed.action))

    # --- the scenario ---

    def created(self) -> Created:
        """What the log begins with."""
        return Created(session_id="fuzzed", policy=effective_policy(self.scenario.policy), tools=self.offered())

    def offered(self) -> tuple[Tool, ...]:
        """The tools of the scenario."""
        tools = self.scenario.tools.items()
        return tuple(
            Tool(name=name, profile=tool.profile, input_schema=Json.of(tool.input_schema)) for name, tool in tools
        )

    def reply(self, request: Request, operation: ModelOperation) -> Sequence[DelayedDelta]:
        """A request is made: what comes of it."""
        self.claim(("model", operation), request)
        entry = self._replies.popleft() if self._replies else self.scenario.model_rest or PLAIN_REPLY
        reply = reply_of(entry, operation, request.model)
        self.names.expect_calls(operation, reply.calls)
        if isinstance(entry.ending, world.ModelEndsEarly):
            return reply.reports[:-1]
        return reply.reports

    def verdict(self, command: CheckCall) -> Verdict:
        """A call is checked."""
        self.claim(("check", command.operation), command)
        return adapter_verdict(self.scenario.tools, command.tool, command.input)

    def behaviour(self, command: StartTool) -> world.Behaviour:
        """A tool is run: how that goes."""
        self.claim(("tool", command.operation), command)
        self._react_to(f"tool {self.names.name_of(command.call)} started")
        self._runs[command.tool] += 1
        return self.scenario.tools[command.tool].behaviour_of("", self._runs[command.tool])

    def _happens(self, at_ms: int, action: UserAction) -> None:
        heapq.heappush(self._happenings, (at_ms, len(self._happenings) + 1_000 * len(self.run.steps), action))

    def _react_to(self, seen: str) -> None:
        for after_ms, action in self._reactions.pop(seen, ()):
            self._happens(self.now_ms + after_ms, action)
            self.tell()

    @property
    def next_ms(self) -> int | None:
        """When the person, or the machine, does something next; None: never."""
        return self._happenings[0][0] if self._happenings else None

    def next_action(self) -> UserAction:
        """What that is. It is done with that."""
        return heapq.heappop(self._happenings)[2]

    # --- what is seen of the driver ---

    def accuse(self, rule: str, what: str) -> None:
        """The driver has broken a rule."""
        if (rule, what) not in self.faults:
            self.faults.append((rule, what))

    def see(self, event: Event) -> None:
        """The driver shows an event. Somebody looks after a call that asks."""
        if self.dead:
            return
        self.shown.append(event)
        if isinstance(event, ApprovalAsked):
            self._react_to(f"ask {self.names.name_of(event.call)}")

    def claim(self, key: Key, given: object) -> None:
        """A port is asked to begin an operation: does the log say so, and for the first time?"""
        if self.dead:
            raise OSError(5, "the process is dead")
        named = f"{key[0]} {key[1]}"
        record, command = self._emitted.get(key, (0, None))
        if key in self._begun:
            self.accuse("driver 5", f"{named} was begun twice")
        elif command is None and key in self._before:
            self.accuse("driver 5", f"{named} was begun once more after a restart, which the log does not ask for")
        elif command is None:
            self.accuse("driver 3", f"{named} was begun before what caused it was in the log")
        elif record >= self.durable:
            self.accuse("driver 3", f"{named} was begun before what caused it was durable")
        elif given != (command.request if isinstance(command, CallModel) else command):
            self.accuse("driver 5", f"{named} was begun with another input than its command says")
        if key in self._aborted:
            self.accuse("driver 16", f"{named} was begun after it was aborted")
        self._begun.add(key)

    def ended(self, key: Key, cancelled: bool) -> None:
        """A run has come to its end, or was cancelled by the driver."""
        if self.dead or self.closing:
            return
        self._ended[key] = self.now_ms
        if self.heeds_aborts and not cancelled and self._aborted.get(key, self.now_ms) < self.now_ms:
            self.accuse("driver 16", f"{key[0]} {key[1]} was aborted at {self._aborted[key]} ms, and ran on to its end")

    def wrote(self, record: LogRecord) -> None:
        """A record is in the log: what follows from it, and what it reports."""
        if record.now_ms > self.now_ms:
            self.accuse("driver 1", f"a record is stamped {record.now_ms} ms at {self.now_ms} ms")
        self._note_report(record)
        step = self.run.take(record.delta, record.now_ms)
        self.names.learn(step.effects)
        place = len(self.run.steps) - 1
        for effect in step.effects:
            match effect:
                case CallModel():
                    self._emitted["model", effect.operation] = place, effect
                case CheckCall():
                    self._emitted["check", effect.operation] = place, effect
                case StartTool():
                    self._emitted["tool", effect.operation] = place, effect
                case commands.AbortModel():
                    self._aborted["model", effect.operation] = self.now_ms
                case commands.AbortTool():
                    self._aborted["tool", effect.operation] = self.now_ms
                case commands.StartTimer():
                    self.timers[effect.operation] = effect.deadline_ms
                case commands.CancelTimer():
                    self.timers.pop(effect.operation, None)
                case _:
                    pass  # an event, or a command that no scenario of this kit leads to

    def _note_report(self, record: LogRecord) -> None:
        match record.delta:
            case ModelCompleted() | ModelFailed():
                self._reported["model", record.delta.operation] += 1
            case ToolChecked():
                self._reported["check", record.delta.operation] += 1
            case ToolSucceeded() | ToolFailed() | ToolStopped():
                self._reported["tool", record.delta.operation] += 1
            case TimerFired(operation):
                due_ms = self.timers.pop(operation, record.now_ms)
                if due_ms > record.now_ms:
                    self.accuse("driver 11", f"timer {operation} fired at {record.now_ms} ms, due at {due_ms} ms")
            case _:
                pass

    # --- lives ---

    def die(self) -> None:
        """The process is dead: what was not durable is lost, and what was under way with it."""
        kept = self.run.log[: self.durable]
        self.run = Run()
        for record in kept:
            self.run.take(record.delta, record.now_ms)
        self.log = DrawnStore(self, kept)
        self.dead = False
        self.shown.clear()
        self.born = len(kept)
        self._before |= self._emitted.keys()
        for gone in (self._emitted, self._aborted, self._ended, self.timers, self._begun, self._reported):
            gone.clear()

    def look_at_beginning(self) -> None:
        """The driver was opened: does the log begin, or go on, as it has to?"""
        first = tuple(type(record.delta) for record in self.run.log[self.born :])
        due = (Resumed,) if self.born else (Created, Acquired)
        if first[: len(due)] != due:
            told = " and ".join(kind.__name__ for kind in first[: len(due)]) or "nothing"
            self.accuse("driver 9", f"a log of {self.born} records goes on with {told}")

    def look_at_rest(self, state: State) -> None:
        """The driver says that nothing goes on by itself: is that so, and is all as the log says?"""
        if not isinstance(state, AT_REST):
            self.accuse("driver 7", f"it rests in {type(state).__name__}")
        for key in self._emitted:
            named, count = f"{key[0]} {key[1]}", self._reported[key]
            if key in self._aborted:
                if self._ended.get(key, self.now_ms) < self.now_ms and not count:
                    self.accuse("driver 17", f"{named} was aborted and has ended, and the log does not say so")
                continue
            if key not in self._begun:
                self.accuse("driver 5", f"{named} is in the log, and was never begun")
            elif count != 1:
                self.accuse("driver 5", f"{named} was reported {count} times")
        late = [timer for timer, due_ms in self.timers.items() if due_ms < self.now_ms]
        if late:
            self.accuse("driver 11", f"timer {late[0]} was due at {self.timers[late[0]]} ms, and has not fired")
        self.look_when_idle(state)

    def look_when_idle(self, state: State) -> None:
        """Nothing happens just now: is the driver's state that of its log, and was everything shown?"""
        if state != self.run.state:
            self.accuse("driver 1", "its state is not the one that its log leads to")
        told = [each for step in self.run.steps[self.born :] for each in step.effects if isinstance(each, EVENTS)]
        if [event for event in self.shown if not isinstance(event, ClockJumped)] != told:
            self.accuse("driver 2", f"{len(self.shown)} events were shown, and {len(told)} others follow from the log")

    def look_back(self) -> None:
        """All is over: is the log let go of, and does the run keep the laws?"""
        if not self.log.closed:
            self.accuse("driver 8", "the log is left open after close")
        for report in (check_trace(self.run.steps), check_pairs(self.run.steps)):
            for breach in report.breaches:
                self.accuse(f"law {breach.law}", f"at record {breach.step}: {breach.detail}")


class DrawnStore(MemoryStore):
    """The log of the world, as its driver has it."""

    def __init__(self, world: World, records: Sequence[LogRecord] = ()) -> None:
        super().__init__(records)
        self.closed = False
        self._world = world

    @override
    def append(self, records: Sequence[LogRecord], durable: bool) -> None:
        if self._world.dead:
            raise OSError(5, "the process is dead")
        super().append(records, durable)
        for record in records:
            self._world.wrote(record)
        if durable:
            self._world.durable = len(self._world.run.steps)

    @override
    def close(self) -> None:
        super().close()
        self.closed = True

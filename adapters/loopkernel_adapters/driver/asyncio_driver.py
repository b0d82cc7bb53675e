"""The driver on asyncio: one queue, one delta at a time, the log first, every task owned.

It decides nothing about the conversation. Per delta, once the secrets are out of it: (1) the transition, in memory;
(2) the record, durable before anything follows from it; (3) the commands; (4) the events, to the observers. Deltas that
wait together are recorded together, with one sync, and no command of any of them starts before it. Increments that
cause no command, and reports from which nothing follows yet, are recorded in groups: a loss of power may cost the last
few of them, never anything that followed.

The log is written in the thread of the loop. A sync takes about 2 ms, there and back to a thread 0.1 ms, so a
thread would save a stall that only this session's own next step waits for; in return nothing can come between
a transition and its record, and no thread has to be ended. A disk that stalls for longer stalls the loop.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from types import TracebackType
from typing import Self, assert_never, get_args

from loopkernel.data.deltas import Delta
from loopkernel.data.effects import (
    AbortModel,
    AbortOther,
    AbortTool,
    AnswerTool,
    AskHook,
    CallModel,
    CancelTimer,
    CheckCall,
    CheckCorrection,
    Command,
    Effect,
    HandOff,
    StartChild,
    StartTimer,
    StartTool,
    Summarise,
)
from loopkernel.data.events import Event, LineageForked
from loopkernel.data.ids import OperationKind, RunOperation, TimerOperation
from loopkernel.data.outside_deltas import TimerFired
from loopkernel.data.states import Cancelled, Confirming, Done, Idle, Initial, State
from loopkernel.data.steps import Context
from loopkernel.data.thread_deltas import Acquired, Created, Resumed, ThreadDelta
from loopkernel.data.tool_deltas import ToolStopped
from loopkernel.data.user_deltas import UserDelta
from loopkernel.replay import LogRecord, replay
from loopkernel.transition import transition
from typing_extensions import TypeIs

from loopkernel_adapters.driver.absent_ports import answer_without_port
from loopkernel_adapters.driver.durability import RECORDS_PER_GROUP, must_last
from loopkernel_adapters.driver.failures import complain, failure_to_raise, model_failure, tool_failure
from loopkernel_adapters.driver.runs import ToolRun
from loopkernel_adapters.driver.secret_filter import SecretFilter
from loopkernel_adapters.driver.supervision import Job, Supervisor
from loopkernel_adapters.driver.work import check_call, read_reply
from loopkernel_adapters.ports import Clock, Observer, Provider, Store, StoreFailed, Tools, demand_same_rules
from loopkernel_adapters.secrets import NO_SECRETS, Secrets

EVENTS = frozenset(get_args(Event))
AT_REST = (Idle, Cancelled, Done, Initial, Confirming)  # in these, the loop waits for the user or for a person
STOP_SECONDS = 5.0  # how long close() waits for jobs that do not heed their abort


class Driver:
    """Runs one session. Use it as `async with Driver.open(...) as driver:`; it owns the store and closes it.

    `state` is the state that the log leads to. One driver belongs to one event loop and one log.
    """

    def __init__(
        self,
        state: State,
        *,
        provider: Provider,
        tools: Tools,
        store: Store,
        clock: Clock,
        observers: Sequence[Observer] = (),
        secrets: Secrets = NO_SECRETS,
        opening: Sequence[Delta] = (),
    ) -> None:
        """A driver that goes on from `state`, with `opening` as the first deltas; see `open`."""
        self._state = state
        self._provider = provider
        self._tools = tools
        self._store = store
        self._clock = clock
        self._observers = tuple(observers)
        self._secrets = secrets
        self._filter = SecretFilter(secrets)
        self._queue: deque[Delta] = deque(opening)
        self._unstored: list[LogRecord] = []
        self._supervisor = Supervisor(self._report)
        self._runs: dict[RunOperation, ToolRun] = {}  # those that have begun
        self._timers: dict[TimerOperation, Callable[[], None]] = {}
        self._waiters: list[asyncio.Future[None]] = []
        self._failure: Exception | None = None
        self._closed = False
        self._draining = False
        self._drain_is_due = False

    @classmethod
    def open(
        cls,
        *,
        store: Store,
        created: Created,
        provider: Provider,
        tools: Tools,
        clock: Clock,
        observers: Sequence[Observer] = (),
        secrets: Secrets = NO_SECRETS,
    ) -> Self:
        """A driver for the log in the store: an empty one begins with `created`, any other goes on where it stopped.

        No value of `secrets` gets into a delta; the tools get them. Raises what the store's `load` raises, and
        RulesDiffer where the log was written under other rules; the store is then closed.
        """
        try:
            records = store.load()
            demand_same_rules(records)
            state = replay(records)
        except BaseException:
            store.close()
            raise
        opening: tuple[Delta, ...] = (Resumed(),) if records else (created, Acquired())
        return cls(
            state,
            provider=provider,
            tools=tools,
            store=store,
            clock=clock,
            observers=observers,
            secrets=secrets,
            opening=opening,
        )

    @property
    def state(self) -> State:
        """The state after the last delta that was applied. `Confirming`: it is a person's turn.

        Then each entry of `state.ledger.entries` whose status is `blocked-on-user` waits for `Approve`, `Reject`,
        `Correct` or `Swap` of its call, or, where it has a `question`, for `AnswerQuestion`.
        """
        return self._state

    async def __aenter__(self) -> Self:
        self._drain()
        if self._failure is not None:
            await self.close()
            raise self._failure
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def send(self, delta: UserDelta | ThreadDelta) -> None:
        """Apply the delta; on return it is recorded durably, and what follows from it has begun.

        What became of it is told to the observers (`InputSettled`, `Refused`). Raises StoreFailed when the log
        cannot be written, RuntimeError when the driver is closed.
        """
        self._demand_running()
        self._queue.append(delta)
        self._drain()
        self._demand_running()

    async def rest(self) -> None:
        """Wait until nothing goes on by itself: the loop waits for the user, or nothing is under way.

        That is also so when calls wait for a person and nothing else is under way: `state` is then `Confirming`, and
        goes on with the answer. Not waited for are a run in the background of a turn that has ended, and a tool that
        does not heed its abort. Raises as `send` does, and RunFailed where a failed run is to raise (`on_error`).
        """
        self._demand_running()
        while not self._rests():
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter
            self._demand_running()
        if failed := failure_to_raise(self._state):
            raise failed

    async def close(self, stop_seconds: float = STOP_SECONDS) -> None:
        """Stop everything and let go of everything. What was under way is not recorded as ended.

        For the log it is as if the process had died here, so the next `open` treats it as a restart. Raises
        StoreFailed when the last increments cannot be recorded. Closing twice is harmless.
        """
        if self._closed:
            return
        self._closed = True
        try:
            self._queue.clear()
            self._forget_timers()
            self._wake_waiters()
            for name in await self._supervisor.close(stop_seconds):
                complain(f"{name} does not stop: its task is left behind", TimeoutError(name), self._secrets)
            if self._failure is None:
                self._record((), durable=True)
        finally:
            self._store.close()

    # --- what comes in ---

    def _accept(self, delta: Delta) -> None:
        """Apply a delta from an adapter now, or after the one that is being applied."""
        if self._is_running():
            self._queue.append(delta)
            self._drain()

    def _report(self, outcome: Delta | None) -> None:
        """Take the outcome of a job. While others are under way it waits for theirs, to be recorded with them."""
        if not self._is_running():
            return
        if outcome is not None:
            self._queue.append(outcome)
        if self._supervisor.jobs == 0:
            self._drain()
        elif not self._drain_is_due:
            self._drain_is_due = True
            asyncio.get_running_loop().call_soon(self._drain)

    def _fire(self, operation: TimerOperation) -> None:
        del self._timers[operation]
        self._accept(TimerFired(operation))

    # --- one step after the other ---

    def _drain(self) -> None:
        """Work the queue off. A call from within (an observer that moves a clock) leaves that to the outer one."""
        self._drain_is_due = False
        if self._draining:
            return
        self._draining = True
        try:
            while self._queue and self._is_running():
                self._advance()
        except Exception as error:
            self._fail(error)
        finally:
            self._draining = False
        self._wake_waiters()

    def _advance(self) -> None:
        """Apply all deltas that wait, record them, carry out their commands, deliver their events."""
        state = self._state
        records: list[LogRecord] = []
        commands: list[Command] = []
        events: list[Event] = []
        durable = forked = False
        while self._queue:
            for delta in self._filter.incoming(self._queue.popleft()):
                now_ms = self._clock.now_ms()
                state, effects = transition(state, Context(delta, now_ms))
                records.append(LogRecord(delta, now_ms))
                durable = durable or must_last(delta, effects, isinstance(state, AT_REST))
                for effect in effects:
                    if is_event(effect):
                        events.append(effect)
                    else:
                        commands.append(effect)
                    if isinstance(effect, LineageForked):  # what is under way, or was to begin, is of the one it left
                        forked = True
                        commands.clear()
        self._record(records, durable or bool(commands))
        self._state = state
        if forked:
            self._let_go()
        for command in commands:
            self._perform(command)
        for event in events:
            self._deliver(event)

    def _record(self, records: Sequence[LogRecord], durable: bool) -> None:
        """Hand the records to the store, at the latest when a group of them is full."""
        self._unstored += records
        if not self._unstored or not (durable or len(self._unstored) >= RECORDS_PER_GROUP):
            return
        try:
            self._store.append(tuple(self._unstored), durable)
        except Exception as error:
            raise StoreFailed(
                f"the log cannot be written ({error}), so nothing more is started. What is recorded is safe: "
                "look after the disk, then open the log again"
            ) from error
        self._unstored.clear()

    def _deliver(self, event: Event) -> None:
        for observer in self._observers:
            try:
                observer(event)
            except Exception as error:
                complain(f"an observer failed at {type(event).__name__}; it stays subscribed", error, self._secrets)

    # --- what goes out ---

    def _perform(self, command: Command) -> None:
        """Begin what the command asks for. Nothing here waits."""
        match command:
            case CheckCall():
                self._queue.append(check_call(self._tools, command))
            case StartTool():
                self._supervisor.start(self._tool_job(command))
            case CallModel():
                self._supervisor.start(self._model_job(command))
            case AbortTool():
                self._supervisor.abort((OperationKind.RUN, command.operation))
            case AbortModel():
                self._supervisor.abort((OperationKind.MODEL, command.operation))
            case StartTimer():
                forget = self._clock.call_at(command.deadline_ms, partial(self._fire, command.operation))
                self._timers[command.operation] = forget
            case CancelTimer():
                self._timers.pop(command.operation, lambda: None)()
            case AskHook() | CheckCorrection() | Summarise() | StartChild() | HandOff():
                self._queue.append(answer_without_port(command))
            case AnswerTool():
                if command.operation in self._runs:
                    self._runs[command.operation].answer(command.value)
            case AbortOther():
                pass  # what has no port was answered at once: nothing of it is under way
            case _:
                assert_never(command)

    def _model_job(self, command: CallModel) -> Job:
        return Job(
            key=(OperationKind.MODEL, command.operation),
            work=partial(read_reply, self._provider, command, self._accept, self._secrets),
            failure=partial(model_failure, command),
            stopped=None,
        )

    def _tool_job(self, command: StartTool) -> Job:
        return Job(
            key=(OperationKind.RUN, command.operation),
            work=partial(self._run_tool, command),
            failure=partial(tool_failure, command),
            stopped=ToolStopped(command.operation),
        )

    async def _run_tool(self, command: StartTool, job: Job) -> Delta:
        run = ToolRun(command, self._accept, job, self._secrets)
        self._runs[command.operation] = run
        try:
            return await run.serve(self._tools)
        finally:
            del self._runs[command.operation]

    # --- coming to an end ---

    def _is_running(self) -> bool:
        return self._failure is None and not self._closed

    def _demand_running(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._closed:
            raise RuntimeError("this driver is closed; open the log again to go on")

    def _rests(self) -> bool:
        """Whether nothing will happen unless something new comes in."""
        if self._queue:
            return False
        if isinstance(self._state, AT_REST):
            return True
        return not self._supervisor.busy and not self._timers

    def _wake_waiters(self) -> None:
        """Let `rest` look again, if it has something to see."""
        if self._waiters and (not self._is_running() or self._rests()):
            for waiter in self._waiters:
                if not waiter.done():
                    waiter.set_result(None)
            self._waiters.clear()

    def _fail(self, error: Exception) -> None:
        """Stop for good: nothing is started, nothing is recorded, the state stays as the log has it."""
        self._failure = error
        self._queue.clear()
        self._let_go()

    def _let_go(self) -> None:
        self._supervisor.abort_all()
        self._forget_timers()

    def _forget_timers(self) -> None:
        while self._timers:
            self._timers.popitem()[1]()


def is_event(effect: Effect) -> TypeIs[Event]:
    """Whether the effect is an event; else it is a command."""
    return type(effect) in EVENTS

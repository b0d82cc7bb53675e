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
from types import TracebackType
from typing import Self, get_args

from loopkernel.data.deltas import Delta
from loopkernel.data.effects import Command, Effect
from loopkernel.data.events import Event, LineageForked
from loopkernel.data.states import Cancelled, Confirming, Done, Idle, Initial, State
from loopkernel.data.steps import Context
from loopkernel.data.thread_deltas import Acquired, Created, Resumed, ThreadDelta
from loopkernel.data.user_deltas import UserDelta
from loopkernel.replay import START, LogRecord, replay
from loopkernel.transition import transition
from typing_extensions import TypeIs

from loopkernel_adapters.driver.durability import RECORDS_PER_GROUP, must_last
from loopkernel_adapters.driver.failures import complain, failure_to_raise
from loopkernel_adapters.driver.operations import Operations
from loopkernel_adapters.driver.secret_filter import SecretFilter
from loopkernel_adapters.optional_ports import NO_PORTS, Address, ChildObserver, NoSuchAgent, OptionalPorts, Ports
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
        optional: OptionalPorts = NO_PORTS,
        child_observers: Sequence[ChildObserver] = (),
        watch: Callable[[], None] = lambda: None,
        opening: Sequence[Delta] = (),
    ) -> None:
        """A driver that goes on from `state`, with `opening` as the first deltas; see `open`."""
        self._state = state
        self._store = store
        self._clock = clock
        self._observers = tuple(observers)
        self._child_observers = tuple(child_observers)
        self._watch = watch
        self._secrets = secrets
        self._filter = SecretFilter(secrets)
        self._queue: deque[Delta] = deque(opening)
        self._unstored: list[LogRecord] = []
        ports = Ports(provider=provider, tools=tools, clock=clock, secrets=secrets, optional=optional)
        self._operations = Operations(ports, self._accept, self._report, self._deliver_of_child)
        self._waiters: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []
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
        optional: OptionalPorts = NO_PORTS,
        child_observers: Sequence[ChildObserver] = (),
        watch: Callable[[], None] = lambda: None,
    ) -> Self:
        """A driver for the log in the store: an empty one begins with `created`, any other goes on where it stopped.

        No value of `secrets` gets into a delta; the tools get them. The events of sub-agents go to `child_observers`,
        and `watch` is called after each step. Raises what the store's `load` raises, and RulesDiffer where the log was
        written under other rules; the store is then closed.
        """
        try:
            restored = store.restore()
            demand_same_rules(restored)
            state = replay(restored.records, START if restored.state is None else restored.state)
        except BaseException:
            store.close()
            raise
        opening: tuple[Delta, ...] = (created, Acquired()) if state is START else (Resumed(),)
        return cls(
            state,
            provider=provider,
            tools=tools,
            store=store,
            clock=clock,
            observers=observers,
            secrets=secrets,
            optional=optional,
            child_observers=child_observers,
            watch=watch,
            opening=opening,
        )

    @property
    def state(self) -> State:
        """The state after the last delta that was applied. `Confirming`: it is a person's turn.

        Then each entry of `state.ledger.entries` whose status is `blocked-on-user` waits for `Approve`, `Reject`,
        `Correct` or `Swap` of its call, or, where it has a `question`, for `AnswerQuestion`.
        """
        return self._state

    def state_of(self, within: Address) -> State | None:
        """The state of the sub-agent at the address; None where there is none, or it is not known here."""
        if not within:
            return self._state
        try:
            return self._operations.agent(within[0]).state_of(within[1:])
        except NoSuchAgent:
            return None

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

    async def send(self, delta: UserDelta | ThreadDelta, within: Address = ()) -> None:
        """Apply the delta; on return it is recorded durably, and what follows from it has begun.

        What became of it is told to the observers (`InputSettled`, `Refused`). With `within` it is passed on to the
        sub-agent at that address, and is not in this session's log. Raises StoreFailed when the log cannot be written,
        NoSuchAgent when there is no such sub-agent (any more), RuntimeError when the driver is closed.
        """
        self._demand_running()
        if within:
            if isinstance(delta, ThreadDelta):
                raise TypeError(f"a {type(delta).__name__} cannot be sent to a sub-agent")
            await self._operations.agent(within[0]).send(delta, within[1:])
        else:
            self.post(delta)

    def post(self, delta: UserDelta | ThreadDelta) -> None:
        """As `send`, from where nothing can be awaited: within a step, the delta is applied after it."""
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
        await self._until(self._rests)
        if failed := failure_to_raise(self._state):
            raise failed

    async def over(self) -> None:
        """Wait until the run is over: `state` is `Done`. Raises as `send` does."""
        await self._until(lambda: isinstance(self._state, Done))

    async def stopped(self) -> None:
        """Wait until nothing at all is under way, also nothing that was aborted. Raises as `send` does."""
        await self._until(lambda: self._operations.jobs == 0)

    async def _until(self, ready: Callable[[], bool]) -> None:
        self._demand_running()
        while not ready():
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append((ready, waiter))
            await waiter
            self._demand_running()

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
            self._operations.forget_timers()
            self._wake_waiters()
            for name in await self._operations.close(stop_seconds):
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
        if self._operations.jobs == 0:
            self._drain()
        elif not self._drain_is_due:
            self._drain_is_due = True
            asyncio.get_running_loop().call_soon(self._drain)

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
            self._operations.let_go()
        for command in commands:
            report = self._operations.begin(command, state)
            if report is not None:
                self._queue.append(report)
        for event in events:
            self._deliver(event)
        self._watch()

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

    def _deliver_of_child(self, within: Address, event: Event) -> None:
        for observer in self._child_observers:
            try:
                observer(within, event)
            except Exception as error:
                what = f"an observer failed at {type(event).__name__} of a sub-agent; it stays subscribed"
                complain(what, error, self._secrets)

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
        return not self._operations.busy

    def _wake_waiters(self) -> None:
        """Let those who wait look again, if they have something to see."""
        running, left = self._is_running(), []
        for ready, waiter in self._waiters:
            if waiter.done():
                continue
            if running and not ready():
                left.append((ready, waiter))
            else:
                waiter.set_result(None)
        self._waiters = left

    def _fail(self, error: Exception) -> None:
        """Stop for good: nothing is started, nothing is recorded, the state stays as the log has it."""
        self._failure = error
        self._queue.clear()
        self._operations.let_go()


def is_event(effect: Effect) -> TypeIs[Event]:
    """Whether the effect is an event; else it is a command."""
    return type(effect) in EVENTS

"""The driver on asyncio: one queue, one delta at a time, the log first, every task owned.

It decides nothing about the conversation. Per delta, once the secrets are out of it: (1) the transition, in memory;
(2) the record, durable before anything follows from it; (3) the commands; (4) the events, to the observers. Deltas that
wait together are recorded together, with one sync, and no command of any of them starts before it. Increments that
cause no command, and reports from which nothing follows yet, are recorded in groups: a loss of power may cost the last
few of them, never anything that followed.

The log is awaited, and while a write is under way, what comes in waits, to be recorded together behind it: `state`, the
commands and the events stay those of the log. So a disk that is slow delays its own session, and no other. Only a store
that returns at once, as one in memory, is written within the step.

Nothing here grows without bound: a stream is read as fast as its deltas are applied, and recorded as `pacing` lets it;
a job reports once, and what is posted within a step is counted. Whoever would wait for itself (a tool for the rest of
its own session) is told so.
"""

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self, get_args

from attrs import define
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import Command, Effect
from loopkernel.data.events import Event, LineageForked
from loopkernel.data.records import new_record
from loopkernel.data.states import Cancelled, Confirming, Done, Idle, Initial, State
from loopkernel.data.steps import new_context
from loopkernel.data.thread_deltas import Created, ThreadDelta
from loopkernel.data.user_deltas import UserDelta
from loopkernel.later_typing import TypeIs
from loopkernel.loop.transition import transition
from loopkernel.replaying import LogRecord

from loopkernel_adapters.blocking_ports import BlockingStore
from loopkernel_adapters.driver.audience import Audience, RecordFollower, Waiters
from loopkernel_adapters.driver.clocks import DateWatch, clock_behind_ms, clock_from
from loopkernel_adapters.driver.failures import complain, failure_to_raise, interrupted
from loopkernel_adapters.driver.log_writer import INCREMENTS, SOONEST, LogWriter, must_last, taken_up_from
from loopkernel_adapters.driver.operations import Operations
from loopkernel_adapters.driver.taking_up import AS_IT_WAS, ResumeSettings, new_nonce, opening_deltas
from loopkernel_adapters.optional_ports import (
    NO_PORTS,
    Address,
    ChildFollower,
    ChildObserver,
    NoSuchAgent,
    OptionalPorts,
    Ports,
)
from loopkernel_adapters.ports import Clock, Observer, Provider, Store, Tools
from loopkernel_adapters.provider_keys import keys_of
from loopkernel_adapters.secret_filter import SecretFilter
from loopkernel_adapters.secrets import NO_SECRETS, Secrets
from loopkernel_adapters.stores.threaded import asynchronous

EVENTS = frozenset(get_args(Event))
# In these, the loop waits for the user or for a person.
AT_REST = frozenset({Idle, Cancelled, Done, Initial, Confirming})
STOP_SECONDS = 5.0  # how long close() waits for jobs that do not heed their abort
STEPS_PER_SLICE = 64  # after so many in a row, others get their turn
MOST_POSTS = 1_000  # inputs that may be posted within one step


@define(eq=False)  # and not frozen: one is made for each step, at a third of the cost
class Step:
    """Deltas that were applied together: the state that they lead to, their records, and what follows from them."""

    state: State
    records: Sequence[LogRecord]
    commands: Sequence[Command]
    events: list[Event]
    lasting: bool  # before anything follows
    forked: bool
    arrived: int  # how many deltas had come in until then
    now_ms: int


class Driver:
    """Runs one session. Use it as `async with await Driver.open(...) as driver:`; it owns the store and closes it.

    `state` is the state that the log leads to. One driver belongs to one event loop and one log.
    """

    def __init__(
        self,
        state: State,
        *,
        provider: Provider,
        tools: Tools,
        store: Store | BlockingStore,
        clock: Clock,
        observers: Sequence[Observer] = (),
        secrets: Secrets = NO_SECRETS,
        optional: OptionalPorts = NO_PORTS,
        child_observers: Sequence[ChildObserver] = (),
        watch: Callable[[], None] | None = None,
        follow: RecordFollower | None = None,
        follow_children: ChildFollower | None = None,
        opening: Sequence[Delta] = (),
        folded: int = 0,
        doubt: str | None = None,
    ) -> None:
        """A driver that goes on from `state`, with `opening` as the first deltas; see `open`.

        `folded`: how many records lie behind the latest snapshot. `doubt`: why the log was not believed.
        """
        secrets = secrets.with_keys(keys_of(provider))
        self._date, clock = DateWatch(clock), clock_from(clock, state)
        self._state = state
        self.doubt = doubt
        self._log = LogWriter(asynchronous(store), secrets, state, folded)
        self._now_ms = clock.now_ms
        self._audience = Audience(observers, child_observers, watch, secrets, follow, follow_children)
        self._secrets = secrets
        self._filter = SecretFilter(secrets)
        self._queue: deque[Delta] = deque()  # without secrets
        self._enqueue: Callable[[Delta], None] = self._enqueue_filtered if secrets else self._queue.append
        self._taken: list[int] = []  # of the store's inbox, by what is in the queue
        self._begun = self._applied = 0  # deltas whose step has begun, and those whose step is over
        ports = Ports(provider=provider, tools=tools, clock=clock, secrets=secrets, optional=optional)
        show, follow_child = self._audience.show_of_child, self._audience.follow_child
        self._operations = Operations(ports, self._accept, self._caught_up, self._report, show, follow_child)
        self._waiters = Waiters()  # for rest and the like
        self._senders = Waiters()  # for the end of a step
        self._failure: Exception | None = None
        self._closed = False
        self._closing: asyncio.Task[None] | None = None
        self._draining = False
        self._drain_is_due = False
        self._writing: asyncio.Task[None] | None = None  # a step that is being recorded
        self._context = contextvars.copy_context()  # what it belongs to, whoever's delta it is
        self._posts = 0  # within the step that is being taken
        for delta in opening:
            self._enqueue(delta)

    @classmethod
    async def open(
        cls,
        *,
        store: Store | BlockingStore,
        created: Created,
        provider: Provider,
        tools: Tools,
        clock: Clock,
        observers: Sequence[Observer] = (),
        secrets: Secrets = NO_SECRETS,
        optional: OptionalPorts = NO_PORTS,
        child_observers: Sequence[ChildObserver] = (),
        watch: Callable[[], None] | None = None,
        follow: RecordFollower | None = None,
        follow_children: ChildFollower | None = None,
        resume_with: ResumeSettings = AS_IT_WAS,
        nonce: str | None = None,
    ) -> Self:
        """A driver for the log in the store: an empty one begins with `created`, any other goes on where it stopped.

        What `resume_with` gives holds for a log that goes on before anything of it does (rule RESUME-7). A log that its
        store does not vouch for (`doubt` says why) goes on under the settings of `created` where none are given,
        whatever it says itself, and its open calls ask anew (rule RESUME-8). `nonce` makes the keys of tool runs this
        run's own; None: a new one is drawn.

        No value of `secrets`, and no key of the provider, gets into a delta; the tools get the values. The events of
        sub-agents go to `child_observers`, `watch` is called after each step, `follow` is given the records of each
        step just before its events, and `follow_children` those of sub-agents, with the id of the session. A store
        that blocks runs in a thread of this driver, unless it says that it returns at once. Raises what the store's
        `restore` raises, RulesDiffer where the log was written under other rules, SettingsDiffer where `resume_with`
        demands that they agree, and StoreFailed where a snapshot of other rules cannot be replaced; the store is then
        closed.
        """
        store = asynchronous(store)
        try:
            restored, state = await taken_up_from(store)
            keys, doubted = new_nonce() if nonce is None else nonce, restored.doubt is not None
            opening = opening_deltas(state, created, resume_with, keys, clock_behind_ms(clock, state), doubted=doubted)
        except BaseException:
            await store.close()
            raise
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
            follow=follow,
            follow_children=follow_children,
            opening=opening,
            folded=len(restored.records),
            doubt=restored.doubt,
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

    def subscribe(self, observer: Observer) -> None:
        """From now on, show the events to this one too."""
        self._audience.subscribe(observer)

    def unsubscribe(self, observer: Observer) -> None:
        """Show them to it no more, if it was subscribed; an observer that the driver was opened with stays."""
        self._audience.unsubscribe(observer)

    async def __aenter__(self) -> Self:
        try:
            self._drain()
            await self._caught_up()
        except BaseException:
            await self.close()
            raise
        if self._failure is not None:
            await self.close()
            raise self._failure
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def send(self, delta: UserDelta | ThreadDelta, within: Address = (), taken: int | None = None) -> None:
        """Apply the delta; on return it is recorded durably, and what follows from it has begun.

        What became of it is told to the observers (`InputSettled`, `Refused`). With `within` it is passed on to the
        sub-agent at that address, and is not in this session's log. `taken` is its number in the inbox of the store of
        that session, which it came out of: the write that records it takes it out of there. Cancelled, it is applied
        all the same.
        Raises StoreFailed when the log cannot be written, NoSuchAgent when there is no such sub-agent (any more),
        RuntimeError when the driver is closed.
        """
        self._demand_running()
        if within:
            if isinstance(delta, ThreadDelta):
                raise TypeError(f"a {type(delta).__name__} cannot be sent to a sub-agent")
            await self._operations.agent(within[0]).send(delta, within[1:], taken)
            return
        if taken is not None:
            if not self._log.has_inbox:
                raise ValueError("the store of this session has no inbox, so nothing can be taken out of it")
            self._taken.append(taken)
        if self._draining:
            self._count_post()
        self._enqueue(delta)
        arrived = self._begun + len(self._queue)
        self._drain()
        while self._applied < arrived:
            if self._writing is None or self._failure is not None:  # else it may be recorded just now, also at a close
                self._demand_running()
            await self._senders.wait(lambda: self._applied >= arrived)
        if self._failure is not None:
            raise self._failure

    def post(self, delta: UserDelta | ThreadDelta) -> None:
        """As `send`, from where nothing can be awaited. What is said while a step is taken is applied after it.

        So the delta is recorded on return only where the store returns at once, and outside of a step. Raises
        RuntimeError also where more is posted within one step than anything can mean.
        """
        self._demand_running()
        if self._draining or self._writing is not None:
            self._count_post()
        self._enqueue(delta)
        self._drain()
        self._demand_running()

    def _count_post(self) -> None:
        self._posts += 1
        if self._posts > MOST_POSTS:
            raise RuntimeError(
                f"{MOST_POSTS} inputs were posted within one step already; post the rest when it is over"
            )

    async def _caught_up(self) -> None:
        """Wait until all that has come in so far is applied, or nothing is applied any more."""
        arrived = self._begun + len(self._queue)
        while self._applied < arrived and self._failure is None and not self._closed:
            await self._senders.wait(lambda: self._applied >= arrived)

    async def rest(self) -> None:
        """Wait until nothing goes on by itself: the loop waits for the user, or nothing is under way.

        That is also so when calls wait for a person and nothing else is under way: `state` is then `Confirming`, and
        goes on with the answer. Not waited for are a run in the background of a turn that has ended, and a tool that
        does not heed its abort. Raises as `send` does, RunFailed where a failed run is to raise (`on_error`), and
        RuntimeError where it is called by what it would wait for.
        """
        await self._until(self._rests)
        if failed := failure_to_raise(self._state):
            raise failed

    async def over(self) -> None:
        """Wait until the run is over: `state` is `Done`. Raises as `rest` does, but not RunFailed."""
        await self._until(lambda: isinstance(self._state, Done))

    async def stopped(self) -> None:
        """Wait until nothing at all is under way, also nothing that was aborted. Raises as `over` does."""
        await self._until(lambda: not self._operations.jobs and self._writing is None)

    @property
    def waits(self) -> bool:
        """Whether nothing goes on by itself: nothing is under way, no timer runs, and sub-agents wait as well.

        So nothing is lost if it is closed, and taken up again when somebody has something to say to it.
        """
        return not self._queue and self._writing is None and self._operations.all_wait

    async def until_waits(self) -> None:
        """Wait until it waits. Raises as `over` does."""
        while not self.waits:
            agents = [asyncio.ensure_future(agent) for agent in self._operations.until_agents_wait()]
            own = asyncio.ensure_future(self._until(lambda: self.waits))
            try:
                await asyncio.wait((own, *agents), return_when=asyncio.FIRST_COMPLETED)
            finally:
                for each in (own, *agents):
                    each.cancel()
                await asyncio.gather(own, *agents, return_exceptions=True)
            if own.done() and not own.cancelled():
                own.result()

    async def _until(self, ready: Callable[[], bool]) -> None:
        self._demand_running()
        if not ready():
            self._operations.demand_from_outside()
        while not ready():
            await self._waiters.wait(ready)
            self._demand_running()

    async def close(self, stop_seconds: float = STOP_SECONDS) -> None:
        """Stop everything and let go of everything. What was under way is not recorded as ended.

        For the log it is as if the process had died here, so the next `open` treats it as a restart. Raises
        StoreFailed when the last increments cannot be recorded. Closing twice is harmless, and waits as the first does.
        All that is under way is aborted at once, and waited for `stop_seconds` at most. The log is waited for as long
        as its store takes: the write under way, what is left to record, and the store's own close. A cancellation
        meanwhile is raised when all is done. What was under way may close its own driver: it is aborted like the rest.
        """
        first = self._closing is None
        if self._closing is None:
            self._closed = True
            self._queue.clear()
            self._operations.forget_timers()
            self._wake_waiters()
            self._closing = asyncio.ensure_future(self._close(stop_seconds))
        if self._operations.asked_from_within:
            await asyncio.shield(self._closing)
        cancelled = False
        while not self._closing.done():
            try:
                await asyncio.wait({self._closing})
            except asyncio.CancelledError:
                cancelled = True
        if first:
            self._closing.result()
        if cancelled:
            raise asyncio.CancelledError

    async def _close(self, stop_seconds: float) -> None:
        stopping = asyncio.ensure_future(self._operations.close(stop_seconds))  # no tool goes on while a disk is slow
        try:
            try:
                if self._writing is not None:
                    await asyncio.wait({self._writing})
                if self._failure is None:
                    await self._log.finish(self._state)
            finally:
                for name in await stopping:
                    complain(f"{name} does not stop: its task is left behind", TimeoutError(name), self._secrets)
        finally:
            await self._log.close()

    # --- what comes in ---

    def _enqueue_filtered(self, delta: Delta) -> None:
        """Let the delta wait for its step, once the secrets are out of it."""
        try:
            self._queue.extend(self._filter.incoming(delta))
        except Exception as error:
            self._fail(error)

    def _accept(self, *deltas: Delta) -> None:
        """Apply deltas from an adapter now, or after the one that is being applied."""
        if self._failure is None and not self._closed:
            for delta in deltas:
                self._enqueue(delta)
            self._drain()

    def _report(self, outcome: Delta | None) -> None:
        """Take the outcome of a job. While others are under way it waits for theirs, to be recorded with them."""
        if self._failure is not None or self._closed:
            return
        if outcome is not None:
            self._enqueue(outcome)
        if not self._operations.jobs:
            self._drain()
        elif not self._drain_is_due:
            self._drain_is_due = True
            asyncio.get_running_loop().call_soon(self._drain)

    # --- one step after the other ---

    def _drain(self) -> None:
        """Work the queue off. A call from within (an observer that moves a clock) leaves that to the outer one.

        So does one while a step is being recorded: its end does the same.
        """
        if self._draining or self._writing is not None:
            return
        self._drain_is_due = False
        self._draining = True
        steps = 0
        try:
            while self._queue and self._failure is None and not self._closed:
                if steps == STEPS_PER_SLICE:
                    self._drain_is_due = True
                    asyncio.get_running_loop().call_soon(self._drain)
                    break
                steps += 1
                if not self._advance():
                    break
        except Exception as error:
            self._fail(error)
        except BaseException as error:  # in the midst of a step: what was to begin may never do so
            self._fail(interrupted(error))
            raise
        finally:
            self._draining = False
            # While a timer runs and the loop is not at rest, nobody's wait can be over.
            if not self._operations.timers or type(self._state) in AT_REST:  # as when all is over
                self._wake_waiters()

    def _advance(self) -> bool:
        """Apply all deltas that wait, record them, carry out their commands, deliver their events; whether it is done.

        It is not where the record has to be awaited: `_write` then does the rest.
        """
        step = self._apply_all()
        taken: Sequence[int] = ()
        if self._taken:
            taken, self._taken = self._taken, []
        if not self._log.add(step.records, step.lasting, taken):
            self._follow(step)
        elif self._log.in_place:
            self._log.write_in_place(step.lasting)
            self._follow(step)
            if self._log.since_snapshot >= SOONEST:
                self._log.look_back_in_place(self._state)
        else:
            self._writing = asyncio.get_running_loop().create_task(self._write(step), context=self._context)
            return False
        return True

    def _apply_all(self) -> Step:
        """Apply all deltas that wait, in memory."""
        state, queue, now_ms = self._state, self._queue, self._now_ms()
        records: list[LogRecord] = []
        commands: list[Command] = []
        events: list[Event] = []
        lasting = forked = False
        while queue:
            delta = queue.popleft()
            state, effects = transition(state, new_context(delta, now_ms))
            records.append(new_record(delta, now_ms))
            if not lasting and type(delta) not in INCREMENTS:
                lasting = bool(effects) or must_last(delta, effects, type(state) in AT_REST)
            for effect in effects:
                kind = type(effect)
                if kind not in EVENTS:
                    commands.append(effect)  # type: ignore[arg-type]  # what is no event; a type guard is a call more
                    continue
                events.append(effect)  # type: ignore[arg-type]  # as above
                if kind is LineageForked:  # what is under way, or was to begin, is of the one it left
                    forked = True
                    commands.clear()
        self._begun += len(records)
        return Step(state, records, commands, events, lasting or bool(commands), forked, self._begun, now_ms)

    async def _write(self, step: Step) -> None:
        """Record the step, let follow what follows from it, and go on with what has come in meanwhile."""
        try:
            await self._log.write(step.lasting)
            self._follow(step)
            await self._log.look_back(self._state)
        except Exception as error:
            self._fail(error)
        except BaseException as error:  # the whole program ends: whether it is recorded is not known here
            self._fail(interrupted(error))
            raise
        finally:
            self._writing = None
            self._drain()

    def _follow(self, step: Step) -> None:
        """What follows from a step that is recorded, as far as it has to be. A driver that stops begins nothing.

        What is reported at once (the check of a call) belongs to what has come in: whoever waits for that waits for it.
        """
        self._state = step.state
        self._posts = 0
        going_on = self._failure is None and not self._closed
        if step.forked and going_on:
            self._operations.let_go()
        reported = False
        for command in step.commands if going_on else ():
            report = self._operations.begin(command, step.state)
            if report is not None:
                self._enqueue(report)
                reported = True
        if step.now_ms != self._date.looked_ms:
            step.events += self._date.jumps(step.now_ms)
        self._audience.show(step.events, step.records)
        if not reported:
            self._applied = step.arrived
            if self._senders.waiting:
                self._senders.wake(everyone=False)

    # --- coming to an end ---

    def _demand_running(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._closed:
            raise RuntimeError("this driver is closed; open the log again to go on")

    def _rests(self) -> bool:
        """Whether nothing will happen unless something new comes in."""
        at_rest = type(self._state) in AT_REST or not self._operations.busy
        return at_rest and not self._queue and self._writing is None

    def _wake_waiters(self) -> None:
        over = self._failure is not None or self._closed
        if over:
            self._senders.wake(everyone=True)
        if over or (self._waiters.waiting and (type(self._state) in AT_REST or not self._operations.busy)):
            self._waiters.wake(everyone=over)

    def _fail(self, error: Exception) -> None:
        """Stop for good: nothing is started, nothing is recorded, the state stays as the log has it."""
        self._failure = error
        self._queue.clear()
        self._operations.let_go()


def is_event(effect: Effect) -> TypeIs[Event]:
    """Whether the effect is an event; else it is a command."""
    return type(effect) in EVENTS

"""The ports that a driver is tried with: they take notes, and know what they were asked for too early or too often."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Protocol, runtime_checkable

from attrs import evolve, frozen
from loopkernel.data.blocks import TextBlock
from loopkernel.data.effects import CallModel, CheckCall, Request, StartTimer, StartTool
from loopkernel.data.events import Event
from loopkernel.data.ids import ModelOperation
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import ModelDelta, ModelText
from loopkernel.data.policy import Policy
from loopkernel.data.states import Idle, State
from loopkernel.data.thread_deltas import Created
from loopkernel.data.tools import Decision, EffectClass, Tool, ToolOutput, ToolProfile, ValidCall, Verdict
from loopkernel.data.user_deltas import Say, UserDelta
from loopkernel.later_typing import override
from loopkernel.replaying import LogRecord, fold, replay

from loopkernel_adapters.blocking_ports import BlockingStore
from loopkernel_adapters.driver.clocks import ManualClock
from loopkernel_adapters.ports import Clock, Observer, Provider, Restored, RunContext, Store, Tools
from loopkernel_adapters.providers.scripted import ANY, Reply, call_reply, text_reply
from loopkernel_adapters.stores.memory import MemoryStore

ToolFunction = Callable[[RunContext], Awaitable[str]]
Asked = tuple[type, int]  # a command: its kind, and its operation
GO = Say(content=(TextBlock("go"),))
PIECES = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
CALLS = 3


HANGING_SECONDS = 3.0  # of real time, after which what has not happened will not happen
GLANCE_SECONDS = 0.001
TURNS = 50  # of the event loop: more than most drivers take for a step
ONE_CALL = call_reply(("trial", Json.of({})))


class AnyDriver(Protocol):
    """What a driver is tried through."""

    @property
    def state(self) -> State:
        """The state after the last delta that was applied."""
        ...

    async def send(self, delta: UserDelta) -> None:
        """Apply the delta; on return it is durable. Raises when the log cannot be written."""
        ...

    async def rest(self) -> None:
        """Wait until nothing goes on by itself. Raises when the log cannot be written."""
        ...

    async def close(self) -> None:
        """Stop everything and let go of everything, the store included."""
        ...


@runtime_checkable
class Mortal(Protocol):
    """A driver whose process can be killed; any other is closed where its process is to die."""

    def kill(self) -> None:
        """Kill it. Nothing that it does is heard any more."""
        ...


class AwaitedStore(Store):
    """A log as a driver has it that awaits its store: each append lands some turns of the event loop after it began."""

    def __init__(self, log: BlockingStore) -> None:
        self._log = log
        self._appends = 0
        self._turn = asyncio.Lock()  # in the order of their calls

    @override
    async def append(self, records: Sequence[LogRecord], durable: bool, taken: Sequence[int] = ()) -> None:
        async with self._turn:
            self._appends += 1
            for _ in range(self._appends * 5 % 4):
                await asyncio.sleep(0)
            self._log.append(records, durable)
        await asyncio.sleep(0)

    @override
    async def load(self) -> tuple[LogRecord, ...]:
        return self._log.load()

    @override
    async def restore(self) -> Restored:
        await asyncio.sleep(0)
        return self._log.restore()

    @override
    async def save_snapshot(self, state: State) -> None:
        await asyncio.sleep(0)
        self._log.save_snapshot(state)

    @override
    async def close(self) -> None:
        await asyncio.sleep(0)
        self._log.close()


@frozen(kw_only=True)
class DriverPorts:
    """What a driver is opened with. It takes one of the two stores, which are one log: the kind that it is made for."""

    store: BlockingStore
    awaited_store: Store
    created: Created
    provider: Provider
    tools: Tools
    clock: Clock
    observer: Observer


# Opens a driver over the ports, with its first deltas applied: those of a new log, or of one that goes on.
DriverFactory = Callable[[DriverPorts], Awaitable[AnyDriver]]


class TrialStore(MemoryStore):
    """Knows which records are durable, and fails for good from append number `failing_from` on."""

    def __init__(
        self, records: Sequence[LogRecord] = (), failing_from: int | None = None, snapshot_of: int | None = None
    ) -> None:
        super().__init__(records)
        self._snapshot_of = snapshot_of
        self.snapshots: list[bool] = []  # that were kept: whether all records lead to each
        self.durable = len(records)
        self.appends = 0
        self.failed = False
        self.closed = False
        self._failing_from = failing_from

    @override
    def append(self, records: Sequence[LogRecord], durable: bool) -> None:
        self.appends += 1
        if self.failed or (self._failing_from is not None and self.appends >= self._failing_from):
            self.failed = True
            raise OSError(28, "No space left on device")
        super().append(records, durable)
        if durable:
            self.durable = len(self.load())

    @override
    def restore(self) -> Restored:
        if self._snapshot_of is None:
            return super().restore()
        records = self.load()
        return Restored(state=replay(records[: self._snapshot_of]), records=records[self._snapshot_of :])

    @override
    def save_snapshot(self, state: State) -> None:
        self.snapshots.append(state == replay(self.load()))
        raise OSError(28, "No space left on device")

    @override
    def close(self) -> None:
        super().close()
        self.closed = True


class Trial(Provider, Tools):
    """A model, a tool and a clock around one log. The model gives its replies in order."""

    def __init__(
        self,
        replies: Sequence[Reply],
        tool: ToolFunction,
        *,
        store: TrialStore | None = None,
        policy: Policy | None = None,
        approval: Decision = Decision.ALLOW,
        now_ms: int = 1_000,
    ) -> None:
        self.store = store or TrialStore()
        self.clock = TrialClock(self, now_ms)
        self.begun: list[Asked] = []
        self.faults: list[str] = []  # what began when it should not have
        self.events: list[Event] = []
        self.streams = 0  # that are open now
        self._replies = list(replies)
        self._tool = tool
        self._policy = policy or Policy(max_parallel=None)
        self._approval = approval

    def ports(self) -> DriverPorts:
        """What a driver is opened with."""
        return DriverPorts(
            store=self.store,
            awaited_store=AwaitedStore(self.store),
            created=Created(session_id="trial", policy=self._policy, tools=self.offered()),
            provider=self,
            tools=self,
            clock=self.clock,
            observer=self.events.append,
        )

    def note(self, asked: Asked, given: Request | CheckCall | StartTool) -> None:
        """Something begins: was it asked for, in this way, by what is durable, and not before?"""
        kind, operation = asked
        if asked in self.begun:
            self.faults.append(f"{kind.__name__} {operation} was begun twice")
        if self.store.failed:
            self.faults.append(f"{kind.__name__} {operation} was begun after the log had failed")
        wanted = _commands(self.store.load()[: self.store.durable]).get(asked)
        if wanted is None:
            self.faults.append(f"{kind.__name__} {operation} was begun before what caused it was durable")
        elif given != (wanted.request if isinstance(wanted, CallModel) else wanted):
            self.faults.append(f"{kind.__name__} {operation} was begun with another input than its command says")
        self.begun.append(asked)

    @override
    async def stream(self, request: Request, operation: ModelOperation) -> AsyncIterator[ModelDelta]:
        self.note((CallModel, operation), request)
        self.streams += 1
        try:
            for item in self._replies.pop(0) if self._replies else ():
                match item:
                    case asyncio.Event():
                        await item.wait()
                    case Exception():
                        raise item
                    case _:
                        yield evolve(item, operation=operation)
        finally:
            self.streams -= 1

    @override
    def offered(self) -> tuple[Tool, ...]:
        profile = ToolProfile(effect=EffectClass.READ_ONLY, approval=self._approval)
        return (Tool(name="trial", profile=profile),)

    @override
    def check(self, command: CheckCall) -> Verdict:
        self.note((CheckCall, command.operation), command)
        return ValidCall()

    @override
    async def run(self, command: StartTool, context: RunContext) -> ToolOutput:
        self.note((StartTool, command.operation), command)
        return ToolOutput(content=(TextBlock(await self._tool(context)),))


class TrialClock(ManualClock):
    """Notes each timer. Time stands still unless a duty lets it pass."""

    def __init__(self, trial: Trial, now_ms: int) -> None:
        super().__init__(now_ms)
        self._trial = trial

    @override
    def call_at(self, deadline_ms: int, callback: Callable[[], None]) -> Callable[[], None]:
        wanted = [
            operation
            for command in effects_in(self._trial.store.load()[: self._trial.store.durable])
            if isinstance(command, StartTimer) and command.deadline_ms == deadline_ms
            for operation in (command.operation,)
        ]
        if not wanted:
            self._trial.faults.append(f"a timer for {deadline_ms} ms was set before what caused it was durable")
        return super().call_at(deadline_ms, callback)


def effects_in(records: Sequence[LogRecord]) -> list[object]:
    """All that follows from the records, in order."""
    return [effect for step in fold(records) for effect in step.effects]


def commands_in(records: Sequence[LogRecord]) -> list[Asked]:
    """The model calls, checks and runs that follow from the records."""
    return list(_commands(records))


def _commands(records: Sequence[LogRecord]) -> dict[Asked, CallModel | CheckCall | StartTool]:
    return {
        (type(effect), effect.operation): effect
        for effect in effects_in(records)
        if isinstance(effect, CallModel | CheckCall | StartTool)
    }


# --- what most duties are tried with ---


async def until(holds: Callable[[], bool], seconds: float | None = None) -> None:
    """Wait until it holds; no longer than what hangs, and whoever asks looks again. A driver may have its threads."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + (HANGING_SECONDS if seconds is None else seconds)
    turns = 0
    while not holds() and loop.time() < deadline:
        turns += 1
        await asyncio.sleep(0 if turns < TURNS else GLANCE_SECONDS)


def demand(holds: bool, otherwise: str) -> None:
    """Raises AssertionError with these words, also where Python leaves out assertions."""
    if not holds:
        raise AssertionError(otherwise)


async def at_once(context: RunContext) -> str:
    """A tool that is done at once."""
    return "done"


def rounds() -> list[Reply]:
    """Two rounds of several calls, and an answer in pieces."""
    calls = call_reply(*[("trial", Json.of({"n": number})) for number in range(CALLS)])
    pieces = tuple(ModelText(ANY, piece) for piece in PIECES)
    return [calls, (*pieces, *call_reply(("trial", Json.of({"last": True})))), text_reply("done")]


async def one_turn(factory: DriverFactory, trial: Trial) -> None:
    """Open, say, rest, close."""
    driver = await factory(trial.ports())
    try:
        await driver.send(GO)
        await driver.rest()
        demand(isinstance(driver.state, Idle), f"a turn came to rest in {type(driver.state).__name__}, not in Idle")
    finally:
        await driver.close()


async def in_time(driver: AnyDriver, told: str) -> None:
    """Wait for its rest. Raises AssertionError with what is told where it does not come."""
    try:
        async with asyncio.timeout(HANGING_SECONDS):
            await driver.rest()
    except TimeoutError:
        raise AssertionError(told) from None

"""A driver without an event loop: its ports, what it is tried through, and the way to the checks.

    check_driver(Synchronous(opened))
    fuzz_driver(Synchronous(opened))

Its ports block, and the one thread there is goes through them. What comes from outside meanwhile is posted while it
waits in a port, and stands in the driver's queue until the driver looks.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import ClassVar, Protocol, TypeVar

from attrs import frozen
from loopkernel.data.effects import CheckCall, Request, StartTool
from loopkernel.data.ids import ModelOperation
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import ModelDelta
from loopkernel.data.states import State
from loopkernel.data.thread_deltas import Created, ThreadDelta
from loopkernel.data.tools import ToolOutput, Verdict
from loopkernel.data.user_deltas import UserDelta
from loopkernel.later_typing import override

from loopkernel_adapters.blocking_ports import BlockingStore
from loopkernel_adapters.ports import Clock, Observer, Provider, RunContext, Tools
from loopkernel_adapters.testing.driver_trial import AnyDriver, DriverPorts
from loopkernel_adapters.testing.taking_turns import Outcome, Turns, awaited_outcome_of, outcome_of

T = TypeVar("T")


class SynchronousDriver(Protocol):
    """What a driver without an event loop is tried through."""

    @property
    def state(self) -> State:
        """The state after the last delta that was applied."""
        ...

    def post(self, delta: UserDelta | ThreadDelta) -> None:
        """Have the delta wait for its step. Comes while the driver waits in a port, too."""
        ...

    def rest(self) -> None:
        """Take what was posted, and work until nothing goes on by itself. Raises when the log cannot be written."""
        ...

    def close(self) -> None:
        """Let go of everything, the store included."""
        ...


class SynchronousProvider(Protocol):
    """A model that is waited for."""

    def stream(self, request: Request, operation: ModelOperation) -> Iterator[ModelDelta]:
        """The reply, delta by delta; otherwise as `Provider.stream`. Whoever reads no further closes it."""
        ...


class SynchronousTools(Protocol):
    """Tools that are waited for."""

    def check(self, command: CheckCall) -> Verdict:
        """As `Tools.check`."""
        ...

    def run(self, command: StartTool) -> ToolOutput:
        """As `Tools.run`, without a context."""
        ...


class SynchronousClock(Protocol):
    """Time, and a way to wait."""

    def now_ms(self) -> int:
        """The time in milliseconds."""
        ...

    def sleep_until(self, deadline_ms: int) -> None:
        """Wait for the deadline; returns before it when something was posted meanwhile."""
        ...


@frozen(kw_only=True)
class SynchronousPorts:
    """What a driver without an event loop is opened with."""

    store: BlockingStore
    created: Created
    provider: SynchronousProvider
    tools: SynchronousTools
    clock: SynchronousClock
    observer: Observer


SynchronousFactory = Callable[[SynchronousPorts], SynchronousDriver]


@frozen
class Synchronous:
    """A way to open a driver without an event loop, for whatever tries a driver."""

    # Those that it can have: the others are about what goes on beside it.
    duties: ClassVar[Sequence[int]] = (1, 2, 3, 5, 6, 7, 9, 10, 22)

    opened: SynchronousFactory

    async def __call__(self, ports: DriverPorts) -> AnyDriver:
        """The driver as any is tried."""
        thread = _Thread()
        clock = _Clock(ports.clock, thread)
        own = SynchronousPorts(
            store=ports.store,
            created=ports.created,
            provider=_Provider(ports.provider, thread),
            tools=_Tools(ports.tools, thread),
            clock=clock,
            observer=ports.observer,
        )
        return _Awaited(await thread.call(lambda: self.opened(own)), thread, clock.posted)


@frozen
class _Wanted:
    """What the thread waits for."""

    work: Callable[[], Awaitable[object]]


class _Thread:
    """The driver's thread. A call of the driver is awaited in the loop, and a port in turn by the thread."""

    def __init__(self) -> None:
        self._turns = Turns(self._run)

    async def call(self, act: Callable[[], T]) -> T:
        """Do it in the thread. Where this is cancelled, the port in which the thread waits raises CancelledError."""
        said = self._turns.give(act)
        while isinstance(said, _Wanted):
            said = self._turns.give(await awaited_outcome_of(said.work))
        assert isinstance(said, Outcome)
        result: T = said.result()
        return result

    def outside(self, work: Callable[[], Awaitable[T]]) -> T:
        """From within the thread: have the loop await it."""
        outcome = self._turns.say(_Wanted(work))
        assert isinstance(outcome, Outcome)
        result: T = outcome.result()
        return result

    def end(self) -> None:
        """It is not needed any more."""
        self._turns.give(None)

    def _run(self, act: object) -> None:
        while callable(act):
            act = self._turns.say(outcome_of(act))
        self._turns.say_last(None)


class _Awaited(AnyDriver):
    """The driver behind awaitable methods. It works whenever there is something to do, as any other."""

    def __init__(self, driver: SynchronousDriver, thread: _Thread, posted: asyncio.Event) -> None:
        self._driver = driver
        self._thread = thread
        self._posted = posted
        self._working: asyncio.Task[None] | None = None
        self._closed = False

    @property
    @override
    def state(self) -> State:
        return self._driver.state

    @override
    async def send(self, delta: UserDelta | ThreadDelta) -> None:
        self._driver.post(delta)
        self._posted.set()
        self._work()

    @override
    async def rest(self) -> None:
        working = self._work()
        await asyncio.wait({working})
        working.result()

    def _work(self) -> "asyncio.Task[None]":
        if self._working is None or (self._working.done() and not self._has_failed(self._working)):
            self._working = asyncio.ensure_future(self._thread.call(self._driver.rest))
        return self._working

    @staticmethod
    def _has_failed(working: "asyncio.Task[None]") -> bool:
        return working.cancelled() or working.exception() is not None

    @override
    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._working is not None:
            self._working.cancel()
            await asyncio.wait({self._working})
            self._working.cancelled() or self._working.exception()  # whoever waits for its rest is told
        await self._thread.call(self._driver.close)
        self._thread.end()


class _Provider(SynchronousProvider):
    def __init__(self, provider: Provider, thread: _Thread) -> None:
        self._provider = provider
        self._thread = thread

    @override
    def stream(self, request: Request, operation: ModelOperation) -> Iterator[ModelDelta]:
        stream = self._provider.stream(request, operation)

        async def next_delta() -> ModelDelta | None:
            return await anext(stream, None)

        while (delta := self._thread.outside(next_delta)) is not None:
            yield delta


class _Tools(SynchronousTools):
    def __init__(self, tools: Tools, thread: _Thread) -> None:
        self._tools = tools
        self._thread = thread

    @override
    def check(self, command: CheckCall) -> Verdict:
        return self._tools.check(command)

    @override
    def run(self, command: StartTool) -> ToolOutput:
        return self._thread.outside(lambda: self._tools.run(command, _Silent()))


class _Silent(RunContext):
    """What a run is given that has nothing to say on its way."""

    @override
    async def report_progress(self, text: str) -> None:
        raise AssertionError("a run of this duty reports its progress, and a driver without an event loop takes none")

    @override
    async def ask(self, question: str) -> Json | None:
        return None

    @override
    async def go_on_in_background(self, handle: str) -> None:
        raise RuntimeError("a driver without an event loop has no background")


class _Clock(SynchronousClock):
    def __init__(self, clock: Clock, thread: _Thread) -> None:
        self.posted = asyncio.Event()
        self._clock = clock
        self._thread = thread

    @override
    def now_ms(self) -> int:
        return self._clock.now_ms()

    @override
    def sleep_until(self, deadline_ms: int) -> None:
        self._thread.outside(lambda: self._until(deadline_ms))

    async def _until(self, deadline_ms: int) -> None:
        forget = self._clock.call_at(deadline_ms, self.posted.set)
        try:
            await self.posted.wait()
        finally:
            forget()
            self.posted.clear()

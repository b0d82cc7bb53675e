"""A driver without an event loop: its ports, what it is tried through, and the way to `check_driver`.

    check_driver(Synchronous(opened))

Its ports block, and the one thread there is goes through them. So what comes from outside while it works is posted from
within a port, and waits in the driver's queue until the driver looks.
"""

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from typing import Protocol, TypeVar

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
from loopkernel_adapters.ports import Observer, Provider, RunContext, Tools
from loopkernel_adapters.testing.driver_trial import AnyDriver, DriverPorts

# The duties that can be tried without an event loop: the others are about what goes on beside the driver.
DUTIES = (1, 2, 3, 5, 6, 7, 9, 10, 22)

T = TypeVar("T")


class SynchronousDriver(Protocol):
    """What a driver without an event loop is tried through."""

    @property
    def state(self) -> State:
        """The state after the last delta that was applied."""
        ...

    def post(self, delta: UserDelta | ThreadDelta) -> None:
        """Have the delta wait for its step. Comes from within a port, too, while the driver works."""
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
    """A way to open a driver without an event loop, for `check_driver` and `fuzz_driver`."""

    opened: SynchronousFactory

    async def __call__(self, ports: DriverPorts) -> AnyDriver:
        """The driver as `check_driver` tries any."""
        own = SynchronousPorts(
            store=ports.store,
            created=ports.created,
            provider=_Provider(ports.provider),
            tools=_Tools(ports.tools),
            clock=_Clock(ports.clock.now_ms),
            observer=ports.observer,
        )
        return _Awaited(self.opened(own))


class _Awaited(AnyDriver):
    """The driver behind awaitable methods, which await nothing."""

    def __init__(self, driver: SynchronousDriver) -> None:
        self._driver = driver

    @property
    @override
    def state(self) -> State:
        return self._driver.state

    @override
    async def send(self, delta: UserDelta) -> None:
        self._driver.post(delta)

    @override
    async def rest(self) -> None:
        self._driver.rest()

    @override
    async def close(self) -> None:
        self._driver.close()


class _Provider(SynchronousProvider):
    def __init__(self, provider: Provider) -> None:
        self._provider = provider

    @override
    def stream(self, request: Request, operation: ModelOperation) -> Iterator[ModelDelta]:
        stream: AsyncIterator[ModelDelta] = self._provider.stream(request, operation)
        while True:
            try:
                yield _at_once(_next(stream))
            except StopAsyncIteration:
                return


async def _next(stream: AsyncIterator[ModelDelta]) -> ModelDelta:
    return await anext(stream)


class _Tools(SynchronousTools):
    def __init__(self, tools: Tools) -> None:
        self._tools = tools

    @override
    def check(self, command: CheckCall) -> Verdict:
        return self._tools.check(command)

    @override
    def run(self, command: StartTool) -> ToolOutput:
        return _at_once(self._tools.run(command, _Silent()))


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


@frozen
class _Clock(SynchronousClock):
    """Time that stands still while duties are tried."""

    _now_ms: Callable[[], int]

    @override
    def now_ms(self) -> int:
        return self._now_ms()

    @override
    def sleep_until(self, deadline_ms: int) -> None:
        raise AssertionError(
            f"driver 7: it waits for {deadline_ms} ms of the clock, and time stands still in this duty"
        )


def _at_once(work: Coroutine[object, object, T]) -> T:
    """What the coroutine returns, which waits for nothing."""
    try:
        work.send(None)
    except StopIteration as ended:
        result: T = ended.value
        return result
    work.close()
    raise AssertionError("a port of this duty waits, and only a driver with an event loop can be tried with it")


def duties_of(opened: object) -> Sequence[int] | None:
    """The duties that such a driver is tried with by itself; None: all."""
    return DUTIES if isinstance(opened, Synchronous) else None

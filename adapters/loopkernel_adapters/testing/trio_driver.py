"""A driver of trio, and the way to the checks. Needs the package `trio`.

    check_driver(Trio(opened))      # async opened(ports, nursery): over a DriverPorts, its tasks in the nursery
    fuzz_driver(Trio(opened))

The driver, its nursery and whatever it awaits of its ports belong to trio. It lives in a thread that takes turns with
the event loop of the check: a turn is over when all tasks of trio are blocked. Time is the clock's among the ports, and
trio's own stands still.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import evolve, frozen
from loopkernel.data.effects import CheckCall, Request, StartTool
from loopkernel.data.ids import ModelOperation
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import ModelDelta
from loopkernel.data.policy import ResultLimit
from loopkernel.data.states import State
from loopkernel.data.thread_deltas import ThreadDelta
from loopkernel.data.tools import Tool, ToolOutput, Verdict
from loopkernel.data.user_deltas import UserDelta
from loopkernel.later_typing import override
from loopkernel.replaying import LogRecord

from loopkernel_adapters.ports import Clock, Provider, Restored, RunContext, Store, Tools
from loopkernel_adapters.testing.driver_trial import AnyDriver, DriverPorts
from loopkernel_adapters.testing.taking_turns import Outcome, Turns, awaited_outcome_of

if TYPE_CHECKING:
    import trio

T = TypeVar("T")
Act = Callable[[], object]
TrioFactory = Callable[[DriverPorts, "trio.Nursery"], Awaitable[AnyDriver]]


@frozen
class Trio:
    """A way to open a driver of trio, for whatever tries a driver."""

    opened: TrioFactory

    async def __call__(self, ports: DriverPorts) -> AnyDriver:
        """The driver as any is tried."""
        sides = _Sides()
        own = evolve(
            ports,
            awaited_store=_Store(ports.awaited_store, sides),
            provider=_Provider(ports.provider, sides),
            tools=_Tools(ports.tools, sides),
            clock=_Clock(ports.clock, sides),
        )
        try:
            return _Awaited(await sides.call(lambda: self.opened(own, sides.nursery)), sides)
        except BaseException:
            await sides.end()
            raise


class _Sides:
    """The event loop on one side, trio in its thread on the other."""

    nursery: "trio.Nursery"  # the driver's

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._turns = Turns(self._run)
        self._for_the_loop: list[Act] = []  # what trio wants of the loop, at the end of its turn
        self._wanted: dict[int, asyncio.Task[Outcome[Any]]] = {}  # Any: whatever a port gives
        self._calls: set[asyncio.Future[Outcome[Any]]] = set()
        self._made = 0
        self._failed: Exception | None = None  # a task of the driver
        self.over = False

    # --- the loop's side ----------------------------------------------------------------------------------

    def turn(self, act: Act) -> None:
        """Have trio do it, and go on until all its tasks are blocked."""
        if self.over:
            return
        self._turns.give(act)
        wanted, self._for_the_loop = self._for_the_loop, []
        for each in wanted:
            each()

    async def call(self, method: Callable[[], Awaitable[T]]) -> T:
        """Await it in trio. A cancellation of this is one there."""
        import trio

        if self._failed is not None:
            raise self._failed
        called: asyncio.Future[Outcome[T]] = self._loop.create_future()
        self._calls.add(called)
        scope = trio.CancelScope()
        self.turn(lambda: self._whole.start_soon(self._carried, method, scope, called))
        try:
            await asyncio.wait({called})
        except asyncio.CancelledError:
            self.turn(scope.cancel)
            await asyncio.wait({called})
            raise
        finally:
            self._calls.discard(called)
        return called.result().result()

    async def end(self) -> None:
        """Trio ends, and what it waits for with it."""
        for task in list(self._wanted.values()):
            task.cancel()
        await asyncio.sleep(0)
        self._turns.give(None)

    def _begin(self, number: int, work: Callable[[], Awaitable[object]], came: Callable[[Outcome[Any]], None]) -> None:
        task = self._loop.create_task(awaited_outcome_of(work))
        self._wanted[number] = task

        def ended(task: "asyncio.Task[Outcome[Any]]") -> None:
            self._wanted.pop(number, None)
            outcome = Outcome(error=asyncio.CancelledError()) if task.cancelled() else task.result()
            self.turn(lambda: came(outcome))

        task.add_done_callback(ended)

    # --- trio's side --------------------------------------------------------------------------------------

    async def outside(self, work: Callable[[], Awaitable[T]]) -> T:
        """From within trio: have the loop await it. A cancellation of this is one there, which may be ignored."""
        import trio

        self._made += 1
        number, arrived = self._made, trio.Event()
        outcomes: list[Outcome[T]] = []

        def came(outcome: Outcome[T]) -> None:
            outcomes.append(outcome)
            arrived.set()

        self._for_the_loop.append(partial(self._begin, number, work, came))
        try:
            await arrived.wait()
        except trio.Cancelled:
            self._for_the_loop.append(lambda: number in self._wanted and self._wanted[number].cancel())
            with trio.CancelScope(shield=True):
                await arrived.wait()
            if not outcomes or isinstance(outcomes[0].error, asyncio.CancelledError):
                raise
        return outcomes[0].result()

    def _run(self, act: object) -> None:
        import trio

        # It shuffles the tasks that are ready, and the same run is to be the same.
        shuffling: Any = trio._core._run  # Any: what is private there has no types here
        shuffling._ALLOW_DETERMINISTIC_SCHEDULING = True
        shuffling._r.seed(0)
        trio.run(self._main, act)

    async def _main(self, act: object) -> None:
        import trio
        import trio.testing

        async with trio.open_nursery() as self._whole:
            self._whole.start_soon(self._hold_nursery)
            await trio.testing.wait_all_tasks_blocked()
            while callable(act):
                act()
                await trio.testing.wait_all_tasks_blocked()
                act = self._turns.say(None)
            self.over = True
            self._whole.cancel_scope.cancel()
            with trio.CancelScope(shield=True):
                await trio.testing.wait_all_tasks_blocked()
            self._turns.say_last(None)  # what bears no cancellation is left in this thread

    async def _hold_nursery(self) -> None:
        import trio

        try:
            async with trio.open_nursery() as self.nursery:
                await trio.sleep_forever()
        except Exception as error:  # a task of the driver's
            self._failed = error
            while isinstance(self._failed, ExceptionGroup) and len(self._failed.exceptions) == 1:
                self._failed = self._failed.exceptions[0]
            for called in self._calls:
                self._for_the_loop.append(partial(_settle, called, Outcome(error=self._failed)))

    async def _carried(
        self, method: Callable[[], Awaitable[T]], scope: "trio.CancelScope", called: "asyncio.Future[Outcome[T]]"
    ) -> None:
        outcome: Outcome[T] = Outcome(error=asyncio.CancelledError())
        with scope:
            try:
                outcome = Outcome(await method())
            except Exception as error:
                outcome = Outcome(error=error)
        self._for_the_loop.append(partial(_settle, called, outcome))


def _settle(called: "asyncio.Future[Outcome[T]]", outcome: Outcome[T]) -> None:
    if not called.done():
        called.set_result(outcome)


class _Awaited(AnyDriver):
    """The driver, as the event loop awaits it."""

    def __init__(self, driver: AnyDriver, sides: _Sides) -> None:
        self._driver = driver
        self._sides = sides

    @property
    @override
    def state(self) -> State:
        return self._driver.state

    @override
    async def send(self, delta: UserDelta | ThreadDelta) -> None:
        await self._sides.call(lambda: self._driver.send(delta))  # type: ignore[arg-type]  # as all that drives one

    @override
    async def rest(self) -> None:
        await self._sides.call(self._driver.rest)

    @override
    async def close(self) -> None:
        if self._sides.over:
            return
        try:
            await self._sides.call(self._driver.close)
        finally:
            await self._sides.end()


# --- the ports, as trio has them --------------------------------------------------------------------------


class _Store(Store):
    def __init__(self, store: Store, sides: _Sides) -> None:
        self._store = store
        self._sides = sides

    @override
    async def append(self, records: Sequence[LogRecord], durable: bool, taken: Sequence[int] = ()) -> None:
        await self._sides.outside(lambda: self._store.append(records, durable, taken))

    @override
    async def load(self) -> tuple[LogRecord, ...]:
        return await self._sides.outside(self._store.load)

    @override
    async def restore(self) -> Restored:
        return await self._sides.outside(self._store.restore)

    @override
    async def save_snapshot(self, state: State) -> None:
        await self._sides.outside(lambda: self._store.save_snapshot(state))

    @override
    async def close(self) -> None:
        await self._sides.outside(self._store.close)


class _Provider(Provider):
    def __init__(self, provider: Provider, sides: _Sides) -> None:
        self._provider = provider
        self._sides = sides

    @override
    async def stream(self, request: Request, operation: ModelOperation) -> AsyncIterator[ModelDelta]:
        import trio

        stream = self._provider.stream(request, operation)

        async def next_delta() -> ModelDelta | None:
            return await anext(stream, None)

        try:
            while (delta := await self._sides.outside(next_delta)) is not None:
                yield delta
        finally:
            with trio.CancelScope(shield=True):
                await self._sides.outside(stream.aclose)  # type: ignore[attr-defined]  # a generator, as all streams are


class _Tools(Tools):
    def __init__(self, tools: Tools, sides: _Sides) -> None:
        self._tools = tools
        self._sides = sides

    @override
    def offered(self) -> tuple[Tool, ...]:
        return self._tools.offered()

    @override
    def check(self, command: CheckCall) -> Verdict:
        return self._tools.check(command)

    @override
    async def run(self, command: StartTool, context: RunContext) -> ToolOutput:
        return await self._sides.outside(lambda: self._tools.run(command, _Context(context, self._sides)))


class _Context(RunContext):
    """What a run may say, on the loop's side."""

    def __init__(self, context: RunContext, sides: _Sides) -> None:
        self._context = context
        self._sides = sides

    @property
    @override
    def key(self) -> str:
        return self._context.key

    @property
    @override
    def spill(self) -> ResultLimit | None:
        return self._context.spill

    @override
    async def report_progress(self, text: str) -> None:
        await self._sides.call(lambda: self._context.report_progress(text))

    @override
    async def ask(self, question: str) -> Json | None:
        return await self._sides.call(lambda: self._context.ask(question))

    @override
    async def go_on_in_background(self, handle: str) -> None:
        await self._sides.call(lambda: self._context.go_on_in_background(handle))


class _Clock(Clock):
    def __init__(self, clock: Clock, sides: _Sides) -> None:
        self._clock = clock
        self._sides = sides

    @override
    def now_ms(self) -> int:
        return self._clock.now_ms()

    @override
    def call_at(self, deadline_ms: int, callback: Callable[[], None]) -> Callable[[], None]:
        return self._clock.call_at(deadline_ms, lambda: self._sides.turn(callback))

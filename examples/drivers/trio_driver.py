"""A whole driver of trio: one step at a time behind a lock, and a task for each model call, check, run and timer."""

from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from functools import partial

import trio
from loopkernel import Context, LogRecord, ToolOutput, deltas, effects, replay, transition
from loopkernel.states import Cancelled, Confirming, Done, Idle, Initial, State
from loopkernel_adapters import RunContext, StoreFailed
from loopkernel_adapters.testing import DriverPorts

AT_REST = (Idle, Cancelled, Confirming, Done)
Job = tuple[str, int]  # what is under way: its kind, and its operation


class Quiet(RunContext):
    """For tools that say and ask nothing while they run."""

    async def report_progress(self, text: str) -> None: ...
    async def ask(self, question: str) -> None: ...
    async def go_on_in_background(self, handle: str) -> None: ...


class TrioDriver:
    def __init__(self, ports: DriverPorts, nursery: trio.Nursery) -> None:
        self._ports = ports
        self._nursery = nursery
        self._step = trio.Lock()
        self._jobs: dict[Job, trio.CancelScope] = {}
        self._changed = trio.Event()
        self._stopped = ""  # why nothing more is written
        self.state: State = Initial()

    @classmethod
    async def open(cls, ports: DriverPorts, nursery: trio.Nursery) -> "TrioDriver":
        driver = cls(ports, nursery)
        restored = await ports.awaited_store.restore()
        driver.state = replay(restored.records, restored.state or Initial())
        begins = driver.state == Initial()
        for delta in (ports.created, deltas.Acquired()) if begins else (deltas.Resumed(),):
            await driver.send(delta)
        return driver

    async def send(self, delta: deltas.Delta) -> None:
        with trio.CancelScope(shield=True):  # a step is taken whole or not at all
            async with self._step:
                await self._take(delta)
        self._tell()

    async def rest(self) -> None:
        while not self._stopped and any(map(self._goes_on, list(self._jobs))):
            await self._changed.wait()
        if self._stopped:
            raise StoreFailed(self._stopped)

    async def close(self) -> None:
        with trio.CancelScope(shield=True):
            self._stop("the driver is closed")
            while self._jobs:
                await self._changed.wait()
            await self._ports.awaited_store.close()

    def _goes_on(self, job: Job) -> bool:
        waits = job[0] == "timer" and isinstance(self.state, AT_REST)
        return not waits and not self._jobs[job].cancel_called

    def _tell(self) -> None:
        changed, self._changed = self._changed, trio.Event()
        changed.set()

    def _stop(self, why: str) -> None:
        self._stopped = self._stopped or why
        for scope in self._jobs.values():
            scope.cancel()

    async def _take(self, delta: deltas.Delta) -> None:
        if self._stopped:
            raise StoreFailed(self._stopped)
        record = LogRecord(delta, self._ports.clock.now_ms())
        try:
            await self._ports.awaited_store.append((record,), durable=True)
        except OSError as error:
            self._stop("the log cannot be written")
            raise StoreFailed(self._stopped) from error
        self.state, found = transition(self.state, Context(delta, record.now_ms))
        for effect in found:
            self._carry_out(effect)

    def _carry_out(self, effect: effects.Effect) -> None:
        match effect:
            case effects.CallModel(operation=operation):
                self._begin(("model", operation), partial(self._ask, effect))
            case effects.CheckCall(operation=operation):
                verdict = self._ports.tools.check(effect)
                self._begin(("check", operation), partial(self.send, deltas.ToolChecked(operation, verdict)))
            case effects.StartTool(operation=operation):
                self._begin(("tool", operation), partial(self._run, effect))
            case effects.StartTimer(operation=operation):
                self._begin(("timer", operation), partial(self._ring, effect))
            case effects.AbortModel(operation=operation):
                self._end(("model", operation))
            case effects.AbortTool(operation=operation):
                self._end(("tool", operation))
            case effects.CancelTimer(operation=operation):
                self._end(("timer", operation))
            case event:
                with suppress(Exception):
                    self._ports.observer(event)  # type: ignore[arg-type]  # a driver with more ports has more cases

    def _begin(self, job: Job, work: Callable[[], Awaitable[None]]) -> None:
        self._jobs[job] = trio.CancelScope()
        self._nursery.start_soon(self._carried_out, job, work)

    def _end(self, job: Job) -> None:
        if job in self._jobs:
            self._jobs[job].cancel()

    async def _carried_out(self, job: Job, work: Callable[[], Awaitable[None]]) -> None:
        with suppress(StoreFailed):
            with self._jobs[job] as scope:
                await trio.lowlevel.checkpoint()  # what was aborted before it began is not begun
                await work()
            if scope.cancelled_caught and job[0] == "tool":
                await self.send(deltas.ToolStopped(effects.RunOperation(job[1])))
        del self._jobs[job]
        self._tell()

    async def _ask(self, command: effects.CallModel) -> None:
        error = deltas.ErrorClass.NETWORK
        try:
            async with aclosing(self._ports.provider.stream(command.request, command.operation)) as stream:  # type: ignore[type-var]  # all streams are generators
                async for delta in stream:
                    await self.send(delta)
                    if isinstance(delta, deltas.ModelCompleted | deltas.ModelFailed):
                        return
        except (ConnectionError, EOFError):
            pass
        except TimeoutError:
            error = deltas.ErrorClass.STALLED
        except (Exception, SystemExit):
            error = deltas.ErrorClass.UNKNOWN
        await self.send(deltas.ModelFailed(command.operation, error=error, message="the reply has no end"))

    async def _run(self, command: effects.StartTool) -> None:
        try:
            output = await self._ports.tools.run(command, Quiet())
        except (Exception, SystemExit) as error:
            await self.send(deltas.ToolFailed(command.operation, ToolOutput(str(error) or type(error).__name__)))
        else:
            await self.send(deltas.ToolSucceeded(command.operation, output))

    async def _ring(self, timer: effects.StartTimer) -> None:
        due = trio.Event()
        forget = self._ports.clock.call_at(timer.deadline_ms, due.set)
        try:
            await due.wait()
        finally:
            forget()
        await self.send(deltas.TimerFired(timer.operation))

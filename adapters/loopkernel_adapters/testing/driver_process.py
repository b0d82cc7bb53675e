"""A driver that is another program, in any language, and the way to the checks.

    check_driver(DriverProcess(["node", "my_driver.js"]))
    fuzz_driver(DriverProcess(["node", "my_driver.js"]))

It reads and writes lines of JSON, as `specs/testing.md` says ("A driver in another language"). Its ports are at this
end: what it would do outside it asks for here, and each report comes as the delta that is to be recorded. After each
line it says when it has nothing more to do, so nothing depends on how fast it is. A death in a drawn world is SIGKILL.
"""

import asyncio
import contextlib
import json
import os
import select
import subprocess
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, ClassVar, TypeVar

from attrs import Factory, define, frozen
from loopkernel.codec import effects_to_text, record_from_text, record_to_text, state_from_text
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import CallModel, CheckCall, StartTimer, StartTool
from loopkernel.data.events import Event
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import ModelCompleted, ModelFailed
from loopkernel.data.outside_deltas import TimerFired
from loopkernel.data.states import State
from loopkernel.data.thread_deltas import ThreadDelta
from loopkernel.data.tool_deltas import ToolChecked, ToolFailed, ToolStopped, ToolSucceeded
from loopkernel.data.tools import ToolOutput
from loopkernel.data.user_deltas import UserDelta
from loopkernel.data.words import ErrorClass
from loopkernel.later_typing import override
from loopkernel.replaying import START, LogRecord, fold

from loopkernel_adapters.ports import RunContext, StoreFailed
from loopkernel_adapters.testing.driver_trial import AnyDriver, DriverPorts
from loopkernel_adapters.testing.taking_turns import Outcome, awaited_outcome_of

T = TypeVar("T")
Told = dict[str, Any]  # Any: a line of JSON of the driver's
Job = tuple[str, int]  # a command: its type, and its operation


@define(eq=False)
class DriverProcess:
    """A way to open a driver that is another program. It is started when it is first needed, and serves many logs.

    One that says nothing for `patience_seconds` (of real time) is killed.
    """

    # Those that can be tried through the lines.
    duties: ClassVar[Sequence[int]] = (1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 16, 17)

    command: Sequence[str]
    patience_seconds: float = 10.0
    _process: "subprocess.Popen[bytes] | None" = Factory(lambda: None)
    _heard: bytearray = Factory(bytearray)

    async def __call__(self, ports: DriverPorts) -> AnyDriver:
        """The driver as any is tried."""
        driver = _Foreign(self, ports)
        driver.open()
        return driver

    def say(self, line: Told) -> None:
        """Give it a line."""
        process = self._process
        if process is None:
            pipe = subprocess.PIPE
            process = self._process = subprocess.Popen(self.command, stdin=pipe, stdout=pipe, bufsize=0)
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # what became of it is told when it is heard
            process.stdin.write(json.dumps(line).encode() + b"\n")

    def hear(self) -> Told:
        """The next line that it says. Raises RuntimeError where none comes, or it is not an object."""
        line, found, rest = self._heard.partition(b"\n")
        while not found:
            self._heard += self._read()
            line, found, rest = self._heard.partition(b"\n")
        self._heard = rest
        try:
            told: object = json.loads(line)
        except ValueError:
            told = None
        if not isinstance(told, dict):
            raise RuntimeError(f"the driver said {bytes(line[:80])!r}, which is not an object of JSON")
        return told

    def _read(self) -> bytes:
        assert self._process is not None
        assert self._process.stdout is not None
        process, out = self._process, self._process.stdout.fileno()
        if not select.select([out], [], [], self.patience_seconds)[0]:
            self.end()
            raise RuntimeError(f"the driver said nothing for {self.patience_seconds:g} s, and not that it waits")
        read = os.read(out, 1 << 16)
        if not read:
            self.end()
            raise RuntimeError(f"the driver has ended with status {process.returncode}; its standard error says why")
        return read

    def end(self) -> None:
        """Kill it, if it runs; the next log has a new one."""
        process, self._process = self._process, None
        self._heard.clear()
        if process is not None:
            process.kill()
            process.communicate()


@frozen
class _Command:
    """A command that follows from the log: as its driver has to name it, and as the ports know it."""

    effect: CallModel | CheckCall | StartTool | StartTimer
    text: Told


class _Foreign(AnyDriver):
    """The driver of one log, and its ports at this end."""

    def __init__(self, process: DriverProcess, ports: DriverPorts) -> None:
        self._process = process
        self._ports = ports
        self._known: dict[Job, _Command] = {}
        self._events: dict[str, deque[Event]] = {}  # that follow from the log and were not shown, by their texts
        self._folded: State = START
        self._jobs: dict[Job, asyncio.Task[Any]] = {}
        self._timers: dict[int, Callable[[], None]] = {}
        self._waiting: Told = {}
        self._fault: Exception | None = None  # it does not keep to the protocol, or to its log
        self._changed = asyncio.Event()
        self._closed = False

    # --- what it is tried through -------------------------------------------------------------------------

    @property
    @override
    def state(self) -> State:
        return state_from_text(json.dumps(self._waiting["state"]))

    def open(self) -> None:
        """Have it begin, or go on with its log."""
        records = self._ports.store.load()
        self._fold(records)
        written = [json.loads(record_to_text(record)) for record in records]
        self._turn({"open": {"created": _as_json(self._ports.created), "records": written}})

    @override
    async def send(self, delta: UserDelta | ThreadDelta) -> None:
        self._turn({"report": _as_json(delta)})
        self._look_for_faults()

    @override
    async def rest(self) -> None:
        self._look_for_faults()
        while not self._waiting["rests"]:
            self._changed.clear()
            await self._changed.wait()
            self._look_for_faults()

    def _look_for_faults(self) -> None:
        if self._fault is not None:
            raise self._fault
        if self._waiting.get("failed"):
            raise StoreFailed(self._waiting["failed"])

    @override
    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._fault is None:
            self._turn({"close": True})
        for forget in self._timers.values():
            forget()
        self._ports.store.close()
        left = list(self._jobs.values())
        for job in left:
            job.cancel()
        if left:
            letting_go = asyncio.ensure_future(asyncio.wait(left))
            try:
                await asyncio.shield(letting_go)
            finally:  # a close that is cancelled is finished all the same
                await asyncio.wait({letting_go})

    def kill(self) -> None:
        """Kill its process."""
        self._closed = True
        self._process.end()

    # --- its turn -----------------------------------------------------------------------------------------

    def _report(self, delta: Delta) -> None:
        """Something has happened outside. It is told, whatever it makes of it; what is wrong is told at its rest."""
        if self._closed or self._fault is not None:
            return
        try:
            self._turn({"report": _as_json(delta)})
        except Exception as error:
            self._fault = error
            self._changed.set()

    def _turn(self, line: Told) -> None:
        self._process.say({**line, "now_ms": self._ports.clock.now_ms()})
        while True:
            told = self._process.hear()
            match told:
                case {"waiting": dict(waiting)}:
                    self._waiting = waiting
                    self._changed.set()
                    return
                case {"append": list(records), "durable": bool(durable)}:
                    self._append(records, durable)
                case {"show": dict(event)}:
                    self._show(event)
                case {"do": dict(effect)}:
                    self._do(effect)
                case _:
                    raise RuntimeError(f"the driver said {json.dumps(told)[:200]}, which is none of its lines")

    def _append(self, records: Sequence[object], durable: bool) -> None:
        read = [record_from_text(json.dumps(record)) for record in records]
        try:
            self._ports.store.append(read, durable)
        except OSError as error:
            self._process.say({"failed": str(error)})
            return
        self._fold(read)
        self._process.say({"appended": len(read)})

    def _fold(self, records: Sequence[LogRecord]) -> None:
        """What follows from the records, by this kernel."""
        for step in fold(records, self._folded):
            self._folded = step.after
            for effect, text in zip(step.effects, json.loads(effects_to_text(step.effects)), strict=True):
                if isinstance(effect, CallModel | CheckCall | StartTool | StartTimer):
                    self._known[_job_of(text)] = _Command(effect, text)
                elif isinstance(effect, Event):
                    self._events.setdefault(_sorted(text), deque()).append(effect)

    def _show(self, event: Told) -> None:
        follows = self._events.get(_sorted(event))
        if not follows:
            raise AssertionError(f"driver 2: {event.get('type')} is shown, and does not follow from what is in the log")
        with contextlib.suppress(Exception):
            self._ports.observer(follows.popleft())

    def _do(self, told: Told) -> None:
        job = _job_of(told)
        match job[0]:
            case "abort-model" | "abort-tool":
                under_way = self._jobs.get(("call-model" if job[0] == "abort-model" else "start-tool", job[1]))
                if under_way is not None:
                    under_way.cancel()
                return
            case "cancel-timer":
                self._timers.pop(job[1], _nothing)()
                return
        command = self._known.get(job)
        if command is None:
            raise AssertionError(f"driver 3: {job[0]} {job[1]} is to be done before what causes it is in the log")
        if _sorted(told) != _sorted(command.text):
            raise AssertionError(f"driver 5: {job[0]} {job[1]} has another input than its command says")
        match command.effect:
            case CallModel() as call:
                self._begin(job, partial(self._read, call), _nothing_of)
            case CheckCall() as check:
                verdict = self._ports.tools.check(check)
                asyncio.get_running_loop().call_soon(self._report, ToolChecked(check.operation, verdict))
            case StartTool() as start:
                self._begin(job, partial(self._ports.tools.run, start, _Quiet()), partial(_end_of_run, start))
            case StartTimer() as timer:
                self._timers[job[1]] = self._ports.clock.call_at(timer.deadline_ms, partial(self._ring, timer))

    def _ring(self, timer: StartTimer) -> None:
        self._timers.pop(timer.operation, None)
        self._report(TimerFired(timer.operation))

    def _begin(self, job: Job, work: Callable[[], Awaitable[T]], end_of: Callable[[Outcome[T]], Delta | None]) -> None:
        task = asyncio.ensure_future(awaited_outcome_of(work))
        self._jobs[job] = task

        def ended(task: "asyncio.Task[Outcome[T]]") -> None:
            self._jobs.pop(job, None)
            delta = end_of(Outcome(error=asyncio.CancelledError()) if task.cancelled() else task.result())
            if delta is not None:
                self._report(delta)

        task.add_done_callback(ended)

    async def _read(self, call: CallModel) -> None:
        error = ErrorClass.NETWORK
        try:
            async for delta in self._ports.provider.stream(call.request, call.operation):
                self._report(delta)
                if isinstance(delta, ModelCompleted | ModelFailed):
                    return
                await asyncio.sleep(0)
        except (ConnectionError, EOFError):
            pass
        except TimeoutError:
            error = ErrorClass.STALLED
        except Exception:
            error = ErrorClass.UNKNOWN
        self._report(ModelFailed(call.operation, error=error, message="the reply has no end"))


def _end_of_run(start: StartTool, outcome: Outcome[ToolOutput]) -> Delta:
    match outcome.error:
        case None:
            return ToolSucceeded(start.operation, outcome.result())
        case asyncio.CancelledError():
            return ToolStopped(start.operation)
        case error:
            return ToolFailed(start.operation, ToolOutput(str(error) or type(error).__name__))


def _job_of(told: Told) -> Job:
    command = told.get("command", told)  # a command with a thread stands beside the handle of its thread
    return command["type"], command["operation"]


def _nothing_of(outcome: Outcome[None]) -> None:
    """What the stream has said is told already."""


def _nothing() -> None:
    """There is no such timer."""


def _as_json(delta: Delta) -> Told:
    told: Told = json.loads(record_to_text(LogRecord(delta, 0)))["delta"]
    return told


def _sorted(told: Told) -> str:
    return json.dumps(told, sort_keys=True)


class _Quiet(RunContext):
    """For tools that say and ask nothing while they run."""

    @override
    async def report_progress(self, text: str) -> None:
        pass

    @override
    async def ask(self, question: str) -> Json | None:
        return None

    @override
    async def go_on_in_background(self, handle: str) -> None:
        raise RuntimeError("a driver in another process has no background")

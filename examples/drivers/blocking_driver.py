"""A whole driver without an event loop: one thread, a queue of inputs, and ports that are waited for."""

import contextlib
from collections import deque
from collections.abc import Iterator

from loopkernel import Context, LogRecord, ToolOutput, deltas, effects, replay, transition
from loopkernel.states import Cancelled, Confirming, Done, Idle, Initial, State
from loopkernel_adapters import StoreFailed
from loopkernel_adapters.testing import SynchronousPorts

AT_REST = (Idle, Cancelled, Confirming, Done)


class BlockingDriver:
    def __init__(self, ports: SynchronousPorts) -> None:
        self._ports = ports
        self._commands: deque[effects.CallModel | effects.CheckCall | effects.StartTool] = deque()
        self._timers: dict[int, effects.StartTimer] = {}
        self._aborted: set[int | tuple[int]] = set()  # model calls, and runs as tuples
        restored = ports.store.restore()
        self.state: State = replay(restored.records, restored.state or Initial())
        begins = self.state == Initial()
        self._inputs = deque[deltas.Delta]((ports.created, deltas.Acquired()) if begins else (deltas.Resumed(),))
        self._hear()

    def post(self, delta: deltas.Delta) -> None:
        self._inputs.append(delta)

    def rest(self) -> None:
        self._hear()
        while self._commands or (self._timers and not isinstance(self.state, AT_REST)):
            if self._commands:
                self._carry_out(self._commands.popleft())
            else:
                self._ports.clock.sleep_until(min(timer.deadline_ms for timer in self._timers.values()))
            self._hear()

    def close(self) -> None:
        self._ports.store.close()

    def _hear(self) -> None:
        while self._inputs:
            self._take(self._inputs.popleft())
        for timer in sorted(self._timers.values(), key=lambda timer: timer.deadline_ms):
            if timer.deadline_ms <= self._ports.clock.now_ms() and timer.operation in self._timers:
                del self._timers[timer.operation]
                self._take(deltas.TimerFired(timer.operation))

    def _take(self, delta: deltas.Delta) -> None:
        record = LogRecord(delta, self._ports.clock.now_ms())
        try:
            self._ports.store.append((record,), durable=True)
        except OSError as error:
            self._commands.clear()
            raise StoreFailed("the log cannot be written") from error
        self.state, found = transition(self.state, Context(delta, record.now_ms))
        for effect in found:
            match effect:
                case effects.CallModel() | effects.CheckCall() | effects.StartTool():
                    self._commands.append(effect)
                case effects.StartTimer(operation=operation):
                    self._timers[operation] = effect
                case effects.CancelTimer(operation=operation):
                    self._timers.pop(operation, None)
                case effects.AbortModel(operation=operation):
                    self._aborted.add(operation)
                case effects.AbortTool(operation=operation):
                    self._aborted.add((operation,))
                case event:
                    with contextlib.suppress(Exception):
                        self._ports.observer(event)  # type: ignore[arg-type]  # a driver with more ports has more cases

    def _carry_out(self, command: effects.CallModel | effects.CheckCall | effects.StartTool) -> None:
        match command:
            case effects.CallModel():
                self._ask(command)
            case effects.CheckCall():
                self._take(deltas.ToolChecked(command.operation, self._ports.tools.check(command)))
            case effects.StartTool() if (command.operation,) in self._aborted:
                self._take(deltas.ToolStopped(command.operation))
            case effects.StartTool():
                self._take(self._run(command))

    def _run(self, command: effects.StartTool) -> deltas.ToolSucceeded | deltas.ToolFailed:
        try:
            return deltas.ToolSucceeded(command.operation, self._ports.tools.run(command))
        except (Exception, SystemExit) as error:
            return deltas.ToolFailed(command.operation, ToolOutput(str(error) or type(error).__name__))

    def _ask(self, command: effects.CallModel) -> None:
        stream = self._ports.provider.stream(command.request, command.operation)
        while command.operation not in self._aborted:
            delta = self._next(stream, command)
            self._take(delta)
            if isinstance(delta, deltas.ModelCompleted | deltas.ModelFailed):
                return
            self._hear()

    def _next(self, stream: Iterator[deltas.ModelDelta], command: effects.CallModel) -> deltas.ModelDelta:
        try:
            return next(stream)
        except (StopIteration, ConnectionError, EOFError):
            error = deltas.ErrorClass.NETWORK
        except TimeoutError:
            error = deltas.ErrorClass.STALLED
        except (Exception, SystemExit):
            error = deltas.ErrorClass.UNKNOWN
        return deltas.ModelFailed(command.operation, error=error, message="the reply has no end")

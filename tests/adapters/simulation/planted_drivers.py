"""Bugs that a driver may have, planted one at a time into the real one: what tests of it have to find."""

from collections.abc import Callable, Sequence

import pytest
from attrs import evolve
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import CancelTimer, Command
from loopkernel.data.events import Event
from loopkernel.data.records import LogRecord
from loopkernel.data.states import State
from loopkernel_adapters.driver import asyncio_driver, supervision
from loopkernel_adapters.driver.asyncio_driver import Driver, Step
from loopkernel_adapters.driver.audience import Audience
from loopkernel_adapters.driver.log_writer import LogWriter
from loopkernel_adapters.driver.operations import Operations
from loopkernel_adapters.driver.supervision import Supervisor
from loopkernel_adapters.driver.taking_up import opening_deltas
from loopkernel_adapters.driver.work import ToolRun
from loopkernel_adapters.ports import Tools

Plant = Callable[[pytest.MonkeyPatch], None]
PLANTED: dict[str, Plant] = {}


def planted(plant: Plant) -> Plant:
    PLANTED[plant.__name__.replace("_", "-")] = plant
    return plant


@planted
def command_before_append(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a step asks for begins while its records still wait to be written."""
    add = LogWriter.add
    monkeypatch.setattr(LogWriter, "add", lambda log, records, durable, taken=(): add(log, records, False, taken))


@planted
def events_before_the_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """What follows from a record is shown while it is being written."""
    write = Driver._write

    async def hasty(driver: Driver, step: Step) -> None:
        driver._audience.show(step.events, ())
        await write(driver, evolve(step, events=[]))

    monkeypatch.setattr(Driver, "_write", hasty)


@planted
def commands_before_the_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a record asks for begins while it is being written."""
    write = Driver._write

    async def hasty(driver: Driver, step: Step) -> None:
        for command in step.commands:
            driver._operations.begin(command, step.state)
        await write(driver, evolve(step, commands=()))

    monkeypatch.setattr(Driver, "_write", hasty)


@planted
def sends_before_the_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever sends something hears that it is recorded while it is being written."""
    write = Driver._write

    async def hasty(driver: Driver, step: Step) -> None:
        driver._applied = step.arrived
        driver._senders.wake(everyone=False)
        await write(driver, step)

    monkeypatch.setattr(Driver, "_write", hasty)


@planted
def writes_after_close(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for the write that is under way when the driver is closed."""
    close = Driver._close

    async def hasty(driver: Driver, stop_seconds: float) -> None:
        driver._writing = None
        await close(driver, stop_seconds)

    monkeypatch.setattr(Driver, "_close", hasty)


@planted
def takes_a_step_while_it_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes in while a step is recorded is applied to the state before that step."""
    drain = Driver._drain

    def hasty(driver: Driver) -> None:
        driver._writing = None
        drain(driver)

    monkeypatch.setattr(Driver, "_drain", hasty)


@planted
def lost_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each third outcome gets lost."""
    report, seen = Driver._report, [0]

    def losing(driver: Driver, outcome: Delta | None) -> None:
        seen[0] += 1
        report(driver, None if seen[0] % 3 == 0 else outcome)

    monkeypatch.setattr(Driver, "_report", losing)


@planted
def double_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tool is run twice for one command."""
    serve = ToolRun.serve

    async def twice(run: ToolRun, tools: Tools) -> Delta:
        await serve(run, tools)
        return await serve(run, tools)

    monkeypatch.setattr(ToolRun, "serve", twice)


@planted
def timer_not_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = Operations.begin

    def forgetful(operations: Operations, command: Command, state: State) -> Delta | None:
        return None if isinstance(command, CancelTimer) else begin(operations, command, state)

    monkeypatch.setattr(Operations, "begin", forgetful)


@planted
def abort_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Supervisor, "abort", lambda supervisor, key: None)


@planted
def report_after_close(monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes in while the driver closes is taken as if it were open."""
    monkeypatch.setattr(Driver, "_closed", property(lambda driver: False, lambda driver, closed: None), raising=False)


@planted
def task_left(monkeypatch: pytest.MonkeyPatch) -> None:
    async def leaving(supervisor: Supervisor, stop_seconds: float) -> tuple[str, ...]:
        return ()

    monkeypatch.setattr(Supervisor, "close", leaving)


@planted
def event_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the events of a step, the last is not shown."""
    show = Audience.show

    def losing(audience: Audience, events: Sequence[Event], records: Sequence[LogRecord]) -> None:
        show(audience, events[:-1] if len(events) > 2 else events, records)

    monkeypatch.setattr(Audience, "show", losing)


@planted
def acknowledged_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is made durable for its own sake."""
    monkeypatch.setattr(asyncio_driver, "must_last", lambda delta, effects, at_rest: False)


@planted
def stop_untold(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that has heeded its abort says nothing."""
    monkeypatch.setattr(supervision, "_after_cancellation", lambda job, error: None)


@planted
def timers_outlive_a_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Operations, "let_go", lambda operations: operations._supervisor.let_go())


@planted
def abandoned_stream_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever closes the driver waits for nothing that is still being read."""
    monkeypatch.setattr(Supervisor, "let_go", lambda supervisor: None)


@planted
def believes_every_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log in other hands is gone on with as if it were one's own."""
    monkeypatch.setattr(asyncio_driver, "opening_deltas", lambda *given, doubted: opening_deltas(*given, doubted=False))

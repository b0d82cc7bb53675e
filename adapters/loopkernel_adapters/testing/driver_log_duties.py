"""What a driver owes its log: the order of records, what is durable when, and going on from what is there."""

import asyncio
from collections.abc import Sequence
from functools import partial

from loopkernel.data.effects import CallModel, CheckCall, StartTool
from loopkernel.data.events import ReplyGrew, ToolProgressed
from loopkernel.data.model_deltas import ModelCompleted, ModelFailed, ModelText
from loopkernel.data.policy import Policy, Retry
from loopkernel.data.states import Backoff, Idle, State
from loopkernel.data.thread_deltas import Acquired, Created, Resumed
from loopkernel.data.tool_deltas import ToolChecked, ToolFailed, ToolProgress, ToolStopped, ToolSucceeded
from loopkernel.data.words import ErrorClass
from loopkernel.replaying import LogRecord, fold, replay

from loopkernel_adapters.driver.log_writer import must_last
from loopkernel_adapters.ports import RunContext, StoreFailed
from loopkernel_adapters.providers.scripted import ANY, Reply, text_reply
from loopkernel_adapters.testing.driver_trial import (
    GO,
    ONE_CALL,
    PIECES,
    AnyDriver,
    Asked,
    DriverFactory,
    Trial,
    TrialStore,
    at_once,
    commands_in,
    demand,
    in_time,
    one_turn,
    rounds,
    until,
)


async def in_order(factory: DriverFactory) -> None:
    """Deltas are applied in the order of their arrival, and the log tells the state."""
    trial = Trial(rounds(), at_once)
    await one_turn(factory, trial)
    records = trial.store.load()
    texts = tuple(record.delta.text for record in records if isinstance(record.delta, ModelText))
    demand(texts[: len(PIECES)] == PIECES, f"the pieces of a reply are in the log as {texts}")
    demand([record.now_ms for record in records] == [1_000] * len(records), "stamps are not those of the clock")
    shown = tuple(event.text for event in trial.events if isinstance(event, ReplyGrew))
    demand(shown == texts, f"the pieces of a reply were shown as {shown}")


async def log_first(factory: DriverFactory) -> None:
    """No command begins before the delta that caused it is durable."""
    trial = Trial(rounds(), at_once)
    await one_turn(factory, trial)
    early = [fault for fault in trial.faults if "durable" in fault]
    demand(not early, "; ".join(early))


async def durable_on_return(factory: DriverFactory) -> None:
    """What was sent is durable when `send` returns, and the state knows it."""
    trial = Trial([(asyncio.Event(),)], at_once)
    driver = await factory(trial.ports())
    try:
        await driver.send(GO)
        durable = [record.delta for record in trial.store.load()[: trial.store.durable]]
        demand(GO in durable, "send returned before the message was durable")
        demand(not isinstance(driver.state, Idle), "send returned before the message was applied")
    finally:
        await driver.close()


async def once_each(factory: DriverFactory) -> None:
    """Each command is begun once, and gets one report."""
    trial = Trial(rounds(), at_once)
    await one_turn(factory, trial)
    twice = [fault for fault in trial.faults if "twice" in fault or "another" in fault]
    demand(not twice, "; ".join(twice))
    records = trial.store.load()
    asked, begun = commands_in(records), trial.begun
    missing = [f"{kind.__name__} {operation}" for kind, operation in asked if (kind, operation) not in begun]
    demand(not missing, f"never begun: {', '.join(missing)}")
    reports = [reported for record in records if (reported := reported_by(record.delta)) is not None]
    for kind, operation in asked:
        count = reports.count((kind, operation))
        demand(count == 1, f"{kind.__name__} {operation} was reported {count} times")


def reported_by(delta: object) -> Asked | None:
    """The command that a delta is the last report of."""
    match delta:
        case ModelCompleted() | ModelFailed():
            return CallModel, delta.operation
        case ToolChecked():
            return CheckCall, delta.operation
        case ToolSucceeded() | ToolFailed() | ToolStopped():
            return StartTool, delta.operation
        case _:
            return None


async def stops_with_its_log(factory: DriverFactory) -> None:
    """When the log cannot be written, nothing more is started, and whoever waits is told."""
    whole = Trial(rounds(), at_once)
    await one_turn(factory, whole)
    for failing_from in range(2, whole.store.appends + 1):
        trial = Trial(rounds(), at_once, store=TrialStore(failing_from=failing_from))
        told = False
        driver: AnyDriver | None = None
        try:
            driver = await factory(trial.ports())
            await driver.send(GO)
            await driver.rest()
        except StoreFailed:
            told = True
        finally:
            if driver is not None:
                try:
                    await driver.close()
                except StoreFailed:
                    told = True
        late = [fault for fault in trial.faults if "failed" in fault]
        demand(not late, "; ".join(late))
        demand(told, f"append {failing_from} failed, and neither send nor rest nor close has raised StoreFailed")
        if driver is not None:
            written = trial.store.load()
            as_whole = (*written[:1], *whole.store.load()[1:])  # each log begins with a nonce of its own
            reached = replay(written), *_grown(as_whole, len(written))
            demand(driver.state in reached, "the state is ahead of the log that has failed")


def _grown(records: Sequence[LogRecord], length: int) -> list[State]:
    """The states behind so many records that need not be durable yet: increments are recorded in groups."""
    states, state = [], replay(records[:length])
    for step in fold(records[length:], state):
        if must_last(step.context.delta, step.effects, at_rest=False):
            break
        states.append(step.after)
    return states


async def goes_on(factory: DriverFactory) -> None:
    """An empty log begins with `created` and `acquired`; any other is folded, and goes on with `resumed`."""
    whole = Trial(rounds(), at_once)
    await one_turn(factory, whole)
    records = whole.store.load()
    demand(isinstance(records[0].delta, Created), "a new log does not begin with created")
    demand(isinstance(records[1].delta, Acquired), "a new log does not go on with acquired")
    for length in range(3, len(records) + 1, 3):
        trial = Trial([*rounds(), *rounds()], at_once, store=TrialStore(records[:length]))
        driver = await factory(trial.ports())
        try:
            await driver.rest()
        finally:
            await driver.close()
        log = trial.store.load()
        demand(log[:length] == records[:length], f"a log of {length} records was changed when it was opened")
        demand(isinstance(log[length].delta, Resumed), f"a log of {length} records does not go on with resumed")
        demand(driver.state == replay(log), "after a restart the state is not that of the log")
        demand(isinstance(driver.state, Idle), f"{length} records lead to rest in {type(driver.state).__name__}")
        demand(not trial.faults, "; ".join(trial.faults))
        new = commands_in(log)[len(commands_in(log[:length])) :]
        again = [f"{kind.__name__} {operation}" for kind, operation in trial.begun if (kind, operation) not in new]
        demand(not again, f"begun once more after a restart, though nothing asked for it: {', '.join(again)}")


LONG = 600  # records: more than a driver leaves without a snapshot when it closes


DEADLINE_MS = 100  # of the countdown to a retry


async def goes_on_from_snapshots(factory: DriverFactory) -> None:
    """A snapshot and the records behind it lead on to the same state as all records do."""
    whole = Trial(rounds(), at_once)
    await one_turn(factory, whole)
    records = whole.store.load()
    for length in range(3, len(records) + 1, 4):
        trial = Trial([*rounds(), *rounds()], at_once, store=TrialStore(records, snapshot_of=length))
        driver = await factory(trial.ports())
        await driver.close()
        log = trial.store.load()
        same = driver.state == replay(log)
        demand(same, f"opened from a snapshot of {length} records of {len(records)}, it is not where the log leads to")


async def keeps_countdowns(factory: DriverFactory) -> None:
    """A countdown to a retry outlasts a restart, keeps its deadline, and fires at once where that has passed."""
    policy = Policy(silence_ms=None, retry=Retry(base_ms=DEADLINE_MS))
    fails: Reply = (ModelFailed(operation=ANY, error=ErrorClass.OVERLOADED, message="too much"),)
    first = Trial([fails], at_once, policy=policy)
    driver = await factory(first.ports())
    await driver.send(GO)
    await until(lambda: isinstance(driver.state, Backoff) and first.clock.pending > 0)
    state = driver.state
    await driver.close()
    demand(isinstance(state, Backoff), f"the model has failed, to be asked again: it is in {type(state).__name__}")
    records = first.store.load()
    for down_ms in (0, DEADLINE_MS // 2, DEADLINE_MS, 10 * DEADLINE_MS):
        now_ms = 1_000 + down_ms
        trial = Trial([text_reply("better")], at_once, store=TrialStore(records), policy=policy, now_ms=now_ms)
        driver = await factory(trial.ports())
        try:
            await until(partial(_counts_down, trial, driver))
            if down_ms < DEADLINE_MS:
                demand(isinstance(driver.state, Backoff), f"{down_ms} ms after the failure a retry did not wait")
                trial.clock.advance(DEADLINE_MS - down_ms)
            else:
                trial.clock.advance(0)
            told = f"a countdown of {DEADLINE_MS} ms, opened again {down_ms} ms after it began, never ends"
            await in_time(driver, told)
            demand(isinstance(driver.state, Idle), told)
        finally:
            await driver.close()


def _counts_down(trial: Trial, driver: AnyDriver) -> bool:
    return trial.clock.pending > 0 or not isinstance(driver.state, Backoff)


async def keeps_true_snapshots(factory: DriverFactory) -> None:
    """A snapshot, where one is kept, is of the state that all records lead to; its failure stops nothing."""
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
    trial = Trial([(*[ModelText(ANY, "on")] * LONG, *text_reply("end"))], at_once)
    await one_turn(factory, trial)
    demand(all(trial.store.snapshots), "a snapshot was kept of a state that the records in the log do not lead to")
    demand(trial.store.closed, "a snapshot could not be kept, and the log is left open after close")


async def records_progress(factory: DriverFactory) -> None:
    """What a run reports is applied and shown when `report_progress` returns, and in the log before the run's end."""
    texts = ("a third", "two thirds")
    missed: list[str] = []

    async def reports(context: RunContext) -> str:
        for text in texts:
            await context.report_progress(text)
            if not any(isinstance(event, ToolProgressed) and event.text == text for event in trial.events):
                missed.append(text)
        return "whole"

    trial = Trial([ONE_CALL, text_reply("done")], reports)
    await one_turn(factory, trial)
    demand(not missed, f"report_progress returned before anybody was shown {' and '.join(missed)}")
    told = [record.delta for record in trial.store.load() if isinstance(record.delta, ToolProgress | ToolSucceeded)]
    seen = tuple(delta.text for delta in told if isinstance(delta, ToolProgress))
    demand(seen == texts, f"of the progress {texts} the log holds {seen}")
    demand(isinstance(told[-1], ToolSucceeded), "the progress of a run is recorded behind its end")

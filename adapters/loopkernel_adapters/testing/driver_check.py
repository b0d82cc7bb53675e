"""Holds any driver against the duties of `specs/ports.md` (section "The driver"). Needs no test framework.

    check_driver(opened)

where `opened` opens a driver over the ports that it is given. Each duty is tried in an event loop of its own, with a
model, tools and a clock that take notes. Raises AssertionError, which names the duties that are broken, what was seen,
and what is due. Not tried are duties 12 to 15, 18, 20 and 21, and what a driver does with ports that are optional.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from functools import partial

from loopkernel.data.effects import CallModel, CheckCall, StartTool
from loopkernel.data.events import ReplyGrew, ToolEnded
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import ModelCompleted, ModelFailed, ModelText
from loopkernel.data.outside_deltas import TimerFired
from loopkernel.data.policy import Policy, Retry
from loopkernel.data.states import Backoff, Cancelled, Executing, Idle, State
from loopkernel.data.thread_deltas import Acquired, Created, Resumed
from loopkernel.data.tool_deltas import ToolChecked, ToolFailed, ToolStopped, ToolSucceeded
from loopkernel.data.user_deltas import CancelAll
from loopkernel.replaying import LogRecord, fold, replay

from loopkernel_adapters.driver.durability import must_last
from loopkernel_adapters.ports import RunContext, StoreFailed
from loopkernel_adapters.providers.scripted import call_reply, text_reply
from loopkernel_adapters.testing.driver_duties import (
    closes_though_cancelled,
    goes_on_from_snapshots,
    goes_on_in_the_background,
    keeps_countdowns,
    keeps_true_snapshots,
    lets_others_in,
    passes_answers_on,
    raises_where_told,
    records_progress,
    reports_whatever_happens,
    rests_for_people,
    shows_what_follows,
)
from loopkernel_adapters.testing.driver_trial import (
    GO,
    PIECES,
    TURNS,
    AnyDriver,
    Asked,
    DriverFactory,
    DriverPorts,
    Trial,
    TrialStore,
    at_once,
    commands_in,
    demand,
    one_turn,
    rounds,
    until,
)
from loopkernel_adapters.testing.watched_checks import judged

__all__ = ["AnyDriver", "DriverFactory", "DriverPorts", "check_driver"]

PATIENCE_SECONDS = 10.0  # of real time: how long a duty may take; nothing in it waits for anything real
LOOP_SECONDS = 5.0  # how long an event loop may take to say so, unless it stands still

Check = Callable[[DriverFactory], Awaitable[None]]


def check_driver(
    factory: DriverFactory, duties: Collection[int] | None = None, patience_seconds: float = PATIENCE_SECONDS
) -> None:
    """Try every duty, or these. Raises AssertionError that names each one that is broken, and what was seen."""
    broken: list[str] = []
    for duty, check in DUTIES:
        if duties is not None and duty not in duties:
            continue
        tried = partial(_tried, f"driver {duty}", check, factory, patience_seconds)
        try:
            judged(f"driver {duty}", partial(_run, tried), patience_seconds + LOOP_SECONDS)
        except AssertionError as error:
            broken.append(str(error))
    if broken:
        raise AssertionError("\n".join(broken))


def _run(tried: Callable[[], Coroutine[object, object, None]]) -> None:
    asyncio.run(tried())


async def _tried(duty: str, check: Check, factory: DriverFactory, patience_seconds: float) -> None:
    try:
        async with asyncio.timeout(patience_seconds):
            await check(factory)
    except TimeoutError:
        raise AssertionError(f"{duty}: nothing more happened, and it was not at rest") from None
    except AssertionError as error:
        raise AssertionError(f"{duty}: {error}") from error


# --- the duties ---


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


async def closes(factory: DriverFactory) -> None:
    """After `close` there is no task, timer, stream or open log left, whenever it comes."""
    for turns in range(0, 24, 2):
        tool_ended: list[str] = []
        trial = Trial([*rounds()[:1], (asyncio.Event(),)], _hanging(tool_ended) if turns % 4 else at_once)
        before = asyncio.all_tasks()
        driver = await factory(trial.ports())
        await driver.send(GO)
        for _ in range(turns):
            await asyncio.sleep(0)
        await driver.close()
        left = asyncio.all_tasks() - before
        demand(not left, f"{len(left)} tasks are left after close")
        demand(trial.clock.pending == 0, f"{trial.clock.pending} timers are left after close")
        demand(trial.streams == 0, "the stream of a reply is left open after close")
        demand(trial.store.closed, "the log is left open after close")
        started = sum(kind is StartTool for kind, _ in trial.begun) if turns % 4 else 0
        demand(len(tool_ended) == started, f"{started} tools were started, and {len(tool_ended)} have ended by close")
        await driver.close()  # twice is harmless


def _hanging(ended: list[str]) -> Callable[[RunContext], Awaitable[str]]:
    async def hangs(context: RunContext) -> str:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("ended")
        return "never"

    return hangs


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


async def keeps_time(factory: DriverFactory) -> None:
    """Timers run on the clock that was given; they fire once, and those that are cancelled are forgotten."""
    policy = Policy(silence_ms=50, retry=Retry(base_ms=100))
    trial = Trial([(asyncio.Event(),), text_reply("better")], at_once, policy=policy)
    driver = await factory(trial.ports())
    try:
        await driver.send(GO)
        while trial.streams == 0:
            await asyncio.sleep(0)
        trial.clock.advance(50)
        await until(lambda: isinstance(driver.state, Backoff) and trial.clock.pending > 0)
        trial.clock.advance(100)
        await driver.rest()
        demand(trial.clock.pending == 0, f"{trial.clock.pending} timers are left at rest")
    finally:
        await driver.close()
    fired = [record.delta for record in trial.store.load() if isinstance(record.delta, TimerFired)]
    demand(len(fired) == 2, f"a model fell silent and was asked again: {len(fired)} timers fired, not 2")


async def heeds_aborts(factory: DriverFactory) -> None:
    """An abort is a cancellation of the run or of the stream, and is reported."""
    for replies, running in ((rounds()[:1], StartTool), ([(asyncio.Event(),)], CallModel)):
        ended: list[str] = []
        trial = Trial(replies, _hanging(ended))
        driver = await factory(trial.ports())
        try:
            await driver.send(GO)
            while not any(kind is running for kind, _ in trial.begun):
                await asyncio.sleep(0)
            started = sum(kind is StartTool for kind, _ in trial.begun)
            await driver.send(CancelAll())
            await driver.rest()
            demand(isinstance(driver.state, Cancelled), f"after a cancel it rests in {type(driver.state).__name__}")
            expected = sum(kind is StartTool for kind, _ in commands_in(trial.store.load()))
            await until(partial(_has_let_go, trial, expected))
            demand(len(ended) == started, f"of {started} runs that were aborted {len(ended)} have stopped")
            demand(trial.streams == 0, "an aborted stream was not closed")
            stopped = _stopped(trial)
            demand(stopped == expected, f"of {expected} runs that were aborted {stopped} were reported as stopped")
        finally:
            await driver.close()


def _has_let_go(trial: Trial, expected: int) -> bool:
    return trial.streams == 0 and _stopped(trial) == expected


def _stopped(trial: Trial) -> int:
    return sum(isinstance(record.delta, ToolStopped) for record in trial.store.load())


async def bears_late_reports(factory: DriverFactory) -> None:
    """A tool that ignores its abort holds nothing up; its report is passed on when it comes, and changes no answer."""
    may_end = asyncio.Event()

    async def ignores(context: RunContext) -> str:
        while not may_end.is_set():
            try:
                await may_end.wait()
            except asyncio.CancelledError:
                continue
        return "late"

    one_call = call_reply(("trial", Json.of({})))
    trial = Trial([one_call, text_reply("next")], ignores)
    driver = await factory(trial.ports())
    try:
        await driver.send(GO)
        while not isinstance(driver.state, Executing) or not any(kind is StartTool for kind, _ in trial.begun):
            await asyncio.sleep(0)
        await driver.send(CancelAll())
        await driver.rest()
        answers = [event for event in trial.events if isinstance(event, ToolEnded)]
        await driver.send(GO)
        await driver.rest()
        demand(isinstance(driver.state, Idle), "a tool that ignores its abort holds the next turn up")
        may_end.set()
        await until(lambda: any(isinstance(record.delta, ToolSucceeded) for record in trial.store.load()))
        for _ in range(TURNS):  # once more would be wrong
            await asyncio.sleep(0)
        reports = [record.delta for record in trial.store.load() if isinstance(record.delta, ToolSucceeded)]
        demand(len(reports) == 1, f"the late report of a run is in the log {len(reports)} times")
        now = [event for event in trial.events if isinstance(event, ToolEnded)]
        demand(now == answers, "a late report has changed the answer of its call")
        await driver.rest()
    finally:
        may_end.set()
        await driver.close()


DUTIES: Sequence[tuple[int, Check]] = (
    (1, in_order),
    (3, log_first),
    (4, durable_on_return),
    (2, shows_what_follows),
    (5, once_each),
    (5, reports_whatever_happens),
    (6, stops_with_its_log),
    (7, rests_for_people),
    (8, closes),
    (8, closes_though_cancelled),
    (9, goes_on),
    (9, goes_on_from_snapshots),
    (10, raises_where_told),
    (11, keeps_time),
    (11, keeps_countdowns),
    (16, heeds_aborts),
    (17, bears_late_reports),
    (19, lets_others_in),
    (22, keeps_true_snapshots),
    (23, records_progress),
    (23, passes_answers_on),
    (23, goes_on_in_the_background),
)

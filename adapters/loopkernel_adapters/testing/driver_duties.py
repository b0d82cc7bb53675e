"""More duties of drivers: what they show, what they report, whom they wait for, and what they grant a run."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from typing import get_args

from loopkernel.data.choices import OnError
from loopkernel.data.effects import StartTool
from loopkernel.data.events import CallAppeared, Event, ToolEnded, ToolProgressed
from loopkernel.data.ids import CallId
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import ModelFailed, ModelText
from loopkernel.data.policy import Policy, Retry
from loopkernel.data.states import Backoff, Confirming, Idle
from loopkernel.data.tool_deltas import ToolFailed, ToolProgress, ToolSucceeded
from loopkernel.data.tools import Decision
from loopkernel.data.user_deltas import AnswerQuestion, Approve
from loopkernel.data.words import ErrorClass
from loopkernel.later_typing import override
from loopkernel.replaying import replay

from loopkernel_adapters.ports import RunContext, RunFailed, ToolError
from loopkernel_adapters.providers.scripted import ANY, Reply, call_reply, text_reply
from loopkernel_adapters.testing import driver_trial
from loopkernel_adapters.testing.driver_trial import (
    GO,
    TURNS,
    AnyDriver,
    DriverFactory,
    Trial,
    TrialStore,
    at_once,
    demand,
    effects_in,
    one_turn,
    rounds,
    until,
)

EVENTS = get_args(Event)
MANY = 1_000  # pieces of a reply that never waits: far more than a fair driver takes in a row
LONG = 600  # records: more than a driver leaves without a snapshot when it closes
NO_RETRY = Policy(retry=None)
DEADLINE_MS = 100  # of the countdown to a retry
ONE_CALL = call_reply(("trial", Json.of({})))


async def shows_what_follows(factory: DriverFactory) -> None:
    """Observers are shown each event once, in order; one that raises stops nothing."""
    trial = Trial(rounds(), at_once)
    await one_turn(factory, trial)
    events = [effect for effect in effects_in(trial.store.load()) if isinstance(effect, EVENTS)]
    for place, event in enumerate(events):
        shown = trial.events[place] if place < len(trial.events) else None
        demand(shown == event, f"event {place + 1} of the log is {_named(event)}, and {_named(shown)} was shown")
    more = trial.events[len(events) :]
    demand(not more, f"{len(more)} events were shown that are not in the log: {', '.join(map(_named, more[:5]))}")
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)  # it is told, and that is enough
    trial = Trial(rounds(), at_once)
    trial.events = _Unwilling()
    await one_turn(factory, trial)


class _Unwilling(list[Event]):
    """Takes no events."""

    @override
    def append(self, event: Event) -> None:
        raise LookupError("this observer is broken")


def _named(event: object) -> str:
    return "nothing" if event is None else type(event).__name__


async def reports_whatever_happens(factory: DriverFactory) -> None:
    """A stream that ends, raises or is cut, and a tool that raises, are reported as failures of their class."""
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
    piece = ModelText(ANY, "one")
    worlds: list[tuple[str, Reply, ErrorClass]] = [
        ("ends without an end", (piece,), ErrorClass.NETWORK),
        ("raises a ConnectionError", (piece, ConnectionResetError("reset")), ErrorClass.NETWORK),
        ("raises an EOFError", (piece, EOFError("cut")), ErrorClass.NETWORK),
        ("raises a TimeoutError", (piece, TimeoutError("slow")), ErrorClass.STALLED),
        ("raises a ValueError", (piece, ValueError("odd")), ErrorClass.UNKNOWN),
    ]
    for what, reply, expected in worlds:
        trial = Trial([reply], at_once, policy=NO_RETRY)
        await _settled(factory, trial, f"a stream that {what}")
        failed = [record.delta.error for record in trial.store.load() if isinstance(record.delta, ModelFailed)]
        said = [error.value for error in failed]
        demand(failed == [expected], f"a stream that {what} is reported as {said}, not as {expected.value}")
    for error in (ToolError("no such file"), LookupError("inside"), SystemExit(1)):
        trial = Trial([ONE_CALL, text_reply("I see")], _raising(error), policy=NO_RETRY)
        await _settled(factory, trial, f"a tool that raises {type(error).__name__}")
        texts = [record.delta for record in trial.store.load() if isinstance(record.delta, ToolFailed)]
        demand(len(texts) == 1, f"a tool that raises {type(error).__name__} is reported {len(texts)} times")
        if isinstance(error, ToolError):
            demand(str(error) in repr(texts), f"the words of a ToolError, {error}, do not reach the model: {texts}")


async def _settled(factory: DriverFactory, trial: Trial, what: str) -> None:
    driver = await factory(trial.ports())
    try:
        await driver.send(GO)
        async with asyncio.timeout(driver_trial.HANGING_SECONDS):
            await driver.rest()
    except TimeoutError:
        raise AssertionError(f"{what} is never reported: the turn does not end") from None
    finally:
        await driver.close()
    demand(not trial.faults, f"{what}: {'; '.join(trial.faults)}")


def _raising(error: BaseException) -> Callable[[RunContext], Awaitable[str]]:
    async def raises(context: RunContext) -> str:
        raise error

    return raises


async def raises_where_told(factory: DriverFactory) -> None:
    """A failed run is raised by `rest` under `on_error: raise`, with class and words, and under no other policy."""
    fails: Reply = (ModelFailed(operation=ANY, error=ErrorClass.AUTH, message="who are you?"),)
    for on_error in (OnError.RAISE, OnError.REST, OnError.END):
        trial = Trial([fails], at_once, policy=Policy(retry=None, on_error=on_error))
        driver = await factory(trial.ports())
        raised: Exception | None = None
        try:
            await driver.send(GO)
            await driver.rest()
        except RunFailed as error:
            raised = error
            same = (error.error, error.message) == (ErrorClass.AUTH, "who are you?")
            demand(same, f"a run that has failed is raised as {error.error}: {error.message!r}")
        finally:
            await driver.close()
        wanted = on_error is OnError.RAISE
        told = "raised RunFailed" if raised else "raised nothing"
        demand((raised is not None) == wanted, f"a run has failed under `on_error: {on_error.value}`, and rest {told}")


async def rests_for_people(factory: DriverFactory) -> None:
    """`rest` returns where a call waits for a person, before it runs; after the answer the turn goes on."""
    trial = Trial([ONE_CALL, text_reply("done")], at_once, approval=Decision.ASK)
    driver = await factory(trial.ports())
    try:
        await driver.send(GO)
        await driver.rest()
        resting = type(driver.state).__name__
        demand(isinstance(driver.state, Confirming), f"a call waits for a person, and it rests in {resting}")
        await driver.send(Approve(call=the_call(trial)))
        await driver.rest()
        resting = type(driver.state).__name__
        demand(isinstance(driver.state, Idle), f"a call was approved, and then it rests in {resting}")
    finally:
        await driver.close()


def the_call(trial: Trial) -> CallId:
    """The only call that was made."""
    return next(event.call for event in trial.events if isinstance(event, CallAppeared))


async def closes_though_cancelled(factory: DriverFactory) -> None:
    """A `close` that is cancelled is finished all the same."""

    async def slow(context: RunContext) -> str:
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(TURNS):
                await asyncio.sleep(0)
        return "never"

    before = asyncio.all_tasks()
    trial = Trial([ONE_CALL], slow)
    driver = await factory(trial.ports())
    await driver.send(GO)
    await until(lambda: any(kind is StartTool for kind, _ in trial.begun))
    closing = asyncio.ensure_future(driver.close())
    await asyncio.sleep(0)
    closing.cancel()
    await asyncio.wait({closing})
    left = asyncio.all_tasks() - before
    demand(trial.store.closed, "a close was cancelled, and the log is left open")
    demand(not left, f"a close was cancelled, and {len(left)} tasks are left")


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
            await _in_time(driver, told)
            demand(isinstance(driver.state, Idle), told)
        finally:
            await driver.close()


def _counts_down(trial: Trial, driver: AnyDriver) -> bool:
    return trial.clock.pending > 0 or not isinstance(driver.state, Backoff)


async def _in_time(driver: AnyDriver, told: str) -> None:
    try:
        async with asyncio.timeout(driver_trial.HANGING_SECONDS):
            await driver.rest()
    except TimeoutError:
        raise AssertionError(told) from None


async def lets_others_in(factory: DriverFactory) -> None:
    """A stream that never waits holds nobody up: others get their turn before it has been read to its end."""
    trial = Trial([(*[ModelText(ANY, "on")] * MANY, *text_reply("end"))], at_once)
    turns: list[int] = [0]
    shown = trial.events = _Timed(turns)

    async def take_turns() -> None:
        while True:
            turns[0] += 1
            await asyncio.sleep(0)

    others = asyncio.ensure_future(take_turns())
    try:
        await one_turn(factory, trial)
    finally:
        others.cancel()
        await asyncio.wait({others})
    in_a_row = Counter(shown.at).most_common(1)[0][1]
    demand(in_a_row < MANY, f"{in_a_row} pieces of a stream were read in a row, and nobody else got a turn meanwhile")


class _Timed(list[Event]):
    """Knows in which turn of the event loop each event came."""

    def __init__(self, turns: list[int]) -> None:
        super().__init__()
        self.at: list[int] = []
        self._turns = turns

    @override
    def append(self, event: Event) -> None:
        super().append(event)
        self.at.append(self._turns[0])


async def keeps_true_snapshots(factory: DriverFactory) -> None:
    """A snapshot, where one is kept, is of the state that all records lead to; its failure stops nothing."""
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
    trial = Trial([(*[ModelText(ANY, "on")] * LONG, *text_reply("end"))], at_once)
    await one_turn(factory, trial)
    demand(all(trial.store.snapshots), "a snapshot was kept of a state that the records in the log do not lead to")
    demand(trial.store.closed, "a snapshot could not be kept, and the log is left open after close")


# --- what a run is granted ---


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


async def passes_answers_on(factory: DriverFactory) -> None:
    """A question of a run reaches the person, and the answer the run."""
    answers: list[Json | None] = []

    async def asks(context: RunContext) -> str:
        answers.append(await context.ask("which?"))
        return "asked"

    trial = Trial([ONE_CALL, text_reply("done")], asks)
    driver = await factory(trial.ports())
    try:
        await driver.send(GO)
        await driver.rest()
        resting = type(driver.state).__name__
        demand(isinstance(driver.state, Confirming), f"a run has a question, and it rests in {resting}")
        await driver.send(AnswerQuestion(call=the_call(trial), value=Json.of({"which": "this"})))
        await driver.rest()
        demand(answers == [Json.of({"which": "this"})], f"the answer came to the run as {answers}")
    finally:
        await driver.close()


async def goes_on_in_the_background(factory: DriverFactory) -> None:
    """A run that goes on in the background is answered with its handle, and its end is reported."""
    may_end = asyncio.Event()

    async def goes_on(context: RunContext) -> str:
        await context.go_on_in_background("job 7")
        await may_end.wait()
        return "at last"

    trial = Trial([ONE_CALL, text_reply("meanwhile")], goes_on)
    driver = await factory(trial.ports())
    try:
        await driver.send(GO)
        await _in_time(driver, "a run in the background holds its turn up")
        answered = [event for event in trial.events if isinstance(event, ToolEnded)]
        demand("job 7" in repr(answered), f"a run goes on in the background, and its call is answered with {answered}")
        may_end.set()
        await until(lambda: "at last" in repr(_ends(trial)))
        ends = _ends(trial)
        demand("at last" in repr(ends[1:]), f"the end of a run in the background is not in the log: {ends}")
    finally:
        may_end.set()
        await driver.close()


def _ends(trial: Trial) -> list[ToolSucceeded]:
    return [record.delta for record in trial.store.load() if isinstance(record.delta, ToolSucceeded)]

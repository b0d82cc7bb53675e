"""What a driver owes those around it: people, runs of tools, whoever looks on, and whoever waits for its end."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from typing import get_args

from loopkernel.data.choices import OnError
from loopkernel.data.effects import CallModel, StartTool
from loopkernel.data.events import CallAppeared, Event, ToolEnded
from loopkernel.data.ids import CallId
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import ModelFailed, ModelText
from loopkernel.data.outside_deltas import TimerFired
from loopkernel.data.policy import Policy, Retry
from loopkernel.data.states import Backoff, Cancelled, Confirming, Executing, Idle
from loopkernel.data.tool_deltas import ToolFailed, ToolStopped, ToolSucceeded
from loopkernel.data.tools import Decision
from loopkernel.data.user_deltas import AnswerQuestion, Approve, CancelAll
from loopkernel.data.words import ErrorClass
from loopkernel.later_typing import override

from loopkernel_adapters.ports import RunContext, RunFailed, ToolError
from loopkernel_adapters.providers.scripted import ANY, Reply, call_reply, text_reply
from loopkernel_adapters.testing import driver_trial
from loopkernel_adapters.testing.driver_trial import (
    GO,
    ONE_CALL,
    TURNS,
    DriverFactory,
    Trial,
    at_once,
    commands_in,
    demand,
    effects_in,
    in_time,
    one_turn,
    rounds,
    until,
)


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


EVENTS = get_args(Event)


MANY = 1_000  # pieces of a reply that never waits: far more than a fair driver takes in a row


NO_RETRY = Policy(retry=None)


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
        await in_time(driver, "a run in the background holds its turn up")
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

"""Whatever an adapter does, the driver goes on; only a log that cannot be written stops it."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.effects import CheckCall, StartTool
from loopkernel.data.events import ErrorShown, Refused, ReplyGrew
from loopkernel.data.ids import ModelOperation
from loopkernel.data.model_deltas import ModelCompleted, ModelDelta, ModelFailed, ModelText
from loopkernel.data.policy import Policy
from loopkernel.data.states import Idle
from loopkernel.data.tool_deltas import ToolSucceeded
from loopkernel.data.tools import ToolOutput, Verdict
from loopkernel.data.words import ErrorClass, StopReason, TurnEndReason
from loopkernel.replaying import replay
from loopkernel_adapters.driver import asyncio_driver
from loopkernel_adapters.ports import RunContext, StoreFailed, ToolError
from loopkernel_adapters.providers.scripted import ANY, Reply, call_reply, text_reply
from typing_extensions import override

from tests.adapters.driver.driver_world import (
    NO_INPUT,
    FunctionProvider,
    FunctionTools,
    NotedStore,
    World,
    complaints_of,
    echo,
    one_turn,
    said,
    say,
)


class Unspeakable(Exception):
    """An exception that cannot even be shown."""

    @override
    def __str__(self) -> str:
        raise RuntimeError("no")


class Panic(BaseException):
    """What libraries in other languages raise."""


# --- tools ---


@pytest.mark.rule("TOOL-6")
@pytest.mark.parametrize(
    ("raised", "text"),
    [
        (ToolError("no such page: try page 2"), "no such page: try page 2"),
        (ToolError("404"), "404"),
        (ValueError("bad"), "breaks failed: ValueError: bad"),
        (KeyError(), "breaks failed: KeyError"),
        (Unspeakable(), "breaks failed: Unspeakable: (its message cannot be read)"),
        (SystemExit(2), "breaks failed: SystemExit: 2"),
        (Panic("in Rust"), "breaks failed: Panic: in Rust"),
        (asyncio.CancelledError(), "breaks failed: CancelledError"),
        (RuntimeError("x" * 9_000), "breaks failed: RuntimeError: " + "x" * 2_000 + "... (9000 characters)"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_a_tool_raises_is_an_answer_and_its_sibling_is_safe(raised: BaseException, text: str) -> None:
    async def run() -> None:
        async def breaks(command: StartTool, context: RunContext) -> ToolOutput:
            raise raised

        tools = FunctionTools(breaks=breaks, echo=echo)
        world = World([call_reply(("breaks", NO_INPUT), ("echo", NO_INPUT)), text_reply("b")], tools=tools)
        assert isinstance(await one_turn(world), Idle)
        assert sorted(world.results()) == [("done", "{}"), ("error", text)]
        assert world.endings() == [TurnEndReason.MODEL_STOP]

    asyncio.run(run())


@pytest.mark.rule("TOOL-13")
@pytest.mark.parametrize(("final", "stops_loop"), [(True, False), (False, True), (False, False)])
def test_a_failure_may_be_the_last_word(final: bool, stops_loop: bool) -> None:
    async def run() -> None:
        async def breaks(command: StartTool, context: RunContext) -> ToolOutput:
            raise ToolError("no such page", final=final, stops_loop=stops_loop)

        world = World([call_reply(("breaks", NO_INPUT)), text_reply("b")], tools=FunctionTools(breaks=breaks))
        await one_turn(world)
        assert world.results() == [("error", "no such page")]
        due = TurnEndReason.TOOL_FINAL if final or stops_loop else TurnEndReason.MODEL_STOP
        assert world.endings() == [due]

    asyncio.run(run())


def test_a_tool_that_returns_something_else_has_failed() -> None:
    async def run() -> None:
        async def odd(command: StartTool, context: RunContext) -> ToolOutput:
            nothing: Any = None  # Any: what an untyped tool does
            return nothing  # type: ignore[no-any-return]  # the mistake under test

        world = World([call_reply(("odd", NO_INPUT)), text_reply("b")], tools=FunctionTools(odd=odd))
        await one_turn(world)
        assert world.results() == [("error", "odd failed: TypeError: it returned a NoneType, not a ToolOutput")]

    asyncio.run(run())


@pytest.mark.parametrize("fault", [ZeroDivisionError("oops"), None])
def test_a_check_that_breaks_is_a_call_that_does_not_run(fault: Exception | None) -> None:
    async def run() -> None:
        class BrokenTools(FunctionTools):
            @override
            def check(self, command: CheckCall) -> Verdict:
                if fault is not None:
                    raise fault
                verdict: Any = "fine"  # Any: what an untyped adapter does
                return verdict  # type: ignore[no-any-return]  # the mistake under test

        world = World([call_reply(("echo", NO_INPUT)), text_reply("b")], tools=BrokenTools(echo=echo))
        await one_turn(world)
        ((status, text),) = world.results()
        assert status == "error"
        assert "the input could not be checked" in text
        assert world.tools.started == []

    asyncio.run(run())


# --- models ---


def failures(world: World) -> list[tuple[ErrorClass, str]]:
    return [(r.delta.error, r.delta.message) for r in world.store.load() if isinstance(r.delta, ModelFailed)]


@pytest.mark.parametrize(
    ("script", "error", "message"),
    [
        ((ConnectionResetError("peer"),), ErrorClass.NETWORK, "ConnectionResetError: peer"),
        ((ModelText(ANY, "a"), EOFError()), ErrorClass.NETWORK, "EOFError"),
        ((TimeoutError(),), ErrorClass.STALLED, "TimeoutError"),
        ((ModelText(ANY, "a"), KeyError("choices")), ErrorClass.UNKNOWN, "KeyError: 'choices'"),
        ((Unspeakable(),), ErrorClass.UNKNOWN, "Unspeakable: (its message cannot be read)"),
        ((), ErrorClass.NETWORK, "the reply ended without saying that it is complete; ask again"),
        ((ModelText(ANY, "a"),), ErrorClass.NETWORK, "the reply ended without saying that it is complete; ask again"),
    ],
    ids=str,
)
def test_what_a_provider_raises_is_a_failed_model_call(script: Reply, error: ErrorClass, message: str) -> None:
    async def run() -> None:
        world = World([script, text_reply("b")], policy=Policy(retry=None))
        async with await world.open() as driver:
            await driver.send(say("go"))
            await driver.rest()
            assert failures(world) == [(error, message)]
            assert world.endings() == [TurnEndReason.ERROR]
            assert world.seen(ErrorShown)
            await driver.send(say("again"))  # the session is usable
            await driver.rest()
        assert world.endings() == [TurnEndReason.ERROR, TurnEndReason.MODEL_STOP]

    asyncio.run(run())


def test_a_provider_that_cannot_even_begin_has_failed() -> None:
    async def run() -> None:
        def refuses(operation: ModelOperation) -> AsyncIterator[ModelDelta]:
            raise ValueError("no model file")

        world = World(provider=FunctionProvider(refuses))
        await one_turn(world)
        assert failures(world) == [(ErrorClass.UNKNOWN, "ValueError: no model file")]

    asyncio.run(run())


def test_what_is_no_model_delta_is_a_failure() -> None:
    async def run() -> None:
        async def odd(operation: ModelOperation) -> AsyncIterator[ModelDelta]:
            words: Any = "words"  # Any: what an untyped provider does
            yield words

        world = World(provider=FunctionProvider(odd))
        await one_turn(world)
        assert failures(world) == [
            (ErrorClass.UNKNOWN, "TypeError: the provider gave a str, which is not a delta of a model")
        ]

    asyncio.run(run())


def test_nothing_is_read_after_the_completion_and_the_stream_is_closed() -> None:
    async def run() -> None:
        closed: list[bool] = []

        async def chatters(operation: ModelOperation) -> AsyncIterator[ModelDelta]:
            try:
                yield ModelCompleted(operation, StopReason.END_TURN)
                closed.append(False)
                yield ModelText(operation, "more")
            finally:
                closed.append(True)
                raise ConnectionError("while closing")

        complaints = complaints_of(asyncio.get_running_loop())
        world = World(provider=FunctionProvider(chatters))
        await one_turn(world)
        assert closed == [True, True]  # the first reply was empty, so the model was nudged once
        assert failures(world) == []
        assert complaints == ["the provider could not close the stream of a reply: while closing"] * 2

    asyncio.run(run())


def test_a_completion_under_a_foreign_operation_completes_nothing() -> None:
    async def run() -> None:
        async def mistaken(operation: ModelOperation) -> AsyncIterator[ModelDelta]:
            yield ModelCompleted(ModelOperation(99), StopReason.END_TURN)

        world = World(provider=FunctionProvider(mistaken), policy=Policy(retry=None))
        await one_turn(world)
        assert len(world.seen(Refused)) == 1
        assert [error for error, _ in failures(world)] == [ErrorClass.NETWORK]

    asyncio.run(run())


# --- the store ---


async def played(world: World) -> None:
    async with await world.open() as driver:
        await driver.send(say("go"))
        await driver.rest()


def a_run() -> World:
    return World([call_reply(("echo", NO_INPUT), ("echo", NO_INPUT)), text_reply("b")])


def appends_of_a_run() -> int:
    world = a_run()
    asyncio.run(played(world))
    return len(world.noted.appends)


def test_a_log_that_cannot_be_written_stops_everything_wherever_it_happens() -> None:
    async def run(nth: int) -> None:
        world = a_run()
        world.noted.failing_from = nth
        with pytest.raises(StoreFailed, match=r"the log cannot be written \(.*No space left") as failure:
            await played(world)
        assert isinstance(failure.value.__cause__, OSError)
        assert len(world.noted.appends) == nth  # never a second try
        recorded = [record.delta for record in world.noted.durable]
        begun = [effect.operation for effect in world.tools.started]
        assert begun == sorted(set(begun))
        assert len(world.scripted.requests) <= 1 + sum(isinstance(d, ToolSucceeded) for d in recorded) // 2
        assert len(asyncio.all_tasks()) == 1
        assert world.noted.closed

    total = appends_of_a_run()
    assert total >= 5
    for nth in range(1, total + 1):
        asyncio.run(run(nth))


def test_the_state_stays_readable_and_every_caller_is_told() -> None:
    async def run() -> None:
        gate = asyncio.Event()
        world = World([(gate, *text_reply("b"))])
        async with await world.open() as driver:
            await driver.send(say("go"))
            resting = asyncio.ensure_future(driver.rest())
            await asyncio.sleep(0)
            world.noted.failing_from = 1
            with pytest.raises(StoreFailed):
                await driver.send(say("more"))
            with pytest.raises(StoreFailed):
                await resting
            with pytest.raises(StoreFailed):
                await driver.rest()
            with pytest.raises(StoreFailed):
                await driver.send(say("more"))
            await asyncio.sleep(0)
            assert len(asyncio.all_tasks()) == 1  # what was under way has been stopped
            assert driver.state == replay(world.noted.load())
            gate.set()
        assert len(world.noted.appends) == 3

    asyncio.run(run())


def test_nothing_more_is_read_once_the_log_cannot_be_written() -> None:
    async def run() -> None:
        read = 0

        async def streams(operation: ModelOperation) -> AsyncIterator[ModelDelta]:
            nonlocal read
            for delta in (*call_reply(("echo", NO_INPUT))[:-1], *[ModelText(ANY, "a")] * 50):
                read += 1
                assert not isinstance(delta, asyncio.Event | Exception)
                yield evolve(delta, operation=operation)

        world = World(provider=FunctionProvider(streams))
        async with await world.open() as driver:
            await driver.send(say("go"))
            world.noted.failing_from = 1
            with pytest.raises(StoreFailed):
                await driver.rest()
        assert read == 1

    asyncio.run(run())


def test_increments_that_cannot_be_recorded_at_the_end_are_reported() -> None:
    async def run() -> None:
        world = World([(ModelText(ANY, "a"), asyncio.Event())])
        driver = await world.open()
        async with driver:
            await driver.send(say("go"))
            await world.until(ReplyGrew)
            world.noted.failing_from = 1
            with pytest.raises(StoreFailed):
                await driver.close()
        assert world.noted.closed
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(run())


def test_a_log_that_cannot_be_read_is_closed_again() -> None:
    class Unreadable(NotedStore):
        @override
        def restore(self) -> Any:  # Any: it never returns
            raise OSError(5, "Input/output error")

    store = Unreadable()
    with pytest.raises(OSError, match="Input/output error"):
        asyncio.run(World(store=store).open())
    assert store.closed


def test_a_fault_of_our_own_stops_the_driver_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        world = World([text_reply("b")])
        async with await world.open() as driver:

            def breaks(*_: object) -> None:
                raise AssertionError("a law is broken")

            monkeypatch.setattr(asyncio_driver, "transition", breaks)
            with pytest.raises(AssertionError, match="a law is broken"):
                await driver.send(say("go"))
            assert isinstance(driver.state, Idle)
            assert len(world.noted.load()) == 2

    asyncio.run(run())


@given(number=st.integers(1, 20))
def test_late_progress_of_a_tool_is_refused_and_harmless(number: int) -> None:
    async def run() -> None:
        kept: list[RunContext] = []

        async def leaks(command: StartTool, context: RunContext) -> ToolOutput:
            kept.append(context)
            return said("ok")

        world = World([call_reply(("leaks", NO_INPUT)), text_reply("b")], tools=FunctionTools(leaks=leaks))
        async with await world.open() as driver:
            await driver.send(say("go"))
            await driver.rest()
            before = driver.state.session
            for _ in range(number):
                await kept[0].report_progress("still here")
            assert len(world.seen(Refused)) == number
            assert driver.state.session == before
        recorded = len(world.noted.load())
        await kept[0].report_progress("even now")  # nothing takes it any more
        assert len(world.noted.load()) == recorded

    asyncio.run(run())

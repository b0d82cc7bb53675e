"""Model calls that fail: the driver's clock runs the countdown, its abort ends a silent stream, `raise` raises."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from attrs import evolve
from loopkernel.data.choices import Lifetime, OnError
from loopkernel.data.events import ErrorCleared, ReplyGrew, SessionResumed
from loopkernel.data.ids import ModelOperation
from loopkernel.data.model_deltas import ModelDelta, ModelFailed, ModelText
from loopkernel.data.policy import Policy
from loopkernel.data.states import Backoff, Done, Idle, Streaming
from loopkernel.data.user_deltas import DismissError, RetryNow
from loopkernel.data.words import ErrorClass, TurnEndReason
from loopkernel.replaying import replay
from loopkernel_adapters.driver.clocks import ManualClock
from loopkernel_adapters.ports import RunFailed
from loopkernel_adapters.providers.scripted import ANY, Reply, text_reply
from loopkernel_adapters.stores.jsonl import JsonlStore, read_log

from tests.adapters.driver.driver_world import FunctionProvider, World, say
from tests.adapters.driver.failure_world import ONE_RETRY, fails, rested, settled, told


def models_asked(world: World) -> list[str]:
    return [request.model for request in world.scripted.requests]


# --- the countdown ---


@pytest.mark.rule("RETRY-1")
@pytest.mark.parametrize(
    ("script", "error"),
    [
        (fails(ErrorClass.OVERLOADED), "overloaded"),
        ((ModelText(ANY, "I was"),), "network"),  # it just ends
        ((ModelText(ANY, "I was"), ConnectionResetError("peer")), "network"),
        ((TimeoutError(),), "stalled"),
    ],
    ids=["failed", "ended early", "connection lost", "timeout"],
)
def test_a_failed_call_is_tried_again_when_its_time_has_come(script: Reply, error: str) -> None:
    async def run() -> None:
        world = World([script, text_reply("Here I am.")])
        async with await world.open() as driver:
            await driver.send(say("go"))
            await settled(driver)
            assert isinstance(driver.state, Backoff)
            world.clock.advance(4_999)
            await settled(driver)
            assert len(world.scripted.requests) == 1
            await rested(driver, world, 1)
            assert isinstance(driver.state, Idle)
            assert world.clock.pending == 0
        retracted = ["reply 1 retracted"] if isinstance(script[0], ModelText) else []
        assert told(world.events) == [
            f"reply 1 failed {error}",
            *retracted,
            "retry in 5000",
            "turn ended model_stop",
        ]
        assert replay(world.noted.load()) == driver.state

    asyncio.run(run())


@pytest.mark.rule("RETRY-2")
@pytest.mark.parametrize(
    ("asked_ms", "lines"),
    [
        (1_000, ["retry in 5000", "turn ended model_stop"]),
        (42_000, ["retry in 42000", "turn ended model_stop"]),
        (300_001, ["error shown rate_limited", "turn ended error"]),
    ],
)
def test_the_server_is_waited_for_as_long_as_it_asks_or_given_up(asked_ms: int, lines: list[str]) -> None:
    async def run() -> None:
        world = World([fails(ErrorClass.RATE_LIMITED, asked_ms), text_reply("Here I am.")])
        async with await world.open() as driver:
            await driver.send(say("go"))
            await rested(driver, world, *([max(asked_ms, 5_000)] if len(lines) == 2 and "retry" in lines[0] else []))
        assert told(world.events) == ["reply 1 failed rate_limited", *lines]

    asyncio.run(run())


@pytest.mark.rule("RETRY-6")
def test_when_one_model_is_exhausted_the_next_is_asked_at_once() -> None:
    async def run() -> None:
        policy = evolve(ONE_RETRY, model="large", fallback_models=("small",))
        world = World([fails(), fails(), fails(), text_reply("Here I am.")], policy=policy)
        async with await world.open() as driver:
            await driver.send(say("go"))
            await rested(driver, world, 5_000, 5_000)
        assert models_asked(world) == ["large", "large", "small", "small"]
        assert world.endings() == [TurnEndReason.MODEL_STOP]

    asyncio.run(run())


@pytest.mark.rule("RETRY-4")
def test_the_user_need_not_wait() -> None:
    async def run() -> None:
        world = World([fails(), fails(), fails(), text_reply("Here I am.")])
        async with await world.open() as driver:
            await driver.send(say("first"))
            await settled(driver)
            await driver.send(RetryNow())
            await settled(driver)
            assert isinstance(driver.state, Backoff)
            await driver.send(say("second"))
            await settled(driver)
            assert isinstance(driver.state, Backoff)
            await driver.send(DismissError())
            await driver.rest()
            assert world.clock.pending == 0
            await driver.send(RetryNow())
            await driver.rest()
        ends = [TurnEndReason.INTERRUPTED, TurnEndReason.ERROR, TurnEndReason.MODEL_STOP]
        assert world.endings() == ends

    asyncio.run(run())


# --- silence ---


@pytest.mark.rule("INFER-11")
@pytest.mark.parametrize("pieces", [0, 3])
def test_a_stream_that_falls_silent_is_closed_and_the_model_asked_again(pieces: int) -> None:
    async def run() -> None:
        closed: list[ModelOperation] = []
        asked = 0

        async def hangs_at_first(operation: ModelOperation) -> AsyncIterator[ModelDelta]:
            nonlocal asked
            asked += 1
            if asked == 2:
                for delta in text_reply("Here I am."):
                    assert not isinstance(delta, asyncio.Event | Exception)
                    yield evolve(delta, operation=operation)
                return
            try:
                for _ in range(pieces):
                    world.clock.advance(100_000)  # slow, but never silent for 120 s
                    yield ModelText(operation, "so ")
                    await asyncio.sleep(0)
                await asyncio.Event().wait()
            finally:
                closed.append(operation)

        world = World(provider=FunctionProvider(hangs_at_first))
        async with await world.open() as driver:
            await driver.send(say("go"))
            await settled(driver)
            assert len(world.seen(ReplyGrew)) == pieces
            world.clock.advance(119_999)
            await settled(driver)
            assert isinstance(driver.state, Streaming)
            assert closed == []
            world.clock.advance(1)
            await settled(driver)
            assert closed == [ModelOperation(1)]
            assert isinstance(driver.state, Backoff)
            await rested(driver, world, 5_000)
            assert len(asyncio.all_tasks()) == 1
            assert world.clock.pending == 0
        retracted = ["reply 1 retracted"] if pieces else []
        assert told(world.events) == ["reply 1 failed stalled", *retracted, "retry in 5000", "turn ended model_stop"]

    asyncio.run(run())


# --- a crash ---


@pytest.mark.rule("RESUME-3")
@pytest.mark.parametrize(("down_ms", "left_ms"), [(0, 3_000), (1_000, 2_000), (3_000, 0), (60_000, 0)])
def test_a_countdown_keeps_its_deadline_over_a_crash(tmp_path: Path, down_ms: int, left_ms: int) -> None:
    path = tmp_path / "log.jsonl"

    async def begin() -> None:
        world = World([fails()], store=JsonlStore(path), clock=ManualClock(10_000))
        async with await world.open() as driver:
            await driver.send(say("go"))
            await settled(driver)
            world.clock.advance(2_000)
            assert isinstance(driver.state, Backoff)

    async def go_on() -> None:
        world = World([text_reply("Here I am.")], store=JsonlStore(path), clock=ManualClock(12_000 + down_ms))
        async with await world.open() as driver:
            assert world.seen(SessionResumed)
            assert isinstance(driver.state, Backoff)
            assert driver.state.timer.deadline_ms == 15_000
            if left_ms:
                world.clock.advance(left_ms - 1)
                await settled(driver)
                assert world.scripted.requests == []
            await rested(driver, world, 1 if left_ms else 0)
            assert isinstance(driver.state, Idle)
        assert world.endings() == [TurnEndReason.MODEL_STOP]

    asyncio.run(begin())
    asyncio.run(go_on())
    records = read_log(path).records
    assert sum(isinstance(record.delta, ModelFailed) for record in records) == 1


# --- raise ---


def a_policy(on_error: OnError) -> Policy:
    return Policy(lifetime=Lifetime.TASK, retry=None, on_error=on_error)


@pytest.mark.rule("RETRY-7")
def test_a_run_that_failed_is_raised_where_the_policy_says_so() -> None:
    async def run() -> None:
        world = World([fails(ErrorClass.AUTH)], policy=a_policy(OnError.RAISE))
        async with await world.open() as driver:
            await driver.send(say("go"))
            with pytest.raises(RunFailed):
                await driver.rest()
            with pytest.raises(RunFailed, match="ended with an error of the model: auth: not now") as raised:
                await driver.rest()  # whoever asks is told
            assert raised.value.error is ErrorClass.AUTH
            assert raised.value.message == "not now"
            assert isinstance(driver.state, Done)
        assert told(world.events) == ["reply 1 failed auth", "error shown auth", "turn ended error"]
        assert isinstance(replay(world.noted.load()), Done)

    asyncio.run(run())


@pytest.mark.rule("RETRY-7")
@pytest.mark.parametrize("on_error", [OnError.END, OnError.REST, OnError.FEED_BACK])
def test_under_every_other_policy_nothing_is_raised(on_error: OnError) -> None:
    async def run() -> None:
        world = World([fails(), fails()], policy=a_policy(on_error))
        async with await world.open() as driver:
            await driver.send(say("go"))
            await driver.rest()
            assert isinstance(driver.state, Done)
            assert driver.state.reason is TurnEndReason.ERROR

    asyncio.run(run())


@pytest.mark.rule("RETRY-7")
@pytest.mark.parametrize("error", [ErrorClass.REFUSED, None], ids=["refused", "no error"])
def test_a_run_that_ended_otherwise_is_not_raised(error: ErrorClass | None) -> None:
    async def run() -> None:
        script = text_reply("Done.") if error is None else fails(error)
        world = World([script], policy=a_policy(OnError.RAISE))
        async with await world.open() as driver:
            await driver.send(say("go"))
            await driver.rest()
            assert isinstance(driver.state, Done)

    asyncio.run(run())


@pytest.mark.rule("RETRY-7")
def test_an_error_that_the_user_dismissed_is_not_raised() -> None:
    async def run() -> None:
        world = World([fails()], policy=Policy(lifetime=Lifetime.TASK, on_error=OnError.RAISE))
        async with await world.open() as driver:
            await driver.send(say("go"))
            await settled(driver)
            await driver.send(DismissError())
            await driver.rest()
            assert isinstance(driver.state, Done)
            assert not world.seen(ErrorCleared)  # it had been withheld
        assert world.endings() == [TurnEndReason.ERROR]

    asyncio.run(run())

"""Sessions of an agent: many turns in one run, what is left open, what is raised, and the way without an event loop."""

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable
from contextlib import closing
from pathlib import Path

import pytest
from loopkernel.data.choices import OnBusy, OnError
from loopkernel.data.events import TurnEnded
from loopkernel.data.ids import ModelOperation
from loopkernel.data.model_deltas import ModelCompleted, ModelDelta, ModelFailed
from loopkernel.data.policy import Policy
from loopkernel.data.sessions import ShownError
from loopkernel.data.states import Streaming
from loopkernel.data.thread_deltas import Created
from loopkernel.data.tools import EffectClass, ToolProfile
from loopkernel.data.words import ErrorClass, RefusalReason, StopReason, TurnEndReason
from loopkernel_adapters.agent import Agent, Result, RunFailed
from loopkernel_adapters.ports import NoSuchRun, StoreFailed, StoreLocked
from loopkernel_adapters.providers.scripted import ANY, ScriptedProvider, text_reply
from loopkernel_adapters.stores.memory import MemoryRuns, MemoryStore
from loopkernel_adapters.stores.sqlite import SqliteRuns
from typing_extensions import override

from tests.adapters.driver.agent_world import TWO_ROUNDS, an_agent
from tests.adapters.driver.driver_world import (
    FunctionProvider,
    FunctionTools,
    NotedStore,
    descriptors,
    echo,
)
from tests.adapters.driver.driver_world import say as said_by_user

# --- sessions ---


def test_a_session_has_turns_and_shows_all_of_their_events() -> None:
    async def run() -> None:
        agent = an_agent(text_reply("one"), text_reply("two"))
        seen: list[object] = []

        async def reads() -> None:
            async for event in session.events():
                seen.append(event)

        async with agent.session() as session:
            reading = asyncio.ensure_future(reads())
            await asyncio.sleep(0)
            assert (await session.say("a")).text == "one"
            assert [type(event) async for event in session.say("b")][-1] is TurnEnded
            await asyncio.sleep(0)
        await reading
        assert sum(isinstance(event, TurnEnded) for event in seen) == 2
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(run())


def test_a_turn_of_a_session_can_be_cancelled_and_the_next_one_goes_on() -> None:
    async def run() -> None:
        model = ScriptedProvider([(asyncio.Event(),), text_reply("two")])
        async with Agent(model).session() as session:
            waiting = asyncio.ensure_future(_awaited(session.say("a")))
            while not model.requests:
                await asyncio.sleep(0)
            await session.cancel()
            assert (await waiting).reason is TurnEndReason.USER_ABORT
            assert (await session.say("b")).text == "two"

    asyncio.run(run())


async def _awaited(turn: Awaitable[Result]) -> Result:
    return await turn


def test_what_is_said_and_not_taken_is_told() -> None:
    async def run() -> None:
        agent = Agent(ScriptedProvider([(asyncio.Event(),)]), policy=Policy(on_busy=OnBusy.REJECT))
        async with agent.session() as session:
            first = asyncio.ensure_future(_awaited(session.say("a")))
            while not isinstance(session.state, Streaming):
                await asyncio.sleep(0)
            second = asyncio.ensure_future(_awaited(session.say("b")))
            for _ in range(5):
                await asyncio.sleep(0)
            await session.cancel()
            assert (await second).refused is RefusalReason.NOT_NOW
            assert (await first).refused is None

    asyncio.run(run())


def test_a_run_goes_on_after_its_process_has_died() -> None:
    async def run() -> None:
        runs = MemoryRuns()
        dead = Agent(ScriptedProvider([(asyncio.Event(),)]), runs=runs)
        async with dead.session("r") as session:
            await session.send(said_by_user("a"))
        async with Agent(ScriptedProvider([text_reply("I am back.")]), runs=runs).session("r") as session:
            result = await session.go_on()
        assert (result.run, result.text, result.reason) == ("r", "I am back.", TurnEndReason.MODEL_STOP)

    asyncio.run(run())


def test_one_run_is_open_once() -> None:
    async def run() -> None:
        agent = an_agent()
        async with agent.session("r"):
            with pytest.raises(StoreLocked):
                await agent.run("go", "r")

    asyncio.run(run())


# --- errors ---


def test_an_error_of_the_model_is_raised_where_the_policy_says_so() -> None:
    failed = ModelFailed(operation=ANY, error=ErrorClass.AUTH, message="no such key")
    agent = Agent(ScriptedProvider([(failed,)]), policy=Policy(on_error=OnError.RAISE))
    with pytest.raises(RunFailed, match="auth: no such key"):
        agent.run_sync("go")
    for on_error in (OnError.REST, OnError.END):
        agent = Agent(ScriptedProvider([(failed,), text_reply("Hello.")]), policy=Policy(on_error=on_error))
        result = agent.run_sync("go")
        assert (result.reason, result.error) == (TurnEndReason.ERROR, ShownError(ErrorClass.AUTH, "no such key"))
        assert "no such key" in repr(result)
        assert len(repr(result)) < 500  # it is what people print first
        assert agent.run_sync("go").error is None


def test_a_log_that_cannot_be_written_is_raised_with_its_cause() -> None:
    class Full(MemoryRuns):
        @override
        def open(self, run: str) -> MemoryStore:
            return NotedStore(failing_from=3)

    agent = Agent(ScriptedProvider(TWO_ROUNDS), FunctionTools(echo=echo), runs=Full())
    with pytest.raises(StoreFailed, match="No space left") as raised:
        agent.run_sync("go")
    assert isinstance(raised.value.__cause__, OSError)


def test_the_synchronous_way_says_no_inside_an_event_loop() -> None:
    agent = an_agent(*TWO_ROUNDS)

    async def run() -> None:
        with pytest.raises(RuntimeError, match="would block the event loop"):
            agent.run_sync("go")

    asyncio.run(run())
    assert agent.run_sync("go").text == "That is all."


def test_the_synchronous_way_uses_one_loop_and_leaves_nothing() -> None:
    loops: set[asyncio.AbstractEventLoop] = set()

    async def notes(operation: ModelOperation) -> AsyncIterator[ModelDelta]:
        loops.add(asyncio.get_running_loop())
        yield ModelCompleted(operation, StopReason.END_TURN)

    gc.collect()
    before = descriptors()
    agent = Agent(FunctionProvider(notes), policy=Policy(empty_reply_nudges=0))
    for _ in range(3):
        agent.run_sync("go")
    assert len(loops) == 1
    del agent
    gc.collect()
    assert descriptors() == before
    assert all(loop.is_closed() for loop in loops)


def test_an_agent_may_be_forgotten_where_another_loop_runs() -> None:
    agents = [an_agent(*TWO_ROUNDS)]
    agents[0].run_sync("go")

    async def run() -> None:
        gc.collect()
        before = descriptors()
        agents.clear()
        gc.collect()
        assert descriptors() < before

    asyncio.run(run())


def test_what_an_agent_is_made_of_reaches_the_log() -> None:
    agent = Agent(
        ScriptedProvider([text_reply("the key is hunter22")]),
        FunctionTools(ToolProfile(effect=EffectClass.IDEMPOTENT), echo=echo),
        policy="claude",
        model="large",
        instructions="be brief",
        secrets={"KEY": "hunter22"},
    )
    result = agent.run_sync("my key is hunter22")
    log = asyncio.run(agent.runs.read(result.run))
    created = log[0].delta
    assert isinstance(created, Created)
    assert (created.session_id, created.instructions, created.policy.model) == (result.run, "be brief", "large")
    assert [tool.name for tool in created.tools] == ["echo"]
    assert result.text == "the key is {{secret:KEY}}"
    assert "hunter22" not in repr(log)


@pytest.mark.rule("RESUME-5")
def test_a_task_has_a_second_prompt_in_a_run_of_its_own() -> None:
    provider = ScriptedProvider([text_reply("one"), text_reply("two")])
    agent = Agent(provider, policy="strands")
    first = agent.run_sync("a", "first")
    second = agent.run_sync("b", "second", after="first")
    assert (first.text, second.text) == ("one", "two")
    said = [type(message).__name__ for message in provider.requests[1].thread]
    assert said == ["UserMessage", "AssistantMessage", "UserMessage"]
    with pytest.raises(NoSuchRun):
        agent.run_sync("c", "third", after="nobody's")


@pytest.mark.rule("RESUME-5")
def test_the_run_before_is_looked_at_only_where_a_run_begins(tmp_path: Path) -> None:
    provider = ScriptedProvider([text_reply("one"), text_reply("two"), text_reply("three")])
    with closing(SqliteRuns(tmp_path / "runs.sqlite")) as runs:
        agent = Agent(provider, runs=runs)
        with pytest.raises(NoSuchRun):
            agent.run_sync("a", "second", after="gone")
        assert runs.entries() == ()
        agent.run_sync("b", "second")
        assert agent.run_sync("c", "second", after="gone").text == "two"
        agent.run_sync("d", "third", after="second")
        assert [len(request.thread) for request in provider.requests] == [1, 3, 5]

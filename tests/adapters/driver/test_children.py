"""Sub-agents in the same process: they run tools, ask for approval, are cancelled, fail, and leave nothing behind."""

import asyncio

import pytest
from loopkernel.data.effects import StartTool
from loopkernel.data.events import ChildFinished, Event, MessageAdded, Refused, ToolEnded, TurnEnded
from loopkernel.data.model_deltas import ModelText
from loopkernel.data.outside_deltas import ChildEnded, ChildProgress
from loopkernel.data.policy import ChildLimits, Policy
from loopkernel.data.states import Cancelled, Dispatching, Done, Idle
from loopkernel.data.thread_deltas import Forked
from loopkernel.data.tool_deltas import ToolStopped
from loopkernel.data.tools import ToolOutput
from loopkernel.data.user_deltas import CancelAll, CancelCall, UserDelta
from loopkernel.data.words import TurnEndReason
from loopkernel.replaying import replay
from loopkernel_adapters.ports import RunContext
from loopkernel_adapters.providers.scripted import ANY, ScriptedProvider, call_reply, text_reply

from tests.adapters.driver.children_world import (
    PARENT_CALL,
    SPENT,
    Knowing,
    Logs,
    a_family,
    dispatches,
    one_tool_then,
    tools_with_agents,
)
from tests.adapters.driver.driver_world import NO_INPUT, World, complaints_of, echo, one_turn, said, say
from tests.adapters.driver.failure_world import settled
from tests.adapters.driver.lawful import breaches


def of_children(world: World, kind: type[Event]) -> list[tuple[str, Event]]:
    """The events of a kind that came from sub-agents, each with its address in words."""
    return [
        ("/".join(map(str, within)), event) for within, event in world.events_of_children if isinstance(event, kind)
    ]


# --- from the beginning to the end ---


@pytest.mark.rule("CHILD-1")
def test_a_child_runs_tools_and_its_last_text_is_the_result() -> None:
    async def run() -> None:
        world, logs = a_family([dispatches(), *one_tool_then("it says milk"), text_reply("all done", SPENT)])
        state = await one_turn(world)
        assert isinstance(state, Idle)
        assert world.results() == [("done", "it says milk")]
        assert state.session.usage == SPENT.plus(SPENT).plus(SPENT).plus(SPENT)
        assert [end.reason for end in world.seen(ChildFinished) if isinstance(end, ChildFinished)] == [
            TurnEndReason.MODEL_STOP
        ]
        child = replay(logs.only.load())
        assert isinstance(child, Done)
        assert [task.name for task in child.session.settings.tools] == ["echo"]
        assert breaches(world.noted.load()) == breaches(logs.only.load()) == []
        assert logs.only.closed
        assert len(asyncio.all_tasks()) == 1
        assert world.clock.pending == 0

    asyncio.run(run())


@pytest.mark.rule("RESUME-2")
def test_what_a_parent_hears_is_in_the_log_of_its_child_before() -> None:
    async def run() -> None:
        world, logs = a_family(provider=Knowing([]))
        held: list[int] = []

        def look(event: Event) -> None:
            if isinstance(event, ToolEnded):
                held.append(len(logs.only.durable))

        async with await world.open(look) as driver:
            await driver.send(say("go"))
            await driver.rest()
        assert held == [len(logs.only.load())]
        progress = [record.delta.text for record in world.noted.load() if isinstance(record.delta, ChildProgress)]
        assert progress == ["the child is done"]
        (ended,) = [record.delta for record in world.noted.load() if isinstance(record.delta, ChildEnded)]
        assert (ended.text, ended.usage, ended.tool_calls) == ("the child is done", SPENT.plus(SPENT), 1)

    asyncio.run(run())


@pytest.mark.rule("CHILD-1")
def test_children_run_beside_each_other_each_with_its_own_log() -> None:
    async def run() -> None:
        meeting = asyncio.Barrier(2)

        async def meets(command: StartTool, context: RunContext) -> ToolOutput:
            await meeting.wait()
            return said(command.input.text)

        world, logs = a_family(
            [dispatches(2), *[call_reply(("meets", NO_INPUT))] * 2, *[text_reply("met")] * 2, text_reply("b")],
            tools=tools_with_agents(meets=meets),
        )
        assert isinstance(await one_turn(world), Idle)
        assert world.results() == [("done", "met")] * 2
        assert len(logs.kept) == 2
        assert {where for where, _ in of_children(world, TurnEnded)} == {"1.1", "1.2"}

    asyncio.run(run())


@pytest.mark.rule("CHILD-1")
def test_a_child_of_a_child_is_shown_with_its_whole_address() -> None:
    async def run() -> None:
        replies = [dispatches(), dispatches(), text_reply("deep"), text_reply("middle"), text_reply("top")]
        world, logs = a_family(replies, policy=Policy(child=ChildLimits(depth=2)))
        await one_turn(world)
        assert world.results() == [("done", "middle")]
        assert {where for where, _ in of_children(world, MessageAdded)} == {"1.1", "1.1/1.1"}
        assert len(logs.kept) == 2

    asyncio.run(run())


@pytest.mark.rule("CHILD-2")
def test_a_child_that_fails_is_an_error_and_the_loop_goes_on() -> None:
    async def run() -> None:
        world, _ = a_family([dispatches(), (ValueError("broken"),), text_reply("I see")])
        assert isinstance(await one_turn(world), Idle)
        ((status, text),) = world.results()
        assert status == "error"
        assert "error" in text

    asyncio.run(run())


@pytest.mark.parametrize("failing_from", [1, 2, 3])
def test_a_child_whose_log_cannot_be_written_ends_as_an_error(failing_from: int) -> None:
    async def run() -> None:
        logs = Logs(failing_from)
        world, _ = a_family([dispatches(), text_reply("lost", SPENT), text_reply("I see")], logs=logs)
        if failing_from < 3:  # it asks no model
            world.scripted = world.provider = ScriptedProvider([dispatches(), text_reply("I see")])
        assert isinstance(await one_turn(world), Idle)
        ((status, text),) = world.results()
        assert status == "error"
        assert "the log cannot be written" in text
        assert logs.only.closed
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(run())


def test_a_new_child_does_not_go_on_with_the_log_of_another() -> None:
    async def run() -> None:
        world, logs = a_family([dispatches(), text_reply("a"), text_reply("b")])
        await one_turn(world)
        again, _ = a_family([dispatches(), text_reply("I see")], logs=logs)
        await one_turn(again)
        ((status, text),) = again.results()
        assert status == "error"
        assert "another run already" in text

    asyncio.run(run())


# --- an early end ---


class Stubborn:
    """A tool that ends when it may; a cancellation is only noted."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.told = asyncio.Event()
        self.may_end = asyncio.Event()

    async def __call__(self, command: StartTool, context: RunContext) -> ToolOutput:
        self.begun.set()
        while not self.may_end.is_set():
            try:
                await self.may_end.wait()
            except asyncio.CancelledError:
                self.told.set()
        return said("too late")


@pytest.mark.parametrize("stop", [CancelAll(), CancelCall(PARENT_CALL)], ids=["all", "the call"])
@pytest.mark.rule("CHILD-2")
def test_a_cancel_goes_down_and_the_call_is_free_when_every_tool_has_stopped(stop: UserDelta) -> None:
    async def run() -> None:
        stubborn = Stubborn()
        world, logs = a_family(
            [dispatches(), call_reply(("stubborn", NO_INPUT), usage=SPENT)], tools=tools_with_agents(stubborn=stubborn)
        )
        async with await world.open() as driver:
            await driver.send(say("go"))
            await stubborn.begun.wait()
            assert isinstance(driver.state, Dispatching)
            await driver.send(stop)
            await driver.rest()
            assert isinstance(driver.state, Cancelled if isinstance(stop, CancelAll) else Idle)
            assert [status for status, _ in world.results()] == ["cancelled"]
            await stubborn.told.wait()
            await settled(driver)
            assert not any(isinstance(record.delta, ChildEnded) for record in world.noted.load())
            stubborn.may_end.set()
            while len(asyncio.all_tasks()) > 1:
                await asyncio.sleep(0)
            (ended,) = [record.delta for record in world.noted.load() if isinstance(record.delta, ChildEnded)]
            assert (ended.reason, ended.usage) == (TurnEndReason.USER_ABORT, SPENT)
            assert driver.state.session is not None
            assert driver.state.session.usage == SPENT.plus(SPENT)  # it was billed
        assert any(record.delta == CancelAll() for record in logs.only.load())
        assert isinstance(replay(logs.only.load()), Done)
        assert logs.only.closed
        assert world.clock.pending == 0
        assert breaches(world.noted.load()) == breaches(logs.only.load()) == []

    asyncio.run(run())


@pytest.mark.rule("CHILD-2")
def test_a_child_that_waits_for_a_person_is_cancelled_with_its_call() -> None:
    async def run() -> None:
        world, logs = a_family(
            [dispatches(), *one_tool_then("never"), text_reply("b")], tools=tools_with_agents(asks=True, echo=echo)
        )
        async with await world.open() as driver:
            await driver.send(say("go"))
            await driver.rest()
            await driver.send(CancelCall(PARENT_CALL))
            await driver.rest()
            await settled(driver)
            assert len(asyncio.all_tasks()) == 1
        assert [status for status, _ in world.results()] == ["cancelled"]
        assert isinstance(replay(logs.only.load()), Done)

    asyncio.run(run())


def test_a_child_that_has_spent_nothing_has_just_stopped() -> None:
    async def run() -> None:
        world, logs = a_family([dispatches(), (asyncio.Event(),)])
        async with await world.open() as driver:
            await driver.send(say("go"))
            await settled(driver)
            await driver.send(CancelAll())
            await driver.rest()
            await settled(driver)
            assert len(asyncio.all_tasks()) == 1
        stopped = [record.delta for record in world.noted.load() if isinstance(record.delta, ToolStopped)]
        assert len(stopped) == 1
        assert not world.seen(Refused)
        assert isinstance(replay(logs.only.load()), Done)

    asyncio.run(run())


@pytest.mark.rule("CHILD-2")
def test_a_child_whose_time_is_over_is_stopped_and_leaves_its_partial_text() -> None:
    async def run() -> None:
        stubborn = Stubborn()
        talks = call_reply(("stubborn", NO_INPUT))
        text, *rest = text_reply("I have begun")
        world, _ = a_family([dispatches(), (text, *talks), text_reply("b")], tools=tools_with_agents(stubborn=stubborn))
        async with await world.open() as driver:
            await driver.send(say("go"))
            await stubborn.begun.wait()
            assert world.policy.child.timeout_ms is not None
            world.clock.advance(world.policy.child.timeout_ms)
            await driver.rest()
            assert isinstance(driver.state, Idle)
            stubborn.may_end.set()
            while len(asyncio.all_tasks()) > 1:
                await asyncio.sleep(0)
        ((status, said_so),) = world.results()
        assert status == "error"
        assert "I have begun" in said_so
        assert [event.reason for event in world.events if isinstance(event, ChildFinished)] == [
            TurnEndReason.BUDGET_EXCEEDED
        ]
        assert rest

    asyncio.run(run())


@pytest.mark.parametrize("waits_for", ["a tool", "a person", "a model"])
def test_close_leaves_nothing_of_a_child_behind_and_records_no_end(waits_for: str) -> None:
    async def run() -> None:
        begun = asyncio.Event()

        async def waits(command: StartTool, context: RunContext) -> ToolOutput:
            begun.set()
            await asyncio.Event().wait()
            return said("never")

        child = [(asyncio.Event(),)] if waits_for == "a model" else [call_reply(("waits", NO_INPUT))]
        world, logs = a_family([dispatches(), *child], tools=tools_with_agents(waits_for == "a person", waits=waits))
        async with await world.open() as driver:
            await driver.send(say("go"))
            await settled(driver)
            assert begun.is_set() == (waits_for == "a tool")
        assert len(asyncio.all_tasks()) == 1
        assert logs.only.closed
        assert world.clock.pending == 0
        assert not any(record.delta == CancelAll() for record in logs.only.load())
        assert not isinstance(replay(logs.only.load()), Done)
        assert not any(isinstance(record.delta, ChildEnded) for record in world.noted.load())

    asyncio.run(run())


def test_a_close_while_a_child_is_stopping_waits_for_no_end() -> None:
    async def run() -> None:
        stubborn = Stubborn()
        world, logs = a_family(
            [dispatches(), call_reply(("stubborn", NO_INPUT))], tools=tools_with_agents(stubborn=stubborn)
        )
        async with await world.open() as driver:
            await driver.send(say("go"))
            await stubborn.begun.wait()
            await driver.send(CancelAll())
            await stubborn.told.wait()
            closing = asyncio.ensure_future(driver.close())
            await settled(driver)
            stubborn.may_end.set()
            await closing
        assert logs.only.closed
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(run())


@pytest.mark.rule("RESUME-6")
def test_a_fork_leaves_the_children_to_the_old_lineage() -> None:
    async def run() -> None:
        world, logs = a_family([dispatches(), (asyncio.Event(),)])
        async with await world.open() as driver:
            await driver.send(say("go"))
            await settled(driver)
            assert isinstance(driver.state, Dispatching)
            await driver.send(Forked(session_id="new"))
            await driver.rest()
            assert isinstance(driver.state, Idle)
            await settled(driver)
            assert len(asyncio.all_tasks()) == 1
            assert world.clock.pending == 0
        assert not isinstance(replay(logs.only.load()), Done)  # nobody has cancelled it
        assert logs.only.closed

    asyncio.run(run())


def test_a_child_whose_log_breaks_at_the_close_is_told_and_holds_nothing_up() -> None:
    async def run() -> None:
        complaints = complaints_of(asyncio.get_running_loop())
        logs = Logs(failing_from=3)
        world, _ = a_family([dispatches(), (ModelText(ANY, "I was"), asyncio.Event())], logs=logs)
        async with await world.open() as driver:
            await driver.send(say("go"))
            await settled(driver)
        (told,) = complaints
        assert told.startswith("the log of a sub-agent lacks the last of what it said: the log cannot be written")
        assert logs.only.closed
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(run())

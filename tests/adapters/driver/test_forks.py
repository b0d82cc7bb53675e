"""Forks and edits under the driver: a log goes on twice, each in a lineage of its own, and nothing leaks between."""

import asyncio
from pathlib import Path

import pytest
from loopkernel.data.blocks import TextBlock
from loopkernel.data.effects import StartTool
from loopkernel.data.events import Edited, Refused, ToolEnded, TurnEnded
from loopkernel.data.ids import MessageId
from loopkernel.data.states import Idle
from loopkernel.data.thread_deltas import Acquired, Created, Forked
from loopkernel.data.tools import ToolOutput
from loopkernel.data.user_deltas import EditMessage
from loopkernel.data.words import CallStatus, CancelReason, TurnEndReason
from loopkernel.loop.algorithms.projection import project
from loopkernel.replaying import LogRecord, fork, replay
from loopkernel_adapters.driver.asyncio_driver import Driver
from loopkernel_adapters.ports import RunContext
from loopkernel_adapters.providers.scripted import call_reply, text_reply
from loopkernel_adapters.stores.jsonl import JsonlStore, read_log

from tests.adapters.driver.driver_world import NO_INPUT, FunctionTools, NotedStore, World, said, say
from tests.adapters.driver.failure_world import fails, settled


class Gated:
    """A tool that waits until it is let go."""

    def __init__(self) -> None:
        self.begun, self.may_end = asyncio.Event(), asyncio.Event()
        self.stopped = False

    async def __call__(self, command: StartTool, context: RunContext) -> ToolOutput:
        self.begun.set()
        try:
            await self.may_end.wait()
        except asyncio.CancelledError:
            self.stopped = True
            raise
        return said("the real result")


def a_call() -> World:
    gated = Gated()
    world = World([call_reply(("gated", NO_INPUT)), text_reply("b"), text_reply("c")], tools=FunctionTools(gated=gated))
    return world


def gated_of(world: World) -> Gated:
    gated = world.tools.runs["gated"]
    assert isinstance(gated, Gated)
    return gated


@pytest.mark.rule("INPUT-4")
def test_an_edit_stops_the_tool_that_runs_and_asks_anew() -> None:
    async def run() -> None:
        world = a_call()
        async with await world.open() as driver:
            await driver.send(say("first"))
            await gated_of(world).begun.wait()
            await driver.send(EditMessage(message=MessageId(1), content=(TextBlock("second"),)))
            await driver.rest()
            assert isinstance(driver.state, Idle)
            assert gated_of(world).stopped
            assert len(asyncio.all_tasks()) == 1
        (ended,) = world.seen(ToolEnded)
        assert isinstance(ended, ToolEnded)
        assert (ended.result.status, ended.result.reason) == (CallStatus.CANCELLED, CancelReason.EDITED)
        assert world.endings() == [TurnEndReason.EDITED, TurnEndReason.MODEL_STOP]
        places = [world.events.index(event) for event in (*world.seen(TurnEnded)[:1], *world.seen(Edited))]
        assert places == sorted(places)
        request = world.scripted.requests[1]
        assert "first" not in str(project(request.thread, request.model))
        assert "second" in str(project(request.thread, request.model))
        assert replay(world.noted.load()) == driver.state

    asyncio.run(run())


@pytest.mark.rule("RESUME-6")
def test_a_log_that_is_forked_goes_on_twice(tmp_path: Path) -> None:
    old, new = tmp_path / "old.jsonl", tmp_path / "new.jsonl"

    async def begin() -> None:
        world = World([call_reply(("echo", NO_INPUT)), text_reply("b")], store=JsonlStore(old))
        async with await world.open() as driver:
            await driver.send(say("go"))
            await driver.rest()

    def split() -> None:
        store = JsonlStore(new)
        records = read_log(old).records
        store.append(fork(records, len(records) - 1, "new", 5_000), durable=True)  # before the last reply came
        store.close()

    async def go_on(path: Path) -> list[str]:
        """The keys of the runs that the branch makes now."""
        world = World([call_reply(("echo", NO_INPUT)), text_reply("d")], store=JsonlStore(path))
        async with await world.open() as driver:
            await driver.send(say("go on"))
            await driver.rest()
            assert isinstance(driver.state, Idle)
            assert driver.state == replay(world.store.load())
        assert world.results() == [("done", "{}")]
        return [command.key for command in world.tools.started]

    asyncio.run(begin())
    left = read_log(old).records
    split()
    assert read_log(old).records == left
    (first,), (second,) = asyncio.run(go_on(old)), asyncio.run(go_on(new))
    assert first.startswith("s/1/")
    assert second.startswith("new/2/")
    one, other = replay(read_log(old).records), replay(read_log(new).records)
    assert one.session is not None
    assert other.session is not None
    assert (one.session.settings.lineage, other.session.settings.lineage) == (1, 2)
    assert (one.session.last_end, other.session.last_end) == (TurnEndReason.MODEL_STOP, TurnEndReason.MODEL_STOP)


@pytest.mark.rule("RESUME-6")
def test_a_fork_in_place_lets_go_of_the_lineage_it_leaves() -> None:
    async def run() -> None:
        world = a_call()
        async with await world.open() as driver:
            await driver.send(say("go"))
            await gated_of(world).begun.wait()
            await driver.send(Forked(session_id="new"))
            await driver.rest()
            assert isinstance(driver.state, Idle)
            await settled(driver)
            assert gated_of(world).stopped
            assert world.clock.pending == 0
            assert world.endings() == [TurnEndReason.INTERRUPTED]
            assert world.seen(Refused) == []  # the run's end is of the lineage that was left
            await driver.send(say("go on"))
            await driver.rest()
            assert world.endings() == [TurnEndReason.INTERRUPTED, TurnEndReason.MODEL_STOP]
            assert len(asyncio.all_tasks()) == 1
        assert replay(world.noted.load()) == driver.state

    asyncio.run(run())


@pytest.mark.rule("RESUME-6")
def test_a_fork_in_place_stops_the_stream_and_the_countdown() -> None:
    async def run() -> None:
        gate = asyncio.Event()
        world = World([(gate, *text_reply("a")), fails(), text_reply("c")])
        async with await world.open() as driver:
            for lineage in (2, 3):
                await driver.send(say("go"))
                await settled(driver)
                assert world.clock.pending == 1  # of the silence, then of the countdown
                await driver.send(Forked(session_id=f"new-{lineage}"))
                await driver.rest()
                assert isinstance(driver.state, Idle)
                assert driver.state.session.settings.lineage == lineage
                assert world.clock.pending == 0
            gate.set()
            await driver.send(say("go on"))
            await driver.rest()
            assert len(asyncio.all_tasks()) == 1
        assert world.endings()[-1] is TurnEndReason.MODEL_STOP
        assert len(world.seen(Refused)) == 0

    asyncio.run(run())


@pytest.mark.rule("RESUME-6")
def test_what_the_old_lineage_was_to_begin_in_the_same_step_never_begins() -> None:
    async def run() -> None:
        world = World([text_reply("a")])
        store = NotedStore()
        store.append([LogRecord(Created(session_id="s"), 0), LogRecord(Acquired(), 0)], durable=True)
        driver = Driver(
            replay(store.load()),
            provider=world.scripted,
            tools=world.tools,
            store=store,
            clock=world.clock,
            opening=(say("go"), Forked(session_id="new")),
        )
        async with driver:
            await driver.rest()
            await settled(driver)
            assert isinstance(driver.state, Idle)
            assert world.scripted.requests == []
            assert world.clock.pending == 0
        assert store.appends == [(2, True), (2, True)]

    asyncio.run(run())

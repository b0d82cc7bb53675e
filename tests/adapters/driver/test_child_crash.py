"""A family dies between any two writes to any of its logs: it goes on from these logs, and nothing happens twice."""

import asyncio
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from loopkernel.data.choices import RestartChild
from loopkernel.data.effects import StartTool
from loopkernel.data.events import ChildStarted
from loopkernel.data.outside_deltas import ChildEnded
from loopkernel.data.policy import OnRestart, Policy
from loopkernel.data.states import Confirming, Done, Idle
from loopkernel.data.tools import ToolOutput
from loopkernel.data.user_deltas import Approve, Say
from loopkernel.replaying import LogRecord, replay
from loopkernel_adapters.driver.children import InProcessAgents, waiting_calls
from loopkernel_adapters.optional_ports import OptionalPorts
from loopkernel_adapters.ports import RunContext
from loopkernel_adapters.stores.folders import JsonlFolder
from loopkernel_adapters.stores.jsonl import JsonlStore, read_log
from typing_extensions import override

from tests.adapters.driver.children_world import (
    CHILD_CALL,
    PARENT_CALL,
    Knowing,
    Logs,
    a_family,
    tools_with_agents,
)
from tests.adapters.driver.driver_world import NotedStore, World, descriptors, echo, said, say
from tests.adapters.driver.failure_world import settled
from tests.adapters.driver.lawful import breaches

Written = list[tuple[str, tuple[LogRecord, ...]]]  # each append, and whose log it went to
PARENT = "the parent"
ROOT = Path(__file__).parents[3]


class Witnessed(NotedStore):
    """Notes each append in a list that several logs share."""

    def __init__(self, owner: str, written: Written) -> None:
        super().__init__()
        self._owner = owner
        self._written = written

    @override
    def append(self, records: Sequence[LogRecord], durable: bool) -> None:
        super().append(records, durable)
        self._written.append((self._owner, tuple(records)))


class WitnessedLogs(Logs):
    def __init__(self, written: Written) -> None:
        super().__init__()
        self._written = written

    @override
    def __call__(self, session_id: str) -> NotedStore:
        self.kept[session_id] = store = Witnessed(session_id, self._written)
        return store


async def whole_run(asks: bool = False) -> Written:
    """Everything that a family writes, in order."""
    written: Written = []
    logs = WitnessedLogs(written)
    world, _ = a_family(provider=Knowing([]), tools=tools_with_agents(asks, echo=echo), logs=logs)
    world.store = Witnessed(PARENT, written)
    async with await world.open() as driver:
        await driver.send(say("go"))
        await driver.rest()
        if asks:
            await driver.send(Approve(call=CHILD_CALL), within=(PARENT_CALL,))
            await driver.rest()
    return written


def after_a_crash(written: Written, asks: bool = False, policy: Policy | None = None) -> tuple[World, Logs]:
    """A family that finds in its logs what was written."""
    logs = Logs()
    world, _ = a_family(provider=Knowing([]), tools=tools_with_agents(asks, echo=echo), logs=logs, policy=policy)
    for owner, records in written:
        store = world.noted if owner == PARENT else logs.kept.setdefault(owner, NotedStore())
        store.append(records, durable=True)
    return world, logs


@pytest.mark.parametrize("asks", [False, True])
@pytest.mark.rule("RESUME-3")
def test_a_family_goes_on_from_its_logs_wherever_it_died(asks: bool) -> None:
    async def run() -> None:
        written = await whole_run(asks)
        assert len(written) > 8
        for survived in range(len(written) + 1):
            world, logs = after_a_crash(written[:survived], asks)
            async with await world.open() as driver:
                await driver.rest()
                if not any(isinstance(record.delta, Say) for record in world.noted.load()):
                    await driver.send(say("go"))
                    await driver.rest()
                for waiting in waiting_calls(driver.state):  # a reply that the crash cut was asked for again
                    await driver.send(Approve(call=waiting.path[-1]), within=waiting.path[:-1])
                await driver.rest()
                assert isinstance(driver.state, Idle), survived
            assert len(asyncio.all_tasks()) == 1
            child = logs.only.load()
            ended = replay(child)
            assert isinstance(ended, Done)
            (report,) = [record.delta for record in world.noted.load() if isinstance(record.delta, ChildEnded)]
            assert (report.text, report.usage) == ("the child is done", ended.session.usage)
            assert sum(isinstance(record.delta, Say) for record in child) == 1  # it was told its task once
            runs = {(run.call, run.run) for run in world.tools.started}
            assert len(runs) == len(world.tools.started)
            assert breaches(world.noted.load()) == breaches(child) == []

    asyncio.run(run())


@pytest.mark.rule("RESUME-3")
def test_a_child_that_is_resumed_does_not_begin_again() -> None:
    async def run() -> None:
        begun = asyncio.Event()
        may_end = asyncio.Event()

        async def waits(command: StartTool, context: RunContext) -> ToolOutput:
            begun.set()
            await may_end.wait()
            return said("waited")

        logs = Logs()
        tools = tools_with_agents(echo=waits)
        world, _ = a_family(provider=Knowing([]), tools=tools, logs=logs)
        async with await world.open() as driver:
            await driver.send(say("go"))
            await begun.wait()
        again, _ = a_family(provider=Knowing([]), tools=tools, logs=logs)
        again.noted.append(world.noted.load(), durable=True)
        may_end.set()
        async with await again.open() as driver:
            await driver.rest()
            assert isinstance(driver.state, Idle)
        assert again.results() == [("done", "the child is done")]
        assert not again.seen(ChildStarted)  # it began before
        assert [run.run for run in tools.started] == [1, 2]  # its reading was repeated, within its own log
        assert len(logs.kept) == 1

    asyncio.run(run())


def test_a_policy_may_cancel_the_children_that_a_restart_finds() -> None:
    async def run() -> None:
        policy = Policy(on_restart=OnRestart(child=RestartChild.CANCEL))
        world, logs = after_a_crash([], asks=True, policy=policy)
        async with await world.open() as driver:
            await driver.send(say("go"))
            await driver.rest()
            assert isinstance(driver.state, Confirming)
        again, _ = a_family(provider=Knowing([]), tools=tools_with_agents(True, echo=echo), logs=logs)
        again.noted.append(world.noted.load(), durable=True)
        async with await again.open() as driver:
            await driver.rest()
            await settled(driver)
            assert isinstance(driver.state, Idle)
        assert [status for status, _ in again.results()] == ["cancelled"]

    asyncio.run(run())


@pytest.fixture(autouse=True)
def _marks_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The logs of these tests begin alike, so each would be taken for an older copy of that of another test."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


FAMILIES = """
import asyncio, pathlib, sys
from loopkernel.data.events import ChildFinished, ToolEnded, TurnEnded
from loopkernel_adapters.driver.children import InProcessAgents
from loopkernel_adapters.optional_ports import OptionalPorts
from loopkernel_adapters.stores.folders import JsonlFolder
from loopkernel_adapters.stores.jsonl import JsonlStore
from tests.adapters.driver.children_world import Knowing, tools_with_agents
from tests.adapters.driver.driver_world import World, say

def tell(*about):
    print(type(about[-1]).__name__, flush=True)

async def main():
    folder = pathlib.Path(sys.argv[1])
    world = World(
        provider=Knowing([]), tools=tools_with_agents(), store=JsonlStore(folder / "parent.jsonl"),
        optional=OptionalPorts(agents=InProcessAgents(JsonlFolder(folder / "children"))),
    )
    world.see_of_child = tell
    async with await world.open(tell) as driver:
        await driver.send(say("go"))
        await driver.rest()
        await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.parametrize("told", [3, 8, 12, 18])
@pytest.mark.rule("RESUME-2")
def test_a_family_that_is_killed_goes_on_from_the_files_of_its_logs(tmp_path: Path, told: int) -> None:
    command = [sys.executable, "-c", FAMILIES, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        heard = [process.stdout.readline() for _ in range(told)]
        process.kill()
        process.stdout.read()
    assert all(heard)

    async def go_on() -> None:
        logs = JsonlFolder(tmp_path / "children")
        world = World(
            provider=Knowing([]),
            tools=tools_with_agents(),
            store=JsonlStore(tmp_path / "parent.jsonl"),
            optional=OptionalPorts(agents=InProcessAgents(logs)),
        )
        async with await world.open() as driver:
            await driver.rest()
            assert isinstance(driver.state, Idle)
        (child,) = logs.files()
        records = read_log(child).records
        assert isinstance(replay(records), Done)
        assert breaches(records) == breaches(read_log(tmp_path / "parent.jsonl").records) == []
        (ended,) = [
            record.delta
            for record in read_log(tmp_path / "parent.jsonl").records
            if isinstance(record.delta, ChildEnded)
        ]
        assert ended.text == "the child is done"

    asyncio.run(go_on())


def test_close_leaves_nothing_of_a_family_whenever_it_comes_and_it_can_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def a_world(folder: Path) -> World:
        return World(
            provider=Knowing([]),
            tools=tools_with_agents(),
            store=JsonlStore(folder / "parent.jsonl"),
            optional=OptionalPorts(agents=InProcessAgents(JsonlFolder(folder / "children"))),
        )

    async def run() -> None:
        held = descriptors()
        for moment in range(20):
            folder = tmp_path / str(moment)
            folder.mkdir()
            monkeypatch.setenv("XDG_CONFIG_HOME", str(folder))  # else the log before this one is a later copy of it
            world = a_world(folder)
            async with await world.open() as driver:
                await driver.send(say("go"))
                for _ in range(moment):
                    await asyncio.sleep(0)
            assert len(asyncio.all_tasks()) == 1
            assert descriptors() == held
            assert world.clock.pending == 0
            again = a_world(folder)
            async with await again.open() as driver:
                await driver.rest()
                assert isinstance(driver.state, Idle)
            records = read_log(folder / "parent.jsonl").records
            assert sum(isinstance(record.delta, ChildEnded) for record in records) == 1
            assert breaches(records) == []
            assert descriptors() == held

    asyncio.run(run())

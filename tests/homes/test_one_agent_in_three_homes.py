"""The agent of the examples in a process, in a fleet and in Temporal: the same inputs lead to the same log."""

import asyncio
import importlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from attrs import evolve
from loopkernel.data.deltas import Delta
from loopkernel.data.json_text import Json
from loopkernel.data.states import Confirming, Idle
from loopkernel.data.thread_deltas import Acquired, Created, Resumed
from loopkernel.data.tool_deltas import ToolChecked, ToolSucceeded
from loopkernel.replaying import LogRecord
from loopkernel_adapters import Agent, FleetRun, PostgresRuns, SqliteRuns, Worker
from loopkernel_adapters.ports import NoSuchRun
from loopkernel_adapters.sessions.runs_elsewhere import RunElsewhere
from loopkernel_adapters.stores.seals import Seals
from loopkernel_adapters.temporal import start, temporal_worker

from tests.adapters.driver.lawful import breaches
from tests.homes.postgres.server import postgres_server, server_binaries
from tests.homes.postgres.test_workers import seen, serving
from tests.homes.temporal.server import MISSING, PROGRAM, TemporalServer

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "homes"
RUN = "invoice-1"
# What is said, and what a person answers to the payment that it leads to.
INPUTS = (("Pay what Anna owes.", True), ("And once more?", False), ("It was right after all.", True))


@pytest.fixture
def agent(monkeypatch: pytest.MonkeyPatch) -> Iterator[Agent[Json]]:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    yield importlib.import_module("agent").agent
    sys.modules.pop("agent", None)


async def in_a_process(agent: Agent[Json], folder: Path) -> tuple[LogRecord, ...]:
    runs = SqliteRuns(folder / "runs.sqlite", Seals(folder / "seals"))
    async with Agent(agent.ports.provider, agent.ports.tools, runs=runs).session(RUN) as session:
        for words, answer in INPUTS:
            (call,) = (await session.say(words)).waiting
            await session.answer(call, answer)
            await session.go_on()
    return runs.read(RUN)


async def converse(run: RunElsewhere) -> None:
    """Say and answer the same from elsewhere."""

    async def is_in(state: type[Confirming | Idle]) -> bool:
        try:
            return isinstance(await run.state(), state)
        except NoSuchRun:  # no worker has begun it yet
            return False

    for words, answer in INPUTS:
        await run.say(words)
        await seen(lambda: is_in(Confirming))
        (call,) = await run.waiting()
        await run.answer(call, answer)
        await seen(lambda: is_in(Idle))


async def in_a_fleet(agent: Agent[Json], folder: Path) -> tuple[LogRecord, ...]:
    binaries = server_binaries()
    if binaries is None:
        pytest.skip("there is no PostgreSQL on this machine: install the system's package, or run make servers")
    with postgres_server(binaries) as server:
        here, there = (PostgresRuns(server.dsn, seals=Seals(folder / name, bytes(32))) for name in ("here", "there"))
        try:
            async with serving(Worker(Agent(agent.ports.provider, agent.ports.tools, runs=there))):
                await converse(FleetRun(here, RUN))
            return await here.read(RUN)
        finally:
            await here.close()
            await there.close()


async def in_temporal(agent: Agent[Json], folder: Path) -> tuple[LogRecord, ...]:
    server = TemporalServer(folder)
    client = await server.start()
    try:
        async with temporal_worker(client, "clerks", agent):
            run = await start(client, "clerks", agent, RUN)
            await converse(run)
            return await run.log()
    finally:
        server.kill()


def comparable(log: Sequence[LogRecord]) -> tuple[list[Delta], list[Delta]]:
    """What is in the log, and the verdicts on calls: a reply that comes as one piece has ended before they come.

    Left out is what belongs to the home: the times, the nonce, and who has taken the run up when.
    """
    kept = [record.delta for record in log if not isinstance(record.delta, Acquired | Resumed)]
    told = [evolve(delta, nonce="") if isinstance(delta, Created) else delta for delta in kept]
    return (
        [delta for delta in told if not isinstance(delta, ToolChecked)],
        [delta for delta in told if isinstance(delta, ToolChecked)],
    )


@pytest.mark.skipif(not PROGRAM.exists(), reason=MISSING)
@pytest.mark.rule("RESUME-1")
def test_the_same_inputs_lead_to_the_same_log_in_each_home(agent: Agent[Json], tmp_path: Path) -> None:
    logs = [asyncio.run(home(agent, tmp_path)) for home in (in_a_process, in_a_fleet, in_temporal)]
    process, *others = map(comparable, logs)
    assert sum(isinstance(delta, ToolSucceeded) for delta in process[0]) == 5, "three invoices and two payments"
    for other in others:
        assert other == process
    assert [breaches(log) for log in logs] == [[]] * 3

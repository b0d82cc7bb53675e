"""Workers and servers are killed at many points while several sessions are written: nothing acknowledged is lost.

What is demanded afterwards: each log has all records that were acknowledged as durable, each once and in its place;
each input is in the log once or waits still; and the run is sealed, so that another worker goes on.
"""

import asyncio
import os
import random
import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from loopkernel.data.user_deltas import Say
from loopkernel_adapters.stores.postgres import PostgresRuns
from loopkernel_adapters.stores.seals import Seals

from tests.homes.postgres.crash_worker import LEASE_SECONDS, RUNS, Acknowledged, input_of, numbered, working
from tests.homes.postgres.server import PostgresServer, postgres_server
from tests.homes.postgres.world import World

WORKER_KILLS = 75
SERVER_KILLS = 35
ROUNDS_OF_A_SCHEMA = 25  # then the logs begin anew: they have to be loaded each time
SEED = 20_261_123


@pytest.fixture
def own_server(binaries: Path) -> Iterator[PostgresServer]:
    """One that is killed by nobody else's test."""
    with postgres_server(binaries) as started:
        yield started


class Sessions:
    """The sessions of one schema, what was sent to them, and what was acknowledged."""

    def __init__(self, dsn: str, folder: Path) -> None:
        self.world = World(dsn, folder)
        self.acknowledged = dict.fromkeys(RUNS, 0)
        self.sent: dict[str, list[str]] = {run: [] for run in RUNS}
        self.records = 0
        self.folder = folder / self.world.schema

    def send_some(self) -> None:
        """Two inputs more for each run."""

        async def sends(runs: PostgresRuns) -> None:
            for run in RUNS:
                for _ in range(2):
                    text = f"input {len(self.sent[run])}"
                    assert await runs.send(run, input_of(text)) == len(self.sent[run]) + 1
                    self.sent[run].append(text)

        self._with_runs(sends)

    def told(self, said: Acknowledged) -> None:
        assert not said.problems, said.problems
        for run, count in said.counts.items():
            self.acknowledged[run] = max(self.acknowledged[run], count)

    def holds_all(self) -> None:
        """The holder is dead: its leases end, and all is there."""

        async def checked(runs: PostgresRuns) -> None:
            self.records = 0
            for run in RUNS:
                await self.world.end_lease(run)
                store = await runs.open(run)
                records, waiting = await store.load(), await runs.inbox(run)
                self.records += len(records)
                assert len(records) >= self.acknowledged[run], f"{run} has lost what was acknowledged"
                taken = []
                for number, record in enumerate(records):
                    if isinstance(record.delta, Say):
                        taken.append(record.delta)
                    else:
                        assert record == numbered(number), f"record {number} of {run} is another"
                assert taken + [delta for _, delta in waiting] == [input_of(text) for text in self.sent[run]]
                if records:
                    assert await runs.doubt(run) is None
                await store.close()

        self._with_runs(checked)

    def _with_runs(self, acts: Callable[[PostgresRuns], Awaitable[None]]) -> None:
        async def play() -> None:
            seals = Seals(self.folder, bytes(32))
            runs = PostgresRuns(self.world.dsn, schema=self.world.schema, seals=seals, lease_seconds=LEASE_SECONDS)
            try:
                await acts(runs)
            finally:
                await runs.close()

        asyncio.run(play())


def within(seconds: float) -> None:
    """Spend so long: a moment that no reading of what was said would lead to."""
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


def test_a_worker_that_is_killed_anywhere_loses_and_doubles_nothing(server: PostgresServer, tmp_path: Path) -> None:
    draws = random.Random(SEED)
    appends = records = 0
    sessions = Sessions(server.dsn, tmp_path)
    for kill in range(WORKER_KILLS):
        if kill % ROUNDS_OF_A_SCHEMA == 0:
            records += sessions.records
            sessions = Sessions(server.dsn, tmp_path)
        sessions.send_some()
        with working(server.dsn, sessions.world.schema, sessions.folder) as (process, said):
            said.read_lines(draws.randrange(1, 12))
            within(draws.random() * 0.01)
            os.kill(process, signal.SIGKILL)
            said.read_lines(None)
        appends += said.lines
        sessions.told(said)
        sessions.holds_all()
    print(
        f"\n{WORKER_KILLS} workers killed at random points (seed {SEED}), {len(RUNS)} sessions each: {appends} durable "
        f"appends acknowledged, none lost; {records + sessions.records} records, none doubled"
    )


def test_a_server_that_is_killed_anywhere_loses_and_doubles_nothing(own_server: PostgresServer, tmp_path: Path) -> None:
    """The worker lives on: what it does not know it finds out, and only what was not durable may end a session."""
    draws = random.Random(SEED)
    sessions = Sessions(own_server.dsn, tmp_path)
    sessions.send_some()
    with working(own_server.dsn, sessions.world.schema, sessions.folder) as (process, said):
        for _ in range(SERVER_KILLS):
            said.read_lines(draws.randrange(20, 60))
            within(draws.random() * 0.01)
            own_server.crash()
            own_server.start()
            sessions.send_some()
        said.read_lines(50)
        os.kill(process, signal.SIGKILL)
        said.read_lines(None)
    sessions.told(said)
    sessions.holds_all()
    print(
        f"\na server killed at {SERVER_KILLS} random points (seed {SEED}) under {len(RUNS)} sessions: "
        f"{said.lines} durable appends acknowledged, none lost; {sessions.records} records, none doubled"
    )

"""What a watched log had before it is opened: it is told, and keeps no run from opening whatever it is like."""

import asyncio
import logging
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest
from attrs import evolve
from loopkernel.data.thread_deltas import Created
from loopkernel.replaying import LogRecord, replay
from loopkernel_adapters.agent import Agent
from loopkernel_adapters.driver.clocks import ManualClock
from loopkernel_adapters.providers.scripted import call_reply, text_reply
from loopkernel_adapters.stores.memory import MemoryRuns
from loopkernel_adapters.stores.sqlite import SqliteRuns
from loopkernel_adapters.stores.threaded import ThreadedRuns
from loopkernel_adapters.telemetry.watching import Telemetry
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from typing_extensions import override

from tests.adapters.telemetry.telemetry_world import (
    NOON_MS,
    Collected,
    TakingTime,
    an_input,
    replayed,
    tools_that_take_time,
)
from tests.adapters.telemetry.test_faults import Hanging, a_run


def with_a_snapshot(path: Path) -> SqliteRuns:
    """Runs with one that waits for a person behind a snapshot of all its records."""
    runs = SqliteRuns(path)
    clock = ManualClock(NOON_MS)
    replies = [call_reply(("read", an_input())), call_reply(("order", an_input()))]
    agent = Agent(TakingTime(replies, clock), tools_that_take_time(clock), runs=runs, clock=clock)

    async def begin() -> None:
        async with agent.session("run") as session:
            await session.say("go")

    asyncio.run(begin())
    store = runs.open("run")
    store.vouch()
    store.save_snapshot(replay(store.load()))
    assert store.restore().state is not None
    store.close()
    return runs


class Late(ThreadedRuns):
    """Logs are read only when that is allowed."""

    def __init__(self, runs: SqliteRuns) -> None:
        super().__init__(runs)
        self.may_read = asyncio.Event()

    @override
    async def read(self, run: str) -> tuple[LogRecord, ...]:
        await self.may_read.wait()
        return await super().read(run)


def test_a_damaged_record_behind_a_snapshot_keeps_no_run_from_opening(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    runs = with_a_snapshot(tmp_path / "runs.db")
    with closing(sqlite3.connect(tmp_path / "runs.db")) as database, database:
        assert database.execute("UPDATE records SET text = 'x' WHERE n = 2").rowcount == 1
    database.close()
    collected = Collected()
    with caplog.at_level(logging.WARNING), Telemetry(collected.tracers) as telemetry:
        asyncio.run(a_run(telemetry.watch(runs)))
        assert telemetry.flush(60)
    (said,) = [record.getMessage() for record in caplog.records]
    assert said.startswith("run run is not told: its log cannot be read")
    assert not collected.spans


def test_a_history_that_is_read_late_is_told_before_what_was_appended_meanwhile(tmp_path: Path) -> None:
    runs = with_a_snapshot(tmp_path / "runs.db")
    collected = Collected()

    async def go_on() -> None:
        late = Late(runs)
        watched = telemetry.watch(late)
        clock = ManualClock(NOON_MS + 60_000)
        provider = TakingTime([text_reply("Ordered."), text_reply("Gladly.")], clock)
        agent = Agent(provider, tools_that_take_time(clock), runs=watched, clock=clock, approve=lambda call: True)
        async with agent.session("run") as session:
            await session.say("thanks")  # it is under way while nothing is read
            late.may_read.set()
            await session.say("bye")

    with Telemetry(collected.tracers) as telemetry:
        asyncio.run(go_on())
        assert telemetry.flush(60)
    whole = replayed(runs, "run").spans
    told = [span for span in whole if span.end_ms >= NOON_MS + 60_000]
    assert told and [span for span in collected.spans if span in told] == told
    assert all(span in whole for span in collected.spans)


def test_a_log_that_was_begun_under_other_rules_is_not_told_and_that_is_said(caplog: pytest.LogCaptureFixture) -> None:
    runs, collected = MemoryRuns(), Collected()
    asyncio.run(a_run(ThreadedRuns(runs)))
    records = runs.read("run")
    assert isinstance(records[0].delta, Created)
    older = evolve(records[0], delta=evolve(records[0].delta, rules_version=1))

    async def go_on() -> None:
        store = await telemetry.watch(MemoryRuns()).open("older")
        await store.append([older, *records[1:]], durable=True)
        await store.close()

    async def open_again(runs: MemoryRuns) -> None:
        store = await telemetry.watch(runs).open("older")
        await store.restore()
        await store.append(records[1:], durable=True)
        await store.close()

    with caplog.at_level(logging.WARNING), Telemetry(collected.tracers) as telemetry:
        asyncio.run(go_on())  # nothing was restored: nothing is told, and nothing is said
        other = MemoryRuns()
        store = other.open("older")
        store.append([older, *records[1:]], durable=True)
        store.close()
        asyncio.run(open_again(other))
        assert telemetry.flush(60)
    assert not collected.spans
    assert [record.getMessage() for record in caplog.records] == [
        "run older is not told: its log was begun under other rules; the run itself goes on, and this is said once"
    ]


def test_a_history_weighs_what_it_is_long_and_a_longer_one_than_may_wait_waits_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    runs = MemoryRuns()
    asyncio.run(a_run(ThreadedRuns(runs), turns=5))
    length = len(runs.read("run"))
    hanging, tracers = Hanging(), TracerProvider(shutdown_on_exit=False)
    tracers.add_span_processor(SimpleSpanProcessor(hanging))
    with caplog.at_level(logging.WARNING):
        telemetry = Telemetry(tracers, most_waiting=length - 1)

        async def look() -> None:
            store = await telemetry.watch(runs).open("run")
            await store.restore()
            await store.close()

        asyncio.run(look())  # nothing else waits
        assert telemetry.flush(60)
        assert not caplog.records
        hold = threading.Event()

        def held() -> None:
            hold.wait()

        telemetry._teller.post(held, 1)
        asyncio.run(look())
        assert [record.getMessage() for record in caplog.records] == [
            "run run is told no more: the exporter is too far behind; the run itself goes on, and this is said once"
        ]
        hold.set()
        hanging.may_go_on.set()
        assert telemetry.close(60)

"""Supervision: a task is used again only when that is safe, and what is under way is counted."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.deltas import Delta
from loopkernel.data.ids import OperationKind, RunOperation
from loopkernel.data.tool_deltas import ToolFailed, ToolStopped, ToolSucceeded
from loopkernel_adapters.driver.supervision import Job, Supervisor

pytestmark = pytest.mark.in_place

Work = Callable[[Job], Awaitable[Delta | None]]


def a_job(number: int, work: Work) -> Job:
    operation = RunOperation(number)
    return Job(
        key=(OperationKind.RUN, number),
        work=work,
        failure=lambda error: ToolFailed(operation),
        stopped=ToolStopped(operation),
    )


async def succeeds(job: Job) -> Delta:
    await asyncio.sleep(0)
    return ToolSucceeded(RunOperation(job.key[1]))


async def ended(supervisor: Supervisor) -> None:
    while supervisor.jobs:
        await asyncio.sleep(0)


@given(fan_out=st.lists(st.integers(0, 4), max_size=6))
def test_every_job_ends_and_is_counted_until_then(fan_out: list[int]) -> None:
    """Each job that ends starts as many others as the list says for it."""

    async def run() -> None:
        reported: list[Delta | None] = []
        started = 1

        def report(delta: Delta | None) -> None:
            nonlocal started
            place = len(reported)
            reported.append(delta)
            for _ in range(fan_out[place] if place < len(fan_out) else 0):
                started += 1
                supervisor.start(a_job(started, succeeds))

        supervisor = Supervisor(report)
        assert not supervisor.live
        supervisor.start(a_job(1, succeeds))
        while supervisor.jobs:
            assert supervisor.live
            assert len(supervisor.jobs) == started - len(reported)
            await asyncio.sleep(0)
        assert not supervisor.live
        assert sorted(reported, key=repr) == sorted(
            (ToolSucceeded(RunOperation(number)) for number in range(1, started + 1)), key=repr
        )
        await asyncio.sleep(0)
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(run())


def test_a_cancellation_that_comes_too_late_for_its_job_does_not_hit_another() -> None:
    async def run() -> None:
        reported: list[Delta | None] = []

        def report(delta: Delta | None) -> None:
            reported.append(delta)
            if len(reported) == 1:
                supervisor.start(a_job(2, succeeds))

        async def aborted_at_its_end(job: Job) -> Delta:
            supervisor.abort(job.key)
            assert len(supervisor.jobs) == 1
            assert not supervisor.live
            return ToolSucceeded(RunOperation(1))

        supervisor = Supervisor(report)
        supervisor.start(a_job(1, aborted_at_its_end))
        await ended(supervisor)
        assert reported == [ToolSucceeded(RunOperation(1)), ToolSucceeded(RunOperation(2))]
        assert not supervisor.live

    asyncio.run(run())


def test_what_is_not_under_way_cannot_be_aborted() -> None:
    async def run() -> None:
        reported: list[Delta | None] = []
        supervisor = Supervisor(reported.append)
        supervisor.abort((OperationKind.RUN, 1))
        supervisor.start(a_job(1, succeeds))
        await ended(supervisor)
        supervisor.abort((OperationKind.RUN, 1))
        assert reported == [ToolSucceeded(RunOperation(1))]
        assert not supervisor.live

    asyncio.run(run())


def test_a_job_that_stops_in_its_own_way_is_told_to_and_not_cancelled() -> None:
    async def run() -> None:
        reported: list[Delta | None] = []
        told: list[str] = []
        may_end = asyncio.Event()

        async def ends_when_told(job: Job) -> Delta:
            await may_end.wait()
            return ToolSucceeded(RunOperation(1))

        supervisor = Supervisor(reported.append)
        supervisor.start(
            evolve(a_job(1, ends_when_told), stop=lambda: told.append("stop"), over=lambda: told.append("over"))
        )
        await asyncio.sleep(0)
        supervisor.abort((OperationKind.RUN, 1))
        supervisor.abort((OperationKind.RUN, 1))
        await asyncio.sleep(0)
        assert (told, len(supervisor.jobs), supervisor.live) == (["stop"], 1, False)
        may_end.set()
        await ended(supervisor)
        assert told == ["stop", "over"]
        assert reported == [ToolSucceeded(RunOperation(1))]

    asyncio.run(run())


def test_a_job_that_takes_its_time_to_stop_is_cancelled_at_the_close() -> None:
    async def run() -> None:
        reported: list[Delta | None] = []
        told: list[str] = []

        async def waits(job: Job) -> Delta:
            await asyncio.Event().wait()
            return ToolSucceeded(RunOperation(1))

        supervisor = Supervisor(reported.append)
        for number in (1, 2):
            stop, over = (lambda: told.append("stop")), (lambda: told.append("over"))
            supervisor.start(evolve(a_job(number, waits), stop=stop, over=over))
        supervisor.abort((OperationKind.RUN, 2))  # it has not begun, and never does
        await asyncio.sleep(0)
        supervisor.abort((OperationKind.RUN, 1))
        assert await supervisor.close(1.0) == ()
        assert told == ["over", "stop", "over"]
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(run())

"""Workers of a fleet on a real database: who serves which session, and what is left when one dies."""

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from attrs import evolve
from loopkernel.data.blocks import TextBlock
from loopkernel.data.messages import AssistantMessage
from loopkernel.data.outside_deltas import TimerFired
from loopkernel.data.states import Confirming, Idle
from loopkernel.data.thread_deltas import Acquired, Resumed
from loopkernel.data.tool_deltas import ToolSucceeded
from loopkernel.data.tools import Decision, EffectClass
from loopkernel.data.user_deltas import Approve, CancelAll, Say
from loopkernel.judging import check_pairs, check_trace
from loopkernel.presets import preset
from loopkernel.replaying import fold, replay
from loopkernel_adapters.agent import Agent
from loopkernel_adapters.fleet.worker import DoubtedRun, Worker
from loopkernel_adapters.fleet_ports import Input
from loopkernel_adapters.ports import NoSuchRun, StoreError
from loopkernel_adapters.stores.postgres import PostgresRuns
from loopkernel_adapters.tools.functions import tool
from typing_extensions import override

from tests.homes.postgres.clerk import LOST, PAID, READY, SAID, Clerk, application_name, clerk, paying
from tests.homes.postgres.world import RECORDS, World, said

PATIENCE_SECONDS = 120.0  # until something is seen that takes a moment; only a worker that does not work takes so long


async def seen(what: Callable[[], Awaitable[bool]]) -> None:
    """Wait until it is so."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not await what():
            await asyncio.sleep(0.02)


@asynccontextmanager
async def serving(*workers: Worker) -> AsyncIterator[None]:
    """While the workers serve."""
    tasks = [asyncio.create_task(worker.serve()) for worker in workers]
    try:
        yield
    finally:
        for worker in workers:
            worker.stop()
        await asyncio.gather(*tasks)


async def answers(runs: PostgresRuns, run: str) -> list[str]:
    """What the clerk has said in that run so far."""
    try:
        state = replay(await runs.read(run))
    except NoSuchRun:
        return []
    thread = () if state.session is None else state.session.thread
    return [
        block.text
        for message in thread
        if isinstance(message, AssistantMessage)
        for block in message.content
        if isinstance(block, TextBlock)
    ]


async def is_asked(runs: PostgresRuns, run: str) -> bool:
    """Whether a call of it waits for a person."""
    try:
        return isinstance(replay(await runs.read(run)), Confirming)
    except NoSuchRun:
        return False


async def at_rest(world: World, runs: PostgresRuns, run: str) -> bool:
    """Whether nobody holds it, and nothing is left to do."""
    left = await world.sql("SELECT unfinished OR holder IS NOT NULL FROM runs WHERE run = %s", run)
    return left == [(False,)] and not await runs.inbox(run)


async def nothing_but(told: list[Exception]) -> bool:
    """Whether a worker has complained."""
    return bool(told)


def payments(file: Path) -> Counter[str]:
    """How often each payment was made."""
    return Counter(file.read_text().splitlines()) if file.exists() else Counter()


def test_two_workers_share_what_comes_in(world: World, tmp_path: Path) -> None:
    async def play() -> None:
        fleet, file = world.worker(), tmp_path / "payments"
        workers = [Worker(clerk(world.worker(), file)) for _ in range(2)]
        async with serving(*workers):
            for n in range(40):
                await fleet.send(f"run-{n}", said(f"pay {n}"))
            for n in range(40):

                async def paid(run: str = f"run-{n}") -> bool:
                    return await answers(fleet, run) == [PAID]

                await seen(paid)
            await fleet.send("run-7", said("thanks"))

            async def noted() -> bool:
                return await answers(fleet, "run-7") == [PAID, SAID]

            await seen(noted)
        assert payments(file) == Counter({f"pay {n}": 1 for n in range(40)})

    world.play(play)


def test_a_session_that_waits_for_a_person_is_held_by_nobody_and_goes_on_with_the_answer(
    world: World, tmp_path: Path
) -> None:
    async def play() -> None:
        fleet, file = world.worker(), tmp_path / "payments"
        first, second = (Worker(clerk(world.worker(), file)) for _ in range(2))
        await fleet.send("s", said("wire 1,000"))
        async with serving(first):
            await seen(lambda: is_asked(fleet, "s"))
            await seen(lambda: at_rest(world, fleet, "s"))
        state = replay(await fleet.read("s"))
        assert isinstance(state, Confirming)
        (entry,) = state.ledger.entries
        assert payments(file) == Counter()
        await fleet.send("s", Approve(call=entry.call.id))
        async with serving(second):

            async def paid() -> bool:
                return await answers(fleet, "s") == [PAID] and not second.held

            await seen(paid)
        assert payments(file) == Counter({"wire 1,000": 1})

    world.play(play)


def test_a_session_that_cannot_be_gone_on_with_stops_no_other(world: World, tmp_path: Path) -> None:
    async def play() -> None:
        fleet, file = world.worker(), tmp_path / "payments"
        told: list[tuple[str | None, Exception]] = []
        worker = Worker(clerk(world.worker(), file), complain=lambda run, error: told.append((run, error)))
        store = await world.vouching(fleet, "damaged")
        await store.append(RECORDS[:3], True)
        await store.close()
        await world.sql("UPDATE records SET text = 'x'")
        await fleet.send("damaged", said("pay 1"))
        async with serving(worker):
            await fleet.send("whole", said("pay 2"))

            async def paid() -> bool:
                return bool(told) and await answers(fleet, "whole") == [PAID]

            await seen(paid)
        assert {run for run, _ in told} == {"damaged"} and all(isinstance(error, StoreError) for _, error in told)
        assert payments(file) == Counter({"pay 2": 1})
        assert [delta for _, delta in await fleet.inbox("damaged")] == [said("pay 1")]

    world.play(play)


def test_a_run_that_nobody_vouches_for_is_left_to_a_person(world: World, tmp_path: Path) -> None:
    """An approval that waits was said to another log; a worker that opened this one would vouch for it."""

    async def play() -> None:
        fleet, file = world.worker(), tmp_path / "payments"
        await fleet.send("s", said("wire 1"))
        async with serving(Worker(clerk(world.worker(), file))):
            await seen(lambda: is_asked(fleet, "s"))
        await world.sql("UPDATE runs SET seal = NULL WHERE run = 's'")
        count = len(await fleet.read("s"))
        told: list[Exception] = []
        await fleet.send("s", CancelAll())
        async with serving(Worker(clerk(world.worker(), file), complain=lambda run, error: told.append(error))):
            await seen(lambda: nothing_but(told))
        assert [type(error) for error in told] == [DoubtedRun] and len(await fleet.read("s")) == count

    world.play(play)


def test_a_session_that_fails_is_taken_up_again_when_its_lease_has_ended(world: World, tmp_path: Path) -> None:
    """The input is in the log by then, and nothing else tells that the turn is not over."""

    async def play() -> None:
        fleet, file, told = world.worker(), tmp_path / "payments", list[Exception]()
        runs = Failing(world.worker())
        worker = Worker(clerk(runs, file), complain=lambda run, error: told.append(error))
        async with serving(worker):
            await fleet.send("s", said("pay 1"))
            await seen(lambda: nothing_but(told))
            await world.end_lease("s")
            await fleet.send("other", said("hello"))  # so that somebody looks
            await seen(lambda: at_rest(world, fleet, "s"))
        assert payments(file)["pay 1"] <= 1 and await answers(fleet, "s") in ([PAID], [LOST])

    world.play(play)


class Failing(PostgresRuns):
    """Whose inbox cannot be read the second time, once."""

    def __init__(self, runs: PostgresRuns) -> None:
        vars(self).update(vars(runs))
        self._asked = 0

    @override
    async def inbox(self, run: str) -> tuple[tuple[int, Input], ...]:
        self._asked += 1
        if self._asked == 2:
            raise StoreError("the connection was lost")
        return await super().inbox(run)


def test_a_session_whose_timer_runs_is_held_until_it_has_fired(world: World, tmp_path: Path) -> None:
    async def play() -> None:
        fleet, file = world.worker(), tmp_path / "payments"
        impatient = evolve(preset("default"), approval_timeout_ms=300)
        agent = Agent(Clerk(), paying(file), runs=world.worker(), policy=impatient)
        await fleet.send("s", said("wire 1"))
        async with serving(Worker(agent)):
            await seen(lambda: at_rest(world, fleet, "s"))
        log = await fleet.read("s")
        assert sum(isinstance(record.delta, Acquired | Resumed) for record in log) == 1
        assert any(isinstance(record.delta, TimerFired) for record in log) and payments(file) == Counter()

    world.play(play)


def test_a_worker_that_is_full_does_not_ask_again_and_again(world: World, tmp_path: Path) -> None:
    async def play() -> None:
        fleet, file, runs = world.worker(), tmp_path / "payments", Counting(world.worker())
        impatient = evolve(preset("default"), approval_timeout_ms=1_500)
        worker = Worker(Agent(Clerk(), paying(file), runs=runs, policy=impatient), most_sessions=1, look_seconds=600)
        await fleet.send("a", said("wire 1"))
        async with serving(worker):
            await seen(lambda: is_asked(fleet, "a"))
            await fleet.send("b", said("hello"))
            store = await fleet.open("left")
            await fleet.rest("left", 0.0, unfinished=True)
            await store.close()
            await seen(lambda: at_rest(world, fleet, "b"))
        assert runs.waits < 100

    world.play(play)


class Counting(PostgresRuns):
    """Which counts how often it is waited for."""

    def __init__(self, runs: PostgresRuns) -> None:
        vars(self).update(vars(runs))
        self.waits = 0

    @override
    async def wait_for_work(self, seconds: float) -> tuple[str, ...]:
        self.waits += 1
        return await super().wait_for_work(seconds)


def test_a_worker_whose_lease_is_lost_stops_what_is_under_way(world: World, tmp_path: Path) -> None:
    async def play() -> None:
        fleet, began, stopped = world.worker(), asyncio.Event(), asyncio.Event()

        @tool(effect=EffectClass.DANGEROUS, approval=Decision.ALLOW)
        async def pay(what: str) -> str:
            """Pay, and never come to an end."""
            began.set()
            try:
                await asyncio.Event().wait()
            finally:
                stopped.set()
            return "paid"

        await fleet.send("s", said("pay 1"))
        runs = world.worker()
        async with serving(Worker(Agent(Clerk(), [pay], runs=runs))):
            await asyncio.wait_for(began.wait(), PATIENCE_SECONDS)
            await world.end_lease("s")
            await runs._leases._connections.run(runs._leases._renew)  # a beat
            await asyncio.wait_for(stopped.wait(), PATIENCE_SECONDS)
        assert len([record for record in await fleet.read("s") if isinstance(record.delta, ToolSucceeded)]) == 0

    world.play(play)


SESSIONS, INPUTS_PER_KILL = 12, 8
KILLS = int(os.environ.get("KILLS", "5"))  # more where there is time


def test_workers_that_are_killed_lose_nothing_and_repeat_nothing(world: World, tmp_path: Path) -> None:
    """Two processes, one of which is killed again and again at any moment, while inputs come in.

    However slow the machine is, no lease ends but that of a worker that has died, and it does at once.
    """

    async def play() -> None:
        fleet, file = world.worker(), tmp_path / "payments"
        chance = random.Random(19)
        running = [started(world, tmp_path) for _ in range(2)]
        acknowledged: list[tuple[str, str]] = []
        try:
            for turn in range(KILLS):
                victim = running[turn % 2]
                assert victim.stdout is not None and READY in await asyncio.to_thread(victim.stdout.readline)
                before = sum(payments(file).values())
                for _ in range(INPUTS_PER_KILL):
                    run, words = f"run-{chance.randrange(SESSIONS)}", f"pay {len(acknowledged)}"
                    await fleet.send(run, said(words))
                    acknowledged.append((run, words))

                async def paying(before: int = before) -> bool:
                    return sum(payments(file).values()) > before

                await seen(paying)
                await asyncio.sleep(chance.random() * 0.1)  # any moment will do
                victim.send_signal(signal.SIGKILL)
                await asyncio.to_thread(victim.communicate)
                await end_leases_of(world, victim.pid)
                running[turn % 2] = started(world, tmp_path)
            for run in sorted({run for run, _ in acknowledged}):
                await seen(partial(at_rest, world, fleet, run))
        finally:
            for process in running:
                process.terminate()
            for process in running:
                await asyncio.to_thread(process.communicate)
        made = payments(file)
        assert max(made.values()) == 1
        for run in sorted({run for run, _ in acknowledged}):
            log = await fleet.read(run)
            steps = fold(log)
            assert check_trace(steps).held and check_pairs(steps).held
            state = steps[-1].after
            assert isinstance(state, Idle)
            heard = [record.delta for record in log if isinstance(record.delta, Say)]
            assert heard == [said(words) for named, words in acknowledged if named == run]
            # Each input has its answer, in order, and nobody is told of a payment that was not made.
            for (_, words), answer in zip(
                [each for each in acknowledged if each[0] == run], await answers(fleet, run), strict=True
            ):
                assert answer in ((PAID, LOST) if made[words] else (LOST,))
        print(f"\n{KILLS} kills, {len(acknowledged)} inputs, each in its log once: {sum(made.values())} were paid once")

    world.play(play)


async def end_leases_of(world: World, process: int) -> None:
    """Have the leases of a worker end that is dead, when nothing is on its way any more that it has sent."""
    name = application_name(process)

    async def is_gone() -> bool:
        return await world.sql("SELECT count(*) FROM pg_stat_activity WHERE application_name = %s", name) == [(0,)]

    await seen(is_gone)
    ended = "UPDATE runs SET lease_until = clock_timestamp() - interval '1 s' WHERE starts_with(owner, %s)"
    await world.sql(ended, f"process {process} on ")


def started(world: World, folder: Path) -> "subprocess.Popen[str]":
    """A worker in a process of its own."""
    command = [sys.executable, "-m", "tests.homes.postgres.clerk", world.dsn, world.schema, str(folder)]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
        env={**os.environ, "HOME": str(folder)},
    )

"""Workers of a fleet on a real database: who serves which session, and what is left when one dies."""

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from loopkernel.data.blocks import TextBlock
from loopkernel.data.messages import AssistantMessage
from loopkernel.data.states import Confirming, Idle
from loopkernel.data.user_deltas import Approve, Say
from loopkernel.judging import check_pairs, check_trace
from loopkernel.replaying import fold, replay
from loopkernel_adapters.fleet.worker import Worker
from loopkernel_adapters.ports import NoSuchRun, StoreError
from loopkernel_adapters.stores.postgres import PostgresRuns

from tests.homes.postgres.clerk import LOST, PAID, READY, SAID, clerk
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
        assert not any(worker.held for worker in workers)

    world.play(play)


def test_a_session_that_waits_for_a_person_is_held_by_nobody_and_goes_on_with_the_answer(
    world: World, tmp_path: Path
) -> None:
    async def play() -> None:
        fleet, file = world.worker(), tmp_path / "payments"
        first, second = (Worker(clerk(world.worker(), file)) for _ in range(2))
        await fleet.send("s", said("wire 1,000"))
        async with serving(first):

            async def asked() -> bool:
                with suppress(NoSuchRun):
                    return isinstance(replay(await fleet.read("s")), Confirming) and not first.held
                return False

            await seen(asked)
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
        told: list[tuple[str, Exception]] = []
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


SESSIONS, INPUTS_PER_KILL, KILLS = 12, 8, 15


def test_workers_that_are_killed_lose_nothing_and_repeat_nothing(world: World, tmp_path: Path) -> None:
    """Two processes, one of which is killed again and again at any moment, while inputs come in."""

    async def play() -> None:
        fleet, file = world.worker(), tmp_path / "payments"
        chance = random.Random(19)
        running = [started(world, tmp_path) for _ in range(2)]
        acknowledged: list[tuple[str, str]] = []
        try:
            for turn in range(KILLS):
                for _ in range(INPUTS_PER_KILL):
                    run, words = f"run-{chance.randrange(SESSIONS)}", f"pay {len(acknowledged)}"
                    await fleet.send(run, said(words))
                    acknowledged.append((run, words))
                victim = running[turn % 2]
                assert victim.stdout is not None and READY in await asyncio.to_thread(victim.stdout.readline)
                before = sum(payments(file).values())

                async def paying(before: int = before) -> bool:
                    return sum(payments(file).values()) > before

                await seen(paying)
                await asyncio.sleep(chance.random() * 0.1)  # any moment will do
                victim.send_signal(signal.SIGKILL)
                await asyncio.to_thread(victim.communicate)
                running[turn % 2] = started(world, tmp_path)
            for run in sorted({run for run, _ in acknowledged}):

                async def rested(run: str = run) -> bool:
                    left = await world.sql("SELECT unfinished OR holder IS NOT NULL FROM runs WHERE run = %s", run)
                    return not await fleet.inbox(run) and left == [(False,)]

                await seen(rested)
        finally:
            for process in running:
                process.terminate()
            for process in running:
                await asyncio.to_thread(process.communicate)
        made = payments(file)
        for run in sorted({run for run, _ in acknowledged}):
            log = await fleet.read(run)
            steps = fold(log)
            assert check_trace(steps).held and check_pairs(steps).held
            state = steps[-1].after
            assert isinstance(state, Idle)
            heard = [record.delta for record in log if isinstance(record.delta, Say)]
            assert heard == [said(words) for named, words in acknowledged if named == run]
            told = await answers(fleet, run)
            unpaid = sum(made[words] == 0 for named, words in acknowledged if named == run)
            assert told.count(LOST) >= unpaid  # nobody is told of a payment that was not made
        assert max(made.values()) == 1, [words for words, times in made.items() if times > 1]
        print(f"\n{KILLS} kills, {len(acknowledged)} inputs, each in its log once: {sum(made.values())} were paid once")

    world.play(play)


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

"""One writer a run, on whatever machine: leases by the server's clock, fencing, and records that are written once."""

import asyncio

import psycopg
import pytest
from loopkernel.replaying import replay
from loopkernel_adapters.ports import NoSuchRun, StoreError, StoreLocked
from loopkernel_adapters.stores.postgres_appends import Append
from loopkernel_adapters.stores.postgres_connections import Connection

from tests.homes.postgres.world import RECORDS, World, said


def test_what_one_worker_wrote_another_goes_on_with(world: World) -> None:
    async def play() -> None:
        first, second = world.worker(), world.worker()
        store = await world.vouching(first, "s")
        await store.append(RECORDS[:2], durable=False)
        await store.append(RECORDS[2:3], durable=True)
        assert await second.read("s") == RECORDS[:3]
        await store.close()
        await store.close()
        with pytest.raises(StoreError, match="is closed; open it again"):
            await store.append(RECORDS[3:4], durable=True)
        store = await world.vouching(second, "s")
        assert (await store.load(), (await store.restore()).doubt) == (RECORDS[:3], None)
        await store.append(RECORDS[3:5], durable=True)
        await store.close()
        assert await first.read("s") == RECORDS[:5]
        assert [(entry.run, entry.records) for entry in await first.entries()] == [("s", 5)]
        with pytest.raises(NoSuchRun, match="there is no run 'other'"):
            await first.read("other")

    world.play(play)


def test_a_run_that_is_held_is_refused_until_its_lease_has_ended(world: World) -> None:
    async def play() -> None:
        first, second = world.worker(), world.worker()
        store = await world.vouching(first, "s")
        await store.append(RECORDS[:2], durable=True)
        for worker in (first, second):
            with pytest.raises(StoreLocked, match=r"is open for writing elsewhere \(process \d+ on "):
                await worker.open("s")
        await world.end_lease("s")
        other = await world.vouching(second, "s")
        with pytest.raises(StoreError, match="opened by another writer, so this one is fenced off"):
            await store.append(RECORDS[2:3], durable=True)
        with pytest.raises(StoreError, match=r"an earlier write to .* failed"):
            await store.append(RECORDS[2:3], durable=True)
        with pytest.raises(StoreError, match="an earlier write"):
            await store.save_snapshot(replay(RECORDS[:2]))
        await store.close()  # which is not to let go of what another one holds
        await other.append(RECORDS[2:4], durable=True)
        with pytest.raises(StoreLocked):
            await first.open("s")
        assert await first.read("s") == RECORDS[:4]
        await other.close()

    world.play(play)


def test_a_lease_that_has_ended_is_over_though_nobody_took_the_run(world: World) -> None:
    async def play() -> None:
        worker = world.worker()
        store = await world.vouching(worker, "s")
        await store.append(RECORDS[:2], durable=True)
        await world.end_lease("s")
        await worker._leases._connections.run(worker._leases._renew)  # a heartbeat that comes too late
        with pytest.raises(StoreError, match=r"the lease of .* has ended"):
            await store.append(RECORDS[2:3], durable=True)
        await store.close()
        store = await worker.open("s")
        assert await store.load() == RECORDS[:2]
        await store.close()

    world.play(play)


def test_heartbeats_and_appends_make_the_lease_longer(world: World) -> None:
    async def left(run: str) -> float:
        ((seconds,),) = await world.sql(
            "SELECT extract(epoch FROM lease_until - clock_timestamp())::float FROM runs WHERE run = %s", run
        )
        assert isinstance(seconds, float)
        return seconds

    async def play() -> None:
        worker = world.worker()
        stores = [await world.vouching(worker, run) for run in ("a", "b")]
        soon = "UPDATE runs SET lease_until = clock_timestamp() + interval '100 s'"
        await world.sql(soon)
        await worker._leases._connections.run(worker._leases._renew)
        assert min(await left("a"), await left("b")) > 300
        await world.sql(soon)
        await stores[0].append(RECORDS[:1], durable=True)
        assert await left("a") > 300 > await left("b")
        for store in stores:
            await store.close()
        assert worker._leases._beating is None  # no task is left for runs that rest

    world.play(play)


def test_the_heartbeat_comes_by_itself(world: World) -> None:
    async def play() -> None:
        worker = world.worker(lease_seconds=0.9)
        store = await world.vouching(worker, "s")
        ((before,),) = await world.sql("SELECT lease_until FROM runs")
        after = before
        while after == before:
            ((after,),) = await world.sql("SELECT lease_until FROM runs")
        await store.close()

    world.play(play)


def test_appends_are_written_in_the_order_of_their_calls_also_when_one_is_cancelled(world: World) -> None:
    async def play() -> None:
        store = await world.vouching(world.worker(), "s")
        calls = [asyncio.create_task(store.append(RECORDS[n : n + 1], durable=n % 3 == 0)) for n in range(20)]
        await asyncio.sleep(0)
        for call in calls[5:8]:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        await store.append(RECORDS[20:21], durable=True)
        assert await store.load() == RECORDS[:21]
        cancelled = asyncio.create_task(store.append(RECORDS[21:22], durable=True))
        await asyncio.sleep(0)
        cancelled.cancel()
        await store.append(RECORDS[22:23], durable=True)
        await store.close()
        assert await world.worker().read("s") == RECORDS[:23]

    world.play(play)


def test_inputs_go_away_with_the_append_that_takes_them_and_with_no_other(world: World) -> None:
    async def play() -> None:
        worker = world.worker()
        assert [await worker.send("s", said(text)) for text in "abc"] == [1, 2, 3]
        store = await world.vouching(worker, "s")
        await store.append(RECORDS[:2], durable=True, taken=(1, 2))
        assert await worker.inbox("s") == ((3, said("c")),)
        with pytest.raises(StoreError, match=r"of the inputs \[2, 3\] only 1 are waiting, so nothing was taken"):
            await store.append(RECORDS[2:3], durable=True, taken=(2, 3))
        assert (await worker.inbox("s"), await worker.read("s")) == (((3, said("c")),), RECORDS[:2])
        await store.close()
        store = await worker.open("s")
        await store.append((), durable=True, taken=(3,))
        assert await worker.inbox("s") == ()
        await store.close()

    world.play(play)


def lose_the_answer(patch: pytest.MonkeyPatch, times: int) -> None:
    """The next appends are made, and the connection is gone before anybody hears of it."""
    make, left = Append.make, [times]

    async def made(append: Append, connection: Connection) -> None:
        await make(append, connection)
        if left[0]:
            left[0] -= 1
            connection.pgconn.finish()
            raise psycopg.OperationalError("server closed the connection unexpectedly")

    patch.setattr(Append, "make", made)


def test_an_append_whose_answer_was_lost_is_found_and_not_written_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play() -> None:
        worker = world.worker()
        await worker.send("s", said("a"))
        store = await world.vouching(worker, "s")
        lose_the_answer(monkeypatch, times=2)
        await store.append(RECORDS[:3], durable=True, taken=(1,))
        assert (await store.load(), await worker.inbox("s")) == (RECORDS[:3], ())
        await worker.send("s", said("b"))
        lose_the_answer(monkeypatch, times=1)
        await store.append((), durable=True, taken=(2,))
        lose_the_answer(monkeypatch, times=1)
        await store.append(RECORDS[3:4], durable=True)
        await store.close()
        assert await worker.read("s") == RECORDS[:4]

    world.play(play)


def test_a_worker_whose_connections_were_ended_goes_on(world: World) -> None:
    async def play() -> None:
        worker = world.worker()
        stores = [await world.vouching(worker, f"s{n}") for n in range(4)]
        for n in range(8):
            await world.sql(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'loopkernel'"
            )
            await asyncio.gather(*(store.append(RECORDS[n : n + 1], durable=True) for store in stores))
        for store in stores:
            assert await store.load() == RECORDS[:8]
            await store.close()

    world.play(play)

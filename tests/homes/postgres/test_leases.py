"""One writer a run, on whatever machine: leases by the server's clock, fencing, and records that are written once."""

import asyncio
import time
from collections.abc import Awaitable, Callable

import psycopg
import pytest
from loopkernel.replaying import replay
from loopkernel_adapters.ports import NoSuchRun, StoreError, StoreLocked
from loopkernel_adapters.stores import postgres_appends, postgres_leases
from loopkernel_adapters.stores.postgres_appends import Append
from loopkernel_adapters.stores.postgres_connections import Connection

from tests.homes.postgres.world import RECORDS, World, said

PATIENCE_SECONDS = 60.0  # for what takes a moment


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


def test_a_row_that_is_locked_holds_up_no_other_lease(world: World) -> None:
    async def play() -> None:
        worker = world.worker()
        stores = [await world.vouching(worker, run) for run in ("a", "b", "c")]
        await world.sql("UPDATE runs SET lease_until = clock_timestamp() + interval '100 s'")
        await world.end_lease("c")
        async with await psycopg.AsyncConnection.connect(world.dsn) as other:
            await other.execute("SELECT set_config('search_path', %s, false)", (world.schema,))
            await other.execute("SELECT FROM runs WHERE run = 'a' FOR UPDATE")
            connection = await worker._leases._connection(PATIENCE_SECONDS)
            await worker._leases._renew(connection)
            await connection.close()
        long = await world.sql("SELECT run, lease_until > clock_timestamp() + interval '300 s' FROM runs ORDER BY run")
        assert long == [("a", False), ("b", True), ("c", False)]
        assert [worker.holds(run) for run in ("a", "b", "c", "d")] == [True, True, False, False]
        await world.sql("UPDATE runs SET lease_until = clock_timestamp() + interval '100 s'")
        with pytest.raises(StoreError, match=r"the lease of .* 'c' has ended"):
            await stores[2].append(RECORDS[:1], durable=True)  # once lost, lost for good
        for store in stores[:2]:
            await store.append(RECORDS[:1], durable=True)
        for store in stores:
            await store.close()
        assert not worker.holds("a")

    world.play(play)


def test_the_heartbeat_survives_whatever_goes_wrong_with_a_beat(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def play() -> None:
        worker = world.worker(lease_seconds=0.9)
        renew, beats = worker._leases._renew, asyncio.Queue[Connection]()

        async def broken(connection: Connection) -> None:
            beats.put_nowait(connection)
            raise RuntimeError("a mistake")

        monkeypatch.setattr(worker._leases, "_renew", broken)
        store = await world.vouching(worker, "s")
        first, second = await beats.get(), await beats.get()
        assert first.closed and first is not second
        monkeypatch.setattr(worker._leases, "_renew", renew)
        await store.close()

    world.play(play)


def test_a_lease_ends_here_by_the_clock_of_this_machine(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted from before it was asked for: who stood still knows that the run may be another's, and asks nobody."""
    shift = [0.0]

    def later() -> float:
        return time.monotonic() + shift[0]

    async def play() -> None:
        for module in (postgres_leases, postgres_appends):
            monkeypatch.setattr(module, "monotonic", later)
        worker = world.worker()
        store = await world.vouching(worker, "s")
        await worker.send("claimed", said("hello"))
        assert await worker.claim(5) == ("claimed",)
        assert worker.holds("s") and worker.holds("claimed")
        shift[0] += 400.0
        await store.append(RECORDS[:1], durable=True)
        shift[0] += 400.0
        assert worker.holds("s") and not worker.holds("claimed")
        slow_answers(monkeypatch, shift, 601.0)
        with pytest.raises(StoreError, match=r"the lease of .* has ended.*, and what was to be written is kept; open"):
            await store.append(RECORDS[1:2], durable=True)
        assert not worker.holds("s")
        await store.close()
        assert await worker.read("s") == RECORDS[:2]

    world.play(play)


def slow_answers(patch: pytest.MonkeyPatch, shift: list[float], seconds: float) -> None:
    """The next appends are made, and their answers take so long."""
    make = Append.make

    async def made(append: Append, connection: Connection) -> None:
        await make(append, connection)
        shift[0] += seconds

    patch.setattr(Append, "make", made)


def test_a_run_that_is_set_aside_is_held_by_nobody_for_one_lease(world: World) -> None:
    async def play() -> None:
        worker, other = world.worker(), world.worker()
        for run in ("open", "claimed", "closed", "of another"):
            await worker.send(run, said("hello"))
        theirs = await other.open("of another")
        assert set(await worker.claim(5)) == {"open", "claimed", "closed"}
        store, closed = await worker.open("open"), await worker.open("closed")
        await closed.close()
        for run in ("open", "claimed", "closed", "of another", "nobody"):
            await worker.set_aside(run)
            assert not worker.holds(run)
        with pytest.raises(StoreError, match="has ended, since nothing renewed it"):
            await store.append(RECORDS[:1], durable=True)
        await store.close()  # which does not let go of it
        await worker._leases._connections.run(worker._leases._renew)
        assert (await worker.claim(5), await other.claim(5)) == ((), ())
        found = await world.sql("SELECT run, holder, unfinished FROM runs WHERE run <> 'of another' ORDER BY run")
        assert found == [("claimed", None, True), ("closed", None, True), ("open", None, True)]
        await theirs.append(RECORDS[:1], durable=True)
        await theirs.close()
        for run in ("open", "claimed", "closed"):
            await world.end_lease(run)
        assert set(await other.claim(5)) == {"open", "claimed", "closed", "of another"}

    world.play(play)


def test_whoever_waits_for_the_end_of_leases_hears_of_each_at_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    shift = [0.0]

    async def play() -> None:
        monkeypatch.setattr(postgres_leases, "monotonic", lambda: time.monotonic() + shift[0])
        worker = world.worker()
        waiting = asyncio.ensure_future(worker.lost())
        stores = [await worker.open(run) for run in ("a", "b", "c")]
        await world.end_lease("a")
        assert not waiting.done()
        await worker._leases._connections.run(worker._leases._renew)  # one beat
        assert await waiting == ("a",)
        waiting = asyncio.ensure_future(worker.lost())
        await stores.pop().close()  # let go of, and not lost
        shift[0] += 601.0
        stores.append(await worker.open("d"))
        assert await waiting == ("b",)
        waiting = asyncio.ensure_future(worker.lost())
        await asyncio.sleep(0)
        assert not waiting.done()
        waiting.cancel()
        for store in stores:
            await store.close()

    world.play(play)


def test_a_lease_that_nothing_renews_is_told_when_it_ends(world: World) -> None:
    async def play() -> None:
        worker = world.worker(lease_seconds=0.3)
        store = await worker.open("a")
        worker._leases.stop()
        assert await worker.lost() == ("a",) and not worker.holds("a")
        await store.close()

    world.play(play)


def test_a_second_worker_of_the_same_runs_is_refused_and_the_first_goes_on(world: World) -> None:
    async def play() -> None:
        worker = world.worker(lease_seconds=0.3)
        store = await worker.open("a")
        first = asyncio.ensure_future(worker.lost())
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="have a worker already"):
            await worker.lost()
        worker._leases.stop()
        assert await first == ("a",)
        await store.close()

    world.play(play)


def test_the_heartbeat_comes_by_itself(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def play() -> None:
        monkeypatch.setattr(postgres_leases, "BEATS", 1_000)
        worker = world.worker()
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


async def nothing() -> None:
    """What happens meanwhile, unless a test says otherwise."""


def lose_the_answer(patch: pytest.MonkeyPatch, times: int, then: Callable[[], Awaitable[object]] = nothing) -> None:
    """The next appends are made, and the connection is gone before anybody hears of it."""
    make, left = Append.make, [times]

    async def made(append: Append, connection: Connection) -> None:
        await make(append, connection)
        if left[0]:
            left[0] -= 1
            connection.pgconn.finish()
            await then()
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


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("lease_until = clock_timestamp() - interval '1 s'", "has ended, since nothing renewed it in time"),
        ("holder = gen_random_uuid()", "was opened by another writer, so this one is fenced off"),
        ("epoch = epoch + 1", "was opened by another writer, so this one is fenced off"),
    ],
)
def test_nothing_begins_on_an_append_that_was_made_under_a_lease_that_is_over(
    world: World, monkeypatch: pytest.MonkeyPatch, change: str, words: str
) -> None:
    async def play() -> None:
        worker = world.worker()
        for taken in ((), (1,)):
            await worker.send("s", said("a"))
            store = await world.vouching(worker, "s")
            with monkeypatch.context() as patch:
                lose_the_answer(patch, times=1, then=lambda: world.sql(f"UPDATE runs SET {change}"))
                with pytest.raises(
                    StoreError, match=f"{words}, and what was to be written is kept; open the run again"
                ):
                    await store.append(() if taken else RECORDS[:2], durable=True, taken=taken)
            await store.close()
            await world.end_lease("s")
        assert (await worker.read("s"), await worker.inbox("s")) == (RECORDS[:2], ((2, said("a")),))

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

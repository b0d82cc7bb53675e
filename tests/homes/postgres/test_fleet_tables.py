"""What a fleet asks of the database: inputs from anywhere, runs that have work, rest, and being woken."""

import asyncio
import time
from contextlib import suppress

import psycopg
import pytest
from loopkernel.data.deltas import Delta
from loopkernel.data.ids import ModelOperation
from loopkernel.data.model_deltas import ModelText
from loopkernel.data.thread_deltas import Created, Disposed
from loopkernel.data.user_deltas import CancelAll
from loopkernel_adapters.fleet_ports import Fleet
from loopkernel_adapters.ports import StoreError, StoreLocked
from loopkernel_adapters.stores import postgres_fleet
from loopkernel_adapters.stores.postgres import PostgresRuns
from loopkernel_adapters.stores.postgres_connections import Connection
from loopkernel_adapters.stores.postgres_inputs import MOST_AT_ONCE
from loopkernel_adapters.stores.postgres_leases import Lease
from loopkernel_adapters.stores.seals import Seals

from tests.homes.postgres.world import RECORDS, World, said

LONG = 60.0  # seconds: nothing here waits so long unless it is broken


async def rests(worker: PostgresRuns, run: str, wake_seconds: float | None = None, *, unfinished: bool = False) -> None:
    """The worker holds the run, and lets go of it."""
    store = await worker.open(run)
    await worker.rest(run, wake_seconds, unfinished)
    await store.close()


def test_the_runs_of_a_server_are_a_fleet(world: World) -> None:
    async def play() -> None:
        fleet: Fleet = world.worker()
        assert (await fleet.claim(3), await fleet.inbox("nobody")) == ((), ())

    world.play(play)


def test_inputs_come_from_anywhere_and_keep_their_order(world: World) -> None:
    async def play() -> None:
        workers = [world.worker() for _ in range(3)]
        inputs: list[Delta] = [Created(session_id="s"), said("one \0 \N{SNOWMAN}"), CancelAll(), said("x" * 100_000)]
        numbers = [await workers[n % 3].send("s", delta) for n, delta in enumerate(inputs)]
        assert numbers == [1, 2, 3, 4]
        assert await workers[0].inbox("s") == tuple(zip(numbers, inputs, strict=True))
        many = await asyncio.gather(*(workers[n % 3].send("t", said(str(n))) for n in range(30)))
        assert sorted(many) == list(range(1, 31))
        found = await workers[1].inbox("t")
        assert [(number, delta) for number, delta in found] == [
            (number, said(str(n))) for number, n in sorted(zip(many, range(30), strict=True))
        ]
        assert await workers[0].entries() == ()  # what has no records is no log yet

    world.play(play)


@pytest.mark.parametrize(
    ("run", "delta", "words"),
    [
        ("s", ModelText(ModelOperation(1), "hello"), "ModelText is not an input"),
        ("s/1/1.1", CancelAll(), "no sub-agent has the session"),
        ("s/1/1.1", Disposed(), "is of a sub-agent, and a Disposed is not sent to one"),
        ("s\ud800", CancelAll(), "half of a surrogate pair"),
        ("s" * 1_001, CancelAll(), "is too long: 1001 bytes"),
    ],
)
def test_what_is_not_an_input_of_a_run_is_refused_in_words(world: World, run: str, delta: Delta, words: str) -> None:
    async def play() -> None:
        worker = world.worker()
        with pytest.raises(StoreError, match=words):
            await worker.send(run, delta)
        assert await worker.claim(5) == ()

    world.play(play)


def test_where_nothing_can_be_sealed_nothing_is_sent(world: World) -> None:
    async def play() -> None:
        (world.folder / "file").write_text("")
        with pytest.raises(StoreError, match="an input is taken only where it is sealed, and nothing can be sealed"):
            await world.worker(seals=Seals(world.folder / "file" / "folder")).send("s", CancelAll())

    world.play(play)


def test_what_has_work_is_claimed_by_one_worker(world: World) -> None:
    async def play() -> None:
        sender, *workers = (world.worker() for _ in range(5))
        for n in range(20):
            await sender.send(f"r{n}", said("go"))
        await rests(sender, "quiet")
        await rests(sender, "later", 3_600)
        await rests(sender, "due", -1)
        await rests(sender, "left", unfinished=True)
        await rests(sender, "left/child", unfinished=True)
        claims = await asyncio.gather(*(worker.claim(7) for worker in workers))
        assert all(len(claim) <= 7 for claim in claims)
        rest = [await worker.claim(100) for worker in workers]
        claimed = [run for claim in (*claims, *rest) for run in claim]
        assert sorted(claimed) == sorted([*(f"r{n}" for n in range(20)), "due", "left"])
        first = claims[0][0]
        with pytest.raises(StoreError, match="is open for writing elsewhere"):
            await workers[1].open(first)
        store = await workers[0].open(first)
        with pytest.raises(StoreError, match="is open for writing elsewhere"):
            await workers[0].open(first)
        await store.close()

    world.play(play)


def test_a_run_whose_holder_died_is_claimed_when_its_lease_has_ended(world: World) -> None:
    async def play() -> None:
        first, second = world.worker(), world.worker()
        store = await world.vouching(first, "s")
        await store.append(RECORDS[:3], durable=True)
        assert await second.claim(5) == ()
        await world.end_lease("s")
        assert await second.claim(5) == ("s",)
        other = await world.vouching(second, "s")
        await other.append(RECORDS[3:4], durable=True)
        with pytest.raises(StoreError, match="fenced off"):
            await store.append(RECORDS[3:4], durable=True)
        with pytest.raises(StoreError, match="has ended, so another worker goes on with it"):
            await first.rest("s", None, False)
        await second.rest("s", None, False)
        await other.close()
        assert (await second.claim(5), await first.read("s")) == ((), RECORDS[:4])

    world.play(play)


def test_a_run_is_claimed_when_no_lease_of_its_sub_agents_lasts_either(world: World) -> None:
    """Each append renews its own lease alone, so that of a sub-agent may outlive that of the run."""

    async def play() -> None:
        dead, other = world.worker(), world.worker()
        for run in ("s", "s/1/2", "s0/1", "s-/1", "S/1", "s_", "%"):
            await dead.open(run)
        for run in ("s", "s_", "%"):
            await world.end_lease(run)
        assert set(await other.claim(5)) == {"s_", "%"}
        await world.end_lease("s/1/2")
        assert await other.claim(5) == ("s",)

    world.play(play)


def test_a_sub_agent_that_is_held_is_waited_for_until_its_lease_ends(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play() -> None:
        dead, other, hasty = world.worker(), world.worker(), world.worker(lease_seconds=0.3)
        await dead.open("s/1")
        with pytest.raises(StoreLocked, match="is open for writing elsewhere"):
            await dead.open("s/1")  # it is held here, so nothing is to be waited for
        with pytest.raises(StoreLocked, match="is open for writing elsewhere"):
            await hasty.open("s/1")  # no longer than its own lease
        take, refused = other._leases.take, asyncio.Event()

        async def taken(run: str, kept: str) -> Lease:
            try:
                return await take(run, kept)
            except StoreLocked:
                refused.set()
                raise

        monkeypatch.setattr(other._leases, "take", taken)
        opening = asyncio.create_task(other.open("s/1"))
        await refused.wait()
        await world.end_lease("s/1")
        await (await opening).close()

    world.play(play)


@pytest.mark.parametrize(
    "change",
    [
        "lease_until = 'infinity'",
        "lease_until = '-infinity'",
        "lease_until = '290000-01-01'",
        "wake_ms = -9223372036854775808",
        "wake_ms = 9223372036854775807",
        "epoch = 9223372036854775807",
        "epoch = -9223372036854775808",
    ],
)
def test_a_row_that_no_worker_writes_stops_none(world: World, change: str) -> None:
    async def play() -> None:
        worker = world.worker()
        await worker.wait_for_work(LONG)
        await rests(worker, "bad", unfinished=True)
        with pytest.raises(psycopg.errors.CheckViolation):
            await world.sql(f"UPDATE runs SET {change.replace('290000-01-01', 'infinity')} WHERE run = 'bad'")
        await world.sql("ALTER TABLE runs DROP CONSTRAINT runs_epoch, DROP CONSTRAINT runs_lease")
        await world.sql("ALTER TABLE runs DROP CONSTRAINT runs_wake")
        await world.sql(f"UPDATE runs SET {change} WHERE run = 'bad'")
        await rests(worker, "good", unfinished=True)
        await worker.wait_for_work(0.01)
        assert "good" in await worker.claim(5)
        await worker.wait_for_work(0.01)
        try:
            await (await worker.open("bad")).close()
        except StoreError:
            assert "lease" in change or "epoch" in change
        await world.sql("UPDATE schema_version SET version = 2")
        other = world.worker()
        assert "good" not in await other.claim(5)  # the same steps again put the row right

    world.play(play)


def test_a_rest_is_counted_by_the_clock_of_the_server(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def left(run: str) -> object:
        ((found,),) = await world.sql(
            "SELECT wake_ms / 1000.0 - extract(epoch FROM clock_timestamp()) BETWEEN 3000 AND 3600 "
            "FROM runs WHERE run = %s",
            run,
        )
        return found

    async def play() -> None:
        worker = world.worker()
        monkeypatch.setattr(time, "time", lambda: 0.0)
        monkeypatch.setattr(time, "time_ns", lambda: 0)
        await rests(worker, "hour", 3_600)
        await rests(worker, "never", 1e300)
        await rests(worker, "due", -1e300)
        assert (await left("hour"), await left("never"), await left("due")) == (True, False, False)
        assert await worker.claim(5) == ("due",)

    world.play(play)


def test_no_more_inputs_are_given_at_once_than_can_be_held(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def play() -> None:
        worker = world.worker()
        for n in range(MOST_AT_ONCE + 2):
            await worker.send("s", said(str(n)))
        assert [number for number, _ in await worker.inbox("s")] == list(range(1, MOST_AT_ONCE + 1))
        store = await world.vouching(worker, "s")
        await store.append((), durable=True, taken=range(1, MOST_AT_ONCE + 1))
        assert [number for number, _ in await worker.inbox("s")] == [MOST_AT_ONCE + 1, MOST_AT_ONCE + 2]

    world.play(play)


def test_a_time_that_has_come_for_nothing_that_can_be_claimed_is_waited_out(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play() -> None:
        dead, waiting = world.worker(), world.worker()
        await waiting.wait_for_work(LONG)
        await rests(dead, "s", 0)
        await dead.open("s/1")  # so the run cannot be claimed
        monkeypatch.setattr(postgres_fleet, "SHORTEST_WAIT_SECONDS", LONG)
        woken = asyncio.create_task(waiting.wait_for_work(LONG))
        await dead.send("t", said("hello"))
        assert await woken == ("t",)

    world.play(play)


def test_a_connection_that_cannot_listen_is_closed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def play() -> None:
        worker = world.worker()
        connect, made = worker._connections.connect, list[Connection]()

        async def connected(deadline: float) -> Connection:
            made.append(await connect(deadline))
            await made[-1].execute("BEGIN READ ONLY")
            with suppress(psycopg.Error):
                await made[-1].execute("no statement at all")
            return made[-1]

        with monkeypatch.context() as patch:
            patch.setattr(worker._connections, "connect", connected)
            with pytest.raises(StoreError, match="current transaction is aborted"):
                await worker.wait_for_work(LONG)
        assert [connection.closed for connection in made] == [True]
        assert await worker.wait_for_work(LONG) == ()

    world.play(play)


def test_what_is_said_of_a_rest_holds_until_something_is_written(world: World) -> None:
    async def play() -> None:
        worker = world.worker()
        with pytest.raises(StoreError, match="is not held here"):
            await worker.rest("s", None, False)
        store = await worker.open("s")
        await worker.rest("s", None, False)
        await store.append(RECORDS[:1], durable=True)
        await store.close()
        assert await worker.claim(5) == ("s",)
        await worker.rest("s", None, False)  # of a run that was claimed and not opened
        assert await worker.claim(5) == ()
        store = await worker.open("s")
        await store.append(RECORDS[1:2], durable=True)
        await store.close()  # without a word: as it was found
        assert await worker.claim(5) == ()
        assert await world.sql("SELECT run, holder, lease_until, wake_ms FROM runs") == [("s", None, None, None)]

    world.play(play)


def test_a_worker_that_waits_is_woken(world: World) -> None:
    async def play() -> None:
        sender, waiting = world.worker(), world.worker()
        assert await waiting.wait_for_work(LONG) == ()  # listens from now on
        for run in ("s", "a\\b\0c"):
            woken = asyncio.create_task(waiting.wait_for_work(LONG))
            await sender.send(run, said("hello"))
            assert await woken == (run,)
        await sender.send("before", said("it waits"))
        assert "before" in await waiting.wait_for_work(LONG)
        assert set(await waiting.claim(5)) == {"s", "a\\b\0c", "before"}
        store = await sender.open("left")
        woken = asyncio.create_task(waiting.wait_for_work(LONG))
        await sender.rest("left", None, True)
        await store.close()
        assert await woken == ("left",)
        assert await waiting.claim(5) == ("left",)
        await rests(sender, "due", -1)
        assert await waiting.wait_for_work(LONG) == ()
        assert await waiting.claim(5) == ("due",)
        await rests(sender, "soon", 0.3)
        assert await waiting.wait_for_work(LONG) == ()
        assert await waiting.wait_for_work(0.001) == ()

    world.play(play)


def test_a_worker_that_waits_is_woken_when_a_lease_ends(world: World) -> None:
    async def play() -> None:
        dead, waiting = world.worker(), world.worker()
        await waiting.wait_for_work(LONG)
        await dead.open("s")
        await world.sql("UPDATE runs SET lease_until = clock_timestamp() + interval '300 ms'")
        claimed: tuple[str, ...] = ()
        while not claimed:
            await waiting.wait_for_work(LONG)
            claimed = await waiting.claim(5)
        assert claimed == ("s",)

    world.play(play)


def test_a_worker_whose_listening_was_cut_off_hears_again(world: World) -> None:
    async def play() -> None:
        sender, waiting = world.worker(), world.worker()
        await waiting.wait_for_work(LONG)
        woken = asyncio.create_task(waiting.wait_for_work(LONG))
        while not await world.sql("SELECT pid FROM pg_stat_activity WHERE query = 'LISTEN loopkernel'"):
            pass
        await world.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query = 'LISTEN loopkernel'")
        assert await woken == ()
        assert await waiting.wait_for_work(LONG) == ()  # listens again
        await sender.send("s", said("hello"))
        assert await waiting.wait_for_work(LONG) == ("s",)

    world.play(play)


def test_runs_that_rest_hold_nothing(world: World) -> None:
    async def play() -> None:
        worker = world.worker()
        stores = [await worker.open(f"r{n}") for n in range(40)]
        await asyncio.gather(*(store.append(RECORDS[:2], durable=True) for store in stores))
        for n, store in enumerate(stores):
            await worker.rest(f"r{n}", 3_600, False)
            await store.close()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert await worker.claim(100) == ()
        ((connections,),) = await world.sql(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'loopkernel' AND state <> 'idle'"
        )
        assert connections == 0

    world.play(play)

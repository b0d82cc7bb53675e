"""What lies in the tables: made once by however many, of this version, and trusted for what it is and no more."""

import asyncio
import os
import resource

import pytest
from loopkernel.replaying import START, replay
from loopkernel_adapters.ports import Restored, StoreCorrupt, StoreError
from loopkernel_adapters.stores import postgres_schema
from loopkernel_adapters.stores.postgres import PostgresRuns
from loopkernel_adapters.stores.postgres_connections import Connection
from loopkernel_adapters.stores.seals import ALTERED, FOREIGN, OLDER, Seals
from loopkernel_adapters.stores.snapshots import sealed_content, snapshot_of

from tests.homes.postgres.world import RECORDS, SECRET, World, said

WORKERS = 12
SELECT_LIMIT = 1024  # descriptors from here on are too high for `select`
VERSION_LATER = (*postgres_schema.SCHEMA, ("CREATE TABLE later (n bigint)",))


async def written(world: World, count: int = 6) -> PostgresRuns:
    """A worker, and the run `s` of so many records, which it has closed."""
    worker = world.worker()
    store = await world.vouching(worker, "s")
    await store.append(RECORDS[:count], durable=True)
    await store.close()
    return worker


async def restored(worker: PostgresRuns) -> Restored:
    store = await worker.open("s")
    try:
        return await store.restore()
    finally:
        await store.close()


def state_of(found: Restored) -> object:
    return replay(found.records, START if found.state is None else found.state)


# --- steps of the schema ---


def test_many_workers_that_come_first_make_the_tables_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def all_of_them() -> None:
        workers = [world.worker() for _ in range(WORKERS)]
        assert await asyncio.gather(*(worker.entries() for worker in workers)) == [()] * WORKERS
        assert await world.sql("SELECT version FROM schema_version") == [(len(postgres_schema.SCHEMA),)]

    async def play() -> None:
        await all_of_them()
        worker = await written(world)
        monkeypatch.setattr(postgres_schema, "SCHEMA", VERSION_LATER)
        await all_of_them_later()
        assert await worker.read("s") == RECORDS[:6]

    async def all_of_them_later() -> None:
        workers = [world.worker() for _ in range(WORKERS)]
        found = await asyncio.gather(*(worker.read("s") for worker in workers))
        assert found == [RECORDS[:6]] * WORKERS
        assert await world.sql("SELECT version, (SELECT count(*) FROM later) FROM schema_version") == [
            (len(VERSION_LATER), 0)
        ]

    world.play(play)


def test_a_step_that_fails_leaves_the_tables_as_they_were(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def play() -> None:
        await written(world)
        with monkeypatch.context() as patch:
            broken = (*VERSION_LATER, ("CREATE TABLE even_later (n bigint)", "no statement at all"))
            patch.setattr(postgres_schema, "SCHEMA", broken)
            with pytest.raises(StoreError, match="syntax error"):
                await world.worker().entries()
        assert await world.sql("SELECT version, to_regclass('later') FROM schema_version") == [
            (len(postgres_schema.SCHEMA), None)
        ]
        assert await world.worker().read("s") == RECORDS[:6]

    world.play(play)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("UPDATE schema_version SET version = 99", "was written by a newer loopkernel .version 99"),
        ("UPDATE schema_version SET version = -1", "is not as loopkernel makes its tables"),
        ("DELETE FROM schema_version", "is not as loopkernel makes its tables"),
        ("ALTER TABLE schema_version ALTER version TYPE text", "is not as loopkernel makes its tables"),
        ("DROP TABLE inbox, runs", 'relation "runs" does not exist'),
    ],
)
def test_tables_of_others_are_refused_in_words(world: World, change: str, words: str) -> None:
    async def play() -> None:
        await written(world)
        await world.sql(change)
        with pytest.raises(StoreError, match=words):
            await world.worker().entries()

    world.play(play)


# --- connections ---


def test_the_settings_of_a_server_are_not_trusted(world: World) -> None:
    async def play() -> None:
        options = "-c synchronous_commit=off -c default_transaction_isolation=serializable"
        worker = PostgresRuns(
            f"{world.dsn} options='{options}'", schema=world.schema, seals=Seals(world.folder, SECRET)
        )
        try:
            assert await worker.entries() == ()
            assert await worker._connections.run(settings) == ("on", "read committed")
        finally:
            await worker.close()

    async def settings(connection: Connection) -> tuple[object, ...] | None:
        asked = "SELECT current_setting('synchronous_commit'), current_setting('transaction_isolation')"
        return await (await connection.execute(asked)).fetchone()

    world.play(play)


def test_descriptors_beyond_what_select_takes_are_used_like_others(world: World) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limits[1] != resource.RLIM_INFINITY and limits[1] < 2 * SELECT_LIMIT:
        pytest.skip("this process may not open so many files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(limits[0], 2 * SELECT_LIMIT), limits[1]))
    taken = [os.open(os.devnull, os.O_RDONLY) for _ in range(SELECT_LIMIT)]

    async def play() -> None:
        worker = await written(world)
        for _ in range(3):
            assert await worker.read("s") == RECORDS[:6]

    try:
        world.play(play)
    finally:
        for descriptor in taken:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


# --- damage ---


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("UPDATE records SET text = replace(text, 't3', 't9') WHERE n = 4", "record 4: the digest does not fit"),
        ("UPDATE records SET text = text || 'é' WHERE n = 4", "record 4: the digest does not fit"),
        ("UPDATE records SET text = '' WHERE n = 4", "record 4: the digest does not fit"),
        ("UPDATE records SET digest = '' WHERE n = 6", "record 6: the record is missing, or its digest is damaged"),
        ("UPDATE records SET digest = decode(repeat('00', 16), 'hex') WHERE n = 5", "record 5: the digest does not"),
        ("DELETE FROM records WHERE n = 3", "record 3: this is record 4, and record 3 belongs here"),
        ("DELETE FROM records WHERE n = 6", "record 6: 6 records were written, and the last is 5"),
        ("DELETE FROM records WHERE n = 1", "record 1: the record is missing"),
        ("UPDATE records SET n = 7 WHERE n = 6", "record 7: 6 records were written, and the last is 7"),
        ("UPDATE runs SET records = 5", "record 6: 5 records were written, and the last is 6"),
        ("UPDATE runs SET records = -1", "the list of runs is damaged"),
        ("ALTER TABLE runs ALTER records TYPE text", "the list of runs is damaged|operator does not exist"),
        ("ALTER TABLE records ALTER text TYPE bytea USING 'x'", "record 1: the digest does not fit"),
        ("UPDATE runs SET run = 't'", "record 1: the digest does not fit"),
    ],
)
def test_a_row_that_was_changed_is_refused_where_it_is(world: World, change: str, words: str) -> None:
    async def play() -> None:
        await written(world)
        await world.sql(change)
        run = "t" if "run = 't'" in change else "s"
        with pytest.raises(StoreError, match=words) as refusal:
            await world.worker().read(run)
        assert isinstance(refusal.value, StoreCorrupt) or "operator" in str(refusal.value)

    world.play(play)


def test_a_run_that_cannot_be_trusted_is_not_offered_again_at_once(world: World) -> None:
    async def play() -> None:
        worker = await written(world)
        await worker.send("s", said("hello"))
        await world.sql("DELETE FROM records WHERE n = 6")
        assert await worker.claim(5) == ("s",)
        with pytest.raises(StoreCorrupt, match="6 records were written"):
            await worker.open("s")
        assert await worker.claim(5) == ()
        await world.end_lease("s")
        assert await worker.claim(5) == ("s",)

    world.play(play)


# --- whose log it is ---


@pytest.mark.rule("RESUME-8")
def test_only_what_its_users_programs_wrote_is_believed(world: World) -> None:
    async def play() -> None:
        worker = await written(world)
        assert await worker.doubt("s") is None
        assert await world.worker().doubt("s") is None  # of another machine, with the same secret
        assert await world.worker(seals=Seals(world.folder / "stranger")).doubt("s") == ALTERED
        await world.sql("UPDATE runs SET seal = NULL")
        assert ((await restored(worker)).doubt, await worker.doubt("s")) == (FOREIGN, FOREIGN)
        store = await worker.open("s")
        await store.append(RECORDS[6:7], durable=True)  # nobody vouched for it
        assert await worker.doubt("s") == FOREIGN
        store.vouch()
        await store.append(RECORDS[7:8], durable=True)
        assert await worker.doubt("s") is None
        await store.close()

    world.play(play)


@pytest.mark.rule("RESUME-8")
def test_an_older_copy_of_a_run_is_doubted_where_it_was_seen_longer(world: World) -> None:
    async def play() -> None:
        worker = await written(world)
        rows = await world.sql("SELECT records, seal, bytes, last_ms FROM runs")
        store = await world.vouching(worker, "s")
        await store.append(RECORDS[6:9], durable=True)
        await store.close()
        await world.sql("UPDATE runs SET records = %s, seal = %s, bytes = %s, last_ms = %s", *rows[0])
        await world.sql("DELETE FROM records WHERE n > 6")
        assert await worker.doubt("s") == OLDER

    world.play(play)


@pytest.mark.rule("RESUME-8")
def test_an_input_that_nobody_of_ours_sent_is_refused(world: World) -> None:
    async def play() -> None:
        worker = world.worker()
        for text in ("one", "two"):
            await worker.send("s", said(text))
        assert [number for number, _ in await worker.inbox("s")] == [1, 2]
        await worker.send("other", said("one"))
        for change in (
            "UPDATE inbox SET seal = ''",
            "UPDATE inbox SET delta = replace(delta, 'one', 'no!')",
            "UPDATE inbox SET number = 3 - number + 1 WHERE number = 1",
            "UPDATE inbox SET seen = 1",
            "UPDATE runs SET identity = gen_random_uuid()",
            "UPDATE inbox SET run = (SELECT id FROM runs WHERE run = 's'), number = 7 "
            "WHERE run <> (SELECT id FROM runs WHERE run = 's')",
        ):
            before = await world.sql("SELECT * FROM inbox")
            identities = await world.sql("SELECT identity, id FROM runs")
            await world.sql(change)
            with pytest.raises(StoreCorrupt, match=r"run 's', input \d: it may say what a person never said"):
                await worker.inbox("s")
            await world.sql("DELETE FROM inbox")
            await put_back(world, before)
            for row in identities:
                await world.sql("UPDATE runs SET identity = %s WHERE id = %s", *row)
        with pytest.raises(StoreCorrupt, match="input 1"):
            await world.worker(seals=Seals(world.folder / "stranger")).inbox("s")

    world.play(play)


async def put_back(world: World, inputs: list[tuple[object, ...]]) -> None:
    """Have the rows of inputs there again, as somebody can who has seen them."""
    for row in inputs:
        await world.sql("INSERT INTO inbox VALUES (%s, %s, %s, %s, %s, %s, %s)", *row)


@pytest.mark.rule("RESUME-8")
def test_an_input_holds_for_the_log_that_its_sender_saw_and_what_was_added_to_it(world: World) -> None:
    async def play() -> None:
        worker = await written(world, 4)
        await worker.send("s", said("yes"))
        store = await world.vouching(worker, "s")
        await store.append(RECORDS[4:6], durable=True)
        await store.close()
        assert await worker.inbox("s") == ((1, said("yes")),)
        forged = "UPDATE records SET digest = decode(repeat('00', 16), 'hex') WHERE n >= 4"
        for change in (forged, "DELETE FROM records WHERE n >= 4", "DELETE FROM records"):
            await world.sql(change)
            for each in (worker, world.worker()):
                with pytest.raises(StoreCorrupt, match="sent for another log: record 4, the last that its sender saw"):
                    await each.inbox("s")

    world.play(play)


@pytest.mark.rule("RESUME-8")
def test_an_input_that_was_taken_cannot_be_put_back(world: World) -> None:
    """Neither into the run as it is, nor into one that was emptied, which nobody doubts."""

    async def play() -> None:
        worker, other = world.worker(), world.worker()
        await worker.send("s", said("pay"))
        runs, inputs = await world.sql("SELECT highest_taken, sent FROM runs"), await world.sql("SELECT * FROM inbox")
        store = await world.vouching(worker, "s")
        await store.append(RECORDS[:1], durable=False, taken=[1])
        await store.append(RECORDS[1:2], durable=True)
        await store.close()
        await put_back(world, inputs)
        for each in (worker, other):
            with pytest.raises(StoreCorrupt, match="run 's', input 1: it was taken before, and was put back"):
                await each.inbox("s")
        await world.sql("UPDATE runs SET records = 0, seal = NULL, highest_taken = %s, sent = %s", *runs[0])
        await world.sql("DELETE FROM records")
        with pytest.raises(StoreCorrupt, match="input 1: it was taken before, and was put back"):
            await worker.inbox("s")  # by its own mark
        await world.sql("DROP TABLE runs, records, inbox, snapshots, schema_version")
        again = world.worker(seals=worker._seals)
        await again.send("s", said("pay"))
        assert await again.inbox("s") == ((1, said("pay")),)  # another run of that name

    world.play(play)


def test_an_input_of_before_inputs_told_what_was_seen_is_refused_in_words(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(postgres_schema, "SCHEMA", postgres_schema.SCHEMA[:1])
            await world.worker().entries()
        await world.sql("INSERT INTO runs (run, sent) VALUES ('s', 1)")
        await world.sql("INSERT INTO inbox SELECT id, 1, '{}', 'seal' FROM runs")
        with pytest.raises(StoreCorrupt, match="it may say what a person never said"):
            await world.worker().inbox("s")
        assert await world.sql("SELECT seen FROM inbox") == [(0,)]

    world.play(play)


# --- snapshots ---


def test_a_run_is_gone_on_with_from_its_snapshot(world: World) -> None:
    async def play() -> None:
        worker = world.worker()
        store = await world.vouching(worker, "s")
        await store.append(RECORDS[:20], durable=True)
        await store.save_snapshot(replay(RECORDS[:20]))
        await store.append(RECORDS[20:25], durable=True)
        await store.close()
        found = await restored(world.worker())
        assert (found.records, found.doubt, state_of(found)) == (RECORDS[20:25], None, replay(RECORDS[:25]))
        store = await world.vouching(worker, "s")
        await store.save_snapshot(replay(RECORDS[:25]))
        await world.end_lease("s")
        with pytest.raises(StoreError, match="is not held any more, so no snapshot"):
            await store.save_snapshot(START)
        await store.close()
        found = await restored(worker)
        assert (found.records, state_of(found)) == ((), replay(RECORDS[:25]))

    world.play(play)


def test_a_snapshot_that_does_not_fit_is_as_if_it_had_never_been(world: World) -> None:
    async def play() -> None:
        worker = world.worker()
        store = await world.vouching(worker, "s")
        await store.append(RECORDS[:20], durable=True)
        await store.save_snapshot(replay(RECORDS[:20]))
        await store.close()
        seals = Seals(world.folder / "machine0", bytes(range(32)))
        ((digest,),) = await world.sql("SELECT digest FROM records WHERE n = 20")
        assert isinstance(digest, bytes)
        more = sealed_content(snapshot_of(START, records=21, digest=digest.hex()), seals)
        other = sealed_content(snapshot_of(START, records=20, digest="00" * 16), seals)
        unsealed = snapshot_of(START, records=20, digest=digest.hex()).to_bytes()
        for content in (more, other, unsealed, b"", b"seal:", b"\0" * 100):
            await world.sql("UPDATE snapshots SET content = %s", content)
            found = await restored(worker)
            assert (found.state, found.records) == (None, RECORDS[:20]), content[:60]

    world.play(play)

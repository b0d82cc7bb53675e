"""What needs no server of the PostgreSQL store: how an id is kept, what a DSN gives away, which secret is shared."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopkernel_adapters.ports import StoreError
from loopkernel_adapters.stores.postgres import PostgresRuns
from loopkernel_adapters.stores.postgres_names import LONGEST_ID, id_of, kept_id
from loopkernel_adapters.stores.seals import Seals

IDS = st.text(alphabet=st.one_of(st.sampled_from("\\0\0a/'"), st.characters(exclude_categories=["Cs"])), max_size=40)
PASSWORD = "pa5s word/'%"


@given(IDS, IDS)
def test_every_id_is_kept_apart_and_comes_back(one: str, other: str) -> None:
    assert "\0" not in kept_id(one)
    assert id_of(kept_id(one)) == one
    assert (kept_id(one) == kept_id(other)) == (one == other)


@pytest.mark.parametrize(
    ("run", "words"),
    [
        ("\ud800", "holds half of a surrogate pair"),
        ("x" * (LONGEST_ID + 1), "too long: 1001 bytes, and at most 1000"),
        ("\N{SNOWMAN}" * 334, "too long: 1002 bytes"),
    ],
)
def test_an_id_that_cannot_be_kept_is_refused_in_words(run: str, words: str) -> None:
    with pytest.raises(StoreError, match=words):
        kept_id(run)
    assert kept_id("x" * LONGEST_ID) == "x" * LONGEST_ID


@pytest.mark.parametrize(
    "dsn",
    [
        f"host=/nowhere/at/all dbname=agents password='{PASSWORD.replace(chr(39), chr(92) + chr(39))}'",
        "postgresql://agent:pa5s%20word%2F%27%25@127.0.0.1:1/agents?connect_timeout=2",
        f"host=/nowhere password={PASSWORD}",
        f"postgresql://agent:{PASSWORD}@host/agents?no_such_option=1",
        f"password {PASSWORD}",
        "postgresql://agent:pa5s word@[half/agents",
    ],
)
def test_no_word_of_a_password_is_in_what_is_raised(dsn: str) -> None:
    async def play() -> None:
        runs = PostgresRuns(dsn)
        try:
            await runs.entries()
        finally:
            await runs.close()

    with pytest.raises(StoreError) as refusal:
        asyncio.run(play())
    error: BaseException | None = refusal.value
    while error is not None:
        assert "pa5s" not in f"{error} {error!r}"
        error = error.__cause__
    assert "cannot be reached" in str(refusal.value) or "this is not how a PostgreSQL database is named" in str(
        refusal.value
    )


@pytest.mark.parametrize("schema", ["", "s" * 64, "\N{SNOWMAN}" * 22])
def test_a_schema_whose_name_would_be_cut_off_is_refused_in_words(schema: str) -> None:
    size = len(schema.encode())
    with pytest.raises(StoreError, match=f"the name of the schema has {size} bytes, and PostgreSQL keeps from 1 to 63"):
        PostgresRuns("dbname=agents", schema=schema)


def test_a_server_that_was_never_there_is_told_at_once_with_its_place() -> None:
    async def play() -> None:
        await PostgresRuns("host=/nowhere/at/all dbname=agents user=me").read("s")

    with pytest.raises(
        StoreError, match=r"PostgreSQL \(user=me host=/nowhere/at/all dbname=agents, schema loopkernel\)"
    ):
        asyncio.run(play())


def test_a_secret_that_is_shared_has_its_size_and_seals_alike_everywhere() -> None:
    with pytest.raises(ValueError, match="has 32 bytes, not 3"):
        Seals.of_user({}, secret=b"abc")
    here, there = (Seals.of_user({"HOME": home}, secret=bytes(32)) for home in ("/a", "/b"))
    assert here.seal(b"log") == there.seal(b"log") is not None

"""A database that was tampered with or damaged gives the true records or a refusal, and never other records."""

import os
import random
import shutil
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from tempfile import mkdtemp

import pytest
from loopkernel.codec import record_to_text
from loopkernel.replaying import START, replay
from loopkernel_adapters.ports import NoSuchRun, StoreCorrupt, StoreError
from loopkernel_adapters.stores.sqlite import SqliteRuns

from tests.adapters.stores.worked_log import worked_log

LOG = worked_log(24)
FLIPS = 3_000 if os.environ.get("HYPOTHESIS_PROFILE") in ("fuzz", "deep") else 90
OTHER_TEXT = record_to_text(LOG[5])


@pytest.fixture(scope="module")
def template(shared_folder: Path) -> Path:
    """A database of two runs, the first with a snapshot, closed: all of it is in one file."""
    path = Path(mkdtemp(dir=shared_folder)) / "runs.sqlite"
    runs = SqliteRuns(path)
    for run in ("s", "other"):
        with closing(runs.open(run)) as store:
            store.append(LOG[:90], durable=True)
            store.save_snapshot(replay(LOG[:90]))
            store.append(LOG[90:], durable=True)
    return path


@pytest.fixture
def path(template: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(template, tmp_path / "runs.sqlite"))


def tampered(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


# What was done to the run of number 1, and the record at which that is found.
TAMPERING = {
    "text": (["UPDATE records SET text = '%s' WHERE run = 1 AND n = 9"], 9),
    "text of another type": (["UPDATE records SET text = 5 WHERE run = 1 AND n = 9"], 9),
    "text that is none": (["UPDATE records SET text = x'ff00' WHERE run = 1 AND n = 9"], 9),
    "digest": (["UPDATE records SET digest = zeroblob(16) WHERE run = 1 AND n = 9"], 9),
    "digest of another type": (["UPDATE records SET digest = 'crc' WHERE run = 1 AND n = 9"], 9),
    "last digest": (["UPDATE records SET digest = x'00' WHERE run = 1 AND n = 123"], 123),
    "text and digest of another": (
        ["UPDATE records SET (text, digest) = (SELECT text, digest FROM records WHERE run = 1 AND n = 4) "
         "WHERE run = 1 AND n = 9"],
        9,
    ),
    "number": (["UPDATE records SET n = 1000 WHERE run = 1 AND n = 9"], 9),
    "last number": (["UPDATE records SET n = 124 WHERE run = 1 AND n = 123"], 123),
    "all numbers": (["UPDATE records SET n = -n WHERE run = 1", "UPDATE records SET n = 1 - n WHERE run = 1"], 1),
    "deleted": (["DELETE FROM records WHERE run = 1 AND n = 9"], 9),
    "first deleted": (["DELETE FROM records WHERE run = 1 AND n = 1"], 1),
    "last deleted": (["DELETE FROM records WHERE run = 1 AND n = 123"], 123),
    "all deleted": (["DELETE FROM records WHERE run = 1"], 1),
    "swapped": (
        ["UPDATE records SET n = 0 WHERE run = 1 AND n = 9", "UPDATE records SET n = 9 WHERE run = 1 AND n = 12",
         "UPDATE records SET n = 12 WHERE run = 1 AND n = 0"],
        9,
    ),
    "one of another run": (
        ["DELETE FROM records WHERE run = 1 AND n = 9", "UPDATE records SET run = 1 WHERE run = 2 AND n = 9"],
        9,
    ),
    "runs exchanged": (
        ["UPDATE records SET run = 3 WHERE run = 1", "UPDATE records SET run = 1 WHERE run = 2"],
        1,
    ),
    "one more": (["INSERT INTO records SELECT 1, 124, digest, text FROM records WHERE run = 1 AND n = 123"], 124),
    "count lowered": (["UPDATE runs SET records = 100 WHERE id = 1"], 101),
    "count raised": (["UPDATE runs SET records = 124 WHERE id = 1"], 124),
    "count of another type": (["UPDATE runs SET records = 'many' WHERE id = 1"], 0),
    "name": (["UPDATE runs SET run = 'third' WHERE id = 1", "UPDATE runs SET run = 's' WHERE id = 2"], 1),
}  # fmt: skip


@pytest.mark.parametrize("what", TAMPERING)
def test_tampering_is_found_and_changes_nothing(path: Path, what: str) -> None:
    statements, number = TAMPERING[what]
    tampered(path, *(statement.replace("%s", OTHER_TEXT) for statement in statements))
    content = path.read_bytes()
    runs = SqliteRuns(path)
    with pytest.raises(StoreCorrupt) as refusal:
        runs.read("s")
    assert refusal.value.line == number
    said = str(refusal.value)
    assert "runs.sqlite, run 's'" in said
    assert "Nothing was changed. Restore the database from a copy." in said
    assert path.read_bytes() == content
    try:
        with closing(runs.open("s")) as store:
            found = store.restore()
            assert replay(found.records, found.state or START) == replay(LOG)  # the snapshot covers what was changed
            with pytest.raises(StoreCorrupt):
                store.load()
    except StoreCorrupt:
        pass


def test_a_run_that_is_gone_from_the_list_is_not_begun_again(path: Path) -> None:
    tampered(path, "DELETE FROM runs WHERE id = 2")
    runs = SqliteRuns(path)
    for attempt in (lambda: runs.open("other"), lambda: runs.read("other"), lambda: runs.open("new")):
        with pytest.raises(StoreCorrupt, match="the list of runs is damaged"):
            attempt()
    assert runs.read("s") == LOG


def test_an_index_that_leads_to_another_run_is_not_followed(tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite"
    runs = SqliteRuns(path)
    for run in ("first", "s", "none"):  # the numbers 1, 2 and 3; the last is to have no records
        with closing(runs.open(run)) as store:
            store.append(LOG if run != "none" else (), durable=True)
    content = path.read_bytes()
    entry = b"\x03\x0f\x01s\x02"  # of the index: a text of one character, and number 2
    assert content.count(entry) == 1
    path.write_bytes(content.replace(entry, b"\x03\x0f\x01s\x03"))
    for attempt in (lambda: runs.read("s"), lambda: runs.open("s")):
        with pytest.raises(StoreCorrupt, match="the list of runs is damaged"):
            attempt()


def judged(path: Path) -> str:
    """What opening and reading a damaged database come to."""
    outcome = "true"
    try:
        runs = SqliteRuns(path)
        assert runs.read("s") == LOG
    except NoSuchRun:
        raise AssertionError("the run has vanished without a word") from None
    except StoreError as error:
        outcome = type(error).__name__
    try:
        with closing(SqliteRuns(path).open("s")) as store:
            found = store.restore()
            assert replay(found.records, found.state or START) == replay(LOG)
            store.append(LOG[:1], durable=True)
    except StoreError:
        return outcome
    try:
        assert SqliteRuns(path).read("s") == (*LOG, LOG[0])
        assert outcome == "true"
    except StoreError:
        pass
    return outcome


def test_flipped_bits_give_the_true_records_or_a_refusal(template: Path, tmp_path: Path) -> None:
    content = template.read_bytes()
    drawn = random.Random(6)
    used = [place for place, byte in enumerate(content) if byte]  # among zeros hardly anything is read
    outcomes: Counter[str] = Counter()
    for number in range(FLIPS):
        place = drawn.choice(used) if number % 4 else drawn.randrange(len(content))
        damaged = bytearray(content)
        damaged[place] ^= 1 << drawn.randrange(8)
        path = tmp_path / "runs.sqlite"
        path.write_bytes(damaged)
        outcomes[judged(path)] += 1
        for file in tmp_path.glob("runs.sqlite-*"):
            shutil.rmtree(file) if file.is_dir() else file.unlink()
    assert outcomes["true"] > FLIPS // 10
    assert outcomes["DatabaseCorrupt"] > FLIPS // 3


def test_a_database_that_was_cut_gives_a_refusal_or_what_is_left_is_whole(template: Path, tmp_path: Path) -> None:
    content = template.read_bytes()
    refused = 0
    sizes = range(100, len(content), len(content) // 40)
    for size in sizes:
        path = tmp_path / f"{size}.sqlite"
        path.write_bytes(content[:size])
        try:
            assert SqliteRuns(path).read("s") == LOG
        except NoSuchRun:
            raise AssertionError("the run has vanished without a word") from None
        except StoreError:
            refused += 1
    assert refused > len(sizes) // 2


@pytest.mark.parametrize("flip", [False, True])
def test_a_damaged_write_ahead_log_gives_a_prefix_of_the_records(tmp_path: Path, flip: bool) -> None:
    """What SQLite cannot trust it leaves out, and all that follows; what is left is a shorter log that is true."""
    path = tmp_path / "runs.sqlite"
    store = SqliteRuns(path).open("s")
    for place in range(0, len(LOG), 10):
        store.append(LOG[place : place + 10], durable=True)
    files = {name: (tmp_path / name).read_bytes() for name in ("runs.sqlite", "runs.sqlite-wal")}
    store.close()
    journal = files["runs.sqlite-wal"]
    lengths = set()
    for place in range(0, len(journal), len(journal) // 40):
        folder = tmp_path / str(place)
        folder.mkdir()
        flipped = journal[:place] + bytes([journal[place] ^ 8]) + journal[place + 1 :]
        (folder / "runs.sqlite").write_bytes(files["runs.sqlite"])
        (folder / "runs.sqlite-wal").write_bytes(flipped if flip else journal[:place])
        try:
            records = SqliteRuns(folder / "runs.sqlite").read("s")
        except NoSuchRun:
            continue  # not even its beginning was there
        assert records == LOG[: len(records)]
        lengths.add(len(records))
    assert len(lengths) > 5

"""A snapshot is a shorter way to the same state, and never more: one that does not fit the log is as if it were not."""

import errno
import os
import sqlite3
import tracemalloc
import zlib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from attrs import evolve
from loopkernel.codec import record_from_text, state_to_text
from loopkernel.data.errors import CodecError, Fault
from loopkernel.data.states import State
from loopkernel.data.thread_deltas import RULES_VERSION
from loopkernel.replaying import START, LogRecord, replay
from loopkernel_adapters.blocking_ports import BlockingRuns, BlockingStore
from loopkernel_adapters.driver.log_writer import snapshot_due
from loopkernel_adapters.ports import Restored, Sealing, StoreCorrupt, StoreError
from loopkernel_adapters.stores import snapshots
from loopkernel_adapters.stores.folders import JsonlFolder
from loopkernel_adapters.stores.jsonl import JsonlStore
from loopkernel_adapters.stores.memory import MemoryStore
from loopkernel_adapters.stores.seals import OLDER, Seals
from loopkernel_adapters.stores.snapshots import Snapshot, snapshot_of
from loopkernel_adapters.stores.sqlite import SqliteRuns

from bench.workload import streaming_after
from tests.adapters.stores.log_lines import some_records
from tests.adapters.stores.worked_log import worked_log

LOG = worked_log(12)
CUT = 40


@pytest.fixture(params=["jsonl", "sqlite"])
def runs(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BlockingRuns:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))  # no mark of a run that another test has begun in the same way
    return JsonlFolder(tmp_path / "logs") if request.param == "jsonl" else SqliteRuns(tmp_path / "runs.sqlite")


def state_of(restored: Restored) -> State:
    return replay(restored.records, START if restored.state is None else restored.state)


def keep(runs: BlockingRuns, records: tuple[LogRecord, ...], cut: int, state: State | None = None) -> None:
    """Write the records, with a snapshot after the first `cut`."""
    with closing(runs.open("s")) as store:
        vouched(store).append(records[:cut], durable=True)
        store.save_snapshot(replay(records[:cut]) if state is None else state)
        store.append(records[cut:], durable=True)


def vouched(store: BlockingStore) -> BlockingStore:
    """The store, of one's own programs: of a foreign log no snapshot is used."""
    assert isinstance(store, Sealing)
    store.vouch()
    return store


def restored(runs: BlockingRuns) -> Restored:
    with closing(runs.open("s")) as store:
        found = store.restore()
        assert store.load() == LOG[: len(store.load())]
        return found


# --- what it is for ---


@pytest.mark.rule("RESUME-1")
@pytest.mark.parametrize("cut", [1, 2, 17, CUT, len(LOG)])
def test_the_snapshot_and_the_tail_lead_to_the_same_state_as_the_log(runs: BlockingRuns, cut: int) -> None:
    keep(runs, LOG, cut)
    found = restored(runs)
    assert found.state == replay(LOG[:cut])
    assert found.records == LOG[cut:]
    assert found.rules_version == RULES_VERSION
    assert state_to_text(state_of(found)) == state_to_text(replay(LOG))
    assert runs.read("s") == LOG


def test_a_store_restores_at_any_time_from_its_newest_snapshot(runs: BlockingRuns) -> None:
    with closing(runs.open("s")) as store:
        assert vouched(store).restore() == Restored(records=())
        for size in range(1, len(LOG) + 1):
            store.append(LOG[size - 1 : size], durable=size % 7 == 0)
            if size % 5 == 0:
                store.save_snapshot(replay(LOG[:size]))
            found = store.restore()
            assert found.records == LOG[size - size % 5 : size]
            assert store.load() == LOG[:size]


def test_what_a_snapshot_covers_is_not_parsed(runs: BlockingRuns, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = 0

    def counting(read: Callable[[str], LogRecord]) -> Callable[[str], LogRecord]:
        def counted(text: str) -> LogRecord:
            nonlocal parsed
            parsed += 1
            return read(text)

        return counted

    keep(runs, LOG, CUT)
    for module in ("jsonl", "record_chain"):
        monkeypatch.setattr(f"loopkernel_adapters.stores.{module}.record_from_text", counting(record_from_text))
    with closing(runs.open("s")) as store:
        assert state_of(store.restore()) == replay(LOG)
    assert parsed == len(LOG) - CUT


def test_the_snapshot_of_other_rules_says_so(runs: BlockingRuns, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "RULES_VERSION", RULES_VERSION - 1)
    keep(runs, LOG, len(LOG))
    monkeypatch.undo()
    found = restored(runs)
    assert (found.state, found.rules_version, found.records) == (replay(LOG), RULES_VERSION - 1, ())
    with closing(runs.open("s")) as store:
        store.save_snapshot(replay(LOG))
        assert store.restore().rules_version == RULES_VERSION


def test_it_is_due_now_and_then_and_ever_rarer() -> None:
    assert not snapshot_due(4_999, closing=False)
    assert snapshot_due(5_000, closing=False)
    assert not snapshot_due(500, closing=True)
    assert snapshot_due(501, closing=True)
    assert not snapshot_due(5_000, closing=False, records_before=100_000)
    assert snapshot_due(25_000, closing=False, records_before=100_000)
    covered = taken = written = 0
    for record in range(1_000_000):
        if snapshot_due(record - covered, closing=False, records_before=covered):
            covered, taken, written = record, taken + 1, written + record
    assert taken < 40
    assert written < 6 * 1_000_000  # so each record is written some five times, however long the log


# --- what is not trusted ---


def file_of(runs: BlockingRuns) -> Path:
    assert isinstance(runs, JsonlFolder)
    return runs.path / "s.jsonl.snapshot"


def content_of(runs: BlockingRuns) -> bytes:
    """The bytes of the snapshot that is kept, without its seal."""
    if isinstance(runs, JsonlFolder):
        return without_seal(file_of(runs).read_bytes())
    assert isinstance(runs, SqliteRuns)
    with closing(sqlite3.connect(runs._path)) as connection:
        (content,) = connection.execute("SELECT snapshot FROM snapshots").fetchone()
        assert isinstance(content, bytes)
        return without_seal(content)


def without_seal(content: bytes) -> bytes:
    return content.partition(b"\n")[2]


def put(runs: BlockingRuns, content: object) -> None:
    """Other bytes in the place of the snapshot, sealed as one's own: they have to be right all the same."""
    if isinstance(content, bytes):
        seal = Seals.of_user().seal(b"seal:" + content)
        assert seal is not None
        content = b"seal:" + seal.hex().encode("ascii") + b"\n" + content
    if isinstance(runs, JsonlFolder):
        assert isinstance(content, bytes)
        file_of(runs).write_bytes(content)
        return
    assert isinstance(runs, SqliteRuns)
    with closing(sqlite3.connect(runs._path)) as connection:
        connection.execute("UPDATE snapshots SET snapshot = ?", (content,))
        connection.commit()


def lies(content: bytes) -> dict[str, bytes]:
    """Snapshots that are whole, and do not fit: of another log, of another format, of more than there is."""
    true = Snapshot.from_bytes(content)
    assert true is not None
    other = snapshot_of(streaming_after(1), records=true.records, digest=true.digest, size=true.size).packed

    return {
        "another log": evolve(true, digest="0" * len(true.digest)).to_bytes(),
        "more records": evolve(true, records=true.records + 1).to_bytes(),
        "fewer records": evolve(true, records=true.records - 1).to_bytes(),
        "no records": evolve(true, records=0).to_bytes(),
        "fewer than none": evolve(true, records=-1).to_bytes(),
        "far too many": evolve(true, records=10**30, size=10**30).to_bytes(),
        "no digest": evolve(true, digest="nonsense").to_bytes(),
        "no state": evolve(true, packed=b"").to_bytes(),
        "half a state": evolve(true, packed=true.packed[:-20]).to_bytes(),
        "no text": evolve(true, packed=other[:-1]).to_bytes(),
    }


@pytest.mark.parametrize("name", lies(snapshot_of(streaming_after(1), records=9, digest="d" * 32, size=9).to_bytes()))
def test_a_snapshot_that_does_not_fit_is_ignored(runs: BlockingRuns, name: str) -> None:
    keep(runs, LOG, CUT)
    put(runs, lies(content_of(runs))[name])
    assert restored(runs) == Restored(records=LOG)


def test_a_snapshot_of_more_bytes_than_there_are_is_ignored(tmp_path: Path) -> None:
    runs = JsonlFolder(tmp_path)
    keep(runs, LOG, len(LOG))
    true = Snapshot.from_bytes(content_of(runs))
    assert true is not None
    put(runs, evolve(true, size=true.size + 1).to_bytes())
    assert restored(runs) == Restored(records=LOG)


def test_a_damaged_snapshot_is_ignored(runs: BlockingRuns) -> None:
    keep(runs, LOG, CUT)
    content = content_of(runs)
    for place in [*range(0, len(content), 37), len(content) - 1]:
        for damaged in (content[:place], content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :]):
            put(runs, damaged)
            assert restored(runs) == Restored(records=LOG)
    put(runs, content)
    assert restored(runs).records == LOG[CUT:]


def test_a_snapshot_of_a_newer_format_is_ignored(runs: BlockingRuns, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "_HEADER", {"loopkernel": "snapshot", "version": 2})
    keep(runs, LOG, CUT)
    monkeypatch.undo()
    assert restored(runs) == Restored(records=LOG)
    newer = state_to_text(replay(LOG[:CUT])).replace('"version":', '"version":9', 1)
    monkeypatch.setattr(snapshots, "state_to_text", lambda state: newer)
    with closing(runs.open("s")) as store:
        store.save_snapshot(replay(LOG))
    monkeypatch.undo()
    assert restored(runs) == Restored(records=LOG)


def test_a_log_that_lost_records_outlives_its_snapshot(tmp_path: Path) -> None:
    """Power may take the end of a log and leave a snapshot that covers it; and other records may come in its place."""
    runs = JsonlFolder(tmp_path)
    keep(runs, LOG, len(LOG))
    path = runs.file_of("s")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:30]) + lines[30][:9])
    assert restored(runs) == Restored(records=LOG[:30], doubt=OLDER)
    with closing(runs.open("s")) as store:
        store.append(some_records(len(LOG) - 30), durable=True)
        assert store.restore().state is None
    with closing(runs.open("s")) as store:
        assert store.restore().state is None
        assert len(store.load()) == len(LOG)


def test_what_lies_in_the_place_of_a_snapshot_does_no_harm(tmp_path: Path) -> None:
    runs = JsonlFolder(tmp_path)
    keep(runs, LOG, CUT)
    for make in (os.mkfifo, os.mkdir):
        file_of(runs).unlink()
        make(file_of(runs))
        assert restored(runs) == Restored(records=LOG)
        with closing(runs.open("s")) as store:
            if make is os.mkdir:
                with pytest.raises(OSError, match="directory"):
                    store.save_snapshot(replay(LOG))
                file_of(runs).rmdir()
            store.save_snapshot(replay(LOG))
            assert store.restore().records == ()
    assert file_of(runs).stat().st_mode & 0o777 == 0o600


def test_damage_in_the_covered_records_is_found(tmp_path: Path) -> None:
    """In a file at once, since its bytes are hashed. In a database when the records themselves are read."""
    runs = JsonlFolder(tmp_path)
    keep(runs, LOG, CUT)
    path = runs.file_of("s")
    content = path.read_bytes()
    path.write_bytes(content.replace(b"buy milk", b"buy silk", 1))
    with pytest.raises(StoreCorrupt):
        runs.open("s")
    database = SqliteRuns(tmp_path / "runs.sqlite")
    keep(database, LOG, CUT)
    with closing(sqlite3.connect(database._path)) as connection:
        connection.execute("UPDATE records SET text = replace(text, 'buy milk', 'buy silk') WHERE n < ?", (CUT,))
        connection.commit()
    with closing(database.open("s")) as store:
        assert state_of(store.restore()) == replay(LOG)
        with pytest.raises(StoreCorrupt, match="record 8: the digest does not fit"):
            store.load()


# --- what it may cost ---


def test_one_that_cannot_be_written_breaks_nothing(runs: BlockingRuns, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(state: State) -> str:
        raise CodecError([Fault("$", "cannot be written")])

    keep(runs, LOG[:CUT], 20)
    with closing(runs.open("s")) as store:
        monkeypatch.setattr(snapshots, "state_to_text", refuse)
        with pytest.raises(StoreError, match=r"the log goes on without it: (?s:.)*cannot be written"):
            store.save_snapshot(replay(LOG))
        vouched(store).append(LOG[CUT:], durable=True)
        assert store.restore().records == LOG[20:]


def test_a_sync_that_fails_before_it_breaks_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = JsonlStore(tmp_path / "s.jsonl")
    store.append(LOG[:CUT], durable=False)

    def failing(descriptor: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(OSError, match="Input/output error"):
        store.save_snapshot(replay(LOG[:CUT]))
    monkeypatch.undo()
    with pytest.raises(StoreError, match="an earlier write"):
        store.append(LOG[CUT:], durable=True)
    store.close()


def test_the_log_in_memory_keeps_none() -> None:
    store = MemoryStore(LOG)
    store.save_snapshot(replay(LOG))
    assert store.restore() == Restored(records=LOG)


# --- one that was made to unpack to much ---


def bomb(records: tuple[LogRecord, ...], digest: str, size: int) -> bytes:
    """A snapshot of those records whose text is a whole state, and blanks that are packed to a thousandth."""
    text = state_to_text(replay(records)).encode("ascii")
    packed = zlib.compress(b" " * (16 * snapshots.SPARE_TEXT) + text, level=9)
    found = Snapshot(records=len(records), digest=digest, rules_version=RULES_VERSION, size=size, packed=packed)
    assert len(found.to_bytes()) < 100_000
    return found.to_bytes()


def test_a_snapshot_that_unpacks_to_far_more_than_the_log_is_ignored(
    runs: BlockingRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "SPARE_TEXT", 1 << 20)
    keep(runs, LOG, CUT)
    kept = Snapshot.from_bytes(content_of(runs))
    assert kept is not None
    put(runs, bomb(LOG[:CUT], kept.digest, kept.size))
    tracemalloc.start()
    try:
        found = restored(runs)
        assert tracemalloc.get_traced_memory()[1] < 8 * snapshots.SPARE_TEXT
    finally:
        tracemalloc.stop()
    assert found == Restored(records=LOG)


def test_a_file_in_the_place_of_a_snapshot_that_is_longer_than_any_is_not_read(tmp_path: Path) -> None:
    runs = JsonlFolder(tmp_path / "logs")
    keep(runs, LOG, CUT)
    with file_of(runs).open("ab") as file:
        file.truncate(8 * snapshots.SPARE_TEXT)  # of no block on the disk
    tracemalloc.start()
    try:
        assert restored(runs) == Restored(records=LOG)
        assert tracemalloc.get_traced_memory()[1] < snapshots.SPARE_TEXT
    finally:
        tracemalloc.stop()

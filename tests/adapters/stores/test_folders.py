"""Runs as files in a folder, and in memory: listed, read while they are written, and each found again by its id."""

import os
import shutil
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.replaying import START, replay
from loopkernel_adapters.ports import NoSuchRun, RunEntry, StoreError, StoreLocked
from loopkernel_adapters.stores.folders import LONGEST_NAME, SUFFIX, JsonlFolder
from loopkernel_adapters.stores.memory import MemoryRuns
from loopkernel_adapters.stores.seals import Seals

from tests.adapters.stores.log_lines import log_of, some_records
from tests.adapters.stores.worked_log import worked_log

LOG = tuple(some_records(30))


@given(runs=st.sets(st.text(max_size=12), min_size=1, max_size=6))
def test_any_text_is_an_id_and_no_two_share_a_file(runs: set[str]) -> None:
    folder = JsonlFolder(Path("logs"))
    assert len({folder.file_of(run) for run in runs}) == len(runs)
    assert all(folder.file_of(run).parent == folder.path for run in runs)


def test_the_list_says_what_the_first_and_the_last_line_say(tmp_path: Path) -> None:
    folder = JsonlFolder(tmp_path / "logs")
    assert folder.entries() == ()
    for run, records in (("b/1", LOG[10:]), ("a", LOG[:1]), ("c \ud800", LOG[5:8]), ("empty", ())):
        with closing(folder.open(run)) as store:
            store.append(records, durable=True)
    assert folder.entries() == (
        RunEntry(run="a", records=1, first_ms=0, last_ms=0),
        RunEntry(run="c \ud800", records=3, first_ms=5, last_ms=7),
        RunEntry(run="b/1", records=20, first_ms=10, last_ms=29),
    )


def test_the_list_leaves_out_what_cannot_be_read_and_half_a_line(tmp_path: Path) -> None:
    folder = JsonlFolder(tmp_path)
    whole = log_of(LOG)
    (tmp_path / "torn.jsonl").write_bytes(whole[:-5])
    (tmp_path / "long.jsonl").write_bytes(whole + b'{"n":31,"crc":"' + b"x" * 40_000)
    (tmp_path / "notes.jsonl").write_bytes(b"buy milk\n")
    (tmp_path / "damaged.jsonl").write_bytes(whole[:-9] + b"9" + whole[-8:])
    (tmp_path / "one.jsonl").write_bytes(log_of(LOG[:1])[:-1])
    (tmp_path / "folder.jsonl").mkdir()
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "digits.jsonl").write_bytes(log_of(LOG[:1]) + b'{"n":' + b"9" * 5_000 + b',"crc"}\n')
    assert [(entry.run, entry.records) for entry in folder.entries()] == [("torn", 29), ("long", 30)]
    for run in ("notes", "damaged", "folder", "pipe"):
        with pytest.raises(StoreError):
            folder.read(run)


def test_a_long_record_is_found_at_the_end(tmp_path: Path) -> None:
    folder = JsonlFolder(tmp_path)
    long = worked_log(1)[:3]
    with closing(folder.open("s")) as store:
        store.append(long, durable=True)
        for _ in range(3):
            store.append(tuple(some_records(2_000)), durable=True)
    assert folder.entries()[0].records == 6_003


def test_an_id_that_no_file_can_be_named_by_is_refused_in_words(tmp_path: Path) -> None:
    folder = JsonlFolder(tmp_path)
    longest = "x" * (LONGEST_NAME - len(SUFFIX))
    with closing(folder.open(longest)) as store:
        store.append(worked_log(2), durable=True)
        store.save_snapshot(replay(worked_log(2)))  # its name is longer than that of the log
    assert [entry.run for entry in folder.entries()] == [longest]
    for run in (longest + "x", "\N{SNOWMAN}" * 100):
        with pytest.raises(StoreError, match="is too long for the name of a file"):
            folder.open(run)
        with pytest.raises(NoSuchRun, match="there is no run"):
            folder.read(run)


def test_a_run_that_is_not_there_is_named(tmp_path: Path) -> None:
    for runs in (JsonlFolder(tmp_path), JsonlFolder(tmp_path / "absent"), MemoryRuns()):
        with pytest.raises(NoSuchRun, match="there is no run 'a'"):
            runs.read("a")
        assert runs.entries() == ()
    assert os.listdir(tmp_path) == []


def test_a_run_in_memory_goes_on_when_it_was_closed() -> None:
    runs = MemoryRuns()
    store = runs.open("a")
    store.append(LOG[:2], durable=True)
    with pytest.raises(StoreLocked, match="is open for writing elsewhere"):
        runs.open("a")
    assert runs.read("a") == LOG[:2]
    store.close()
    again = runs.open("a")
    again.append(LOG[2:4], durable=False)
    assert runs.read("a") == again.load() == LOG[:4]
    with pytest.raises(StoreError, match="is closed"):
        store.append(LOG, durable=True)
    runs.open("empty").close()
    runs.close()
    assert runs.entries() == (RunEntry(run="a", records=4, first_ms=0, last_ms=3),)


@pytest.mark.rule("RESUME-2")
def test_every_cut_of_a_log_beside_its_snapshot_leads_to_a_true_state(tmp_path: Path) -> None:
    """The snapshot covers half of it: what is cut behind that goes on from there, what is cut before it, without it."""
    log = worked_log(6)
    folder = JsonlFolder(tmp_path, Seals(tmp_path / "seals"))
    with closing(folder.open("s")) as store:
        store.vouch()
        store.append(log[:16], durable=True)
        store.save_snapshot(replay(log[:16]))
        store.append(log[16:], durable=True)
    path = folder.file_of("s")
    content = path.read_bytes()
    shutil.rmtree(tmp_path / "seals" / "marks")  # as if it had never been longer
    used = 0
    for size in range(0, len(content) + 1, 19):
        path.write_bytes(content[:size])
        with closing(folder.open("s")) as store:
            records, restored = store.load(), store.restore()
        assert records == log[: content[:size].count(b"\n")]
        assert replay(restored.records, restored.state or START) == replay(records)
        assert (restored.state is not None) == (len(records) >= 16)
        used += restored.state is not None
    assert used > 40

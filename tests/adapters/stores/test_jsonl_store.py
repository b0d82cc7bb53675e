"""The log as a file: what was made durable is there again, one writer at a time, whatever the disk does."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.blocks import TextBlock
from loopkernel.data.ids import ModelOperation, RunOperation
from loopkernel.data.model_deltas import ModelFailed, ModelText
from loopkernel.data.thread_deltas import Acquired
from loopkernel.data.tool_deltas import ToolProgress, ToolSucceeded
from loopkernel.data.tools import ToolOutput
from loopkernel.data.user_deltas import Say
from loopkernel.data.words import ErrorClass
from loopkernel.replaying import START, LogRecord
from loopkernel_adapters.ports import StoreError, StoreLocked
from loopkernel_adapters.stores.jsonl import JsonlStore, doubt_of, read_log
from loopkernel_adapters.stores.seals import OLDER, Seals

from tests.adapters.stores.log_lines import log_of, some_records

# Every character that some reader takes for the end of a line, and those that JSON leaves as they are or must escape.
AWKWARD = '\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029\x00\x7f"\\{}\ud800\udfffé\U0001f600'
TEXTS = st.text(st.one_of(st.sampled_from(AWKWARD), st.characters()), max_size=20)
DELTAS = st.one_of(
    st.builds(ModelText, st.builds(ModelOperation, st.integers(1, 9)), TEXTS),
    st.builds(lambda text: Say(content=(TextBlock(text),), key=text), TEXTS.filter(str.isascii)),
    st.builds(ToolProgress, st.builds(RunOperation, st.integers(1, 9)), TEXTS),
    st.builds(
        lambda text: ToolSucceeded(RunOperation(1), ToolOutput(content=(TextBlock(text),))),
        TEXTS,
    ),
    st.builds(
        lambda text: ModelFailed(operation=ModelOperation(1), error=ErrorClass.SERVER, message=text),
        TEXTS,
    ),
    st.just(Acquired()),
)
RECORDS = st.lists(st.builds(LogRecord, DELTAS, st.integers(0, 2**60)), max_size=12)
LOST_POWER = OSError(errno.EIO, "Input/output error")


# --- what goes in comes out ---


@given(batches=st.lists(st.tuples(RECORDS, st.booleans()), max_size=4))
@pytest.mark.rule("RESUME-1")
def test_every_record_is_read_back_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, batches: list[tuple[list[LogRecord], bool]]
) -> None:
    path = tmp_path_factory.mktemp("log") / "log.jsonl"
    expected = tuple(record for records, _ in batches for record in records)
    store = JsonlStore(path)
    for records, durable in batches:
        store.append(records, durable)
    assert store.load() == expected
    store.close()
    again = JsonlStore(path)
    assert again.torn_tail is None
    assert again.load() == expected
    again.close()
    assert path.read_bytes().count(b"\n") == len(expected)


def test_a_log_goes_on_where_it_stopped(tmp_path: Path) -> None:
    records = some_records(9)
    for place in range(0, 9, 3):
        store = JsonlStore(tmp_path / "log.jsonl")
        assert store.load() == tuple(records[:place])
        store.append(records[place : place + 3], durable=True)
        assert store.load() == tuple(records[: place + 3])
        store.close()
    assert (tmp_path / "log.jsonl").read_bytes() == log_of(records)


def test_only_the_owner_may_read_a_new_log(tmp_path: Path) -> None:
    JsonlStore(tmp_path / "log.jsonl").close()
    assert (tmp_path / "log.jsonl").stat().st_mode & 0o777 == 0o600


# --- one writer ---


SECOND_WRITER = """
import pathlib, sys
from loopkernel_adapters.stores.jsonl import JsonlStore
JsonlStore(pathlib.Path(sys.argv[1]))
"""


def test_a_second_writer_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    store = JsonlStore(path)
    store.append(some_records(3), durable=True)
    content = path.read_bytes()
    with pytest.raises(StoreLocked, match="open for writing elsewhere"):
        JsonlStore(path)
    child = subprocess.run([sys.executable, "-c", SECOND_WRITER, path], capture_output=True, text=True, check=False)
    assert child.returncode == 1
    assert "StoreLocked" in child.stderr
    assert path.read_bytes() == content
    assert len(read_log(path).records) == 3  # reading needs no lock
    store.close()
    JsonlStore(path).close()


@pytest.mark.parametrize("successor", [None, b""])
def test_a_log_that_was_taken_away_is_not_written(tmp_path: Path, successor: bytes | None) -> None:
    path = tmp_path / "log.jsonl"
    store = JsonlStore(path)
    path.rename(tmp_path / "moved.jsonl")
    if successor is not None:
        path.write_bytes(successor)
    with pytest.raises((StoreError, FileNotFoundError)):
        store.append(some_records(1), durable=True)
    store.close()
    assert (tmp_path / "moved.jsonl").read_bytes() == b""
    assert not path.exists() or path.read_bytes() == successor


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(StoreError, match="not a regular file"):
        JsonlStore(tmp_path / "pipe")
    with pytest.raises(OSError, match="directory"):
        JsonlStore(tmp_path)
    with pytest.raises(FileNotFoundError):
        JsonlStore(tmp_path / "absent" / "log.jsonl")


# --- what the disk does ---


class Disk:
    """Takes the place of the system calls, notes them, and fails when told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, most: int = 1 << 20) -> None:
        self.calls: list[str] = []
        self.failing: str | None = None
        write, fsync = os.write, os.fsync

        def noted_write(descriptor: int, content: memoryview) -> int:
            self._note("write")
            return write(descriptor, content[:most])

        def noted_fsync(descriptor: int) -> None:
            self._note("fsync")
            fsync(descriptor)

        monkeypatch.setattr(os, "write", noted_write)
        monkeypatch.setattr(os, "fsync", noted_fsync)

    def _note(self, call: str) -> None:
        self.calls.append(call)
        if call == self.failing:
            raise LOST_POWER


def test_a_durable_append_is_synced_once_and_a_new_log_in_its_folder_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch)
    store = JsonlStore(tmp_path / "log.jsonl")
    assert disk.calls == ["fsync"]
    store.append(some_records(3), durable=True)
    assert disk.calls == ["fsync", "write", "fsync"]
    store.append(some_records(3), durable=False)
    assert disk.calls[3:] == ["write"]
    store.close()
    assert disk.calls[4:] == ["fsync"]
    store.close()
    assert len(disk.calls) == 5


@given(
    appends=st.lists(
        st.tuples(st.integers(1, 3), st.sampled_from(("passing", "durable", "snapshot"))), min_size=1, max_size=6
    ),
    vouched_from=st.integers(0, 2),
)
def test_a_loss_of_power_does_not_make_an_older_copy_of_what_it_leaves(
    tmp_path_factory: pytest.TempPathFactory, appends: list[tuple[int, str]], vouched_from: int
) -> None:
    """What lies there after the latest sync is believed, and what lay there before it is an older copy."""
    folder = tmp_path_factory.mktemp("log")
    path, seals, marks = folder / "log.jsonl", Seals(folder / "seals"), folder / "seals" / "marks"
    records, first = some_records(20), min(vouched_from, len(appends))
    store = JsonlStore(path, seals)
    left, written = list[bytes](), 0
    for number, (many, how) in enumerate([*appends, (1, "durable"), (1, "passing")]):
        if number == first:
            store.vouch()
        store.append(records[written : written + many], how == "durable")
        written += many
        if how == "snapshot":
            store.save_snapshot(START)
        if how != "passing" and number >= first:
            left.append(path.read_bytes())
    noted = {mark: mark.read_bytes() for mark in marks.iterdir()}
    assert len(noted) == 1
    doubts = [doubt_left(path, content, seals) for content in left]
    assert doubts == [OLDER] * (len(left) - 1) + [None]
    store.close()  # makes what is left durable, so that it covers all
    assert {mark: mark.read_bytes() for mark in marks.iterdir()} == {mark: written.to_bytes(8, "big") for mark in noted}


def doubt_left(path: Path, content: bytes, seals: Seals) -> str | None:
    """Why a log of that name is not believed where a loss of power has left so much of it."""
    copy = path.parent / "copy" / path.name
    copy.parent.mkdir(exist_ok=True)
    copy.write_bytes(content)
    return doubt_of(copy, seals)


def test_a_log_whose_first_line_was_torn_has_the_mark_of_the_line_in_its_place(tmp_path: Path) -> None:
    path, seals, records = tmp_path / "log.jsonl", Seals(tmp_path / "seals"), some_records(4)
    path.write_bytes(log_of(records)[:20])
    store = JsonlStore(path, seals)
    assert store.torn_tail is not None
    store.vouch()
    store.append(records[:2], durable=True)
    older = path.read_bytes()
    store.append(records[2:], durable=True)
    store.close()
    assert doubt_left(path, older, seals) == OLDER
    assert doubt_of(path, seals) is None


def test_the_cut_of_a_torn_tail_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(log_of(some_records(3)))
    JsonlStore(path).close()  # so that the secret that seals logs is there, which is written as well
    path.write_bytes(log_of(some_records(3))[:-1])
    disk = Disk(monkeypatch)
    JsonlStore(path).close()
    assert disk.calls == ["fsync"]
    JsonlStore(path).close()
    assert disk.calls == ["fsync"]  # nothing was cut this time


def test_short_writes_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(monkeypatch, most=7)
    store = JsonlStore(tmp_path / "log.jsonl")
    store.append(some_records(4), durable=True)
    store.close()
    assert disk.calls.count("write") > 10
    assert (tmp_path / "log.jsonl").read_bytes() == log_of(some_records(4))


@pytest.mark.parametrize("call", ["write", "fsync"])
def test_after_a_failure_nothing_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    disk = Disk(monkeypatch)
    store = JsonlStore(tmp_path / "log.jsonl")
    disk.failing = call
    with pytest.raises(OSError, match="Input/output error"):
        store.append(some_records(1), durable=True)
    disk.failing = None
    tried = list(disk.calls)
    with pytest.raises(StoreError, match="an earlier write to"):
        store.append(some_records(1), durable=True)
    store.close()
    assert disk.calls == tried
    JsonlStore(tmp_path / "log.jsonl").close()  # the lock is gone


def test_a_closed_log_takes_nothing(tmp_path: Path) -> None:
    store = JsonlStore(tmp_path / "log.jsonl")
    store.close()
    with pytest.raises(StoreError, match="is closed"):
        store.append(some_records(1), durable=True)


def test_failed_openings_leave_no_descriptor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bad.jsonl").write_bytes(b"no log\n")
    os.mkfifo(tmp_path / "pipe")
    holder = JsonlStore(tmp_path / "held.jsonl")
    before = os.listdir("/proc/self/fd")
    for name in ("bad.jsonl", "pipe", "held.jsonl"):
        with pytest.raises(StoreError):
            JsonlStore(tmp_path / name)
    Disk(monkeypatch).failing = "fsync"
    with pytest.raises(OSError, match="Input/output error"):
        JsonlStore(tmp_path / "new.jsonl")
    assert len(os.listdir("/proc/self/fd")) == len(before)
    holder.close()


@pytest.mark.parametrize("kind", ["pipe", "folder"])
def test_what_is_no_file_is_not_read_as_a_log(tmp_path: Path, kind: str) -> None:
    path = tmp_path / kind
    os.mkfifo(path) if kind == "pipe" else path.mkdir()
    with pytest.raises(StoreError, match="is not a regular file, so it cannot be a log"):
        read_log(path)

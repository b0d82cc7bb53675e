"""The log as a file: what was made durable is there again, and nothing that was changed or lost passes unseen."""

import errno
import os
import subprocess
import sys
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.blocks import TextBlock
from loopkernel.data.ids import ModelOperation, RunOperation
from loopkernel.data.model_deltas import ModelFailed, ModelText
from loopkernel.data.thread_deltas import Acquired, Created
from loopkernel.data.tool_deltas import ToolProgress, ToolSucceeded
from loopkernel.data.tools import ToolOutput
from loopkernel.data.user_deltas import Say
from loopkernel.data.words import ErrorClass
from loopkernel.replay import LogRecord
from loopkernel_adapters.ports import StoreCorrupt, StoreError, StoreLocked
from loopkernel_adapters.stores.jsonl import JsonlStore, LogFile, TornTail, line_of, parse_log, read_log

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


def some_records(count: int) -> list[LogRecord]:
    """Short records, no two alike."""
    first = LogRecord(Created(session_id="s"), 0)
    return [first, *(LogRecord(ModelText(ModelOperation(1), f"t{n}"), n) for n in range(1, count))]


def lines_of(records: Sequence[LogRecord]) -> list[bytes]:
    return [line_of(number, record) for number, record in enumerate(records, start=1)]


def log_of(records: Sequence[LogRecord]) -> bytes:
    return b"".join(lines_of(records))


def written(path: Path, records: Sequence[LogRecord]) -> Path:
    path.write_bytes(log_of(records))
    return path


def same_read(records: Sequence[LogRecord]) -> Callable[[str], LogRecord]:
    """Reads a record's text by looking it up, for tests that read the same ones a million times."""
    texts = [line[line.index(b'"r":') + 4 : -2].decode("ascii") for line in lines_of(records)]
    known = dict(zip(texts, records, strict=True))
    return known.__getitem__


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


# --- torn tails ---


@pytest.mark.rule("RESUME-2")
def test_every_prefix_of_a_log_reads_as_a_clean_prefix_of_its_records(monkeypatch: pytest.MonkeyPatch) -> None:
    records = some_records(200)
    content = log_of(records)
    monkeypatch.setattr("loopkernel_adapters.stores.jsonl.record_from_text", same_read(records))
    ends = [0]
    for line in lines_of(records):
        ends.append(ends[-1] + len(line))
    whole = 0
    for size in range(len(content) + 1):
        whole += size == ends[min(whole + 1, len(records))] and whole < len(records)
        found = parse_log(content[:size], "log")
        assert len(found.records) == whole
        torn = TornTail(line=whole + 1, position=ends[whole], size=size - ends[whole])
        assert found.torn_tail == (None if size == ends[whole] else torn)
    assert parse_log(content, "log") == LogFile(tuple(records), None)


@given(data=st.data(), zeros=st.integers(0, 9))
def test_a_torn_tail_is_reported_cut_off_and_written_over(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, zeros: int
) -> None:
    records = some_records(5)
    content = log_of(records)
    size = data.draw(st.integers(0, len(content)))
    path = tmp_path_factory.mktemp("log") / "log.jsonl"
    path.write_bytes(content[:size] + bytes(zeros))
    kept = content[:size].count(b"\n")
    clean = log_of(records[:kept])

    store = JsonlStore(path)
    assert store.load() == tuple(records[:kept])
    if len(clean) == size + zeros:
        assert store.torn_tail is None
    else:
        assert store.torn_tail is not None
        assert (store.torn_tail.line, store.torn_tail.position) == (kept + 1, len(clean))
        assert store.torn_tail.size == size + zeros - len(clean)
    assert path.read_bytes() == clean
    store.append(records[kept:], durable=True)
    store.close()
    assert read_log(path) == LogFile(tuple(records), None)


@pytest.mark.parametrize("content", [b"buy milk", b'{"n":2,"crc":"', b"\xff\x00", b'{"name": "no log"}', b"a\nb\n"])
def test_a_file_that_is_no_log_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(StoreCorrupt, match=r"notes\.txt, line 1 \(byte 0\): this is not a line of a log"):
        JsonlStore(path)
    assert path.read_bytes() == content


# --- damage ---


def test_no_flipped_bit_passes() -> None:
    records = some_records(8)
    content = log_of(records)
    last = content.rindex(b"\n", 0, -1) + 1
    for place in range(len(content)):
        for bit in range(8):
            flipped = bytearray(content)
            flipped[place] ^= 1 << bit
            try:
                found = parse_log(bytes(flipped), "log")
            except StoreCorrupt as refusal:
                start = content.rfind(b"\n", 0, place) + 1
                assert (refusal.line, refusal.position) == (content[:start].count(b"\n") + 1, start)
            else:
                assert place == len(content) - 1  # the very last newline is gone, so the last line is a torn tail
                assert found.records == tuple(records[:-1])
                assert found.torn_tail is not None
                assert found.torn_tail.position == last


LINES = st.integers(0, 9)


def refused(path: Path, lines: list[bytes], line: int) -> str:
    """The refusal to open a log of these lines, which names the line and changes nothing."""
    content = b"".join(lines)
    path.write_bytes(content)
    with pytest.raises(StoreCorrupt) as refusal:
        JsonlStore(path)
    assert refusal.value.line == line
    assert refusal.value.position == len(b"".join(lines[: line - 1]))
    assert path.read_bytes() == content
    return str(refusal.value)


@given(one=LINES, other=LINES)
def test_lines_that_changed_places_are_refused(tmp_path_factory: pytest.TempPathFactory, one: int, other: int) -> None:
    lines = lines_of(some_records(10))
    lines[one], lines[other] = lines[other], lines[one]
    path = tmp_path_factory.mktemp("log") / "log.jsonl"
    if one == other:
        path.write_bytes(b"".join(lines))
        assert len(read_log(path).records) == 10
    else:
        first, second = sorted((one, other))
        message = refused(path, lines, first + 1)
        assert f"this is record {second + 1}, and record {first + 1} belongs here" in message


@given(repeated=LINES, place=st.integers(0, 10))
def test_a_repeated_line_is_refused(tmp_path_factory: pytest.TempPathFactory, repeated: int, place: int) -> None:
    lines = lines_of(some_records(10))
    more = [*lines[:place], lines[repeated], *lines[place:]]
    wrong = next(at for at, line in enumerate(more) if at == 10 or line != lines[at])
    refused(tmp_path_factory.mktemp("log") / "log.jsonl", more, wrong + 1)


@given(first=LINES, count=st.integers(1, 3))
def test_missing_lines_are_refused_unless_they_are_the_last(
    tmp_path_factory: pytest.TempPathFactory, first: int, count: int
) -> None:
    records = some_records(10)
    lines = lines_of(records)
    left = lines[:first] + lines[first + count :]
    path = tmp_path_factory.mktemp("log") / "log.jsonl"
    if first + count >= 10:
        path.write_bytes(b"".join(left))
        assert read_log(path) == LogFile(tuple(records[:first]), None)
    else:
        refused(path, left, first + 1)


def test_a_torn_tail_behind_a_bad_line_is_not_cut(tmp_path: Path) -> None:
    lines = lines_of(some_records(5))
    refused(tmp_path / "log.jsonl", [*lines[:2], lines[2].replace(b"t2", b"t3"), lines[3], lines[4][:-9]], 3)


def test_a_whole_record_that_cannot_be_understood_is_refused(tmp_path: Path) -> None:
    records = some_records(2)
    strange = line_of(3, records[1]).replace(b'"t1"', b'"t1","more":1')
    text = strange[strange.index(b'"r":') + 4 : -2]
    line = b'{"n":3,"crc":"%08x","r":%b}\n' % (zlib.crc32(b"3:" + text), text)
    message = refused(tmp_path / "log.jsonl", [*lines_of(records), line], 3)
    assert "the record is whole, but this version cannot read it" in message
    assert "cut it at byte" in message


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

"""A log that was cut or changed: a torn tail is cut off, and everything else is refused and left as it is."""

import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.codec import record_to_text
from loopkernel.replaying import LogRecord
from loopkernel_adapters.ports import StoreCorrupt
from loopkernel_adapters.stores.jsonl import BareRecords, JsonlStore, LogFile, TornTail, line_of, parse_log, read_log

from tests.adapters.stores.log_lines import lines_of, log_of, some_records


def same_read(records: Sequence[LogRecord]) -> Callable[[str], LogRecord]:
    """Reads a record's text by looking it up, for tests that read the same ones a million times."""
    texts = [line[line.index(b'"r":') + 4 : -2].decode("ascii") for line in lines_of(records)]
    known = dict(zip(texts, records, strict=True))
    return known.__getitem__


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
    path.write_bytes(content[:size] + bytes(zeros if size else 0))  # zeros alone are not a log of ours
    zeros = zeros if size else 0
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


@pytest.mark.parametrize(
    "content", [b"buy milk", b'{"n":2,"crc":"', b"\xff\x00", b"\0", bytes(4_096), b'{"name": "no log"}', b"a\nb\n"]
)
def test_a_file_that_is_no_log_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(StoreCorrupt, match=r"notes\.txt is not a log of loopkernel \(line 1 is not a record\)"):
        JsonlStore(path)
    assert path.read_bytes() == content


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_records_as_the_codec_writes_them_are_called_so_and_left_alone(tmp_path: Path, end: bytes) -> None:
    path = tmp_path / "log.jsonl"
    for number in (1, 3):
        content = b"\n".join(record_to_text(record).encode() for record in some_records(number)) + end
        path.write_bytes(content)
        with pytest.raises(BareRecords, match=r"log\.jsonl holds bare records, .*JsonlStore\(path\)\.append"):
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
